// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that have a position in common: their phases are gone through.

use super::bootstrap::of_rows;
use super::drift::{Drift, DriftRun, Spread, Units};
use super::waiting::Starts;
use super::working::Working;
use super::{PHASES_PCT, RankPrediction, Sync};

impl Working<'_> {
    /// Positions in common.
    pub(super) fn synchronised_point(&self, units: &Units, ranks: u64) -> RankPrediction {
        let options = self.options;
        let nodes = self.nodes(ranks);
        let gap_ns = options.barrier.quiet_ns(ranks);
        let none = Drift {
            end_ns: 0,
            spread: Spread::Uniform,
        };
        let (every, drift) = match options.sync {
            Sync::Phases(1) => (1, none),
            Sync::Phases(every) => (u64::from(every), options.drift.unwrap_or(none)),
            Sync::Once | Sync::None => (options.phases, options.drift.unwrap_or(none)),
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
        let rows = units.slowest(nodes, &run);
        let ratio = options
            .intervals
            .then(|| of_rows(&rows, (run.phase_ns, units.known_ns()), options.seed))
            .flatten();
        // Who is synchronised meets noise in the barrier as in the work: in
        // proportion to the time.
        let longer = self.quiet_ns(ranks) / options.quantum_ns as f64;
        let all = rows.into_iter().flatten();
        let mut all: Vec<f64> = all.map(|noise| noise * longer).collect();
        all.sort_unstable_by(f64::total_cmp);
        let count = all.len().max(1) as f64;
        let noise_ns = all.iter().sum::<f64>() / count;
        let quiet_ns = self.quiet_ns(ranks);
        let at = |part: f64| {
            let index = ((part / 100.0 * count).ceil() as usize).max(1) - 1;
            all.get(index.min(all.len().saturating_sub(1))).copied()
        };
        RankPrediction {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(|part| at(part).unwrap_or(0.0) / quiet_ns * 100.0),
            noise_ns,
            barrier_ns: gap_ns,
            // All meet one stretch of the trace; how much of it there is, the interval tells.
            saturated: false,
            tail: None,
            gone_through: Some(all.len() as u64),
        }
    }
}
