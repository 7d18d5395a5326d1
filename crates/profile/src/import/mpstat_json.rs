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

use crate::lines::Lines;
use crate::number::NS_PER_S;
use crate::reader::ImportReader;
use crate::{Error, Fault, Format, Result};
use sandbag_input::Head;

use super::stamp::{self, DayClock};
use super::sysstat_json::SysstatJson;
use super::sysstat_stamps::{StampReader, StampValue, StampZero};
use super::{ImportSample, ImportSummary, Samples, import_samples};

const ONE_SAMPLE: &str = "it holds one sample, which says not how long it took (without an \
                          interval mpstat writes the mean since the boot); run \
                          `mpstat -P ALL -o JSON 1`";

pub(super) const READER: ImportReader = ImportReader {
    format: Format::MpstatJson,
    looks_like: |head| head.opens_with(b'{') && head.holds(b"\"sysstat\"") && is_bare(head),
    open: |input| {
        import_samples(Format::MpstatJson, input, |lines| {
            Box::new(MpstatJson::new(lines))
        })
    },
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
        let time_s = seconds(written.0.as_bytes()).ok_or_else(|| Fault::Syntax {
            expected: "a time of day such as 17:58:54".into(),
            found: crate::error::printable(written.0.as_bytes()),
        })?;
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
}

impl MpstatJson {
    fn new(lines: Lines) -> Self {
        Self {
            samples: SysstatJson::new(lines),
            begun: false,
            second: None,
        }
    }

    fn first(&mut self, sample: &mut ImportSample) -> Result<bool> {
        if !self.samples.next_sample(sample)? {
            return Ok(false);
        }
        let mut second = ImportSample::default();
        if !self.samples.next_sample(&mut second)? {
            return Err(self.samples.nowhere(Fault::Lacks {
                format: Format::MpstatJson,
                why: ONE_SAMPLE.into(),
            }));
        }
        // Stamps are whole seconds, and two may fall into the same one.
        let length_ns = second.end_ns.saturating_sub(sample.end_ns);
        let length_ns = length_ns.max(NS_PER_S as i64);
        sample.start_ns = Some(sample.end_ns.saturating_sub(length_ns));
        self.second = Some(second);
        Ok(true)
    }
}

