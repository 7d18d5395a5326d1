// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing profiles, and saying what the format could not hold.

mod csv;
mod krash;
mod openmetrics;
mod rt_app;
pub(crate) mod simgrid;
#[cfg(test)]
mod tests;

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::{Error, Fault, Format, Result, Steps, native};

pub use simgrid::export_simgrid;

/// What was written and what was lost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExportReport {
    /// Steps or entries written, per CPU where the format lists by CPU.
    pub steps: u64,
    /// The largest change of a load by rounding, points.
    pub rounding_points: f64,
    /// What the format could not hold, one sentence each.
    pub lost: Vec<String>,
    /// The files written, where the format takes one per CPU.
    pub files: Vec<PathBuf>,
}

impl Format {
    /// Whether profiles can be written as it.
    pub fn is_written(self) -> bool {
        matches!(
            self,
            Self::Native
                | Self::Krash
                | Self::SimGrid
                | Self::CsvLong
                | Self::CsvWide
                | Self::OpenMetrics
                | Self::RtApp
        )
    }
}

fn io(e: std::io::Error) -> Error {
    Fault::Io(e).into()
}

/// Writes a profile as `format`. Most are written as the profile is read; what
/// lists CPU after CPU (KRASH, OpenMetrics, rt-app) is collected first, some
/// bytes per step and CPU. SimGrid takes a file per CPU, here only a profile of
/// one CPU (see [`export_simgrid`]).
///
/// # Errors
/// The stream's, those of writing, or a format that cannot be written.
pub fn export(steps: &mut dyn Steps, format: Format, out: &mut dyn Write) -> Result<ExportReport> {
    match format {
        Format::Native => native_rows(steps, out),
        Format::Krash => krash::write(steps, out),
        Format::SimGrid => simgrid::write(steps, out),
        Format::CsvLong => csv::long(steps, out),
        Format::CsvWide => csv::wide(steps, out),
        Format::OpenMetrics => openmetrics::write(steps, out),
        Format::RtApp => rt_app::write(steps, out),
        _ => Err(Fault::NotWritable(format).into()),
    }
}

fn native_rows(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let header = steps.header().clone();
    let mut report = ExportReport::default();
    let buffered = BufWriter::with_capacity(64 << 10, out);
    let mut writer = native::Writer::new(buffered, &header, header.has_steal, None).map_err(io)?;
    while let Some(step) = steps.next_step()? {
        report.steps += 1;
        writer.step(&step).map_err(io)?;
    }
    writer.finish().map_err(io)?;
    Ok(report)
}
