// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Barriers under LogGP (Alexandrov et al., SPAA 1995): without noise in closed form, and with
//! noise.
//!
//! A message costs its sender and its receiver the overhead `o`, travels for `L`, and each of
//! its bytes after the first takes `G`; `g` is the least time between two messages of a rank.
//! The whole message takes `A = L + 2o + (m-1)G`.
//!
//! With noise, the others wait when the last rank arrives. Its arrival spreads as a tree: after
//! j rounds 2^j ranks know of it. With `Y` the delay of a round and `C_j` the time beyond that
//! without noise from the moment when a rank knows until the *work after the barrier* of the
//! last rank below it ends, with j rounds to go,
//!
//! ```text
//! C_0     = noise met by the work
//! C_(j+1) = max(Y(sender) + C_j - slack, Y(receiver) + C_j')
//! ```
//!
//! with all terms independent. A sender is in its round for a whole message, so an event that
//! outlasts the wait for `L` delays it too. A receiver meets the rest of the event that it is
//! in, and what comes during one overhead. In a dissemination barrier all ranks are equally
//! late; in a tree a sender goes on after `o`, so it has a slack of twice the rest of the
//! message, on the way down and up.

use serde::{Deserialize, Serialize};

use super::noise::{Grid, Noise};

/// Cost of messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogGp {
    /// Latency, ns.
    pub l_ns: f64,
    /// Overhead of the sender, and of the receiver, ns.
    pub o_ns: f64,
    /// Gap between messages, ns.
    pub g_ns: f64,
    /// Gap per byte, ns.
    pub g_byte_ns: f64,
    /// Bytes of a message of the barrier.
    pub bytes: u32,
}

/// The algorithm of the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BarrierModel {
    /// All are released the moment the last arrives.
    Ideal,
    /// In round k each rank sends to the one 2^k further (Hensgen, Finkel and Manber 1988).
    Dissemination(LogGp),
    /// Up a binomial tree and down again.
    Binomial(LogGp),
}

/// Rounds of a barrier: the least number with 2^rounds >= ranks.
pub fn rounds(ranks: u64) -> u32 {
    ranks.max(1).next_power_of_two().trailing_zeros()
}

impl LogGp {
    /// Messages of one byte without gaps.
    pub const fn without_gaps(l_ns: f64, o_ns: f64) -> Self {
        Self {
            l_ns,
            o_ns,
            g_ns: 0.0,
            g_byte_ns: 0.0,
            bytes: 1,
        }
    }

    /// Duration of a message from the begin of its sending to the end of its receipt, ns.
    pub fn message_ns(&self) -> f64 {
        self.l_ns + 2.0 * self.o_ns + self.bytes_ns()
    }

    /// Duration of the bytes after the first, ns.
    pub(super) fn bytes_ns(&self) -> f64 {
        f64::from(self.bytes.max(1) - 1) * self.g_byte_ns
    }
}

impl BarrierModel {
    /// Duration without noise, ns.
    pub fn quiet_ns(&self, ranks: u64) -> f64 {
        let rounds = f64::from(rounds(ranks));
        match self {
            _ if rounds == 0.0 => 0.0,
            Self::Ideal => 0.0,
            Self::Dissemination(cost) => {
                let round = (cost.g_ns + cost.bytes_ns()).max(cost.message_ns());
                (rounds - 1.0) * round + cost.message_ns()
            }
            Self::Binomial(cost) => 2.0 * rounds * cost.message_ns(),
        }
    }

    /// Work of the sender and of the receiver in a round, ns; `None` if there are no rounds.
    pub fn slots_ns(&self) -> Option<[u64; 2]> {
        match self {
            Self::Ideal => None,
            Self::Dissemination(cost) => Some([cost.message_ns() as u64, cost.o_ns as u64]),
            Self::Binomial(cost) => Some([cost.o_ns as u64; 2]),
        }
    }

