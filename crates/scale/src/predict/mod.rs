// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slowdown of a bulk-synchronous program by jitter, on any number of ranks (De, Kothari
//! and Mann 2008, section on prediction).
//!
//! ```text
//! trace --windows--> pieces --cells--> distribution of the noise of one rank
//!                       |                 |--waiting--> greatest of n: never synchronised
//!                       |                 '--barrier--> the same, with messages
//!                       '--drift--> greatest of n: synchronised once, or every K phases
//! ```
//!
//! [`replay`] simulates every rank instead; tests compare the prediction with it.

mod barrier;
mod bootstrap;
mod causes;
mod cells;
mod classes;
mod drift;
mod noise;
mod options;
mod points;
mod positions;
mod prediction;
pub mod replay;
mod resync;
mod stretches;
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

pub use barrier::{BarrierModel, LogGp};
pub use classes::{Cost, EventClass, costs};
pub use drift::{Drift, Places, Spread};
pub use options::{MOST_RANKS, PredictOptions, TraceSource, phases};
pub use prediction::{Estimate, PHASES_PCT, Prediction, RankPrediction, SATURATED_PCT};
pub use sandbag_jitter::replay::Sync;
pub use tail::Tail;
pub use waiting::Starts;
pub use warnings::warning_of_period;

use crate::Result;

/// Predicts the slowdown. Nodes of several sources run together, each with its share of the
/// ranks.
pub fn predict(sources: &[TraceSource<'_>], options: &PredictOptions) -> Result<Prediction> {
    options.check(sources)?;
    points::predict_points(sources, options)
}
