// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of clusters: rows of a machine, a stamp and one load for the whole
//! machine.
//!
//! [`formats`] says what the columns and stamps of each trace mean
//! ([`TraceFormat`]); all else is here. A file is read twice: [`survey`] finds its
//! machines and their order, then the rows of one machine become steps
//! ([`series`], or [`tasks`] where a machine is the sum of its tasks). Rows of
//! other machines are passed over, and not looked at. Rows of the machine pass
//! through one by one where they ascend; where they do not they are held, 32
//! bytes each, and sorted ([`readings`]).

mod formats;
mod readings;
mod series;
mod survey;
mod tasks;
#[cfg(test)]
mod tests;

use crate::reader::Input;
use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Spread};

use super::timeline::Timeline;
use super::{BoxSamples, ImportSummary};
use readings::Readings;
use survey::Survey;

pub(super) use formats::READERS;

/// What one row says of its machine.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TraceReading {
    /// On the clock of the trace.
    stamp_ns: i64,
    /// The end of the interval; only with [`TraceStamps::Both`].
    end_ns: i64,
    /// Percent of the whole machine, 0 or more; NaN where it is not known.
    load_pct: f64,
    /// How many CPUs the machine has; 0 where the trace does not say.
    cpus: u32,
    /// What the stamps count from.
    epoch: TraceEpoch,
}

/// What a stamp is of the interval that its value is the mean of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceStamps {
    Begin,
    End,
    /// Each row is of a task, and has begin and end; a machine is their sum.
    Both,
}

/// How long a value stands for where no other comes soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usual {
    /// As the trace is documented, s.
    Documented(i64),
    /// The median distance of stamps, or if there are none this, s.
    Median(i64),
}

/// What the stamps count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceEpoch {
    Unknown,
    Utc,
    Local,
}

struct TraceFormat {
    format: Format,
    /// The column of the machine's name, from 0; without one a file is of one
    /// machine.
    machine: Option<usize>,
    stamps: TraceStamps,
    usual: Usual,
    /// The value of a row, of which this many were before; `None` for one
    /// without a value.
    reading: fn(&[u8], i64) -> Result<Option<TraceReading>, Fault>,
}

impl TraceFormat {
    /// The machine of a row; `None` if the row ends before it.
    fn machine_of<'a>(&self, row: &'a [u8]) -> Option<&'a [u8]> {
        match self.machine {
            Some(column) => row.split(|b| *b == b',').nth(column),
            None => Some(b""),
        }
    }
}

/// Whether this, the first line of a file, names the columns: some put such a
/// line into traces that have none.
fn is_header(line: &[u8]) -> bool {
    let mut fields = line.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    fields.all(|field| {
        let text = field.strip_prefix(b"\"").unwrap_or(field);
        text.first().is_some_and(u8::is_ascii_alphabetic)
    })
}

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
        begins_at: super::begin(&about, begin_ns),
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

/// Lays the load of the machine on its CPUs.
#[derive(Default)]
struct Cells {
    /// As asked for; else each CPU of the reading has the load of the machine.
    spread: Option<Spread>,
    clipped: u64,
    largest_pct: f64,
    unknown: u64,
}

impl Cells {
    fn fill(&mut self, load_pct: f64, cpus: u32, cells: &mut Vec<(u32, Option<ProfileCell>)>) {
        cells.clear();
        if load_pct.is_nan() {
            self.unknown += 1;
            return;
        }
        if load_pct > 100.0 {
            self.clipped += 1;
            self.largest_pct = self.largest_pct.max(load_pct);
        }
        let spread = self.spread.unwrap_or(Spread {
            cpus: cpus.max(1),
            ..Spread::default()
        });
        let loads = spread.cells(load_pct.min(100.0)).map(Some);
        cells.extend((0..).zip(loads));
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.clipped > 0 {
            all.push(format!(
                "{} values are above 100 % of the machine, up to {:.1}, and were cut to 100",
                self.clipped, self.largest_pct
            ));
        }
        if self.unknown > 0 {
            all.push(format!(
                "{} values are missing or marked as wrong; the load is unknown there",
                self.unknown
            ));
        }
        all
    }
}
