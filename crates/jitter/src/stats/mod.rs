// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of events, and comparison of two sets of them.
//!
//! Lengths are on a logarithmic scale, as in the paper's figures: they span five orders of
//! magnitude. Unknown time is excluded.

mod blocks;
mod correlation;
mod count_sample;
mod density;
mod distance;
mod likeness;
mod spectrum;
mod summary;

pub use correlation::{
    ByChance, Correlation, MOST_CPUS as MOST_CORRELATED, NoiseCorrelation, WINDOW_NS, correlations,
};
pub use count_sample::{BinnedDistances, CountSample, binned_distances};
pub use density::{Density, Grid};
pub use distance::{Distances, distances};
pub use likeness::{Interval, Likeness, LikenessVerdict, Measure, Quantiles, likeness};
pub use spectrum::{Band, Component, FALSE_ALARM, Fold, FoundIn, Spectrum, spectrum};
pub(crate) use summary::quantiles;
pub use summary::{QUANTILES_PCT, TraceSummary, summarise};
