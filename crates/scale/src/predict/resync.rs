// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks with a common position, whose phases are simulated.

use sandbag_jitter::replay::Sync;
use sandbag_stats::quantile;

use super::bootstrap::of_rows;
use super::drift::{Drift, DriftRun, Units};
use super::prediction::{PHASES_PCT, RankPrediction};
use super::waiting::Starts;
use super::working::Working;

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
        let ratio = options
            .intervals
            .then(|| of_rows(&rows, (run.phase_ns, units.known_ns()), options.seed))
            .flatten();
        // Synchronised ranks meet noise in the barrier as in the work: in proportion to time.
        let quiet_ns = self.quiet_ns(ranks);
        let longer = quiet_ns / options.quantum_ns as f64;
        let mut all: Vec<f64> = rows.into_iter().flatten().map(|ns| ns * longer).collect();
        sandbag_stats::sort(&mut all);
        let noise_ns = all.iter().sum::<f64>() / all.len().max(1) as f64;
        let percentile = |part: f64| quantile(&all, part).unwrap_or(0.0) / quiet_ns * 100.0;
        RankPrediction {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(percentile),
            noise_ns,
            barrier_ns: gap_ns,
            // All meet one stretch of the trace; the interval says how much of it there is.
            saturated: false,
            tail: None,
            gone_through: Some(all.len() as u64),
        }
    }
}
