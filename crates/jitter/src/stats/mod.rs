// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What events are like, and how alike two sets of them are.
//!
//! Lengths are looked at on a logarithmic scale, as in the paper's figures:
//! they reach over five orders of magnitude. Stretches of time in which nobody
//! looked count for nothing.

mod counted;
mod density;
mod distance;
mod summary;

pub use counted::{BinnedDistances, Bound, Counted, binned_distances};
pub use density::{Density, Grid};
pub use distance::{Distances, distances};
pub use summary::{QUANTILES_PCT, Summary, summarise};
