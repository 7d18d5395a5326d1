// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readings of one machine, in the order of their stamps.

use crate::reader::Lines;
use crate::{Error, Fault, Format, Result};

use super::super::sample::count_warnings;
use super::row::{TraceFormat, TraceReading, is_header};
use super::survey::{Order, Survey};

/// A machine has a row every minute or five; these are years of them.
const MOST_HELD: usize = 4 << 20;

pub(super) struct Readings {
    trace: &'static TraceFormat,
    lines: Lines,
    /// Rows read so far.
    rows: i64,
    /// Whether the next line is the first one.
    first: bool,
    survey: Survey,
    /// Where rows do not ascend all of them, sorted, the first one last.
    sorted: Option<Vec<TraceReading>>,
}

impl Readings {
    pub(super) fn new(trace: &'static TraceFormat, lines: Lines, survey: Survey) -> Self {
        Self {
            trace,
            lines,
            rows: 0,
            first: true,
            survey,
            sorted: None,
        }
    }

    pub(super) fn format(&self) -> Format {
        self.trace.format
    }

    pub(super) fn next(&mut self) -> Result<Option<TraceReading>> {
        if self.survey.out_of_order == 0 {
            return self.read();
        }
        if self.sorted.is_none() {
            let mut all = Vec::new();
            while let Some(reading) = self.read()? {
                if all.len() >= MOST_HELD {
                    return Err(self.here(Fault::lacks(
                        self.trace.format,
                        format!(
                            "the machine has more than {MOST_HELD} rows, and they do not ascend; \
                             sort the file by its stamps"
                        ),
                    )));
                }
                all.push(reading);
            }
            // Backwards twice, so that of two with one stamp the first stays
            // the first.
            all.reverse();
            all.sort_by_key(|reading| std::cmp::Reverse(reading.stamp_ns));
            let mut order = Order::default();
            all.iter().rev().for_each(|reading| order.add(reading));
            self.survey.usual_ns = order.usual_ns(self.trace.usual);
            self.sorted = Some(all);
        }
        Ok(self.sorted.as_mut().and_then(Vec::pop))
    }

    /// For how long a value stands where no other comes soon; known once the
    /// first one was asked for.
    pub(super) fn usual_ns(&self) -> i64 {
        self.survey.usual_ns
    }

    /// The next one in the file.
    fn read(&mut self) -> Result<Option<TraceReading>> {
        while let Some(line) = self.lines.next_whole_line()? {
            let is_header = std::mem::take(&mut self.first) && is_header(line);
            if is_header
                || line.trim_ascii().is_empty()
                || self.trace.machine_of(line) != Some(&self.survey.machine)
            {
                continue;
            }
            let reading = (self.trace.reading)(line, self.rows);
            self.rows += 1;
            match reading {
                Ok(Some(reading)) => return Ok(Some(reading)),
                Ok(None) => {}
                Err(fault) => return Err(self.lines.here(fault)),
            }
        }
        Ok(None)
    }

    pub(super) fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }

    /// Of a row that is no longer the one last read.
    pub(super) fn nowhere(&self, fault: Fault) -> Error {
        self.lines.nowhere(fault)
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let counts = [(
            self.survey.out_of_order,
            "{} rows stand after one of a later time; they were sorted",
        )];
        let mut warnings = count_warnings(counts);
        warnings.extend(self.lines.cut_warning());
        warnings
    }
}
