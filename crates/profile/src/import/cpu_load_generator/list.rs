// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of loads of the cpu-load-generator that runs lookbusy, from 0 to
//! 1, one per line.
//!
//! ```text
//! 0.2
//! 0.9
//! ```
//!
//! Each lasts one interval, which is an argument of the program and not in
//! the file. Read in beloglazov/cpu-load-generator: `cpu-load-generator.py`
//! and `README.md`.

use crate::lines::Lines;
use crate::number::decimal;
use crate::reader::Input;
use crate::seconds::Seconds;
use crate::{BoxSteps, Fault, Format, ProfileHeader, Result, Spread, Step, Steps};

const NO_END: &str = "its interval is an argument of cpu-load-generator: give the end, the number \
                      of lines times the interval";

/// Reads a list; all lines last equally long.
pub(super) fn read(input: &Input<'_>) -> Result<BoxSteps> {
    let mut lines = (input.lines)()?;
    let mut count = 0u64;
    while next_load(&mut lines)?.is_some() {
        count += 1;
    }
    if count == 0 {
        return Err(lines.nowhere(Fault::wrong_format(
            Format::CpuLoadGenerator,
            "it holds neither sequences nor a list of loads",
        )));
    }
    let end_ns = input.options.end_ns;
    let end_ns = end_ns.ok_or_else(|| lines.nowhere(Fault::NoEnd(NO_END)))?;
    // Every line needs its nanosecond.
    if end_ns < count {
        return Err(lines.nowhere(Fault::NothingLeft {
            end: Seconds(end_ns),
        }));
    }
    let spread = input.options.spread.unwrap_or_default();
    Ok(Box::new(List {
        header: ProfileHeader::new((0..spread.cpus).collect(), Format::CpuLoadGenerator),
        lines: (input.lines)()?,
        spread,
        at: 0,
        count,
        end_ns,
    }))
}

/// The next load, percent.
fn next_load(lines: &mut Lines) -> Result<Option<f64>> {
    while let Some(line) = lines.next_line()? {
        let value = line.trim_ascii();
        if value.is_empty() {
            continue;
        }
        let load = decimal(value).filter(|load| (0.0..=1.0).contains(load));
        let load = load.ok_or_else(|| Fault::syntax("a load from 0 to 1", value));
        return match load {
            Ok(load) => Ok(Some(load * 100.0)),
            Err(fault) => Err(lines.here(fault)),
        };
    }
    Ok(None)
}

struct List {
    header: ProfileHeader,
    lines: Lines,
    spread: Spread,
    /// How many lines were passed.
    at: u64,
    count: u64,
    end_ns: u64,
}

impl List {
    /// When the line of this number, from 0, begins.
    fn begin_ns(&self, line: u64) -> u64 {
        let ns = u128::from(self.end_ns) * u128::from(line) / u128::from(self.count);
        u64::try_from(ns).unwrap_or(self.end_ns)
    }
}

impl Steps for List {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        // The file may have grown since it was counted.
        if self.at == self.count {
            return Ok(None);
        }
        let load = next_load(&mut self.lines);
        let Ok(Some(load_pct)) = load else {
            self.at = self.count;
            return load.map(|_| None);
        };
        let start_ns = self.begin_ns(self.at);
        self.at += 1;
        Ok(Some(Step {
            start_ns,
            end_ns: self.begin_ns(self.at),
            cells: self.spread.cells(load_pct).map(Some).collect(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