    /// Slack of a sender in a round, ns.
    pub fn slack_ns(&self) -> f64 {
        match self {
            Self::Ideal | Self::Dissemination(_) => 0.0,
            Self::Binomial(cost) => 2.0 * (cost.message_ns() - cost.o_ns),
        }
    }
}

/// Cells per decade of noise: each is 1.8 % wide, with interpolation between its ends.
const COARSE: f64 = 128.0;

/// Sums of two noises on one grid.
#[derive(Debug)]
pub struct Tree {
    grid: Grid,
    /// Delays of a round, ns, with their probability for sender and receiver; without 0.
    delays: Vec<(f64, [f64; 2])>,
    /// For each delay and each edge that is not below it the place of their difference: the
    /// edge before, and the share of the way to the next.
    rests: Vec<Vec<(u32, f32)>>,
    /// For each edge its place with the slack added.
    slack: Option<Vec<(u32, f32)>>,
}

impl Tree {
    /// From the delays of a sender and of a receiver in a round, and the slack of the sender.
    pub fn new(sender: &Noise, receiver: &Noise, slack_ns: f64) -> Self {
        let grid = Grid::new(COARSE);
        let mut likely = vec![[0.0; 2]; grid.cells()];
        let mut moment = vec![0.0; grid.cells()];
        for (which, noise) in [sender, receiver].into_iter().enumerate() {
            for (value, mass) in noise.masses().filter(|(_, mass)| *mass > 0.0) {
                let cell = grid.cell(value);
                likely[cell][which] += mass;
                moment[cell] += mass * value;
            }
        }
        let delays: Vec<(f64, [f64; 2])> = likely
            .iter()
            .zip(&moment)
            .skip(1)
            .filter(|(likely, _)| likely[0] + likely[1] > 0.0)
            .map(|(likely, moment)| (moment / (likely[0] + likely[1]), *likely))
            .collect();
        let edges = grid.edges();
        let place = |noise: f64| {
            let cell = grid.cell(noise);
            let (low, high) = (edges[cell], edges[cell + 1]);
            let part = ((noise - low) / (high - low)).clamp(0.0, 1.0);
            (cell as u32, part as f32)
        };
        let rest = |delay: f64| {
            let from = edges.partition_point(|edge| *edge < delay);
            edges[from..]
                .iter()
                .map(|edge| place(edge - delay))
                .collect()
        };
        Self {
            slack: (slack_ns > 0.0)
                .then(|| edges.iter().map(|edge| place(edge + slack_ns)).collect()),
            rests: delays.iter().map(|(delay, _)| rest(*delay)).collect(),
            delays,
            grid,
        }
    }

    /// The last of `ranks`: time from the last arrival to the end of the work after the barrier,
    /// beyond that without noise.
    pub fn last(&self, work: &Noise, ranks: u64) -> Noise {
        let edges = self.grid.edges();
        // Probability of more than each edge.
        let mut above = vec![0.0; edges.len()];
        let mut cell = 0;
        let mut last = 1.0;
        for (edge, above) in edges.iter().zip(&mut above) {
            while cell < work.values().len() && work.values()[cell] <= *edge {
                last = work.tail()[cell];
                cell += 1;
            }
            *above = last;
        }
        let rounds = rounds(ranks);
        for _ in 0..rounds {
            above = self.round(&above);
        }
        // Only this share of the leaves of the tree are ranks.
        let part = ranks as f64 / 2f64.powi(rounds as i32);
        for above in &mut above {
            *above = -(part * (-*above).ln_1p()).exp_m1();
        }
        // The probability of a cell lies at its middle, so that the mean is the integral.
        let cells = self.grid.cells();
        let mut values = vec![0.0];
        let mut later = vec![above[0]];
        for cell in 0..cells {
            values.push((edges[cell] + edges[cell + 1]) / 2.0);
            later.push(above[cell + 1]);
        }
        if let Some(last) = later.last_mut() {
            *last = 0.0;
        }
        Noise::of_above(values, later)
    }

