// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the figures of a run say: the slowdown, and each rank. Pure.

use sandbag_stats::error_of_mean;
use serde::Serialize;

use super::progress::Virtual;
use super::times::{BenchTimes, Segment};

/// The slowest rank of each phase, and what its mean is more than that of two
/// references.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slowdown {
    pub ranks: u32,
    /// Phases with jitter, and without.
    pub phases: (u64, u64),
    /// Mean of the slowest with jitter, ns; `None` if none was injected.
    pub jitter_ns: Option<f64>,
    /// Mean of the slowest without, ns.
    pub quiet_ns: f64,
    /// Percent more than the same run without injected jitter.
    pub over_run_pct: Option<f64>,
    /// Percent more than the calibrated quantum: with jitter, or without if
    /// none was injected.
    pub over_quantum_pct: f64,
    /// 95 % of such runs lie within so many points of that, as far as phases
    /// differ by chance; `None` of fewer than two.
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

/// Of ranks that met: the slowest by the whole phase (qbt). `None` if no phase
/// ended.
#[must_use]
pub fn slowdown(measured: &BenchTimes) -> Option<Slowdown> {
    let ranks = measured.ranks as usize;
    let slowest = |jitter: bool| -> Vec<u64> {
        let these = measured.segments.iter().filter(|s| s.jitter == jitter);
        these.flat_map(|segment| phases(segment, ranks)).collect()
    };
    let (jitter, quiet) = (slowest(true), slowest(false));
    Slowdown::new(measured.ranks, measured.calibrated_ns, &jitter, &quiet)
}

fn phases(segment: &Segment, ranks: usize) -> impl Iterator<Item = u64> + '_ {
    let qt = segment.qt_ns.chunks_exact(ranks);
    qt.zip(segment.bt_ns.chunks_exact(ranks)).map(|(qt, bt)| {
        let both = qt
            .iter()
            .zip(bt)
            .map(|(qt, bt)| u64::from(*qt) + u64::from(*bt));
        both.max().unwrap_or(0)
    })
}

impl Virtual {
    /// The slowdown of the first so many ranks: those of them that are powers
    /// of two, and all.
    #[must_use]
    pub fn slowdowns(&self) -> Vec<Slowdown> {
        let phases = self.phases as usize;
        let mut jitter = vec![0u64; if self.jitter_ns.is_empty() { 0 } else { phases }];
        let mut quiet = vec![0u64; phases];
        let mut all = Vec::new();
        for rank in 0..self.ranks {
            let at = rank as usize * phases;
            let raise = |most: &mut [u64], of: &[u32]| {
                for (most, ns) in most.iter_mut().zip(&of[at..]) {
                    *most = (*most).max(u64::from(*ns));
                }
            };
            raise(&mut quiet, &self.quiet_ns);
            if !jitter.is_empty() {
                raise(&mut jitter, &self.jitter_ns);
            }
            let ranks = rank + 1;
            if ranks.is_power_of_two() || ranks == self.ranks {
                all.extend(Slowdown::new(ranks, self.calibrated_ns, &jitter, &quiet));
            }
        }
        all
    }
}

/// One rank among others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerRank {
    /// Its number.
    pub rank: u32,
    /// Mean of its work, ns.
    pub qt_ns: f64,
    /// Mean of its waits, ns.
    pub bt_ns: f64,
    /// Its longest work, ns.
    pub longest_ns: u32,
    /// Share of the phases in which it was the last, percent.
    pub last_pct: f64,
}

impl Virtual {
    /// All ranks, with jitter if there was any. They never wait: what they would have waited
    /// for the slowest is told.
    #[must_use]
    pub fn per_rank(&self) -> Vec<PerRank> {
        let phases = (self.phases as usize).max(1);
        let mut slowest = vec![(0, 0); phases];
        for (rank, qt_ns) in self.phases_of_ranks().enumerate() {
            for (most, ns) in slowest.iter_mut().zip(qt_ns) {
                *most = (*most).max((*ns, rank));
            }
        }
        let mean = |sum: u64| sum as f64 / phases as f64;
        let slowest_ns = mean(slowest.iter().map(|(ns, _)| u64::from(*ns)).sum());
        let mut last = vec![0u64; self.ranks as usize];
        for (_, rank) in slowest {
            last[rank] += 1;
        }
        let each = self.phases_of_ranks().zip(last).enumerate();
        each.map(|(rank, (own, last))| {
            let qt_ns = mean(own.iter().map(|ns| u64::from(*ns)).sum());
            PerRank {
                rank: rank as u32,
                qt_ns,
                bt_ns: slowest_ns - qt_ns,
                longest_ns: own.iter().copied().max().unwrap_or(0),
                last_pct: mean(last) * 100.0,
            }
        })
        .collect()
    }
}

