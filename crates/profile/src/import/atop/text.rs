// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `atop -r FILE -P cpu`: a line per CPU and sample.
//!
//! ```text
//! RESET
//! cpu vm 1795283933 2026/11/21 17:58:53 37584 100 0 205111 2122104 3251 1390508 7213 0 2447 2333 0 2596 100 0 0
//! SEP
//! cpu vm 1795283934 2026/11/21 17:58:54 1 100 0 10 35 0 54 0 0 0 0 0 2596 100 0 0
//! SEP
//! ```
//!
//! The fields: label, host, end of the interval in epoch seconds, the same in
//! local time, its length in seconds, ticks per second, number of the CPU;
//! then ticks of system, user, nice, idle, wait, irq, softirq, steal, guest
//! (part of user). `SEP` ends a sample; `RESET` precedes one since boot. Other
//! labels are other activities.

use crate::import::counters::{CpuState, STATES, StateTimes};
use crate::import::frame::import_samples;
use crate::import::line_samples::{LineEvent, LineFormat, LineSamples, SampleRow};
use crate::import::sample::{ImportSample, ImportSummary, duplicate_and_restart_warnings};
use crate::number::{NS_PER_S, cpu_number, whole};
use crate::reader::ImportReader;
use crate::{Fault, Format, Result};
use sandbag_input::head::words;

use super::recording::{AtopRecording, unmarked_warning};

const NEED_CPU: &str = "the label `CPU` is their sum; export with `atop -r FILE -P cpu`";

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::Atop,
    looks_like: |head| {
        let mut lines = head.lines();
        lines
            .next()
            .is_some_and(|line| matches!(line, b"RESET" | b"SEP") || is_labelled(line))
    },
    open: |input| {
        import_samples(Format::Atop, input, |lines| {
            LineSamples::new(lines, Atop::default())
        })
    },
};

/// How the states follow each other behind the CPU.
const ORDER: [CpuState; STATES] = [
    CpuState::System,
    CpuState::User,
    CpuState::Nice,
    CpuState::Idle,
    CpuState::Iowait,
    CpuState::Irq,
    CpuState::Softirq,
    CpuState::Steal,
];

/// A line of any label.
fn is_labelled(line: &[u8]) -> bool {
    let fields: Vec<_> = words(line).take(6).collect();
    let [label, _, epoch, date, time, interval] = fields[..] else {
        return false;
    };
    let divided = |text: &[u8], by| text.split(|b| *b == by).all(|n| whole(n).is_some());
    label.len() == 3
        && whole(epoch).is_some()
        && whole(interval).is_some()
        && date.contains(&b'/')
        && divided(date, b'/')
        && time.contains(&b':')
        && divided(time, b':')
}

#[derive(Default)]
struct Atop {
    recording: AtopRecording,
    /// Whether the sample that is being read is marked as one since boot.
    reset: bool,
    /// How many lines there were that mark samples; a file from which only
    /// the rows were taken has none.
    marks: u64,
    all_rows: u64,
}

#[derive(Debug, Clone, Copy)]
struct AtopRow {
    start_ns: i64,
    end_ns: i64,
    cpu: u32,
    ticks: StateTimes,
}

impl Atop {
    fn row(&mut self, rest: &[u8], sample: &ImportSample) -> Result<SampleRow, Fault> {
        let row = row(rest, &mut self.recording)?;
        let is_of_sample = sample.cells.is_empty() || row.end_ns == sample.end_ns;
        // Samples since boot are not looked at: their ticks count as odd.
        let cell = if self.reset && is_of_sample {
            None
        } else {
            self.recording.cell(&row.ticks)
        };
        Ok(SampleRow {
            start_ns: Some(row.start_ns),
            end_ns: row.end_ns,
            cpu: row.cpu,
            cell,
        })
    }
}

