// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the values of a sampling pass to the loads since the one before.

use super::super::counters::{self, CpuState, Differences, STATES, StateTimes};
use super::super::sample::{ImportSample, count_warnings};
use super::reading::{FAMILY, METRICS, NEEDED, PcpReading, StateValues, ValueKind};
use crate::ProfileCell;

/// Counters are in ms.
const PER_SECOND: u64 = 1000;

/// A counter above this is no whole number of ms any more.
const MAX_COUNTER: f64 = (1u64 << 53) as f64;

#[derive(Debug)]
pub(super) struct PcpLoads {
    /// The pass before, where the values are counters; empty if there is none
    /// that could be continued.
    last: PcpReading,
    last_ns: i64,
    /// The stamp before, whatever stood there: where a rate begins.
    stamp_ns: Option<i64>,
    /// Which states the file has had so far.
    in_file: [bool; STATES],
    differences: Differences,
    counts: PcpCounts,
}

#[derive(Debug, Default)]
struct PcpCounts {
    /// Passes without a CPU that had all states.
    incomplete: u64,
    /// CPUs that had some states only, beside others that had all.
    partial: u64,
    /// Rates left out by PCP and taken as 0.
    left_out: u64,
    /// CPUs all whose rates were 0.
    still: u64,
    /// Rates since an unknown moment.
    no_begin: u64,
}

impl Default for PcpLoads {
    fn default() -> Self {
        Self {
            last: PcpReading::default(),
            last_ns: 0,
            stamp_ns: None,
            in_file: [false; STATES],
            differences: Differences::new(PER_SECOND),
            counts: PcpCounts::default(),
        }
    }
}

impl PcpLoads {
    /// Fills the sample that ends with this pass; false if none does. What is
    /// in `now` afterwards is of no use.
    pub(super) fn take(
        &mut self,
        now: &mut PcpReading,
        ns: i64,
        kind: Option<ValueKind>,
        sample: &mut ImportSample,
    ) -> bool {
        for (_, values) in &now.cpus {
            for (known, value) in self.in_file.iter_mut().zip(values) {
                *known |= value.is_some();
            }
        }
        let before_ns = self.stamp_ns.replace(ns);
        let Some(kind) = kind else { return false };
        if now.cpus.is_empty() {
            self.last.clear();
            return false;
        }
        let whole = |(_, values): &(u32, StateValues)| self.is_whole(values, kind);
        if !now.cpus.iter().any(whole) {
            self.counts.incomplete += 1;
            return false;
        }
        let start_ns = match kind {
            ValueKind::Rates => before_ns,
            ValueKind::Counters => (!self.last.cpus.is_empty()).then_some(self.last_ns),
        };
        if kind == ValueKind::Counters {
            std::mem::swap(&mut self.last, now);
            self.last_ns = ns;
        }
        if start_ns.is_none() {
            self.counts.no_begin += u64::from(kind == ValueKind::Rates);
            return false;
        }
        sample.start_ns = start_ns;
        sample.end_ns = ns;
        sample.slack_ns = 0;
        // The newer one.
        let count = match kind {
            ValueKind::Rates => now.cpus.len(),
            ValueKind::Counters => self.last.cpus.len(),
        };
        for i in 0..count {
            let (cpu, cell) = match kind {
                ValueKind::Rates => {
                    let (cpu, values) = now.cpus[i];
                    (cpu, self.of_rates(&values))
                }
                ValueKind::Counters => {
                    let (cpu, after) = self.last.cpus[i];
                    let before = now.find(cpu).ok().map(|at| now.cpus[at].1);
                    (cpu, self.of_counters(before.as_ref(), &after))
                }
            };
            sample.cells.push((cpu, cell));
        }
        true
    }

    /// The next pass does not continue this one.
    pub(super) fn forget(&mut self) {
        self.last.clear();
        self.stamp_ns = None;
    }

    /// Whether a load follows from these values. PCP leaves out the rate of a
    /// counter that fell, which iowait does and user and system do not;
    /// counters are all there, or the pass is not complete.
    fn is_whole(&self, values: &StateValues, kind: ValueKind) -> bool {
        let there = |state: usize| values[state].is_some();
        NEEDED.iter().all(|state| there(*state as usize))
            && (kind == ValueKind::Rates || (0..STATES).all(|i| there(i) || !self.in_file[i]))
    }

    fn of_counters(
        &mut self,
        before: Option<&StateValues>,
        after: &StateValues,
    ) -> Option<ProfileCell> {
        if !self.is_whole(after, ValueKind::Counters) {
            self.counts.partial += 1;
            return None;
        }
        let before = before?;
        if before
            .iter()
            .zip(after)
            .any(|(a, b)| a.is_some() != b.is_some())
        {
            return None;
        }
        let (before, after) = (counters(before)?, counters(after)?);
        self.differences.cell(&before, &after)
    }

    fn of_rates(&mut self, rates: &StateValues) -> Option<ProfileCell> {
        if !self.is_whole(rates, ValueKind::Rates) {
            self.counts.partial += 1;
            return None;
        }
        let left_out = rates.iter().zip(self.in_file);
        self.counts.left_out += left_out.filter(|(r, known)| *known && r.is_none()).count() as u64;
        let of = |state: CpuState| rates[state as usize].unwrap_or(0.0);
        let total: f64 = rates.iter().flatten().sum();
        if total <= 0.0 {
            self.counts.still += 1;
            return None;
        }
        let unused = of(CpuState::Idle) + of(CpuState::Iowait);
        Some(counters::cell(unused, of(CpuState::Steal), total))
    }

    /// Whether the file had no value so far.
    pub(super) fn is_empty(&self) -> bool {
        self.in_file == [false; STATES]
    }

    /// Whether the file had a value of this state so far.
    pub(super) fn have(&self, state: CpuState) -> bool {
        self.in_file[state as usize]
    }

    /// Which of these the file lacks, by their names.
    pub(super) fn lacks(&self, states: &[CpuState]) -> Option<String> {
        let lacking = METRICS
            .iter()
            .filter(|(_, state)| states.contains(state) && !self.in_file[*state as usize]);
        let names: Vec<String> = lacking.map(|(name, _)| format!("{FAMILY}{name}")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut all = self.differences.warnings();
        if let Some(names) = self.lacks(&METRICS.map(|(_, state)| state)) {
            all.push(format!(
                "the file lacks {names}; time in these states counts for nothing"
            ));
        }
        let c = &self.counts;
        all.extend(count_warnings([
            (
                c.partial,
                "in {} samples a CPU has values of some states only; its load is unknown there",
            ),
            (
                c.incomplete,
                "at {} stamps no CPU has values of all states; they were passed over",
            ),
            (
                c.left_out,
                "{} rates are missing beside others of the CPU, as PCP leaves out those of \
                 counters that fell; they count as 0",
            ),
            (
                c.still,
                "in {} samples all rates of a CPU are 0 (it was offline, or the samples are too \
                 close); its load is unknown there",
            ),
            (
                c.no_begin,
                "{} rates of the first stamp were left out; it is not known since when they hold",
            ),
        ]));
        all
    }
}

/// `None` if one of them is out of all range.
fn counters(values: &StateValues) -> Option<StateTimes> {
    let mut counters = [0; STATES];
    for (counter, value) in counters.iter_mut().zip(values) {
        let value = value.unwrap_or(0.0);
        *counter = (value <= MAX_COUNTER).then_some(value.round() as u64)?;
    }
    Some(counters)
}
