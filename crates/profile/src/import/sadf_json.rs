// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sadf -j`.
//!
//! Stamps are `{"date", "time", "utc": 0|1, "interval"}` up to sysstat 12.6
//! and `{"date", "time", "tz": "UTC"|..., "interval"}` since 12.7.1; they are
//! the end of the interval.

use std::borrow::Cow;

use serde::Deserialize;

use crate::reader::ImportReader;
use crate::{Fault, Format};

use super::frame::import_samples;
use super::sample::interval_ns;
use super::stamp;
use super::sysstat_json::{StampReader, StampValue, StampZero, SysstatJson};

/// Also of any other JSON object: what is wrong with it is for the reader to
/// say.
pub(super) const READER: ImportReader = ImportReader {
    format: Format::SadfJson,
    looks_like: |head| head.opens_with(b'{') && head.holds(b"\"sysstat\""),
    open: |input| import_samples(Format::SadfJson, input, SysstatJson::<SadfStamps>::new),
};

#[derive(Default)]
struct SadfStamps;

#[derive(Deserialize)]
struct Timestamp<'a> {
    #[serde(borrow)]
    date: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
    utc: Option<u8>,
    #[serde(borrow)]
    tz: Option<Cow<'a, str>>,
    interval: i64,
}

impl Timestamp<'_> {
    /// `None` if date or time are none.
    fn stamp_value(&self) -> Option<StampValue> {
        let zone = match (&self.tz, self.utc) {
            (Some(tz), _) => tz.as_bytes(),
            (None, Some(0)) => b"",
            (None, _) => b"UTC",
        };
        let stamp = stamp::civil(self.date.as_bytes(), self.time.as_bytes(), zone)?;
        Some(StampValue {
            clock: if stamp.local {
                StampZero::Local
            } else {
                StampZero::Utc
            },
            end_ns: stamp.ns,
            interval_ns: interval_ns(self.interval),
        })
    }
}

impl StampReader for SadfStamps {
    const FORMAT: Format = Format::SadfJson;
    const NEED_P_ALL: &'static str = "export with `-P ALL`, as in `sadf -j FILE -- -P ALL`";
    type Written<'a> = Timestamp<'a>;

    fn stamp_value(&mut self, written: &Timestamp<'_>) -> Result<StampValue, Fault> {
        let stamped = written.stamp_value();
        stamped.ok_or_else(|| {
            Fault::unexpected(
                "a date and a time such as 2026-11-21, 01:10:53",
                format!("{}, {}", written.date, written.time),
            )
        })
    }
}
