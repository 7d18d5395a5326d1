// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations on profiles. Each takes a stream and returns a stream, so a day
//! of samples passes through any chain of them in constant memory.
//!
//! What an operation had to give up (loads clipped at 100, unknown loads
//! filled) is counted and reported by [`crate::Steps::warnings`] at the end.

mod coalesce;
mod combine;
mod cpus;
mod gaps;
mod repeat;
mod resample;
mod simple;

pub use coalesce::coalesce;
pub use combine::{add, append, delay};
pub use cpus::{MapRule, map_cpus, select_cpus};
pub use gaps::{Gaps, fill_gaps};
pub use repeat::repeat;
pub(crate) use resample::Resample;
pub use resample::resample;
pub use simple::{cut, scale_load, scale_time, steal_as_load};

use crate::ProfileCell;

/// A load clipped to 100, and whether it was.
fn clip_cell(cell: ProfileCell, clips: &mut u64) -> ProfileCell {
    // Sums of decimal fractions miss 100 by less than this.
    const NOISE_PCT: f64 = 1e-9;
    *clips += u64::from(cell.load_pct > 100.0 + NOISE_PCT);
    ProfileCell {
        load_pct: cell.load_pct.min(100.0),
        ..cell
    }
}

fn clip_warning(clips: u64) -> Option<String> {
    (clips > 0).then(|| format!("{clips} loads came out above 100 and were clipped at 100"))
}
