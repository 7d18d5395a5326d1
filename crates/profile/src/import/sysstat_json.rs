// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON documents of sysstat: `sadf -j` and `mpstat -o JSON`.
//!
//! Both are `sysstat.hosts[].statistics[]`, an element per stamp, and in it
//! `cpu-load`, a row per CPU. They differ in how they write the stamp
//! ([`Stamps`]).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::lines::Lines;
use crate::number::cpu_number;
use crate::{Cell, Error, Fault, Result};

use super::json::{Elements, Next, Path};
use super::json_quick::Quick;
use super::sysstat_stamps::{Clock, Stamped, Stamps};
use super::{About, Pass, Sample, Samples, duplicate_and_restart_warnings, percent, slack, stamp};

/// What leads to the samples.
const PATH: &Path = &[
    Some(b"sysstat"),
    Some(b"hosts"),
    None,
    Some(b"statistics"),
    None,
];

#[derive(Deserialize)]
struct Statistics<Stamp, Row> {
    timestamp: Stamp,
    /// Absent where only other activities were exported.
    #[serde(rename = "cpu-load", default = "Vec::new")]
    cpu_load: Vec<Row>,
}

/// What the first pass wants of a row.
#[derive(Deserialize)]
struct CpuName<'a> {
    #[serde(borrow)]
    cpu: Cow<'a, str>,
    steal: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct CpuLoad<'a> {
    #[serde(borrow)]
    cpu: Cow<'a, str>,
    idle: f64,
    #[serde(default)]
    iowait: f64,
    steal: Option<f64>,
    // The two sets of fields; only looked at to tell an offline CPU.
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

/// A row of either pass.
trait Row {
    fn cpu(&self) -> &str;
    fn has_steal(&self) -> bool;
    fn cell(&self) -> Result<Option<Cell>, Fault>;
}

impl Row for CpuName<'_> {
    fn cpu(&self) -> &str {
        &self.cpu
    }
    fn has_steal(&self) -> bool {
        self.steal.is_some()
    }
    fn cell(&self) -> Result<Option<Cell>, Fault> {
        Ok(None)
    }
}

impl Row for CpuLoad<'_> {
    fn cpu(&self) -> &str {
        &self.cpu
    }
    fn has_steal(&self) -> bool {
        self.steal.is_some()
    }
    fn cell(&self) -> Result<Option<Cell>, Fault> {
        let steal = self.steal.unwrap_or(0.0);
        percent::cell(self.idle, self.iowait, steal, || self.others())
    }
}

impl CpuLoad<'_> {
    fn others(&self) -> f64 {
        self.user
            + self.usr
            + self.nice
            + self.system
            + self.sys
            + self.irq
            + self.soft
            + self.guest
            + self.gnice
    }
}

pub(super) struct SysstatJson<S> {
    elements: Elements,
    pass: Pass,
    text: Vec<u8>,
    quick: Quick,
    stamps: S,
    /// That of the last stamp.
    clock: Clock,
    all_rows: u64,
    cpu_rows: u64,
    duplicates: u64,
    has_steal: bool,
    done: bool,
}

impl<S: Stamps> SysstatJson<S> {
    pub(super) fn new(lines: Lines, pass: Pass) -> Self {
        Self {
            elements: Elements::new(PATH, lines.into_parts()),
            pass,
            text: Vec::new(),
            quick: Quick::default(),
            stamps: S::default(),
            clock: Clock::Utc,
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

    fn stamp(&mut self, stamped: Stamped, sample: &mut Sample) {
        self.clock = stamped.clock;
        let zero_ns = match stamped.clock {
            Clock::Utc | Clock::Local => 0,
            Clock::OfDay => self.midnight_ns().unwrap_or(0),
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

    fn read_element<'a, R: Row + Deserialize<'a>>(
        &mut self,
        text: &'a [u8],
        sample: &mut Sample,
    ) -> Result<()> {
        let s: Statistics<S::Written<'a>, R> = serde_json::from_slice(text).map_err(|e| {
            // Its line counts from the beginning of the element.
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            self.elements
                .in_element(Fault::Json(message.to_owned()), e.line() as u64)
        })?;
        let stamped = self.stamps.stamped(&s.timestamp);
        let stamped = stamped.map_err(|fault| self.elements.in_element(fault, 1))?;
        self.stamp(stamped, sample);
        let here = |fault| self.elements.in_element(fault, 1);
        for row in &s.cpu_load {
            if matches!(row.cpu(), "all" | "-1") {
                self.all_rows += 1;
                continue;
            }
            self.cpu_rows += 1;
            self.has_steal |= row.has_steal();
            let cpu = cpu_number(row.cpu().as_bytes()).ok_or_else(|| {
                here(Fault::Syntax {
                    expected: "the number of a CPU".into(),
                    found: format!("{:?}", row.cpu()),
                })
            })?;
            if sample.has(cpu) {
                self.duplicates += 1;
                continue;
            }
            let cell = row.cell().map_err(here)?;
            sample.cells.push((cpu, cell));
        }
        Ok(())
    }
}

impl<S: Stamps> Samples for SysstatJson<S> {
    fn next_sample(&mut self, sample: &mut Sample) -> Result<bool> {
        sample.cells.clear();
        while !self.done {
            let mut understood = None;
            let next = self.elements.next_element(&mut self.text, |text| {
                let found = self
                    .quick
                    .element(text, self.pass, &mut self.stamps, sample);
                if found.is_none() {
                    sample.cells.clear();
                }
                let (length, stamped, counts) = found?;
                understood = Some((stamped, counts));
                Some(length)
            })?;
            if next == Next::End {
                self.done = true;
                if self.cpu_rows == 0 {
                    let fault = if self.all_rows > 0 {
                        Fault::NoSingleCpu(S::NEED_P_ALL)
                    } else {
                        Fault::Lacks {
                            format: S::FORMAT,
                            why: "there is no `cpu-load` in sysstat.hosts[].statistics[]".into(),
                        }
                    };
                    return Err(self.elements.nowhere(fault));
                }
                break;
            }
            if let Some((stamped, counts)) = understood {
                self.stamp(stamped, sample);
                self.all_rows += counts.all_rows;
                self.cpu_rows += counts.cpu_rows;
                self.duplicates += counts.duplicates;
                if !sample.cells.is_empty() {
                    return Ok(true);
                }
                continue;
            }
            // Lent out for the call: the rows borrow from it.
            let text = std::mem::take(&mut self.text);
            match self.pass {
                Pass::Cpus => self.read_element::<CpuName<'_>>(&text, sample)?,
                Pass::Loads => self.read_element::<CpuLoad<'_>>(&text, sample)?,
            }
            self.text = text;
            if !sample.cells.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn about(&self) -> About {
        About {
            host: self.elements.host.name(),
            local: self.clock != Clock::Utc,
            undated: self.clock == Clock::OfDay && self.midnight_ns().is_none(),
            has_steal: self.has_steal || self.quick.has_steal,
            warnings: duplicate_and_restart_warnings(self.duplicates, self.elements.restarts),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.elements.in_element(fault, 1)
    }
}
