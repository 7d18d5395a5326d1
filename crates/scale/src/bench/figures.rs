// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the figures of a run say. Pure.

use serde::Serialize;

use super::alone::Virtual;
use super::measured::{Measured, Segment};
use crate::predict::Noise;
use crate::predict::chance::Chance;

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
    /// The same of what jitter adds, points of the calibrated quantum, from the
    /// differences of phases with and without; `None` where these are not as many.
    pub added_error_points: Option<f64>,
}

/// What is predicted beside the host's own, and how sure it is that what was
/// measured is another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WithHost {
    /// Ranks.
    pub ranks: u32,
    /// Percent more than the calibrated quantum.
    pub pct: f64,
    /// What was measured lies within so many points of that in 95 % of such runs,
    /// as far as phases differ by chance (from the differences, phase by phase);
    /// `None` of fewer than two.
    pub apart_points: Option<f64>,
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
        let points = |ns: f64| ns / calibrated_ns.max(1) as f64 * 100.0;
        let judged = if jitter.is_empty() { quiet } else { jitter };
        let pairs = jitter.iter().zip(quiet);
        let added: Vec<f64> = pairs.map(|(a, b)| *a as f64 - *b as f64).collect();
        let are_pairs = jitter.len() == quiet.len();
        Some(Self {
            ranks,
            phases: (jitter.len() as u64, quiet.len() as u64),
            jitter_ns,
            quiet_ns,
            over_run_pct: jitter_ns.map(|ns| over(ns, quiet_ns)),
            over_quantum_pct: over(jitter_ns.unwrap_or(quiet_ns), calibrated_ns as f64),
            error_points: error(judged.iter().map(|ns| *ns as f64)).map(points),
            added_error_points: error(added.into_iter()).filter(|_| are_pairs).map(points),
        })
    }
}

/// Half of the 95 % interval of a mean, by the normal distribution.
fn error(all: impl ExactSizeIterator<Item = f64> + Clone) -> Option<f64> {
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

/// Lengths of work for which noise is calculated.
const HOST_QUANTA: u32 = 9;

/// The noise of work of a length between two that are known.
struct Between<'a> {
    shorter: Option<&'a Noise>,
    longer: Option<&'a Noise>,
    /// From the shorter to the longer, 0 to 1.
    share: f64,
}

impl<'a> Between<'a> {
    fn of(noises: &'a [(u64, Noise)], ns: f64) -> Self {
        let place = noises.partition_point(|(known, _)| (*known as f64) < ns);
        let shorter = place.checked_sub(1).and_then(|place| noises.get(place));
        let longer = noises.get(place);
        let share = match (shorter, longer) {
            (Some((from, _)), Some((to, _))) => (ns - *from as f64) / (*to - *from) as f64,
            _ => 0.0,
        };
        Self {
            shorter: shorter.map(|(_, noise)| noise),
            longer: longer.map(|(_, noise)| noise),
            share,
        }
    }

    fn quantile(&self, u: f64) -> f64 {
        let of = |noise: &Noise| noise.quantile(u);
        match (self.shorter.map(of), self.longer.map(of)) {
            (Some(shorter), Some(longer)) => shorter + self.share * (longer - shorter),
            (one, other) => one.or(other).unwrap_or(0.0),
        }
    }
}

