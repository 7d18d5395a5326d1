// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a run: slowdown, and means of each rank. Pure.

use sandbag_stats::error_of_mean;
use serde::Serialize;

use super::times::BenchTimes;

/// Mean of the slowest rank of each phase, against two references.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slowdown {
    pub ranks: u32,
    /// Number of phases with jitter, and without.
    pub phases: (u64, u64),
    /// Mean of the slowest with jitter, ns; `None` if none was injected.
    pub jitter_ns: Option<f64>,
    /// Mean of the slowest without jitter, ns.
    pub quiet_ns: f64,
    /// Percent over the same run without injected jitter.
    pub over_run_pct: Option<f64>,
    /// Percent over the calibrated quantum: with jitter, or without if none was injected.
    pub over_quantum_pct: f64,
    /// Half-width of the 95 % confidence interval of that, points; `None` of fewer than two
    /// phases.
    pub error_points: Option<f64>,
}

impl Slowdown {
    fn new(ranks: u32, calibrated_ns: u64, jitter: &[u64], quiet: &[u64]) -> Option<Self> {
        let mean = |all: &[u64]| {
            let sum: u128 = all.iter().map(|ns| u128::from(*ns)).sum();
            (!all.is_empty()).then(|| sum as f64 / all.len() as f64)
        };
        let quiet_ns = mean(quiet)?;
        let jitter_ns = mean(jitter);
        let over = |ns: f64, reference: f64| (ns / reference - 1.0) * 100.0;
        let judged = if jitter.is_empty() { quiet } else { jitter };
        Some(Self {
            ranks,
            phases: (jitter.len() as u64, quiet.len() as u64),
            jitter_ns,
            quiet_ns,
            over_run_pct: jitter_ns.map(|ns| over(ns, quiet_ns)),
            over_quantum_pct: over(jitter_ns.unwrap_or(quiet_ns), calibrated_ns as f64),
            error_points: error_of_mean(judged.iter().map(|ns| *ns as f64))
                .map(|ns| ns / calibrated_ns.max(1) as f64 * 100.0),
        })
    }
}

/// Means of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerRank {
    pub rank: u32,
    /// Mean of its work, ns.
    pub qt_ns: f64,
    /// Mean of its wait, ns; of a virtual rank the wait that it would have had.
    pub bt_ns: f64,
    /// Its longest work, ns.
    pub longest_ns: u32,
    /// Share of the phases in which its work was the longest, percent.
    pub last_pct: f64,
}

impl BenchTimes {
    /// The slowdown of the first ranks, for each of these numbers of ranks.
    pub fn slowdowns(&self, counts: &[u32]) -> Vec<Slowdown> {
        let slowest = |jitter| self.slowest_ns(jitter, counts);
        let both = slowest(true).into_iter().zip(slowest(false));
        let each = counts.iter().zip(both);
        each.filter_map(|(count, (jitter, quiet))| {
            Slowdown::new(*count, self.calibrated_ns, &jitter, &quiet)
        })
        .collect()
    }

