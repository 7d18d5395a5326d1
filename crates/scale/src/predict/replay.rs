// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Brute force: a simulation of every rank, phase and message, event by event, without
//! assumptions. Tests compare the prediction with it; it is too slow for many ranks.

use sandbag_jitter::{CpuTrace, TraceEvent};

use super::barrier::{BarrierModel, LogGp, rounds};
use crate::chance::Chance;

/// A rank: its trace, and its position there at time 0.
#[derive(Debug, Clone)]
pub struct Rank<'a> {
    events: &'a [TraceEvent],
    offset_ns: u64,
    /// The first event that may not be over.
    next: usize,
}

impl<'a> Rank<'a> {
    /// A rank with the trace of this CPU from a position on.
    pub fn new(cpu: &'a CpuTrace, offset_ns: u64) -> Self {
        Self {
            events: &cpu.events,
            offset_ns,
            next: cpu.events.partition_point(|e| e.end_ns() <= offset_ns),
        }
    }

    /// The time at which work that begins at `t_ns` ends; `t_ns` has to ascend.
    pub fn works(&mut self, t_ns: u64, work_ns: u64) -> u64 {
        let mut now = t_ns + self.offset_ns;
        let mut left = work_ns;
        while let Some(event) = self.events.get(self.next) {
            if event.end_ns() <= now {
                self.next += 1;
                continue;
            }
            if event.start_ns > now {
                let free = event.start_ns - now;
                if free >= left {
                    break;
                }
                left -= free;
            }
            now = event.end_ns();
        }
        now + left - self.offset_ns
    }
}

/// Duration of all phases together, ns.
pub fn run(ranks: &mut [Rank<'_>], work_ns: u64, phases: u64, barrier: &BarrierModel) -> u64 {
    let mut ready = vec![0u64; ranks.len()];
    for _ in 0..phases {
        for (rank, ready) in ranks.iter_mut().zip(&mut ready) {
            *ready = rank.works(*ready, work_ns);
        }
        match barrier {
            BarrierModel::Ideal => {
                let last = ready.iter().copied().max().unwrap_or(0);
                ready.fill(last);
            }
            BarrierModel::Dissemination(cost) => disseminate(ranks, &mut ready, cost),
            BarrierModel::Binomial(cost) => tree(ranks, &mut ready, cost),
        }
    }
    ready.into_iter().max().unwrap_or(0)
}

fn disseminate(ranks: &mut [Rank<'_>], ready: &mut [u64], cost: &LogGp) {
    let count = ranks.len();
    let o = cost.o_ns as u64;
    let l = (cost.l_ns + cost.bytes_ns()) as u64;
    let gap = (cost.g_ns + cost.bytes_ns()) as u64;
    // When each may send again.
    let mut free = vec![0; count];
    for round in 0..rounds(count as u64) {
        let distance = 1usize << round;
        let mut send = |rank: usize| {
            let begin = free[rank].max(ready[rank]);
            free[rank] = begin + gap;
            ranks[rank].works(begin, o)
        };
        let sent: Vec<u64> = (0..count).map(&mut send).collect();
        for rank in 0..count {
            let from = (rank + count - distance % count) % count;
            let begin = sent[rank].max(sent[from] + l);
            ready[rank] = ranks[rank].works(begin, o);
        }
    }
}

fn tree(ranks: &mut [Rank<'_>], ready: &mut [u64], cost: &LogGp) {
    let count = ranks.len();
    let o = cost.o_ns as u64;
    let l = (cost.l_ns + cost.bytes_ns()) as u64;
    let rounds = rounds(count as u64);
    let mut message = |from: usize, to: usize| {
        let sent = ranks[from].works(ready[from], o);
        ready[from] = sent;
        let begin = ready[to].max(sent + l);
        ready[to] = ranks[to].works(begin, o);
    };
    for round in 0..rounds {
        let distance = 1usize << round;
        for to in (0..count).step_by(2 * distance) {
            if to + distance < count {
                message(to + distance, to);
            }
        }
    }
    for round in (0..rounds).rev() {
        let distance = 1usize << round;
        for from in (0..count).step_by(2 * distance) {
            if from + distance < count {
                message(from, from + distance);
            }
        }
    }
}

/// Ranks at random positions in the first half of the trace.
pub fn anywhere(cpu: &CpuTrace, ranks: usize, seed: u64) -> Vec<Rank<'_>> {
    let half = cpu.known.first().map_or(0, |span| span.length_ns() / 2);
    let mut chance = Chance::new(seed, u64::MAX);
    (0..ranks)
        .map(|_| Rank::new(cpu, chance.below(half)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cpu;

    #[test]
    fn work_waits_for_what_it_meets() {
        let cpu = cpu(&[(0, 1000)], &[(90, 50), (145, 30), (500, 10)]);
        let mut rank = Rank::new(&cpu, 0);
        assert_eq!(rank.works(0, 100), 180);
        assert_eq!(rank.works(200, 100), 300);
        // Released inside an event.
        assert_eq!(rank.works(505, 100), 610);
        assert_eq!(Rank::new(&cpu, 100).works(0, 10), 80);
    }

    #[test]
    fn barriers_without_noise_take_their_closed_form() {
        let cost = LogGp::without_gaps(5000.0, 1500.0);
        // Messages of 101 bytes, which may follow each other less closely than they take.
        let slow = LogGp {
            g_ns: 9000.0,
            g_byte_ns: 2.0,
            bytes: 101,
            ..cost
        };
        let quiet = cpu(&[(0, u64::MAX)], &[]);
        for barrier in [
            BarrierModel::Dissemination(cost),
            BarrierModel::Dissemination(slow),
            BarrierModel::Binomial(cost),
            BarrierModel::Binomial(slow),
            BarrierModel::Ideal,
        ] {
            for count in [1usize, 2, 8, 64] {
                let mut ranks = vec![Rank::new(&quiet, 0); count];
                let took = run(&mut ranks, 1_000_000, 10, &barrier);
                let closed = 10.0 * (1e6 + barrier.quiet_ns(count as u64));
                let least = match barrier {
                    // No rank passes the whole height of the tree twice.
                    BarrierModel::Binomial(_) => closed * 0.9,
                    _ => closed,
                };
                assert!(
                    took as f64 >= least && took as f64 <= closed + 1.0,
                    "{barrier:?} {count} {took} {closed}"
                );
            }
        }
    }
}
