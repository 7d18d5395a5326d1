// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sadf -j`.
//!
//! Stamps are `{"date", "time", "utc": 0|1, "interval"}` up to sysstat 12.6
//! and `{"date", "time", "tz": "UTC"|..., "interval"}` since 12.7.1; they are
//! the end of the interval.

use std::borrow::Cow;

use serde::Deserialize;

use crate::lines::Lines;
use crate::number::{NS_PER_S, cpu_number};
use crate::reader::Reader;
use crate::{Cell, Error, Fault, Format, Result};

use super::json::{Elements, Next, Path};
use super::json_quick::Quick;
use super::sadf_csv::{duplicate_and_restart_warnings, slack};
use super::{About, Pass, Sample, Samples, percent, sampled, stamp};

const NEED_P_ALL: &str = "export with `-P ALL`, as in `sadf -j FILE -- -P ALL`";

/// Also of any other JSON object: what is wrong with it is for the reader to
/// say.
pub(super) const READER: Reader = Reader {
    format: Format::SadfJson,
    looks_like: |head| head.opens_with(b'{'),
    open: |input| {
        sampled(Format::SadfJson, input, |lines, pass| {
            Box::new(SadfJson::new(lines, pass))
        })
    },
};

/// What leads to the samples.
const PATH: &Path = &[
    Some(b"sysstat"),
    Some(b"hosts"),
    None,
    Some(b"statistics"),
    None,
];

#[derive(Deserialize)]
struct Statistics<'a, Row> {
    #[serde(borrow)]
    timestamp: Timestamp<'a>,
    /// Absent where only other activities were exported.
    #[serde(rename = "cpu-load", default = "Vec::new")]
    cpu_load: Vec<Row>,
}

/// What the first pass wants of a row.
#[derive(Deserialize)]
struct CpuName<'a> {
    #[serde(borrow)]
    cpu: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct Timestamp<'a> {
    #[serde(borrow)]
    date: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    utc: Option<u8>,
    #[serde(borrow)]
    tz: Option<Cow<'a, str>>,
    interval: i64,
}

/// What a time stamp says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamped {
    pub(super) end_ns: i64,
    interval_ns: i64,
    local: bool,
}

impl Timestamp<'_> {
    /// `None` if date or time are none.
    pub(super) fn stamped(&self, days: &mut stamp::Days) -> Option<Stamped> {
        let zone = match (&self.tz, self.utc) {
            (Some(tz), _) => tz.as_bytes(),
            (None, Some(0)) => b"",
            (None, _) => b"UTC",
        };
        let stamp = days.civil(self.date.as_bytes(), self.time.as_bytes(), zone)?;
        Some(Stamped {
            end_ns: stamp.ns,
            interval_ns: self.interval.max(1).saturating_mul(NS_PER_S as i64),
            local: stamp.local,
        })
    }
}

#[derive(Deserialize)]
struct CpuLoad<'a> {
    #[serde(borrow)]
    cpu: Cow<'a, str>,
    idle: f64,
    #[serde(default)]
    iowait: f64,
    #[serde(default)]
    steal: f64,
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
    fn cell(&self) -> Result<Option<Cell>, Fault>;
}

impl Row for CpuName<'_> {
    fn cpu(&self) -> &str {
        &self.cpu
    }
    fn cell(&self) -> Result<Option<Cell>, Fault> {
        Ok(None)
    }
}

impl Row for CpuLoad<'_> {
    fn cpu(&self) -> &str {
        &self.cpu
    }
    fn cell(&self) -> Result<Option<Cell>, Fault> {
        percent::cell(self.idle, self.iowait, self.steal, || self.others())
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

pub(super) struct SadfJson {
    elements: Elements,
    pass: Pass,
    text: Vec<u8>,
    quick: Quick,
    days: stamp::Days,
    local: bool,
    all_rows: u64,
    cpu_rows: u64,
    duplicates: u64,
    done: bool,
}

impl SadfJson {
    pub(super) fn new(lines: Lines, pass: Pass) -> Self {
        Self {
            elements: Elements::new(PATH, lines.into_parts()),
            pass,
            text: Vec::new(),
            quick: Quick::default(),
            days: stamp::Days::default(),
            local: false,
            all_rows: 0,
            cpu_rows: 0,
            duplicates: 0,
            done: false,
        }
    }

    fn stamp(&mut self, stamped: Stamped, sample: &mut Sample) {
        self.local = stamped.local;
        sample.end_ns = stamped.end_ns;
        sample.start_ns = Some(stamped.end_ns.saturating_sub(stamped.interval_ns));
        sample.slack_ns = slack(stamped.interval_ns);
    }

    fn read_element<'a, R: Row + Deserialize<'a>>(
        &mut self,
        text: &'a [u8],
        sample: &mut Sample,
    ) -> Result<()> {
        let s: Statistics<'a, R> = serde_json::from_slice(text).map_err(|e| {
            // Its line counts from the beginning of the element.
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            self.elements
                .in_element(Fault::Json(message.to_owned()), e.line() as u64)
        })?;
        let t = s.timestamp;
        let stamped = t.stamped(&mut self.days).ok_or_else(|| Fault::Syntax {
            expected: "a date and a time such as 2026-11-21, 01:10:53".into(),
            found: format!("{}, {}", t.date, t.time),
        })?;
        self.stamp(stamped, sample);
        let here = |fault| self.elements.in_element(fault, 1);
        for row in &s.cpu_load {
            if matches!(row.cpu(), "all" | "-1") {
                self.all_rows += 1;
                continue;
            }
            self.cpu_rows += 1;
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

impl Samples for SadfJson {
    fn next_sample(&mut self, sample: &mut Sample) -> Result<bool> {
        sample.cells.clear();
        while !self.done {
            let mut understood = None;
            let next = self.elements.next_element(&mut self.text, |text| {
                let found = self.quick.element(text, self.pass, &mut self.days, sample);
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
                        Fault::NoSingleCpu(NEED_P_ALL)
                    } else {
                        Fault::WrongFormat {
                            named: Format::SadfJson,
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
            host: self.elements.host.clone(),
            local: self.local,
            undated: false,
            warnings: duplicate_and_restart_warnings(self.duplicates, self.elements.restarts),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.elements.in_element(fault, 1)
    }
}