    /// Every rank, over the segments with jitter or those without.
    pub fn per_rank(&self, jitter: bool) -> Vec<PerRank> {
        let ranks = self.ranks.max(1) as usize;
        let sum = |of: &[u32]| of.iter().map(|ns| u64::from(*ns)).sum::<u64>();
        let of_rank = |all: &[u32], rank: usize| -> Vec<u32> {
            all.iter().skip(rank).step_by(ranks).copied().collect()
        };
        let (mut phases, mut slowest_ns) = (0, 0);
        let mut last = vec![0u64; ranks];
        for phase in self
            .segments_of(jitter)
            .flat_map(|s| s.qt_ns.chunks_exact(ranks))
        {
            phases += 1;
            if let Some((rank, ns)) = phase.iter().enumerate().max_by_key(|(_, ns)| **ns) {
                last[rank] += 1;
                slowest_ns += u64::from(*ns);
            }
        }
        let mean = |sum: u64| sum as f64 / f64::from(phases.max(1));
        let is_virtual = self.segments_of(jitter).all(|s| s.bt_ns.is_empty());
        (0..ranks)
            .map(|rank| {
                let (mut qt_ns, mut bt_ns, mut longest_ns) = (0, 0, 0);
                for segment in self.segments_of(jitter) {
                    let works = of_rank(&segment.qt_ns, rank);
                    qt_ns += sum(&works);
                    bt_ns += sum(&of_rank(&segment.bt_ns, rank));
                    longest_ns = works.into_iter().fold(longest_ns, u32::max);
                }
                if is_virtual {
                    bt_ns = slowest_ns - qt_ns;
                }
                PerRank {
                    rank: rank as u32,
                    qt_ns: mean(qt_ns),
                    bt_ns: mean(bt_ns),
                    longest_ns,
                    last_pct: mean(last[rank]) * 100.0,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{bench_times, three};
    use super::super::times::powers_and_all;

    #[test]
    fn virtual_ranks_would_wait_for_the_slowest() {
        let mut virtually = three();
        virtually.times.segments[1].qt_ns = vec![150, 100, 120, 100, 300, 100];
        let all = virtually.times.per_rank(true);
        let first = (all[0].qt_ns, all[0].bt_ns, all[0].longest_ns);
        assert_eq!(first, (125.0, 100.0, 150));
        assert_eq!((all[1].qt_ns, all[1].bt_ns), (200.0, 25.0));
        let last: Vec<f64> = all.iter().map(|one| one.last_pct).collect();
        assert_eq!(last, [50.0, 50.0, 0.0]);
    }

    #[test]
    fn capped_durations_are_counted() {
        let of = |jitter, qt: &[u32], bt: &[u32]| (jitter, qt.to_vec(), bt.to_vec());
        let measured = bench_times(
            1,
            [
                of(false, &[1, u32::MAX], &[1, 2]),
                of(true, &[1, 2], &[u32::MAX; 2]),
            ],
        );
        assert_eq!((measured.capped(), three().times.capped()), (3, 0));
    }

    #[test]
    fn the_slowest_rank_decides() {
        let measured = bench_times(
            100,
            [
                (false, vec![100, 110, 110, 100], vec![15, 5, 5, 15]),
                (true, vec![100, 200], vec![110, 10]),
            ],
        );
        let found = measured.slowdowns(&[2])[0];
        assert_eq!((found.jitter_ns, found.quiet_ns), (Some(210.0), 115.0));
        assert_eq!((found.phases, found.error_points), ((1, 2), None));
        assert!((found.over_quantum_pct - 110.0).abs() < 1e-9);
        assert!((found.over_run_pct.unwrap() - (210.0 / 115.0 - 1.0) * 100.0).abs() < 1e-9);
        let ranks = measured.per_rank(false);
        let first = (ranks[0].qt_ns, ranks[0].bt_ns, ranks[0].longest_ns);
        assert_eq!(first, (105.0, 10.0, 110));
        assert_eq!((ranks[0].last_pct, ranks[1].last_pct), (50.0, 50.0));
    }

    #[test]
    fn virtual_ranks_have_slowdowns_at_powers_of_two() {
        let mut three = three();
        let counts = powers_and_all(3);
        assert_eq!(counts, [1, 2, 3]);
        let all = three.times.slowdowns(&counts);
        let means: Vec<f64> = all.iter().filter_map(|one| one.jitter_ns).collect();
        assert_eq!(means, [125.0, 135.0, 210.0]);
        // 150 and 100: the mean's deviation is 25; t of one degree of freedom.
        assert!((all[0].error_points.unwrap() - 12.706_205 * 25.0).abs() < 1e-3);
        three.times.segments.truncate(1);
        assert_eq!(three.times.slowdowns(&[3])[0].over_run_pct, None);
    }
}