/// What stands behind the label of a row.
fn row(rest: &[u8], recording: &mut AtopRecording) -> Result<AtopRow, Fault> {
    let mut fields = words(rest);
    let mut next = |what: &str| {
        let field = fields.next();
        field.ok_or_else(|| {
            Fault::unexpected(what, "the end of the line; the file may be cut short")
        })
    };
    let wrong = |expected: &str, found: &[u8]| Fault::syntax(expected, found);
    let seconds = |text: &[u8]| {
        let ns = whole(text)?.checked_mul(NS_PER_S)?;
        i64::try_from(ns).ok()
    };
    recording.host.is(next("a host")?)?;
    let epoch = next("epoch seconds")?;
    let end_ns = seconds(epoch).ok_or_else(|| wrong("epoch seconds", epoch))?;
    next("a date")?;
    next("a time")?;
    let interval = next("an interval in seconds")?;
    let interval_ns = seconds(interval).ok_or_else(|| wrong("an interval in seconds", interval))?;
    next("ticks per second")?;
    let name = next("the number of a CPU")?;
    let cpu = cpu_number(name).ok_or_else(|| wrong("the number of a CPU", name))?;
    recording.has_steal = recording.has_steal || fields.clone().count() >= STATES;
    let mut ticks = [0; STATES];
    for state in ORDER {
        // Kernels and versions that know no steal.
        if state == CpuState::Steal && fields.clone().next().is_none() {
            break;
        }
        let field = fields.next().ok_or_else(|| {
            Fault::unexpected(
                "at least seven counters (system user nice idle wait irq softirq)",
                "the end of the line; the file may be cut short",
            )
        })?;
        ticks[state as usize] = whole(field).ok_or_else(|| wrong("a number of ticks", field))?;
    }
    Ok(AtopRow {
        start_ns: end_ns.saturating_sub(interval_ns),
        end_ns,
        cpu,
        ticks,
    })
}

impl LineFormat for Atop {
    /// By `SEP`. Rows without it were picked out by a program, which ends its lines.
    const SHOWS_ITS_END: bool = true;

    fn line(&mut self, line: &[u8], sample: &mut ImportSample) -> Result<LineEvent, Fault> {
        if let Some(rest) = line.strip_prefix(b"cpu ") {
            return self.row(rest, sample).map(LineEvent::Row);
        }
        match line.trim_ascii_end() {
            b"SEP" => {
                self.marks += 1;
                if !sample.cells.is_empty() {
                    return Ok(LineEvent::Sample);
                }
                self.reset = false;
            }
            b"RESET" => {
                self.marks += 1;
                self.reset = true;
            }
            line if line.starts_with(b"CPU ") => self.all_rows += 1,
            _ => {}
        }
        Ok(LineEvent::Nothing)
    }

    fn accept(&mut self, sample: &ImportSample) -> bool {
        let start_ns = sample.start_ns.unwrap_or(sample.end_ns);
        let from_boot = std::mem::take(&mut self.reset)
            || self.marks == 0 && self.recording.counts_from_boot(start_ns, sample.end_ns);
        if from_boot {
            self.recording.since_boot += 1;
        } else {
            self.recording.last_ns = Some(sample.end_ns);
        }
        !from_boot
    }

    fn ends_with_file(&self) -> Result<(), Fault> {
        if self.marks == 0 {
            return Ok(());
        }
        Err(Fault::unexpected(
            "`SEP` after the last sample",
            "the end of the file; it was cut short",
        ))
    }

    fn end(&self) -> Result<(), Fault> {
        if self.recording.last_ns.is_some() {
            return Ok(());
        }
        Err(if self.recording.since_boot > 0 {
            Fault::OneSnapshot
        } else if self.all_rows > 0 {
            Fault::NoSingleCpu(NEED_CPU)
        } else {
            Fault::lacks(
                Format::Atop,
                "it has no lines with the label `cpu`; export with `atop -r FILE -P cpu`",
            )
        })
    }

    fn about(&self, duplicates: u64) -> ImportSummary {
        let mut warnings = duplicate_and_restart_warnings(duplicates, 0);
        let since_boot = self.recording.since_boot;
        if self.marks == 0 && since_boot > 0 {
            warnings.push(unmarked_warning(since_boot));
        } else if since_boot > 1 {
            // Every file has one at its beginning.
            warnings.push(format!(
                "atop was started anew {} times; the samples since boot that it wrote then \
                 were left out",
                since_boot - 1
            ));
        }
        self.recording.about(warnings)
    }
}