    fn round(&self, above: &[f64]) -> Vec<f64> {
        let edges = above.len();
        let mut after = [vec![0.0; edges], vec![0.0; edges]];
        let mut without = [1.0, 1.0];
        for ((_, likely), rests) in self.delays.iter().zip(&self.rests) {
            let from = edges - rests.len();
            for which in 0..2 {
                let mass = likely[which];
                if mass <= 0.0 {
                    continue;
                }
                without[which] -= mass;
                for sum in &mut after[which][..from] {
                    *sum += mass;
                }
                for (sum, at) in after[which][from..].iter_mut().zip(rests) {
                    *sum += mass * between(above, *at);
                }
            }
        }
        for (after, without) in after.iter_mut().zip(without) {
            for (after, above) in after.iter_mut().zip(above) {
                *after = (*after + without.max(0.0) * above).min(1.0);
            }
        }
        let [sender, receiver] = after;
        let sender = match &self.slack {
            None => sender,
            Some(places) => places.iter().map(|at| between(&sender, *at)).collect(),
        };
        let both = sender.iter().zip(receiver);
        both.map(|(sender, receiver)| sender + receiver - sender * receiver)
            .collect()
    }
}

fn between(values: &[f64], (low, part): (u32, f32)) -> f64 {
    let low = low as usize;
    let high = values[(low + 1).min(values.len() - 1)];
    values[low] + f64::from(part) * (high - values[low])
}

#[cfg(test)]
mod tests {
    use super::super::cells::{ANY, Cells, FINE, RUNNING};
    use super::super::windows::Windows;
    use super::*;
    use crate::fixture::{by_chance, cpu};

    #[test]
    fn rounds_double() {
        let all = [1, 2, 3, 4, 5, 1024, 1025, 1_000_000].map(rounds);
        assert_eq!(all, [0, 1, 2, 2, 3, 10, 11, 20]);
    }

    fn noises(cpu: &sandbag_jitter::CpuTrace, work_ns: u64) -> (Noise, Noise) {
        let cells = Cells::gather(Grid::new(FINE), Windows::new(cpu, work_ns));
        (cells.noise(&RUNNING), cells.noise(&ANY))
    }

    #[test]
    fn without_noise_no_rank_is_late() {
        let quiet = cpu(&[(0, 10_000_000)], &[]);
        let (sender, receiver) = noises(&quiet, 3000);
        let (work, _) = noises(&quiet, 1_000_000);
        let tree = Tree::new(&sender, &receiver, 0.0);
        assert_eq!(tree.last(&work, 1_000_000).mean(), 0.0);
    }

    #[test]
    fn without_delays_it_is_the_greatest_of_all() {
        let noisy = by_chance(3, 20_000_000_000, 0.6, |chance| {
            1e5 * chance.uniform().powi(3)
        });
        let (work, _) = noises(&noisy, 1_000_000);
        let (none, _) = noises(&cpu(&[(0, 10_000)], &[]), 1);
        let tree = Tree::new(&none, &none, 0.0);
        for ranks in [1u64, 3, 64, 1_000_000] {
            let (a, b) = (
                tree.last(&work, ranks).mean(),
                work.greatest_of(ranks as f64).mean(),
            );
            assert!((a / b - 1.0).abs() < 0.01, "{ranks}: {a} {b}");
        }
    }

    #[test]
    fn delays_on_the_way_add() {
        // A delay of 1000 ns in every round, and no noise in the work.
        let values = vec![0.0, 1000.0];
        let always = Noise::of_above(values, vec![1.0, 0.0]);
        let (work, _) = noises(&cpu(&[(0, 10_000)], &[]), 1);
        let mean = Tree::new(&always, &always, 0.0).last(&work, 1024).mean();
        assert!((mean / 10_000.0 - 1.0).abs() < 0.05, "{mean}");
    }
}
