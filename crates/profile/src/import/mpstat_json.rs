// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mpstat -P ALL -o JSON`.
//!
//! ```text
//! {"sysstat": {"hosts": [{"nodename": "vm", "date": "11/21/26", "statistics": [
//!   {"timestamp": "17:58:54", "cpu-load": [{"cpu": "0", "usr": 35.35, ..., "idle": 54.55}]}
//! ]}]}}
//! ```
//!
//! A document of sysstat as `sadf -j` writes it, but a stamp is a time of day
//! and nothing else: the date stands once in the host, days pass at midnight,
//! and a sample begins at the stamp before it. That of the first one is not
//! in the file; it is taken to last as long as the second.

use std::borrow::Cow;

use serde::Deserialize;

use crate::number::NS_PER_S;
use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, Result};
use sandbag_input::Head;

use super::frame::import_samples;
use super::sample::{BY_MPSTAT, ImportSample, ImportSummary, Samples};
use super::stamp::{self, DayClock};
use super::sysstat_json::{StampReader, StampValue, StampZero, SysstatJson};

const ONE_SAMPLE: &str = "it holds one sample, which says not how long it took (without an \
                          interval mpstat writes the mean since the boot); run \
                          `mpstat -P ALL -o JSON 1`";

const DAY_NS: i64 = 86_400 * NS_PER_S as i64;

pub(super) const READER: ImportReader = ImportReader {
    format: Format::MpstatJson,
    looks_like: |head| head.opens_with(b'{') && head.holds(b"\"sysstat\"") && is_bare(head),
    open: |input| import_samples(Format::MpstatJson, input, MpstatJson::new),
};

/// Whether the first time stamp is a text: sadf's are objects.
fn is_bare(head: &Head<'_>) -> bool {
    let mut after = head.after(b"\"timestamp\"").trim_ascii_start();
    after = after.strip_prefix(b":").unwrap_or_default();
    after.trim_ascii_start().starts_with(b"\"")
}

#[derive(Default)]
struct TimesOfDay(DayClock);

#[derive(Deserialize)]
#[serde(transparent)]
struct Time<'a>(#[serde(borrow)] Cow<'a, str>);

/// Seconds since midnight of `17:58:54` or, in some locales, `05:58:54 PM`.
fn seconds(text: &[u8]) -> Option<i64> {
    let mut words = sandbag_input::head::words(text);
    let time_s = stamp::time_of_day(words.next()?)?;
    match words.next() {
        None => Some(time_s),
        Some(half) => stamp::by_twelve_hours(time_s, half),
    }
}

impl StampReader for TimesOfDay {
    const FORMAT: Format = Format::MpstatJson;
    const NEED_P_ALL: &'static str = "run `mpstat -P ALL -o JSON 1`";
    type Written<'a> = Time<'a>;

    fn stamp_value(&mut self, written: &Time<'_>) -> Result<StampValue, Fault> {
        let time_s = seconds(written.0.as_bytes())
            .ok_or_else(|| Fault::syntax("a time of day such as 17:58:54", written.0.as_bytes()))?;
        Ok(StampValue {
            clock: StampZero::OfDay,
            end_ns: self.0.at(time_s)?,
            interval_ns: None,
        })
    }
}

/// The samples, of which the second is read before the first is given away.
struct MpstatJson {
    samples: SysstatJson<TimesOfDay>,
    begun: bool,
    second: Option<ImportSample>,
    /// A day if mpstat was started before the midnight ahead of its first stamp: the date
    /// is that of its start, and stamps count from there.
    late_ns: i64,
}

impl MpstatJson {
    fn new(lines: Lines) -> Self {
        Self {
            samples: SysstatJson::new(lines),
            begun: false,
            second: None,
            late_ns: 0,
        }
    }

    fn first(&mut self, sample: &mut ImportSample) -> Result<bool> {
        if !self.samples.next_sample(sample)? {
            return Ok(false);
        }
        let mut second = ImportSample::default();
        if !self.samples.next_sample(&mut second)? {
            return Err(self
                .samples
                .nowhere(Fault::lacks(Format::MpstatJson, ONE_SAMPLE)));
        }
        // Stamps are whole seconds, and two may fall into the same one.
        let length_ns = second.end_ns.saturating_sub(sample.end_ns);
        let length_ns = length_ns.max(NS_PER_S as i64);
        sample.start_ns = Some(sample.end_ns.saturating_sub(length_ns));
        // By more than the second to which stamps are cut; no interval is shorter.
        if sample.end_ns.rem_euclid(DAY_NS) < (length_ns - NS_PER_S as i64).max(1) {
            self.late_ns = DAY_NS;
        }
        self.second = Some(second);
        Ok(true)
    }
}

impl Samples for MpstatJson {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        let found = if !std::mem::replace(&mut self.begun, true) {
            self.first(sample)?
        } else if let Some(second) = self.second.take() {
            *sample = second;
            true
        } else {
            self.samples.next_sample(sample)?
        };
        let late = |ns: i64| ns.saturating_add(self.late_ns);
        sample.start_ns = sample.start_ns.map(late);
        sample.end_ns = late(sample.end_ns);
        Ok(found)
    }

    fn about(&self) -> ImportSummary {
        self.samples.about()
    }

    fn here(&self, fault: Fault) -> Error {
        self.samples.here(fault)
    }

    fn remedy_for_times(&self) -> &'static str {
        BY_MPSTAT
    }
}