/// Phases for which noise is drawn, at least.
const HOST_PHASES: u64 = 1000;

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
    /// Lengths of work, ns, ascending, between which all that phases without jitter
    /// took lie (but for some that took twice the mean, or half of it): for these
    /// [`Virtual::with_host`] needs to know the noise.
    #[must_use]
    pub fn host_quanta(&self) -> Vec<u64> {
        let all = || self.quiet_ns.iter().map(|ns| f64::from(*ns));
        let mean = (all().sum::<f64>() / self.quiet_ns.len().max(1) as f64).max(1.0);
        let least = all().fold(f64::INFINITY, f64::min).clamp(mean / 2.0, mean);
        let most = all().fold(0.0, f64::max).clamp(mean, 2.0 * mean);
        let step = (most - least) / f64::from(HOST_QUANTA - 1);
        let mut quanta: Vec<u64> = (0..HOST_QUANTA)
            .map(|i| (least + f64::from(i) * step).round() as u64)
            .collect();
        quanta.dedup();
        quanta
    }

    /// What would be measured if ranks met noise and, beside it, what the host
    /// has of its own: the slowest of the first so many, percent more than the
    /// calibrated quantum. The host's own is how long each rank took for that
    /// phase without jitter (right before): the host's speed changes from phase to
    /// phase, and all ranks of a phase have the same. The noise is drawn, that of
    /// work of this length: who takes longer meets more. `noises`: of lengths in
    /// ns, ascending ([`Virtual::host_quanta`]).
    #[must_use]
    pub fn with_host(&self, noises: &[(u64, Noise)], seed: u64) -> Vec<WithHost> {
        let phases = self.phases.max(1) as usize;
        // Each phase equally often.
        let draws = HOST_PHASES.div_ceil(phases as u64).max(1);
        // By number of ranks: measured less predicted, of each phase; and the
        // sum of the predictions.
        let mut found: Vec<(u32, Vec<f64>, f64)> = Vec::new();
        for phase in 0..phases {
            let mut chances: Vec<(Chance, f64)> = (0..draws)
                .map(|draw| (Chance::new(seed, draw * phases as u64 + phase as u64), 0.0))
                .collect();
            let (mut slowest, mut at) = (0.0f64, 0);
            for rank in 0..self.ranks {
                let place = rank as usize * phases + phase;
                let ns = |all: &[u32]| all.get(place).map_or(0.0, |ns| f64::from(*ns));
                let own = ns(&self.quiet_ns);
                let noise = Between::of(noises, own);
                slowest = slowest.max(ns(&self.jitter_ns));
                for (chance, most) in &mut chances {
                    *most = most.max(own + noise.quantile(chance.uniform()));
                }
                let ranks = rank + 1;
                if ranks.is_power_of_two() || ranks == self.ranks {
                    let sum: f64 = chances.iter().map(|(_, most)| most).sum();
                    let predicted = sum / draws as f64;
                    if found.len() == at {
                        found.push((ranks, Vec::new(), 0.0));
                    }
                    found[at].1.push(slowest - predicted);
                    found[at].2 += predicted;
                    at += 1;
                }
            }
        }
        let calibrated = self.calibrated_ns.max(1) as f64;
        let all = found.into_iter().map(|(ranks, apart, sum)| WithHost {
            ranks,
            pct: (sum / phases as f64 / calibrated - 1.0) * 100.0,
            apart_points: error(apart.into_iter()).map(|ns| ns / calibrated * 100.0),
        });
        all.collect()
    }

    /// How far ranks that begin together are apart at the end, because of what
    /// they met: from the first to the last, and the standard deviation, ns.
    #[must_use]
    pub fn drift_ns(&self) -> (f64, f64) {
        let all = match self.jitter_ns.is_empty() {
            true => &self.quiet_ns,
            false => &self.jitter_ns,
        };
        let ends: Vec<f64> = all
            .chunks_exact(self.phases.max(1) as usize)
            .map(|rank| rank.iter().map(|ns| f64::from(*ns)).sum())
            .collect();
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let last = ends.iter().copied().fold(0.0, f64::max);
        let count = ends.len().max(1) as f64;
        let mean = ends.iter().sum::<f64>() / count;
        let square = ends.iter().map(|end| (end - mean).powi(2)).sum::<f64>();
        ((last - first).max(0.0), (square / count).sqrt())
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
mod tests {
    use super::*;

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
    fn virtual_ranks_are_looked_at_in_powers_of_two() {
        let three = Virtual {
            ranks: 3,
            phases: 2,
            iterations: 1,
            calibrated_ns: 100,
            jitter_ns: vec![150, 100, 100, 120, 300, 100],
            quiet_ns: vec![100; 6],
            piled_ns: vec![0; 3],
            took_ns: 0,
            planned_pct: 0.0,
        };
        let all = three.slowdowns();
        let ranks: Vec<u32> = all.iter().map(|one| one.ranks).collect();
        assert_eq!(ranks, [1, 2, 3]);
        let means: Vec<f64> = all.iter().filter_map(|one| one.jitter_ns).collect();
        assert_eq!(means, [125.0, 135.0, 210.0]);
        // 150 and 100: the mean's deviation is 25.
        assert!((all[0].error_points.unwrap() - 1.96 * 25.0).abs() < 1e-9);
        assert_eq!(all[0].added_error_points, all[0].error_points);
        // They end at 250, 220 and 400.
        assert_eq!(three.drift_ns().0, 180.0);
        assert!((three.drift_ns().1 - 78.7).abs() < 0.1);
        // A host that takes nothing, and noise that is always 50 ns.
        let grid = vec![0.0, 50.0];
        let noise = Noise::of_above(grid, vec![1.0, 0.0]);
        assert_eq!(three.host_quanta(), [100]);
        let noises = [(100, noise)];
        let with_host = three.with_host(&noises, 1);
        assert_eq!(with_host.len(), 3);
        // 150 and 100 measured, 150 predicted.
        assert!((with_host[0].apart_points.unwrap() - 1.96 * 25.0).abs() < 1e-9);
        assert!(with_host.iter().all(|one| (one.pct - 50.0).abs() < 1e-9));
        // A host of two speeds, in each of which all ranks are alike: no slowest.
        let of_two_speeds = Virtual {
            quiet_ns: vec![100, 200, 100, 200, 100, 200],
            ..three.clone()
        };
        let quanta = of_two_speeds.host_quanta();
        assert_eq!((quanta[0], quanta[8], quanta.len()), (100, 200, 9));
        let with_host = of_two_speeds.with_host(&noises, 1);
        assert!(with_host.iter().all(|one| (one.pct - 100.0).abs() < 1e-9));
        // Twice the work meets twice the noise; half between meets half of it more.
        let twice = Noise::of_above(vec![0.0, 100.0], vec![1.0, 0.0]);
        let noises = [noises[0].clone(), (200, twice)];
        let middle = Between::of(&noises, 150.0).quantile(0.5);
        let ends = [100.0, 200.0, 500.0].map(|ns| Between::of(&noises, ns).quantile(0.5));
        assert!((middle - (ends[0] + ends[1]) / 2.0).abs() < 1e-9);
        assert!((ends[1] / ends[0] - 2.0).abs() < 1e-9 && ends[2] == ends[1]);
        let quiet = Virtual {
            jitter_ns: Vec::new(),
            ..three
        };
        assert_eq!(quiet.slowdowns()[0].over_run_pct, None);
    }
}
