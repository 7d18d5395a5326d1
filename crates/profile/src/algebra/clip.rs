// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads above 100.

use crate::ProfileCell;

/// A load clipped to 100, and whether it was.
pub(super) fn clip_cell(cell: ProfileCell, clips: &mut u64) -> ProfileCell {
    // Sums of decimal fractions miss 100 by less than this.
    const NOISE_PCT: f64 = 1e-9;
    *clips += u64::from(cell.load_pct > 100.0 + NOISE_PCT);
    ProfileCell {
        load_pct: cell.load_pct.min(100.0),
        ..cell
    }
}

pub(super) fn clip_warning(clips: u64) -> Option<String> {
    (clips > 0).then(|| format!("{clips} loads came out above 100 and were clipped at 100"))
}
