// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is predicted.

use serde::Serialize;

use super::tail::Tail;

/// A slowdown and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Percent of the time without noise.
    pub slowdown_pct: f64,
    /// 95 % interval by the block bootstrap; `None` where the trace is too short for one, or
    /// has no noise.
    pub interval_pct: Option<(f64, f64)>,
}

/// The prediction for one number of ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankPrediction {
    pub ranks: u64,
    /// Mean of all phases.
    pub mean: Estimate,
    /// Percentiles of the phases' slowdown, percent: see [`PHASES_PCT`].
    pub phases_pct: [f64; PHASES_PCT.len()],
    /// Mean noise of the slowest rank, ns.
    pub noise_ns: f64,
    /// The barrier without noise, ns.
    pub barrier_ns: f64,
    /// The trace, or each of its stretches, is too short to show the longest times. The figure is
    /// an estimate that is mostly too low, and not a bound.
    pub saturated: bool,
    /// With a fitted tail, if there is one.
    pub tail: Option<Estimate>,
    /// Number of simulated phases where ranks are synchronised; fewer than those of the run
    /// where all would take too long. `None` where ranks are not synchronised.
    pub gone_through: Option<u64>,
}

/// The percentiles in [`RankPrediction::phases_pct`].
pub const PHASES_PCT: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// The prediction from one or several traces.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// In the order of the numbers of ranks.
    pub points: Vec<RankPrediction>,
    /// The tail fitted to the noise of one rank.
    pub tail: Option<Tail>,
    /// Share of the time that noise takes, percent, of the CPU with the most. At
    /// [`SATURATED_PCT`] or more the slowdown depends on how the remaining time lies.
    pub noise_pct: f64,
    pub warnings: Vec<String>,
}

/// Share of noise that saturates a CPU, percent.
pub const SATURATED_PCT: f64 = 90.0;
