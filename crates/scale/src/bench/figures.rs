// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the figures of a run say. Pure.

use serde::Serialize;

use super::alone::Virtual;
use super::measured::{Measured, Segment};
use crate::predict::Places;

/// The slowest rank of each phase, and what its mean is more than that of two
/// references.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slowdown {
    /// Ranks.
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
            error_points: error(judged.iter().map(|ns| *ns as f64))
                .map(|ns| ns / calibrated_ns.max(1) as f64 * 100.0),
        })
    }
}

/// Half of the 95 % interval of a mean, by the normal distribution.
pub(super) fn error(all: impl ExactSizeIterator<Item = f64> + Clone) -> Option<f64> {
    if all.len() < 2 {
        return None;
    }
    let count = all.len() as f64;
    let mean = all.clone().sum::<f64>() / count;
    let square: f64 = all.map(|value| (value - mean).powi(2)).sum();
    Some(1.96 * (square / (count - 1.0) / count).sqrt())
}

/// Of ranks that met: the slowest by the whole phase (qbt). `None` if no phase
/// ended.
#[must_use]
pub fn slowdown(measured: &Measured) -> Option<Slowdown> {
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

impl Virtual {
    /// How far ranks that begin together are apart at the end, because of what
    /// they met: from the first to the last, and the standard deviation, ns.
    #[must_use]
    pub fn drift_ns(&self) -> (f64, f64) {
        let ends = self.ends_ns();
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let last = ends.iter().copied().fold(0.0, f64::max);
        let count = ends.len().max(1) as f64;
        let mean = ends.iter().sum::<f64>() / count;
        let square = ends.iter().map(|end| (end - mean).powi(2)).sum::<f64>();
        ((last - first).max(0.0), (square / count).sqrt())
    }

    /// Where between the first and the last they then are, 0 to 1, ascending; of each
    /// of so many CPUs of the trace that ranks suffer in turn.
    #[must_use]
    pub fn places(&self, columns: usize) -> Places {
        let ends = self.ends_ns();
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let (range_ns, _) = self.drift_ns();
        let columns = columns.max(1);
        let of_column = |column: usize| {
            let own = ends.iter().skip(column).step_by(columns);
            let mut places: Vec<f64> = own.map(|end| (end - first) / range_ns.max(1.0)).collect();
            places.sort_unstable_by(f64::total_cmp);
            places
        };
        (0..columns).map(of_column).collect()
    }

    /// The same of ranks that are set to a common position at every so many phases, of
    /// which there is more than one: where they are in the trace, since then. What the host
    /// does to a rank is another thing in each phase, so they part quickly at first, and not
    /// in proportion to time; what counts is how far they are apart on the mean of these
    /// phases. `None` if there are not so many phases.
    #[must_use]
    pub fn apart_within(&self, every: u32, columns: usize) -> Option<Within> {
        let (phases, every) = (self.phases as usize, every as usize);
        let ranks: Vec<&[u32]> = match self.jitter_ns.is_empty() {
            true => self.quiet_ns.chunks_exact(phases.max(1)).collect(),
            false => self.jitter_ns.chunks_exact(phases.max(1)).collect(),
        };
        let times = phases / every.max(1);
        if times == 0 || every < 2 || ranks.is_empty() {
            return None;
        }
        let columns = columns.max(1);
        let mut places: Places = vec![Vec::new(); columns];
        let mut sum_ns = 0.0;
        for time in 0..times {
            let mut passed_ns = vec![0u64; ranks.len()];
            for phase in 1..every {
                let before = time * every + phase - 1;
                for (passed, rank) in passed_ns.iter_mut().zip(&ranks) {
                    *passed += u64::from(rank[before]);
                }
                let first = passed_ns.iter().min().copied().unwrap_or(0);
                let range = passed_ns.iter().max().map_or(0, |last| last - first);
                sum_ns += range as f64;
                if phase + 1 == every {
                    for (rank, passed) in passed_ns.iter().enumerate() {
                        let place = (passed - first) as f64 / range.max(1) as f64;
                        places[rank % columns].push(place);
                    }
                }
            }
        }
        for of_column in &mut places {
            of_column.sort_unstable_by(f64::total_cmp);
        }
        Some(Within {
            // The first phase of each begins together.
            mean_ns: sum_ns / (times * every) as f64,
            places,
        })
    }

    /// How long each rank took, ns.
    fn ends_ns(&self) -> Vec<f64> {
        let all = match self.jitter_ns.is_empty() {
            true => &self.quiet_ns,
            false => &self.jitter_ns,
        };
        all.chunks_exact(self.phases.max(1) as usize)
            .map(|rank| rank.iter().map(|ns| f64::from(*ns)).sum())
            .collect()
    }
}

/// How far ranks are apart between two synchronisations.
#[derive(Debug, Clone, PartialEq)]
pub struct Within {
    /// From the first to the last, at the begin of a phase, mean of all, ns.
    pub mean_ns: f64,
    /// Where in that they are at the last phase, as [`Virtual::places`].
    pub places: Places,
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

/// All ranks, over the segments with jitter, or without.
#[must_use]
pub fn per_rank(measured: &Measured, jitter: bool) -> Vec<PerRank> {
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
pub(super) mod tests {
    use super::*;

    /// Two phases of three ranks.
    pub(in super::super) fn three() -> Virtual {
        Virtual {
            ranks: 3,
            phases: 2,
            iterations: 1,
            calibrated_ns: 100,
            jitter_ns: vec![150, 100, 100, 120, 300, 100],
            quiet_ns: vec![100; 6],
            piled_ns: vec![0; 3],
            took_ns: 0,
            planned_pct: 0.0,
        }
    }

    #[test]
    fn the_slowest_rank_decides() {
        let segment = Segment::of_phases;
        let measured = Measured {
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
    fn places_are_those_of_each_column() {
        // They end after 250, 220 and 400.
        let places = three().places(2);
        assert_eq!(places[1], [0.0]);
        assert!((places[0][0] - 30.0 / 180.0).abs() < 1e-9, "{places:?}");
        assert_eq!((places.len(), places[0][1]), (2, 1.0));
        assert_eq!(three().places(0)[0].len(), 3);
    }

    #[test]
    fn ranks_part_anew_after_each_synchronisation() {
        // The second phase of two begins after 150, 100 and 300 ns.
        let within = three().apart_within(2, 1).unwrap();
        assert_eq!(within.mean_ns, 100.0);
        assert_eq!(within.places, [[0.0, 0.25, 1.0]]);
        assert_eq!(three().apart_within(1, 1), None);
        assert_eq!(three().apart_within(3, 1), None);
    }

    #[test]
    fn virtual_ranks_are_looked_at_in_powers_of_two() {
        let three = three();
        let all = three.slowdowns();
        let ranks: Vec<u32> = all.iter().map(|one| one.ranks).collect();
        assert_eq!(ranks, [1, 2, 3]);
        let means: Vec<f64> = all.iter().filter_map(|one| one.jitter_ns).collect();
        assert_eq!(means, [125.0, 135.0, 210.0]);
        // 150 and 100: the mean's deviation is 25.
        assert!((all[0].error_points.unwrap() - 1.96 * 25.0).abs() < 1e-9);
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
