// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line of a job log.

use crate::Fault;
use crate::number::{decimal, decimal_seconds, whole};
use sandbag_input::head::words;

/// Numbers per job.
pub(super) const FIELDS: usize = 18;

#[derive(Debug, PartialEq)]
pub(super) enum SwfRow {
    Job(LoggedJob),
    /// A job that never held a processor, or of which that is not known.
    LeftOut,
    /// One part of a job that was stopped in between. The line of the whole job, which
    /// stands before its parts, holds their sum.
    Part,
    /// A comment, or nothing.
    Comment,
}

/// A job that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LoggedJob {
    pub(super) submit_ns: u64,
    /// From then to its begin, where that is known.
    pub(super) wait_ns: Option<u64>,
    pub(super) run_ns: u64,
    pub(super) procs: u32,
    /// The mean of its processors, where that is known.
    pub(super) cpu_time_ns: Option<u64>,
}

impl LoggedJob {
    /// When it began, or could have begun.
    pub(super) fn start_ns(&self) -> u64 {
        self.submit_ns.saturating_add(self.wait_ns.unwrap_or(0))
    }

    /// The load of each of its processors.
    pub(super) fn load_pct(&self) -> f64 {
        self.cpu_time_ns.map_or(100.0, |ns| {
            (ns as f64 / self.run_ns as f64 * 100.0).min(100.0)
        })
    }
}

impl SwfRow {
    pub(super) fn parse(line: &[u8]) -> Result<Self, Fault> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b";") {
            return Ok(Self::Comment);
        }
        let mut fields = words(line);
        let found = fields.clone().count();
        if found != FIELDS {
            return Err(Fault::unexpected(
                format!("a job, {FIELDS} numbers with blanks between them"),
                format!("{found} fields; the file may be cut short"),
            ));
        }
        let mut next = || fields.next().unwrap_or_default();
        number(next(), "the number of the job", decimal)?;
        let submit_ns = number(next(), "the submit time in seconds", decimal_seconds)?;
        let wait_ns = number(next(), "the wait time in seconds", decimal_seconds)?;
        let run_ns = number(next(), "the run time in seconds", decimal_seconds)?;
        let procs = number(next(), "the number of processors", |field| {
            whole(field).and_then(|n| u32::try_from(n).ok())
        })?;
        let cpu_time_ns = number(next(), "the CPU time in seconds", decimal_seconds)?;
        // The 11th: to be continued, or the last part of a completed or a failed job.
        let status = fields.nth(4).unwrap_or_default();
        if matches!(status, b"2" | b"3" | b"4") {
            return Ok(Self::Part);
        }
        Ok(match (submit_ns, run_ns, procs) {
            (Some(submit_ns), Some(run_ns @ 1..), Some(procs @ 1..)) => Self::Job(LoggedJob {
                submit_ns,
                wait_ns,
                run_ns,
                procs,
                cpu_time_ns,
            }),
            _ => Self::LeftOut,
        })
    }
}

/// A number; `None` if it is negative, which says that it is not known.
fn number<T>(
    field: &[u8],
    what: &str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let value = match field.strip_prefix(b"-") {
        Some(rest) => decimal_seconds(rest).map(|_| None),
        None => parse(field).map(Some),
    };
    value.ok_or_else(|| Fault::syntax(format!("{what}, or -1"), field))
}
