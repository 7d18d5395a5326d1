// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load of a machine on its CPUs.

use crate::{ProfileCell, Spread};

/// Lays the load of the machine on its CPUs.
#[derive(Default)]
pub(super) struct Cells {
    /// As asked for; else each CPU of the reading has the load of the machine.
    pub(super) spread: Option<Spread>,
    pub(super) clipped: u64,
    pub(super) largest_pct: f64,
    pub(super) unknown: u64,
}

impl Cells {
    pub(super) fn fill(
        &mut self,
        load_pct: f64,
        cpus: u32,
        cells: &mut Vec<(u32, Option<ProfileCell>)>,
    ) {
        cells.clear();
        if load_pct.is_nan() {
            self.unknown += 1;
            return;
        }
        if load_pct > 100.0 {
            self.clipped += 1;
            self.largest_pct = self.largest_pct.max(load_pct);
        }
        let spread = self.spread.unwrap_or(Spread {
            cpus: cpus.max(1),
            ..Spread::default()
        });
        let loads = spread.cells(load_pct.min(100.0)).map(Some);
        cells.extend((0..).zip(loads));
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.clipped > 0 {
            all.push(format!(
                "{} values are above 100 % of the machine, up to {:.1}, and were cut to 100",
                self.clipped, self.largest_pct
            ));
        }
        if self.unknown > 0 {
            all.push(format!(
                "{} values are missing or marked as wrong; the load is unknown there",
                self.unknown
            ));
        }
        all
    }
}
