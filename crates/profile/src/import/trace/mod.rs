// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of clusters: rows of a machine, a stamp and one load for the whole
//! machine.
//!
//! [`formats`] says what the columns and stamps of each trace mean
//! ([`row::TraceFormat`]); all else is here. A file is read twice: [`survey`] finds its
//! machines and their order, then the rows of one machine become steps
//! ([`series`], or [`tasks`] where a machine is the sum of its tasks). Rows of
//! other machines are passed over, and not looked at. Rows of the machine pass
//! through one by one where they ascend; where they do not they are held, 32
//! bytes each, and sorted ([`readings`]).

mod cells;
mod formats;
mod readings;
mod row;
mod series;
mod survey;
mod tasks;
#[cfg(test)]
mod tests;

use crate::reader::{ImportReader, Input};
use crate::{BoxSteps, ProfileHeader, Result};

use super::sample::{BoxSamples, ImportSummary};
use super::timeline::Timeline;
use cells::Cells;
use readings::Readings;
use row::{TraceEpoch, TraceFormat, TraceStamps};
use survey::Survey;

/// Makes readers of formats and of what recognises them.
macro_rules! readers {
    ($($trace:ident $looks_like:expr,)*) => {
        [$(ImportReader {
            format: formats::$trace.format,
            looks_like: $looks_like,
            open: |input| open(&formats::$trace, input),
        },)*]
    };
}

/// In the order in which a file is offered to them.
pub(super) static READERS: [ImportReader; 7] = readers![
    GOOGLE_2011 formats::is_google,
    ALIBABA_2018 formats::is_alibaba_2018,
    AZURE formats::is_azure,
    BITBRAINS |head| head.first().starts_with(b"Timestamp [ms];"),
    CLOUDWATCH formats::is_cloudwatch,
    // Columns of numbers may be anything; these two must be asked for.
    ALIBABA_2017 |_| false,
    PLANETLAB |_| false,
];

fn open(trace: &'static TraceFormat, input: &Input<'_>) -> Result<BoxSteps> {
    let survey = Survey::of(trace, input)?;
    let spread = input.options.spread;
    let cpus = spread.map_or(survey.cpus.max(1), |spread| spread.cpus);
    let about = ImportSummary {
        host: (!survey.machine.is_empty())
            .then(|| String::from_utf8_lossy(&survey.machine).into_owned()),
        local: survey.clock == TraceEpoch::Local,
        undated: survey.clock == TraceEpoch::Unknown,
        has_steal: false,
        warnings: Vec::new(),
    };
    let begin_ns = survey.begin_ns();
    let header = ProfileHeader {
        host: about.host.clone(),
        begins_at: super::frame::begin(&about, begin_ns),
        ..ProfileHeader::new((0..cpus).collect(), trace.format)
    };
    let cells = Cells {
        spread,
        ..Cells::default()
    };
    let readings = Readings::new(trace, (input.lines)()?, survey);
    let samples: BoxSamples = match trace.stamps {
        TraceStamps::Both => Box::new(tasks::Tasks::new(readings, cells)),
        _ => Box::new(series::TraceSeries::new(readings, cells, trace.stamps)),
    };
    Ok(Box::new(Timeline::new(samples, header, begin_ns, None)))
}
