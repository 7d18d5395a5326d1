// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of events, and comparison of two sets of them.
//!
//! Lengths are on a logarithmic scale, as in the paper's figures: they span five orders of
//! magnitude. Unknown time is excluded.

mod blocks;
mod correlation;
mod count_sample;
mod counted_rate;
mod density;
mod distance;
mod likeness;
mod spectrum;
mod summary;

pub(crate) use correlation::{Correlation, MOST_CPUS as MOST_CORRELATED, WINDOW_NS, correlations};
pub(crate) use count_sample::{CountSample, binned_distances};
pub(crate) use density::{Density, Grid};
pub(crate) use distance::{Distances, distances};
pub(crate) use likeness::{Interval, LengthFigures, Likeness, LikenessVerdict, Measure, likeness};
pub(crate) use spectrum::{Band, FALSE_ALARM, FoundIn, Spectrum};
pub use spectrum::{Component, spectrum};
pub(crate) use summary::quantiles;
pub(crate) use summary::{QUANTILES_PCT, TraceSummary, summarise};
