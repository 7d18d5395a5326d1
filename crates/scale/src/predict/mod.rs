// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much slower jitter makes a bulk-synchronous program on ranks that nobody
//! has (De, Kothari and Mann 2008, section on prediction).
//!
//! ```text
//! trace --windows--> pieces --cells--> distribution of the noise one rank meets
//!                       |                 |--waiting--> greatest of n: never synchronised
//!                       |                 '--barrier--> the same, with messages
//!                       '--drift--> greatest of n: synchronised once, or every K phases
//! ```
//!
//! [`replay`] does without all of it, rank by rank, and is what tests hold the
//! rest against.

mod barrier;
mod bootstrap;
mod causes;
mod cells;
mod classes;
mod costs;
mod drift;
mod grid;
mod noise;
mod options;
mod positions;
pub mod replay;
mod resync;
mod sweep;
mod tail;
#[cfg(test)]
mod tests;
mod threads;
mod unsynchronised;
mod waiting;
mod warnings;
mod windows;
mod working;

pub use barrier::{BarrierModel, LogGp, rounds};
pub use classes::{Cost, EventClass};
pub use drift::{Drift, Places, Spread};
pub use noise::Noise;
pub use options::{MOST_RANKS, PredictOptions, TraceSource, phases};
pub use sandbag_jitter::replay::Sync;
pub use tail::Tail;
pub use waiting::Starts;
pub use windows::{CpuGroup, NoisePiece, Windows};

use serde::Serialize;

use crate::Result;
use working::Working;

/// A slowdown and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Percent of the time without noise.
    pub slowdown_pct: f64,
    /// 95 % interval by the block bootstrap; `None` where the trace is too
    /// short for one, or nothing is met.
    pub interval_pct: Option<(f64, f64)>,
}

/// The prediction for one number of ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankPrediction {
    pub ranks: u64,
    /// Mean of all phases.
    pub mean: Estimate,
    /// Of the phases 50, 90, 99 and 99.9 % are not slowed down by more,
    /// percent.
    pub phases_pct: [f64; PHASES_PCT.len()],
    /// Noise of the slowest rank, mean, ns.
    pub noise_ns: f64,
    /// The barrier without noise, ns.
    pub barrier_ns: f64,
    /// The trace is too short for so many ranks: the slowest meets the greatest
    /// noise that was recorded in nearly every phase. A lower bound.
    pub saturated: bool,
    /// With a tail fitted, if that was asked for and one could be.
    pub tail: Option<Estimate>,
    /// Phases that were gone through, where ranks are synchronised: fewer than those of the
    /// run where a dense trace or a long drift would take too long. `None` where they are
    /// not: all phases are alike then, and none is gone through.
    pub gone_through: Option<u64>,
}

/// Parts of the phases that [`RankPrediction::phases_pct`] is about, percent.
pub const PHASES_PCT: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// What is predicted of one or several traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    /// In the order of the numbers of ranks.
    pub points: Vec<RankPrediction>,
    /// The tail that was fitted to what one rank meets.
    pub tail: Option<Tail>,
    /// What classes of events cost; in the order in which they were given,
    /// those without an event left out.
    pub classes: Vec<Cost>,
    /// What noise takes of the time of a CPU of the trace, percent; the CPU that
    /// it takes most of. Of [`SATURATED_PCT`] or more nothing much is left to the
    /// work, and the slowdown is decided by how that little lies.
    pub noise_pct: f64,
    /// What the user should hear.
    pub warnings: Vec<String>,
}

/// Noise that takes so much of the time, percent, saturates a CPU.
pub const SATURATED_PCT: f64 = 90.0;

/// Predicts. Nodes of several sources run together, each with its share of the
/// ranks.
///
/// # Errors
/// An option is out of range, or a source cannot say what is asked.
pub fn predict(sources: &[TraceSource<'_>], options: &PredictOptions) -> Result<Prediction> {
    options.check(sources)?;
    Working::new(sources, options)?.prediction()
}

/// What classes of events cost where nothing is synchronised.
///
/// # Errors
/// As of [`predict`].
pub fn costs(
    sources: &[TraceSource<'_>],
    options: &PredictOptions,
    classes: &[EventClass],
) -> Result<Vec<Cost>> {
    options.check(sources)?;
    costs::costs(sources, options, classes)
}
