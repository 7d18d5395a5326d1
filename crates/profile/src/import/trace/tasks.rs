// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as the sum of its tasks, each with a load from its begin to its
//! end. The tasks that run at a moment are held, nothing else.

use crate::{Error, Fault, Result};

use super::super::sample::{ImportSample, ImportSummary, Samples};
use super::cells::Cells;
use super::readings::Readings;
use super::row::TraceReading;

/// Nothing that one machine runs comes near this.
const MOST_TASKS: usize = 1 << 16;

pub(super) struct Tasks {
    readings: Readings,
    cells: Cells,
    /// The next one, which has not begun.
    held: Option<TraceReading>,
    /// Those that run now.
    running: Vec<TraceReading>,
    now_ns: i64,
    begun: bool,
    /// Tasks without a length.
    empty: u64,
    /// Tasks without a load.
    unknown: u64,
}

impl Tasks {
    pub(super) fn new(readings: Readings, cells: Cells) -> Self {
        Self {
            readings,
            cells,
            held: None,
            running: Vec::new(),
            now_ns: i64::MIN,
            begun: false,
            empty: 0,
            unknown: 0,
        }
    }

    /// Reads the next one that says something.
    fn advance(&mut self) -> Result<()> {
        self.held = None;
        while let Some(reading) = self.readings.next()? {
            if reading.end_ns <= reading.stamp_ns {
                self.empty += 1;
            } else if reading.load_pct.is_nan() {
                self.unknown += 1;
            } else {
                self.held = Some(reading);
                break;
            }
        }
        Ok(())
    }
}

impl Samples for Tasks {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        if !std::mem::replace(&mut self.begun, true) {
            self.advance()?;
        }
        let now_ns = self.now_ns;
        self.running.retain(|task| task.end_ns > now_ns);
        if self.running.is_empty() {
            match self.held {
                Some(next) => self.now_ns = next.stamp_ns,
                None => return Ok(false),
            }
        }
        while let Some(next) = self.held.filter(|next| next.stamp_ns <= self.now_ns) {
            if self.running.len() >= MOST_TASKS {
                return Err(self.here(Fault::lacks(
                    self.readings.format(),
                    format!("more than {MOST_TASKS} tasks run at a time on one machine"),
                )));
            }
            self.running.push(next);
            self.advance()?;
        }
        let ends = self.running.iter().map(|task| task.end_ns);
        let begins = self.held.map(|next| next.stamp_ns);
        sample.start_ns = Some(self.now_ns);
        sample.end_ns = ends.chain(begins).min().unwrap_or(self.now_ns);
        sample.slack_ns = 0;
        let load_pct = self.running.iter().map(|task| task.load_pct).sum();
        self.cells.fill(load_pct, 0, &mut sample.cells);
        self.now_ns = sample.end_ns;
        Ok(true)
    }

    fn about(&self) -> ImportSummary {
        let mut warnings = self.readings.warnings();
        for (count, what) in [
            (self.empty, "end when they begin"),
            (self.unknown, "have no CPU rate"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} rows of tasks {what} and were left out"));
            }
        }
        warnings.extend(self.cells.warnings());
        ImportSummary {
            warnings,
            ..ImportSummary::default()
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.readings.here(fault)
    }
}