/// All ranks, over the segments with jitter, or without.
#[must_use]
pub fn per_rank(measured: &BenchTimes, jitter: bool) -> Vec<PerRank> {
    let ranks = measured.ranks as usize;
    let these = || measured.segments.iter().filter(move |s| s.jitter == jitter);
    let phases: usize = these().map(|s| s.qt_ns.len() / ranks).sum();
    let mut last = vec![0u64; ranks];
    for phase in these().flat_map(|s| s.qt_ns.chunks_exact(ranks)) {
        let longest = phase.iter().enumerate().max_by_key(|(_, ns)| **ns);
        if let Some((rank, _)) = longest {
            last[rank] += 1;
        }
    }
    let count = phases.max(1) as f64;
    (0..ranks)
        .map(|rank| {
            let of = |all: fn(&Segment) -> &Vec<u32>| {
                these().flat_map(move |s| all(s).iter().skip(rank).step_by(ranks).copied())
            };
            let mean = |all: fn(&Segment) -> &Vec<u32>| of(all).map(f64::from).sum::<f64>() / count;
            PerRank {
                rank: rank as u32,
                qt_ns: mean(|s| &s.qt_ns),
                bt_ns: mean(|s| &s.bt_ns),
                longest_ns: of(|s| &s.qt_ns).max().unwrap_or(0),
                last_pct: last[rank] as f64 / count * 100.0,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::three;
    use super::*;

    #[test]
    fn virtual_ranks_would_wait_for_the_slowest() {
        let virtually = Virtual {
            jitter_ns: vec![150, 100, 100, 300, 120, 100],
            ..three()
        };
        let all = virtually.per_rank();
        assert_eq!(
            (all[0].qt_ns, all[0].bt_ns, all[0].longest_ns),
            (125.0, 100.0, 150)
        );
        assert_eq!((all[1].qt_ns, all[1].bt_ns), (200.0, 25.0));
        let last: Vec<f64> = all.iter().map(|one| one.last_pct).collect();
        assert_eq!(last, [50.0, 50.0, 0.0]);
    }

    #[test]
    fn what_is_too_long_to_tell_is_counted() {
        let mut virtually = three();
        virtually.quiet_ns[4] = u32::MAX;
        assert_eq!((three().capped(), virtually.capped()), (0, 1));
        let segments = vec![
            Segment::of_phases(false, &[1, u32::MAX], &[1, 2]),
            Segment::of_phases(true, &[1, 2], &[u32::MAX; 2]),
        ];
        let measured = BenchTimes {
            ranks: 2,
            oversubscribed: false,
            iterations: 1,
            calibrated_ns: 1,
            segments,
            clocks: [Vec::new(), Vec::new()],
        };
        assert_eq!(measured.capped(), 3);
    }

    #[test]
    fn the_slowest_rank_decides() {
        let segment = Segment::of_phases;
        let measured = BenchTimes {
            ranks: 2,
            oversubscribed: false,
            iterations: 1,
            calibrated_ns: 100,
            segments: vec![
                segment(false, &[100, 110, 110, 100], &[15, 5, 5, 15]),
                segment(true, &[100, 200], &[110, 10]),
            ],
            clocks: [Vec::new(), Vec::new()],
        };
        let found = slowdown(&measured).unwrap();
        assert_eq!((found.jitter_ns, found.quiet_ns), (Some(210.0), 115.0));
        assert_eq!(found.phases, (1, 2));
        assert_eq!(found.error_points, None);
        assert!((found.over_quantum_pct - 110.0).abs() < 1e-9);
        assert!((found.over_run_pct.unwrap() - (210.0 / 115.0 - 1.0) * 100.0).abs() < 1e-9);
        let ranks = per_rank(&measured, false);
        assert_eq!(
            (ranks[0].qt_ns, ranks[0].bt_ns, ranks[0].longest_ns),
            (105.0, 10.0, 110)
        );
        assert_eq!((ranks[0].last_pct, ranks[1].last_pct), (50.0, 50.0));
    }

    #[test]
    fn virtual_ranks_are_looked_at_in_powers_of_two() {
        let three = three();
        let all = three.slowdowns();
        let ranks: Vec<u32> = all.iter().map(|one| one.ranks).collect();
        assert_eq!(ranks, [1, 2, 3]);
        let means: Vec<f64> = all.iter().filter_map(|one| one.jitter_ns).collect();
        assert_eq!(means, [125.0, 135.0, 210.0]);
        // 150 and 100: the mean's deviation is 25; t of one degree of freedom.
        assert!((all[0].error_points.unwrap() - 12.706_205 * 25.0).abs() < 1e-3);
        // They end at 250, 220 and 400.
        assert_eq!(three.drift_ns().0, 180.0);
        assert!((three.drift_ns().1 - 78.7).abs() < 0.1);
        let quiet = Virtual {
            jitter_ns: Vec::new(),
            ..three
        };
        assert_eq!(quiet.slowdowns()[0].over_run_pct, None);
    }
}
