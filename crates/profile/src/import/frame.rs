// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the samples of a recording to a profile: what every sampled format shares.

use std::collections::BTreeSet;

use crate::reader::{Input, Lines};
use crate::usual_step::Lengths;
use crate::{Begin, BoxSteps, Fault, Format, ProfileHeader, Result};

use super::sample::{ImportSample, ImportSummary, Samples};
use super::timeline::Timeline;

/// In which lengths of samples are counted: the clocks of recorders vary by less.
pub(super) const LENGTH_UNIT_NS: u64 = 1_000_000;

/// Opens a sampled recording.
pub(super) fn import_samples<S: Samples + 'static>(
    format: Format,
    input: &Input<'_>,
    samples: impl Fn(Lines) -> S,
) -> Result<BoxSteps> {
    let lines = input.lines;
    let mut scan = samples(lines()?);
    let mut sample = ImportSample::default();
    let mut cpus = BTreeSet::new();
    let (mut begin_ns, mut last_ns) = (None, None);
    let (mut lengths, mut count) = (Lengths::default(), 0);
    while scan.next_sample(&mut sample)? {
        cpus.extend(sample.cells.iter().map(|(cpu, _)| *cpu));
        begin_ns.get_or_insert(sample.start_ns.unwrap_or(sample.end_ns));
        let start_ns = sample.start_ns.or(last_ns).unwrap_or(sample.end_ns);
        if let Ok(ns @ 1..) = u64::try_from(sample.end_ns.saturating_sub(start_ns)) {
            lengths.add(ns / LENGTH_UNIT_NS);
            count += 1;
        }
        last_ns = Some(sample.end_ns);
    }
    let usual = lengths.middle().filter(|length| count > 2 && *length > 0);
    let usual_ns = usual.map(|length| length * LENGTH_UNIT_NS);
    let about = scan.about();
    let Some(begin_ns) = begin_ns else {
        return Err(lines()?.nowhere(Fault::wrong_format(
            format,
            "it holds no sample of CPU load",
        )));
    };
    input.check_machine(about.host.as_deref())?;
    let header = ProfileHeader {
        cpus: cpus.into_iter().collect(),
        format,
        host: about.host.clone(),
        begins_at: begin(&about, begin_ns.saturating_sub(scan.ahead_of_utc_ns())),
        has_steal: about.has_steal,
    };
    let again = Box::new(samples(lines()?));
    Ok(Box::new(Timeline::new(again, header, begin_ns, usual_ns)))
}

pub(super) fn begin(about: &ImportSummary, begin_ns: i64) -> Option<Begin> {
    let utc = jiff::Timestamp::from_nanosecond(i128::from(begin_ns)).ok()?;
    if about.undated {
        None
    } else if about.local {
        Some(Begin::Local(
            utc.to_zoned(jiff::tz::TimeZone::UTC).datetime(),
        ))
    } else {
        Some(Begin::Utc(utc))
    }
}
