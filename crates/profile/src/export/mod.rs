// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing profiles, and saying what the format could not hold.

mod csv;
mod krash;
mod openmetrics;
mod report;
mod rt_app;
pub(crate) mod simgrid;
#[cfg(test)]
mod tests;

use std::io::{BufWriter, Write};

use crate::{Fault, Format, Result, Steps, native};

pub use report::ExportReport;
use report::io;
pub use simgrid::export_simgrid;

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
