// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of formats that are read line by line.

use crate::reader::Lines;
use crate::{Error, Fault, ProfileCell, Result};

use super::sample::{CLOCKS_CHANGED, ImportSample, ImportSummary, Samples, slack};

/// A format of lines, and what was read of one file.
pub(super) trait LineFormat: Send {
    /// Whether the end of the file shows without a line end that its last line is whole.
    const SHOWS_ITS_END: bool = false;

    /// Takes a line. A whole sample is put into `sample`, rows of CPUs are not.
    fn line(&mut self, line: &[u8], sample: &mut ImportSample) -> Result<LineEvent, Fault>;

    /// Whether a whole sample counts; it is left out otherwise.
    fn accept(&mut self, _: &ImportSample) -> bool {
        true
    }

    /// Whether a sample may end with the file.
    fn ends_with_file(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether the file is complete, at its end.
    fn end(&self) -> Result<(), Fault>;

    /// `duplicates` are rows of a CPU that had one of the same stamp.
    fn about(&self, duplicates: u64) -> ImportSummary;

    /// As [`Samples::remedy_for_times`].
    fn remedy_for_times(&self) -> &'static str {
        CLOCKS_CHANGED
    }
}

pub(super) enum LineEvent {
    Nothing,
    /// The sample is complete.
    Sample,
    Row(SampleRow),
}

/// One CPU in a sample; rows with the same end belong together.
#[derive(Clone, Copy)]
pub(super) struct SampleRow {
    /// As [`ImportSample::start_ns`].
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: i64,
    pub(super) cpu: u32,
    pub(super) cell: Option<ProfileCell>,
}

pub(super) struct LineSamples<F> {
    lines: Lines,
    format: F,
    /// A row of the next sample, already read.
    held: Option<SampleRow>,
    duplicates: u64,
    done: bool,
}

impl<F: LineFormat> LineSamples<F> {
    pub(super) fn new(lines: Lines, format: F) -> Self {
        Self {
            lines,
            format,
            held: None,
            duplicates: 0,
            done: false,
        }
    }

    fn next_event(&mut self, sample: &mut ImportSample) -> Result<Option<LineEvent>> {
        if let Some(row) = self.held.take() {
            return Ok(Some(LineEvent::Row(row)));
        }
        let line = if F::SHOWS_ITS_END {
            self.lines.next_line()?
        } else {
            self.lines.next_whole_line()?
        };
        let Some(line) = line else {
            return Ok(None);
        };
        let event = self.format.line(line, sample);
        event.map(Some).map_err(|fault| self.lines.here(fault))
    }

    /// Reads a whole sample; false at the end.
    fn read_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        if self.done {
            return Ok(false);
        }
        while let Some(event) = self.next_event(sample)? {
            let row = match event {
                LineEvent::Nothing => continue,
                LineEvent::Sample => return Ok(true),
                LineEvent::Row(row) => row,
            };
            if sample.cells.is_empty() {
                sample.start_ns = row.start_ns;
                sample.end_ns = row.end_ns;
                let start_ns = row.start_ns.unwrap_or(row.end_ns);
                sample.slack_ns = slack(row.end_ns.saturating_sub(start_ns));
            } else if row.end_ns != sample.end_ns {
                self.held = Some(row);
                return Ok(true);
            } else if sample.has(row.cpu) {
                self.duplicates += 1;
                continue;
            }
            sample.cells.push((row.cpu, row.cell));
        }
        self.done = true;
        if sample.cells.is_empty() {
            return Ok(false);
        }
        let end = self.format.ends_with_file();
        end.map_err(|fault| self.lines.here(fault))?;
        Ok(true)
    }
}

impl<F: LineFormat> Samples for LineSamples<F> {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        while self.read_sample(sample)? {
            if self.format.accept(sample) {
                return Ok(true);
            }
        }
        let end = self.format.end();
        end.map_err(|fault| self.lines.nowhere(fault))?;
        Ok(false)
    }

    fn about(&self) -> ImportSummary {
        let mut about = self.format.about(self.duplicates);
        if !F::SHOWS_ITS_END {
            about.warnings.extend(self.lines.cut_warning());
        }
        about
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }

    fn remedy_for_times(&self) -> &'static str {
        self.format.remedy_for_times()
    }
}
