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

use crate::number::decimal;
use crate::reader::{Input, Lines};
use crate::stream::make_steps;
use crate::{BoxSteps, Fault, Format, ProfileHeader, Result, Step};
use sandbag_ui::quantity::Seconds;

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
    let header = ProfileHeader::new((0..spread.cpus).collect(), Format::CpuLoadGenerator);
    let mut lines = (input.lines)()?;
    let begin_ns = move |line: u64| {
        let ns = u128::from(end_ns) * u128::from(line) / u128::from(count);
        u64::try_from(ns).unwrap_or(end_ns)
    };
    let mut at = 0;
    Ok(make_steps(header, Vec::new(), move || {
        // The file may have grown since it was counted.
        if at == count {
            return Ok(None);
        }
        let Some(load_pct) = next_load(&mut lines)? else {
            return Ok(None);
        };
        at += 1;
        Ok(Some(Step {
            start_ns: begin_ns(at - 1),
            end_ns: begin_ns(at),
            cells: spread.cells(load_pct).map(Some).collect(),
        }))
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
