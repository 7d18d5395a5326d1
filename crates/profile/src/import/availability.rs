// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of how much of a CPU is left, `<second> <share>` a line: the steps
//! of SimGrid's and Distem's, which differ in what else a line may say.
//!
//! The file is read twice, once to its end to check it, and not held.

use super::sample::count_warnings;
use crate::number::{NS_PER_S, decimal, decimal_seconds};
use crate::reader::{Input, Lines};
use crate::stream::make_steps;
use crate::{BoxSteps, Fault, Format, ProfileHeader, Result, Step};
use sandbag_ui::quantity::{Seconds, plain_seconds};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AvailabilityLine {
    Nothing,
    /// From a time on this share of the CPU is left; it may exceed 1.
    Event {
        at_ns: u64,
        left: f64,
    },
    /// Where the trace ends.
    End(Ending),
}

/// Where a trace ends that says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ending {
    /// There.
    At(u64),
    /// There, and begins anew.
    Period(u64),
    /// So long after its last event, and begins anew.
    After(u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct AvailabilityFormat {
    pub(super) format: Format,
    pub(super) parse: Parse,
    /// Why there is no end, and what to do.
    pub(super) no_end: &'static str,
    /// What to do with events out of order; begins with `; `.
    pub(super) unsorted: &'static str,
}

/// A time, which may be written as 1e3. `None` if it is none, is negative or
/// lies centuries away.
pub(super) fn seconds(bytes: &[u8]) -> Option<u64> {
    decimal_seconds(bytes).or_else(|| {
        let ns = decimal(bytes)? * NS_PER_S as f64;
        (ns >= 0.0 && ns < u64::MAX as f64).then(|| ns.round() as u64)
    })
}

/// An event of two words.
pub(super) fn event(time: &[u8], share: &[u8]) -> Result<AvailabilityLine, Fault> {
    let at_ns = seconds(time).ok_or_else(|| Fault::syntax("a time in seconds", time))?;
    if share.contains(&b',') {
        return Err(Fault::DecimalComma {
            value: String::from_utf8_lossy(share).into_owned(),
            remedy: "write it with a point",
        });
    }
    let left = decimal(share).filter(|left| left.is_finite() && *left >= 0.0);
    let left =
        left.ok_or_else(|| Fault::syntax("the share of the CPU that is left, 0 to 1", share))?;
    Ok(AvailabilityLine::Event { at_ns, left })
}

#[derive(Debug, Default)]
struct AvailabilitySurvey {
    events: u64,
    first_ns: u64,
    last_ns: u64,
    /// Events at the time of the one before.
    same: u64,
    /// Events of more than the whole CPU.
    beyond: u64,
    /// Events at or after the end that was asked for.
    late: u64,
    ending: Option<Ending>,
}

pub(super) fn read(input: &Input<'_>, dialect: &AvailabilityFormat) -> Result<BoxSteps> {
    let mut lines = (input.lines)()?;
    let asked_ns = input.options.end_ns;
    let found = look_through(&mut lines, dialect, asked_ns.unwrap_or(u64::MAX))?;
    if found.events == 0 {
        return Err(lines.nowhere(Fault::wrong_format(
            dialect.format,
            "it holds no line `<second> <share of the CPU that is left>`",
        )));
    }
    let end_ns = match found.ending {
        Some(Ending::At(ns)) => ns,
        Some(Ending::Period(ns)) if ns < found.last_ns => {
            return Err(lines.nowhere(Fault::unexpected(
                format!("a period of at least {}", Seconds(found.last_ns)),
                Seconds(ns).to_string(),
            )));
        }
        Some(Ending::Period(ns)) => ns,
        Some(Ending::After(ns)) => found.last_ns.saturating_add(ns),
        None => asked_ns.ok_or_else(|| lines.nowhere(Fault::NoEnd(dialect.no_end)))?,
    };
    if end_ns == 0 {
        return Err(lines.nowhere(Fault::NothingLeft { end: Seconds(0) }));
    }
    let spread = input.options.spread.unwrap_or_default();
    let header = ProfileHeader::new((0..spread.cpus).collect(), dialect.format);
    let mut lines = (input.lines)()?;
    let parse = dialect.parse;
    // The share that is left from `at_ns` on, and the event that was read ahead.
    let (mut left, mut at_ns) = (1.0, 0);
    let mut next = next_event(&mut lines, parse)?;
    Ok(make_steps(header, found.warnings(end_ns), move || {
        while let Some((_, now_left)) = next.filter(|(next_ns, _)| *next_ns <= at_ns) {
            left = now_left;
            next = next_event(&mut lines, parse)?;
        }
        if at_ns >= end_ns {
            return Ok(None);
        }
        let start_ns = at_ns;
        at_ns = next.map_or(end_ns, |(next_ns, _)| next_ns).min(end_ns);
        // Not 100 (1 - left), which is not exactly 30 where 0.7 is left.
        let load_pct = 100.0 - 100.0 * left;
        Ok(Some(Step {
            start_ns,
            end_ns: at_ns,
            cells: spread.cells(load_pct).map(Some).collect(),
        }))
    }))
}

type Parse = fn(&[u8]) -> Result<AvailabilityLine, Fault>;

/// The time of the next event, ns, and the share that is left from then on.
fn next_event(lines: &mut Lines, parse: Parse) -> Result<Option<(u64, f64)>> {
    while let Some(line) = lines.next_line()? {
        let line = parse(line).map_err(|fault| lines.here(fault))?;
        if let AvailabilityLine::Event { at_ns, left } = line {
            return Ok(Some((at_ns, left.min(1.0))));
        }
    }
    Ok(None)
}

fn look_through(
    lines: &mut Lines,
    dialect: &AvailabilityFormat,
    asked_ns: u64,
) -> Result<AvailabilitySurvey> {
    let mut found = AvailabilitySurvey::default();
    while let Some(line) = lines.next_line()? {
        let line = (dialect.parse)(line).map_err(|fault| lines.here(fault))?;
        match line {
            AvailabilityLine::Nothing => {}
            AvailabilityLine::End(ending) => {
                // What a comment says gives way to what the trace says.
                match (found.ending, ending) {
                    (None | Some(Ending::At(_)), _) => found.ending = Some(ending),
                    (Some(_), Ending::At(_)) => {}
                    (Some(_), _) => {
                        return Err(lines.here(Fault::Duplicate("end of the trace".into())));
                    }
                }
            }
            AvailabilityLine::Event { at_ns, left } => {
                if found.events == 0 {
                    found.first_ns = at_ns;
                } else if at_ns < found.last_ns {
                    return Err(lines.here(Fault::TimesGoBack {
                        now: plain_seconds(at_ns),
                        last: plain_seconds(found.last_ns),
                        remedy: dialect.unsorted,
                    }));
                } else {
                    found.same += u64::from(at_ns == found.last_ns);
                }
                found.events += 1;
                found.beyond += u64::from(left > 1.0);
                found.late += u64::from(at_ns >= asked_ns);
                found.last_ns = at_ns;
            }
        }
    }
    Ok(found)
}

impl AvailabilitySurvey {
    fn warnings(&self, end_ns: u64) -> Vec<String> {
        let mut all = Vec::new();
        if self.first_ns > 0 {
            all.push(format!(
                "before its first event, at {}, the CPU is taken to be free",
                Seconds(self.first_ns)
            ));
        }
        if matches!(self.ending, Some(Ending::Period(_) | Ending::After(_))) {
            all.push(format!(
                "the trace goes round for ever; this is its first round, {}",
                Seconds(end_ns)
            ));
        }
        if self.late > 0 && self.ending.is_none() {
            all.push(format!(
                "{} events lie at or after the end, {}, and have no effect",
                self.late,
                Seconds(end_ns)
            ));
        }
        all.extend(count_warnings([
            (
                self.same,
                "{} events have the time of the one before, whose place they take",
            ),
            (
                self.beyond,
                "{} events leave more than the whole CPU; the load is 0 there",
            ),
        ]));
        all
    }
}
