// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be expected of virtual ranks that meet noise on a host that has noise
//! of its own. Pure.

use serde::Serialize;

use super::alone::Virtual;
use super::figures::error;
use crate::predict::Noise;
use crate::predict::chance::Chance;

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
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::three;
    use super::*;

    #[test]
    fn the_host_is_that_of_the_same_phase_and_noise_that_of_the_work() {
        let three = three();
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
            ..three
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
    }
}
