// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks with a common position, whose phases are simulated.

use sandbag_jitter::replay::Sync;
use sandbag_stats::quantile;

use super::bootstrap::of_rows;
use super::drift::{Drift, DriftRun, Units};
use super::prediction::{PHASES_PCT, RankPrediction};
use super::waiting::Starts;
use super::working::Working;

/// A run of fewer phases has no interval: it has fewer than ten rows of at least twenty.
const LEAST_PHASES: u64 = 200;

impl Working<'_> {
    /// The prediction for synchronised ranks.
    pub(super) fn synchronised_point(&self, units: &Units, ranks: u64) -> RankPrediction {
        let options = self.options;
        let gap_ns = options.barrier.quiet_ns(ranks);
        let drift = options.drift.unwrap_or(Drift::NONE);
        let (every, drift) = match options.sync {
            Sync::Phases(1) => (1, Drift::NONE),
            Sync::Phases(every) => (u64::from(every), drift),
            Sync::Once | Sync::None => (options.phases, drift),
        };
        let run = DriftRun {
            phase_ns: options.quantum_ns.saturating_add(gap_ns as u64),
            phases: options.phases,
            every,
            drift,
            places: &options.places,
            anywhere: options.starts == Starts::Any,
            seed: options.seed,
            threads: options.threads,
        };
        let rows = units.slowest(self.nodes(ranks), &run);
        // Phases that a stretch of known time cut off are missing; see `stretches`.
        let reach_ns = run.mean_reach_ns();
        let weight = |noise_ns: f64| match &self.stretches {
            Some(stretches) => stretches.weight(noise_ns, reach_ns),
            None => 1.0,
        };
        let wanted = options.intervals && options.phases >= LEAST_PHASES;
        let ratio = wanted
            .then(|| {
                let times_ns = (run.phase_ns, units.known_ns());
                of_rows(&rows, weight, times_ns, options.seed)
            })
            .flatten();
        // Synchronised ranks meet noise in the barrier as in the work: in proportion to time.
        let quiet_ns = self.quiet_ns(ranks);
        let longer = quiet_ns / options.quantum_ns as f64;
        let mut all: Vec<f64> = rows.into_iter().flatten().collect();
        sandbag_stats::sort(&mut all);
        let weights = all.iter().map(|ns| weight(*ns));
        let all = Phases {
            weights: weights.collect(),
            noise_ns: all.iter().map(|ns| ns * longer).collect(),
        };
        let noise_ns = all.mean();
        let percentile = |part: f64| all.quantile(part) / quiet_ns * 100.0;
        RankPrediction {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(percentile),
            noise_ns,
            barrier_ns: gap_ns,
            // All meet one stretch of the trace; the interval says how much of it there is.
            saturated: self.hides_noise(),
            tail: None,
            gone_through: Some(all.noise_ns.len() as u64),
        }
    }
}

/// Simulated phases by ascending noise, with their weights.
struct Phases {
    noise_ns: Vec<f64>,
    weights: Vec<f64>,
}

impl Phases {
    fn mean(&self) -> f64 {
        let each = self.noise_ns.iter().zip(&self.weights);
        let sum: f64 = each.map(|(ns, weight)| ns * weight).sum();
        let all: f64 = self.weights.iter().sum();
        if all > 0.0 { sum / all } else { 0.0 }
    }

    fn quantile(&self, part: f64) -> f64 {
        if self.weights.iter().all(|weight| *weight == 1.0) {
            return quantile(&self.noise_ns, part).unwrap_or(0.0);
        }
        let all: f64 = self.weights.iter().sum();
        let mut below = self.weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let at = below.position(|sum| sum >= part / 100.0 * all);
        let found = at.map_or(self.noise_ns.last(), |at| self.noise_ns.get(at));
        found.copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PredictOptions, TraceSource, predict};
    use super::*;
    use crate::fixture::{by_chance, trace};

    #[test]
    fn a_run_of_few_phases_has_no_interval() {
        let trace = trace(vec![by_chance(1, 10_000_000_000, 1.0, |_| 1e5)]);
        let has_interval = |phases| {
            let source = TraceSource {
                trace: &trace,
                share: 1,
            };
            let options = PredictOptions {
                ranks: vec![16],
                sync: Sync::Phases(1),
                phases,
                ..PredictOptions::default()
            };
            let found = predict(&[source], &options).unwrap();
            found.points[0].mean.interval_pct.is_some()
        };
        assert!(!has_interval(199) && has_interval(200));
    }

    #[test]
    fn phases_count_with_their_weights() {
        let of = |weights: [f64; 3]| Phases {
            noise_ns: vec![1.0, 2.0, 6.0],
            weights: weights.to_vec(),
        };
        assert_eq!(
            (of([1.0; 3]).mean(), of([1.0; 3]).quantile(50.0)),
            (3.0, 2.0)
        );
        let seldom = of([1.0, 1.0, 6.0]);
        assert_eq!((seldom.mean(), seldom.quantile(20.0)), (39.0 / 8.0, 2.0));
        assert_eq!((seldom.quantile(50.0), seldom.quantile(100.0)), (6.0, 6.0));
    }
}