impl Samples for MpstatJson {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        if !std::mem::replace(&mut self.begun, true) {
            return self.first(sample);
        }
        match self.second.take() {
            Some(second) => {
                *sample = second;
                Ok(true)
            }
            None => self.samples.next_sample(sample),
        }
    }

    fn about(&self) -> ImportSummary {
        self.samples.about()
    }

    fn here(&self, fault: Fault) -> Error {
        self.samples.here(fault)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::Format;
    use crate::testing::{assert_damage_is_answered, loads, message, read};

    fn json(date: &str, statistics: &[String]) -> String {
        format!(
            "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"vm\", {date} \"statistics\": [\n{}\n]}}]}}}}",
            statistics.join(",\n")
        )
    }

    const DATE: &str = "\"date\": \"11/21/26\",";

    /// CPUs and their idle shares.
    fn sample(time: &str, cpus: &[(&str, f64)]) -> String {
        let rows: Vec<String> = cpus
            .iter()
            .map(|(cpu, idle)| {
                format!(
                    "{{\"cpu\": \"{cpu}\", \"usr\": {:.2}, \"steal\": 0.00, \"idle\": {idle:.2}}}",
                    100.0 - idle
                )
            })
            .collect();
        format!(
            "{{\"timestamp\": \"{time}\", \"cpu-load\": [{}], \"node-load\": [{{\"node\": \"0\"}}]}}",
            rows.join(",")
        )
    }

    #[test]
    fn over_midnight_with_cpus_that_come_and_go() {
        let p = read(&json(
            DATE,
            &[
                sample("23:59:58", &[("all", 50.0), ("0", 50.0)]),
                sample("00:00:00", &[("all", 50.0), ("0", 40.0), ("1", 10.0)]),
                sample("00:00:03", &[("all", 50.0), ("1", 20.0)]),
            ],
        ));
        assert_eq!(p.header.format, Format::MpstatJson);
        assert_eq!(p.header.host.as_deref(), Some("vm"));
        assert_eq!(
            p.header.begins_at.unwrap().to_string(),
            "2026-11-21T23:59:56"
        );
        assert_eq!(
            loads(&p),
            [
                (2, vec![Some(50.0), None]),
                (4, vec![Some(60.0), Some(90.0)]),
                (7, vec![None, Some(80.0)]),
            ]
        );
        assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
    }

    #[rstest]
    #[case("\"date\": \"2026-11-21\",", "10:00:01", Some("2026-11-21T10:00:00"))]
    #[case(DATE, "10:00:01 PM", Some("2026-11-21T22:00:00"))]
    #[case(DATE, "12:00:01 AM", Some("2026-11-21T00:00:00"))]
    #[case("\"date\": \"21/11/26\",", "10:00:01", None)]
    #[case("\"date\": 7,", "10:00:01", None)]
    #[case("", "10:00:01", None)]
    fn dates_and_clocks(#[case] date: &str, #[case] time: &str, #[case] begins: Option<&str>) {
        let next = time.replacen(":01", ":02", 1);
        let rows = [("0", 50.0)];
        let p = read(&json(date, &[sample(time, &rows), sample(&next, &rows)]));
        assert_eq!(p.header.begins_at.map(|b| b.to_string()).as_deref(), begins);
        assert_eq!(loads(&p), [(1, vec![Some(50.0)]), (2, vec![Some(50.0)])]);
    }

    #[test]
    fn two_samples_in_one_second() {
        let p = read(&json(
            DATE,
            &[
                sample("10:00:01", &[("0", 50.0)]),
                sample("10:00:01", &[("0", 60.0)]),
                sample("10:00:02", &[("0", 70.0)]),
            ],
        ));
        assert_eq!(loads(&p), [(1, vec![Some(50.0)]), (2, vec![Some(30.0)])]);
        assert!(p.warnings[0].contains("1 samples have the stamp"));
    }

    #[test]
    fn sadf_is_told_from_mpstat() {
        let mpstat = json(DATE, &[sample("10:00:01", &[("0", 50.0)])]);
        let sadf = mpstat.replace(
            "\"10:00:01\"",
            "{\"date\": \"2026-11-21\", \"time\": \"10:00:01\", \"utc\": 1, \"interval\": 1}",
        );
        let tight = mpstat.replace("\": ", "\":");
        for (text, format) in [
            (&mpstat, Format::MpstatJson),
            (&tight, Format::MpstatJson),
            (&sadf, Format::SadfJson),
        ] {
            assert_eq!(Format::detect(text.as_bytes()), Some(format));
        }
    }

    #[test]
    fn rejects() {
        let text = json(
            DATE,
            &[
                sample("10:00:01", &[("0", 50.0)]),
                sample("10:00:02", &[("0", 60.0)]),
            ],
        );
        for (from, to, expected) in [
            ("10:00:02", "09:59:59", "in:3: time 09:59:59 does not come"),
            ("10:00:02", "noon", "in:3: expected a time of day such as"),
            ("10:00:02", "10:00:02 UTC", "in:3: expected a time of day"),
            ("60.00", "160.0", "in:3: %idle 160 is not between"),
            ("\"0\"", "\"all\"", "run `mpstat -P ALL -o JSON 1`"),
            (
                "cpu-load",
                "node-load",
                "in: mpstat-json: there is no `cpu-load`",
            ),
            ("\"vm\",", "\"vm\", \"date\": \"\",", "`date` stands twice"),
        ] {
            let got = message(&text.replace(from, to), Format::MpstatJson);
            assert!(got.contains(expected), "{got}");
        }
        let one = json(DATE, &[sample("10:00:01", &[("0", 50.0)])]);
        let got = message(&one, Format::MpstatJson);
        assert!(got.contains("it holds one sample"), "{got}");
        for cut in 2..text.len() - 1 {
            let got = message(&text[..cut], Format::MpstatJson);
            assert!(got.contains("cut short"), "{cut}: {got}");
        }
    }

    #[test]
    fn damage_is_answered() {
        let good = include_bytes!("../../tests/fixtures/tools/mpstat.json");
        assert_damage_is_answered(good, Format::MpstatJson);
    }
}
