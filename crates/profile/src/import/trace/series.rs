// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values with one stamp each.
//!
//! A value is the mean of the time up to the next stamp, or since the one
//! before. Where that is more than half as long again as usual a row is
//! missing: the value stands for the usual time, the rest is unknown.

use crate::{Error, Fault, Result};

use super::super::sample::{ImportSample, ImportSummary, Samples};
use super::super::timeline::stamp;
use super::cells::Cells;
use super::readings::Readings;
use super::row::{TraceEpoch, TraceReading, TraceStamps};

pub(super) struct TraceSeries {
    readings: Readings,
    cells: Cells,
    stamps: TraceStamps,
    /// The one whose interval ends at the stamp of the next.
    held: Option<TraceReading>,
    last: Option<TraceReading>,
    duplicates: u64,
}

impl TraceSeries {
    pub(super) fn new(readings: Readings, cells: Cells, stamps: TraceStamps) -> Self {
        Self {
            readings,
            cells,
            stamps,
            held: None,
            last: None,
            duplicates: 0,
        }
    }

    /// The next one with a stamp of its own.
    fn next(&mut self) -> Result<Option<TraceReading>> {
        while let Some(reading) = self.readings.next()? {
            if let Some(last) = self.last.filter(|last| last.stamp_ns == reading.stamp_ns) {
                if last.epoch == TraceEpoch::Local
                    && last.load_pct.total_cmp(&reading.load_pct).is_ne()
                {
                    let now = stamp(reading.stamp_ns);
                    return Err(self.readings.nowhere(Fault::TimesGoBack {
                        last: now.clone(),
                        now,
                        remedy: "; these are local times, which stand twice where summer time \
                                 ends: export the stamps in UTC",
                    }));
                }
                self.duplicates += 1;
                continue;
            }
            self.last = Some(reading);
            return Ok(Some(reading));
        }
        Ok(None)
    }

    /// How much of the time between two stamps the value covers.
    fn covered_ns(&self, distance_ns: Option<i64>) -> i64 {
        let usual_ns = self.readings.usual_ns();
        distance_ns
            .filter(|ns| *ns <= usual_ns.saturating_add(usual_ns / 2))
            .unwrap_or(usual_ns)
    }
}

impl Samples for TraceSeries {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        let before = self.last.map(|last| last.stamp_ns);
        let reading = match self.held.take() {
            Some(reading) => Some(reading),
            None => self.next()?,
        };
        let Some(reading) = reading else {
            return Ok(false);
        };
        let stamp_ns = reading.stamp_ns;
        if self.stamps == TraceStamps::End {
            let since = before.map(|ns| stamp_ns.saturating_sub(ns));
            sample.start_ns = Some(stamp_ns.saturating_sub(self.covered_ns(since)));
            sample.end_ns = stamp_ns;
        } else {
            self.held = self.next()?;
            let until = self.held.map(|next| next.stamp_ns.saturating_sub(stamp_ns));
            sample.start_ns = Some(stamp_ns);
            sample.end_ns = stamp_ns.saturating_add(self.covered_ns(until));
        }
        sample.slack_ns = 0;
        self.cells
            .fill(reading.load_pct, reading.cpus, &mut sample.cells);
        Ok(true)
    }

    fn about(&self) -> ImportSummary {
        let mut warnings = self.readings.warnings();
        if self.duplicates > 0 {
            warnings.push(format!(
                "{} rows have the stamp of another and were left out; the first was taken",
                self.duplicates
            ));
        }
        warnings.extend(self.cells.warnings());
        ImportSummary {
            local: self
                .last
                .is_some_and(|last| last.epoch == TraceEpoch::Local),
            warnings,
            ..ImportSummary::default()
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.readings.here(fault)
    }
}
