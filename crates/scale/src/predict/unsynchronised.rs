// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks at independent positions: the greatest of many independent noises.

use super::barrier::{BarrierModel, Tree, rounds};
use super::bootstrap::{Draws, interval};
use super::cells::{ANY, BANDS, Cells, RUNNING};
use super::noise::Noise;
use super::prediction::RankPrediction;
use super::sweep::SourceSweep;
use super::tail::{SHARE, Tail};
use super::waiting::{Greatest, RankGroup, greatest};
use super::working::Working;

/// A figure rests on too few events unless the windows of all ranks fit the trace this often.
const LEAST_MEETINGS: f64 = 10.0;

/// Number of nodes of each source, by the largest remainder.
fn apportion(nodes: u64, shares: &[u64]) -> Vec<u64> {
    let total: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let product = |share: u64| u128::from(nodes) * u128::from(share);
    let whole = shares.iter().map(|share| (product(*share) / total) as u64);
    let mut counts: Vec<u64> = whole.collect();
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
        let present = self
            .swept
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0);
        let present: Vec<(&SourceSweep, u64)> = present.collect();
        let kinds = present.iter().map(|(swept, count)| (&swept.work, *count));
        let kinds: Vec<RankGroup<'_>> = kinds.collect();
        let gap_ns = self.options.barrier.quiet_ns(ranks);
        let found = greatest(&kinds, gap_ns, self.options.starts);
        let all = match self.options.barrier {
            BarrierModel::Ideal => found.all.clone(),
            _ => self.through_barrier(&found, &present, ranks),
        };
        let saturated = present.iter().any(|(swept, count)| {
            let (most_ns, _) = swept.work.noise(&ANY).greatest();
            let window_ns = self.options.quantum_ns as f64 + most_ns;
            *count as f64 * window_ns * LEAST_MEETINGS >= swept.begins_ns
        });
        let each = present.iter().zip(&found.accepted);
        let draws = each.map(|((swept, count), accepted)| {
            let inside = mean_accepted(&swept.work, accepted);
            Some((swept.draws.as_ref()?, *count as f64, inside))
        });
        let draws: Option<Vec<(&Draws, f64, f64)>> = draws.collect();
        let ratio = |has_tail| interval(draws.as_ref()?, has_tail);
        let tail = self.tail.zip(found.one.first()).and_then(|(_, one)| {
            let tail = Tail::fit(one, SHARE)?;
            let noise_ns = tail.greatest_of(one, nodes as f64);
            Some(self.estimate(ranks, noise_ns, ratio(true)))
        });
        RankPrediction {
            saturated: saturated || self.hides_noise(),
            tail,
            ..self.point(ranks, &all, ratio(false))
        }
    }

    fn through_barrier(
        &self,
        found: &Greatest,
        present: &[(&SourceSweep, u64)],
        ranks: u64,
    ) -> Noise {
        let nodes = self.nodes(ranks);
        // Any of the mixed nodes may be delayed: geometric means of the distributions, because
        // their products will be taken.
        let mixed = |of: &dyn Fn(&SourceSweep, &[f64; BANDS]) -> Option<Noise>| {
            let each = present.iter().zip(&found.accepted);
            let noises = each.filter_map(|((swept, count), accepted)| {
                Some((of(swept, accepted)?, *count as f64 / nodes as f64))
            });
            Noise::greatest_of_all(&noises.collect::<Vec<_>>())
        };
        let sender = mixed(&|swept, _| Some(swept.slots.as_ref()?[0].noise(&RUNNING)));
        let receiver = mixed(&|swept, accepted| Some(swept.slots.as_ref()?[1].noise(accepted)));
        let work = mixed(&|swept, _| Some(swept.work.noise(&RUNNING)));
        // A tree of nodes: all ranks of a node know before the next round, in which as many
        // ranks send to the next node; the delays are those of one rank.
        let tree = Tree::new(&sender, &receiver, self.options.barrier.slack_ns());
        let last = tree.last(&work, nodes);
        let BarrierModel::Binomial(_) = self.options.barrier else {
            return last;
        };
        // The way up adds its messages: on average one in two rounds meets a waiting rank.
        let up = f64::from(rounds(ranks)) / 2.0 * receiver.mean();
        let values = last.values().iter().map(|value| value + up);
        Noise::of_above(values.collect(), last.tail().to_vec())
    }
}

/// Share of the begins inside events that occurs.
fn mean_accepted(cells: &Cells, accepted: &[f64; BANDS]) -> f64 {
    let weights = cells.band_weights();
    let inside: f64 = weights[1..].iter().sum();
    let occurs = weights[1..].iter().zip(&accepted[1..]);
    let occurs: f64 = occurs.map(|(weight, share)| weight * share).sum();
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
