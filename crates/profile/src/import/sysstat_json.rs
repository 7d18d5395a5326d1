// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON documents of sysstat: `sadf -j` and `mpstat -o JSON`.
//!
//! Both are `sysstat.hosts[].statistics[]`, an element per stamp, and in it
//! `cpu-load`, a row per CPU. They differ in how they write the stamp
//! ([`StampReader`]).

use std::borrow::Cow;

use serde::Deserialize;

use crate::number::cpu_number;
use crate::reader::Lines;
use crate::{Error, Fault, Format, ProfileCell, Result};

use super::json::{Elements, Path};
use super::sample::{
    BY_SADF, ImportSample, ImportSummary, Samples, duplicate_and_restart_warnings, slack,
};
use super::{percent, stamp};

/// How one of the programs writes its stamps.
pub(super) trait StampReader: Default + Send {
    const FORMAT: Format;
    /// How to get rows of single CPUs.
    const NEED_P_ALL: &'static str;
    /// A stamp as it stands in the document.
    type Written<'a>: Deserialize<'a>;

    fn stamp_value(&mut self, written: &Self::Written<'_>) -> Result<StampValue, Fault>;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StampValue {
    /// On which clock.
    pub(super) clock: StampZero,
    pub(super) end_ns: i64,
    /// `None` if it does not say.
    pub(super) interval_ns: Option<i64>,
}

/// Where the zero of a stamp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampZero {
    /// 1970.
    Utc,
    /// 1970 by the clock on the machine's wall.
    Local,
    /// Midnight of the host's date, by the same clock.
    OfDay,
}

/// What leads to the samples.
const PATH: &Path = &[
    Some(b"sysstat"),
    Some(b"hosts"),
    None,
    Some(b"statistics"),
    None,
];

#[derive(Deserialize)]
struct SysstatStatistics<'a, Stamp> {
    timestamp: Stamp,
    /// Absent where only other activities were exported; by its second name in what older
    /// versions write for `-u ALL`.
    #[serde(borrow, rename = "cpu-load", alias = "cpu-load-all", default)]
    cpu_load: Vec<CpuLoad<'a>>,
}

#[derive(Deserialize)]
struct CpuLoad<'a> {
    #[serde(borrow)]
    cpu: Cow<'a, str>,
    idle: f64,
    #[serde(default)]
    iowait: f64,
    steal: Option<f64>,
    // The two sets of fields; only looked at to tell an offline CPU and values that cannot be.
    #[serde(default)]
    user: f64,
    #[serde(default)]
    usr: f64,
    #[serde(default)]
    nice: f64,
    #[serde(default)]
    system: f64,
    #[serde(default)]
    sys: f64,
    #[serde(default)]
    irq: f64,
    #[serde(default)]
    soft: f64,
    #[serde(default)]
    guest: f64,
    #[serde(default)]
    gnice: f64,
}

impl CpuLoad<'_> {
    fn cell(&self) -> Option<ProfileCell> {
        let steal = self.steal.unwrap_or(0.0);
        let rounding = percent::ROUNDING_PCT;
        let others = [
            self.user,
            self.usr,
            self.nice,
            self.system,
            self.sys,
            self.irq,
            self.soft,
            self.guest,
            self.gnice,
        ];
        percent::cell(self.idle, self.iowait, steal, rounding, others.into_iter())
    }
}

pub(super) struct SysstatJson<S> {
    elements: Elements,
    text: Vec<u8>,
    stamps: S,
    /// That of the last stamp.
    clock: StampZero,
    all_rows: u64,
    cpu_rows: u64,
    duplicates: u64,
    has_steal: bool,
    done: bool,
}

impl<S: StampReader> SysstatJson<S> {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            elements: Elements::new(PATH, lines.into_parts()),
            text: Vec::new(),
            stamps: S::default(),
            clock: StampZero::Utc,
            all_rows: 0,
            cpu_rows: 0,
            duplicates: 0,
            has_steal: false,
            done: false,
        }
    }

    /// Midnight of the host's date, if it is one.
    fn midnight_ns(&self) -> Option<i64> {
        let date = self.elements.host_date.as_deref()?.as_bytes();
        let date = stamp::iso_date(date).or_else(|| stamp::us_date(date))?;
        stamp::midnight_ns(date)
    }

    fn stamp(&mut self, stamped: StampValue, sample: &mut ImportSample) {
        self.clock = stamped.clock;
        let zero_ns = match stamped.clock {
            StampZero::Utc | StampZero::Local => 0,
            StampZero::OfDay => self.midnight_ns().unwrap_or(0),
        };
        sample.end_ns = zero_ns.saturating_add(stamped.end_ns);
        let start = |interval_ns| sample.end_ns.saturating_sub(interval_ns);
        sample.start_ns = stamped.interval_ns.map(start);
        sample.slack_ns = slack(stamped.interval_ns.unwrap_or(0));
    }

    /// The fault of the document as a whole.
    pub(super) fn nowhere(&self, fault: Fault) -> Error {
        self.elements.nowhere(fault)
    }

    fn read_element(&mut self, text: &[u8], sample: &mut ImportSample) -> Result<()> {
        let s: SysstatStatistics<'_, S::Written<'_>> =
            serde_json::from_slice(text).map_err(|e| {
                // Its line counts from the beginning of the element.
                self.elements.in_element(Fault::json(&e), e.line() as u64)
            })?;
        let stamped = self.stamps.stamp_value(&s.timestamp);
        let stamped = stamped.map_err(|fault| self.elements.in_element(fault, 1))?;
        self.stamp(stamped, sample);
        let here = |fault| self.elements.in_element(fault, 1);
        for row in &s.cpu_load {
            if matches!(&*row.cpu, "all" | "-1") {
                self.all_rows += 1;
                continue;
            }
            self.cpu_rows += 1;
            self.has_steal |= row.steal.is_some();
            let cpu = cpu_number(row.cpu.as_bytes()).ok_or_else(|| {
                here(Fault::unexpected(
                    "the number of a CPU",
                    format!("{:?}", &*row.cpu),
                ))
            })?;
            if sample.has(cpu) {
                self.duplicates += 1;
                continue;
            }
            sample.cells.push((cpu, row.cell()));
        }
        Ok(())
    }
}

impl<S: StampReader> Samples for SysstatJson<S> {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        while !self.done {
            if !self.elements.next_element(&mut self.text)? {
                self.done = true;
                if self.cpu_rows == 0 {
                    let fault = if self.all_rows > 0 {
                        Fault::NoSingleCpu(S::NEED_P_ALL)
                    } else {
                        Fault::lacks(
                            S::FORMAT,
                            "there is no `cpu-load` in sysstat.hosts[].statistics[]",
                        )
                    };
                    return Err(self.elements.nowhere(fault));
                }
                break;
            }
            // Lent out for the call: the rows borrow from it.
            let text = std::mem::take(&mut self.text);
            self.read_element(&text, sample)?;
            self.text = text;
            if !sample.cells.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.elements.host.name(),
            local: self.clock != StampZero::Utc,
            undated: self.clock == StampZero::OfDay && self.midnight_ns().is_none(),
            has_steal: self.has_steal,
            warnings: duplicate_and_restart_warnings(self.duplicates, self.elements.restarts),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.elements.in_element(fault, 1)
    }

    fn remedy_for_times(&self) -> &'static str {
        BY_SADF
    }
}
