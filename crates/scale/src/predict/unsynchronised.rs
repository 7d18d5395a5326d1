// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks at independent positions: the greatest of many independent noises.

use super::RankPrediction;
use super::barrier::{BarrierModel, Tree, rounds};
use super::bootstrap::{DrawFigure, Draws, interval};
use super::cells::{ANY, BANDS, Cells, RUNNING};
use super::noise::Noise;
use super::sweep::SourceSweep;
use super::tail::{SHARE, Tail};
use super::waiting::{Greatest, RankGroup, greatest};
use super::working::Working;

/// Number of nodes of each source, by the largest remainder.
fn apportion(nodes: u64, shares: &[u64]) -> Vec<u64> {
    let total: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let product = |share: u64| u128::from(nodes) * u128::from(share);
    let mut counts: Vec<u64> = shares
        .iter()
        .map(|share| (product(*share) / total) as u64)
        .collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(product(shares[*i]) % total));
    let left = nodes - counts.iter().sum::<u64>();
    for i in order.into_iter().take(left as usize) {
        counts[i] += 1;
    }
    counts
}

impl Working<'_> {
    /// The prediction for nodes at independent positions.
    pub(super) fn unsynchronised_point(&self, ranks: u64) -> RankPrediction {
        let nodes = self.nodes(ranks);
        let counts = apportion(nodes, &self.shares);
        let present: Vec<(&SourceSweep, u64)> = self
            .swept
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .collect();
        let kinds: Vec<RankGroup<'_>> = present
            .iter()
            .map(|(swept, count)| RankGroup {
                cells: &swept.work,
                count: *count,
            })
            .collect();
        let gap_ns = self.options.barrier.quiet_ns(ranks);
        let found = greatest(&kinds, gap_ns, self.options.starts);
        let all = match self.options.barrier {
            BarrierModel::Ideal => found.all.clone(),
            _ => self.through_barrier(&found, &present, ranks),
        };
        let saturated = present.iter().any(|(swept, count)| {
            let (most_ns, _) = swept.work.noise(&ANY).greatest();
            let window_ns = self.options.quantum_ns as f64 + most_ns;
            *count as f64 * window_ns >= swept.begins_ns
        });
        let draws: Option<Vec<(&Draws, f64, f64)>> = present
            .iter()
            .zip(&found.accepted)
            .map(|((swept, count), accepted)| {
                let inside = mean_accepted(&swept.work, accepted);
                swept.draws.as_ref().map(|d| (d, *count as f64, inside))
            })
            .collect();
        let ratio = |figure| {
            let draws = draws.as_ref()?;
            interval(draws, figure)
        };
        let tail = self.tail.zip(found.one.first()).and_then(|(_, one)| {
            let tail = Tail::fit(one, SHARE)?;
            let noise_ns = tail.greatest_of(one, nodes as f64);
            Some(self.estimate(ranks, noise_ns, ratio(DrawFigure::Tail(SHARE))))
        });
        RankPrediction {
            saturated,
            tail,
            ..self.point(ranks, &all, ratio(DrawFigure::Greatest))
        }
    }

    fn through_barrier(
        &self,
        found: &Greatest,
        present: &[(&SourceSweep, u64)],
        ranks: u64,
    ) -> Noise {
        let nodes = self.nodes(ranks);
        let part = |count: u64| count as f64 / nodes as f64;
        let slots: Vec<(&[Cells; 2], f64, &[f64; BANDS])> = present
            .iter()
            .zip(&found.accepted)
            .filter_map(|((swept, count), accepted)| {
                Some((swept.slots.as_ref()?, part(*count), accepted))
            })
            .collect();
        // Any of the mixed nodes may be delayed: geometric means of the distributions, because
        // their products will be taken.
        let mixed = |of: &dyn Fn(&[Cells; 2], &[f64; BANDS]) -> Noise| {
            let noises: Vec<(Noise, f64)> = slots
                .iter()
                .map(|(slots, part, accepted)| (of(slots, accepted), *part))
                .collect();
            let parts: Vec<(&Noise, f64)> = noises.iter().map(|(n, part)| (n, *part)).collect();
            Noise::greatest_of_all(&parts)
        };
        let sender = mixed(&|[sender, _], _| sender.noise(&RUNNING));
        let receiver = mixed(&|[_, receiver], accepted| receiver.noise(accepted));
        let works: Vec<(Noise, f64)> = present
            .iter()
            .map(|(swept, count)| (swept.work.noise(&RUNNING), part(*count)))
            .collect();
        let works: Vec<(&Noise, f64)> = works.iter().map(|(noise, part)| (noise, *part)).collect();
        let work = Noise::greatest_of_all(&works);
        // A tree of nodes: all ranks of a node know before the next round, in which as many
        // ranks send to the next node; the delays are those of one rank.
        let tree = Tree::new(&sender, &receiver, self.options.barrier.slack_ns());
        let last = tree.last(&work, nodes);
        match self.options.barrier {
            // The way up adds its messages: on average one in two rounds meets a waiting rank.
            BarrierModel::Binomial(_) => {
                let up = f64::from(rounds(ranks)) / 2.0 * receiver.mean();
                let (values, above) = (last.values(), last.tail());
                let values = values.iter().map(|value| value + up).collect();
                Noise::of_above(values, above.to_vec())
            }
            _ => last,
        }
    }
}

/// Share of the begins inside events that occurs.
fn mean_accepted(cells: &Cells, accepted: &[f64; BANDS]) -> f64 {
    let weights = cells.band_weights();
    let inside: f64 = weights.iter().skip(1).sum();
    let occurs: f64 = weights
        .iter()
        .zip(accepted)
        .skip(1)
        .map(|(w, a)| w * a)
        .sum();
    if inside > 0.0 { occurs / inside } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_apportioned() {
        assert_eq!(apportion(10, &[1]), [10]);
        assert_eq!(apportion(10, &[9, 1]), [9, 1]);
        assert_eq!(apportion(1, &[9, 1]), [1, 0]);
        assert_eq!(apportion(3, &[1, 1]).iter().sum::<u64>(), 3);
    }
}
