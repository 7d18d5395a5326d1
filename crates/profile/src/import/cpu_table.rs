// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables with a column for each state of each CPU, and a row per sample.

use std::collections::{BTreeMap, BTreeSet};

use crate::Fault;

use super::counters::{CpuState, STATES};

/// The values of a CPU in a row, by [`CpuState`].
pub(super) type CpuValues = [f64; STATES];

#[derive(Default)]
pub(super) struct CpuTable {
    /// The place of its CPU and the state; `None` for columns of other things.
    columns: Vec<Option<(usize, CpuState)>>,
    cpus: Vec<u32>,
    values: Vec<CpuValues>,
}

impl CpuTable {
    /// The CPU and state of each column. `name` names a column for a message,
    /// and `idle` that of the idle time, which every CPU must have.
    pub(super) fn new(
        columns: &[Option<(u32, CpuState)>],
        name: impl Fn(usize) -> String,
        idle: impl Fn(u32) -> String,
    ) -> Result<Self, Fault> {
        let mut table = Self::default();
        let (mut places, mut seen) = (BTreeMap::new(), BTreeSet::new());
        for (i, column) in columns.iter().enumerate() {
            let Some((cpu, state)) = *column else {
                table.columns.push(None);
                continue;
            };
            if !seen.insert((cpu, state as usize)) {
                return Err(Fault::Duplicate(name(i)));
            }
            let place = *places.entry(cpu).or_insert(table.cpus.len());
            if place == table.cpus.len() {
                table.cpus.push(cpu);
            }
            table.columns.push(Some((place, state)));
        }
        let has_idle = |cpu: &&u32| seen.contains(&(**cpu, CpuState::Idle as usize));
        if let Some(cpu) = table.cpus.iter().find(|cpu| !has_idle(cpu)) {
            let expected = format!("a column `{}`", idle(*cpu));
            return Err(Fault::unexpected(expected, "none"));
        }
        table.values = vec![[0.0; STATES]; table.cpus.len()];
        Ok(table)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// How many columns there are, of whatever.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn has_steal(&self) -> bool {
        let steal = |(_, state): &(usize, CpuState)| *state == CpuState::Steal;
        self.columns.iter().flatten().any(steal)
    }

    /// Takes a field of a row; `parse` gets its CPU and state where it has them.
    pub(super) fn set(
        &mut self,
        column: usize,
        parse: impl FnOnce(u32, CpuState) -> Result<f64, Fault>,
    ) -> Result<(), Fault> {
        if let Some(Some((place, state))) = self.columns.get(column) {
            self.values[*place][*state as usize] = parse(self.cpus[*place], *state)?;
        }
        Ok(())
    }

    /// The CPUs with the values of the row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, &CpuValues)> {
        self.cpus.iter().copied().zip(&self.values)
    }
}
