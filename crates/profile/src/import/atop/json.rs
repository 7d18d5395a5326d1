// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `atop -r FILE -J cpu`: one JSON object per line and sample.
//!
//! ```text
//! {"host": "vm", "timestamp": 1795283934, "elapsed": 1, "cpu": [{"cpuid": 0, "stime": 10,
//!  "utime": 35, "ntime": 0, "itime": 54, "wtime": 0, "Itime": 0, "Stime": 0, "steal": 0, ...}]}
//! ```
//!
//! What `RESET` marks in the text, nothing marks here.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::import::frame::import_samples;
use crate::import::line_samples::{LineEvent, LineFormat, LineSamples};
use crate::import::sample::{ImportSample, ImportSummary, duplicate_and_restart_warnings, slack};
use crate::number::{MAX_CPU, NS_PER_S};
use crate::reader::ImportReader;
use crate::{Fault, Format, Result};

use super::recording::{AtopRecording, unmarked_warning};

const NEED_CPU: &str = "the key `CPU` is their sum; export with `atop -r FILE -J cpu`";

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::AtopJson,
    // The beginning of every line, however long it is.
    looks_like: |head| {
        let first = head.first();
        let names = [&b"\"host\""[..], b"\"timestamp\"", b"\"elapsed\""];
        let beginning = &first[..first.len().min(400)];
        first.starts_with(b"{")
            && names
                .iter()
                .all(|name| memchr::memmem::find(beginning, name).is_some())
    },
    open: |input| {
        import_samples(Format::AtopJson, input, |lines| {
            LineSamples::new(lines, AtopJson::default())
        })
    },
};

#[derive(Deserialize)]
struct AtopLine<'a> {
    #[serde(borrow)]
    host: Cow<'a, str>,
    /// The end, epoch seconds.
    timestamp: u32,
    /// The length of the interval, seconds.
    elapsed: u32,
    #[serde(default)]
    cpu: Vec<AtopCpu>,
    #[serde(rename = "CPU")]
    sum: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct AtopCpu {
    cpuid: u32,
    stime: u64,
    utime: u64,
    ntime: u64,
    itime: u64,
    #[serde(default)]
    wtime: u64,
    #[serde(rename = "Itime", default)]
    irq: u64,
    #[serde(rename = "Stime", default)]
    softirq: u64,
    steal: Option<u64>,
}

impl AtopCpu {
    fn cell(&self, recording: &mut AtopRecording) -> Option<crate::ProfileCell> {
        // In the order of `CpuState`.
        let ticks = [
            self.utime,
            self.ntime,
            self.stime,
            self.itime,
            self.wtime,
            self.irq,
            self.softirq,
            self.steal.unwrap_or(0),
        ];
        recording.cell(&ticks)
    }
}

#[derive(Default)]
struct AtopJson {
    recording: AtopRecording,
    sums: u64,
    duplicates: u64,
}

impl LineFormat for AtopJson {
    /// By the bracket that closes its object.
    const SHOWS_ITS_END: bool = true;

    fn line(&mut self, text: &[u8], sample: &mut ImportSample) -> Result<LineEvent, Fault> {
        if text.trim_ascii().is_empty() {
            return Ok(LineEvent::Nothing);
        }
        let line: AtopLine<'_> = serde_json::from_slice(text).map_err(|e| {
            // The line is known better from the file.
            let (message, column) = (e.to_string(), e.column());
            let message = message.split(" at line ").next().unwrap_or_default();
            let cut = if e.is_eof() {
                "; the file was cut short"
            } else {
                ""
            };
            Fault::Json(format!("{message} (at byte {column} of the line){cut}"))
        })?;
        self.recording.host.is(line.host.as_bytes())?;
        self.sums += u64::from(line.sum.is_some());
        if line.cpu.is_empty() {
            return Ok(LineEvent::Nothing);
        }
        let ns = |seconds: u32| i64::from(seconds) * NS_PER_S as i64;
        sample.end_ns = ns(line.timestamp);
        let start_ns = sample.end_ns - ns(line.elapsed);
        sample.start_ns = Some(start_ns);
        sample.slack_ns = slack(ns(line.elapsed));
        if self.recording.counts_from_boot(start_ns, sample.end_ns) {
            self.recording.since_boot += 1;
            return Ok(LineEvent::Nothing);
        }
        self.recording.last_ns = Some(sample.end_ns);
        for row in &line.cpu {
            let cpu = row.cpuid;
            if cpu > MAX_CPU {
                return Err(Fault::unexpected("the number of a CPU", format!("`{cpu}`")));
            }
            self.recording.has_steal |= row.steal.is_some();
            if sample.has(cpu) {
                self.duplicates += 1;
                continue;
            }
            sample.cells.push((cpu, row.cell(&mut self.recording)));
        }
        Ok(LineEvent::Sample)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.recording.last_ns.is_some() {
            return Ok(());
        }
        Err(if self.recording.since_boot > 0 {
            Fault::OneSnapshot
        } else if self.sums > 0 {
            Fault::NoSingleCpu(NEED_CPU)
        } else {
            Fault::lacks(
                Format::AtopJson,
                "no line has the key `cpu`; export with `atop -r FILE -J cpu`",
            )
        })
    }

    fn about(&self, _: u64) -> ImportSummary {
        let mut warnings = duplicate_and_restart_warnings(self.duplicates, 0);
        let since_boot = self.recording.since_boot;
        if since_boot > 0 {
            warnings.push(unmarked_warning(since_boot));
        }
        self.recording.about(warnings)
    }
}
