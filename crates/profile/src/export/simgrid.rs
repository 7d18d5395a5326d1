// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SimGrid's availability traces, one per CPU.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use crate::{Fault, Result, Steps};
use sandbag_input::{Existing, NewFile};
use sandbag_linux::file_limit;
use sandbag_ui::quantity::plain_seconds;

use super::report::{ExportReport, io};

/// What every trace begins with; the reader here knows it again.
pub(crate) const FIRST_LINE: &str = "# availability of one CPU, written by sandbag";

/// The trace of a profile of one CPU.
pub(super) fn write(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    match steps.header().cpus.len() {
        1 => traces(steps, &mut [AvailabilityWriter::new(out)]),
        count => Err(Fault::argument(
            "number of CPUs for one SimGrid trace",
            count,
            "1; each CPU takes a file of its own",
        )
        .into()),
    }
}

/// One availability trace being written: `<second> <value>` lines.
struct AvailabilityWriter<W> {
    out: W,
    last: Option<f64>,
}

impl<W: Write> AvailabilityWriter<W> {
    fn new(out: W) -> Self {
        Self { out, last: None }
    }

    fn at(&mut self, ns: u64, value: f64) -> std::io::Result<bool> {
        if self.last == Some(value) {
            return Ok(false);
        }
        self.last = Some(value);
        writeln!(self.out, "{} {value}", plain_seconds(ns))?;
        Ok(true)
    }
}

/// Availability is what is left of the wall time: (1 - steal) (1 - load).
/// After the end the CPU is free.
fn traces<W: Write>(
    steps: &mut dyn Steps,
    traces: &mut [AvailabilityWriter<W>],
) -> Result<ExportReport> {
    let mut report = ExportReport::default();
    let (mut unknown_ns, mut end_ns) = (0u64, 0);
    for trace in traces.iter_mut() {
        writeln!(trace.out, "{FIRST_LINE}").map_err(io)?;
    }
    while let Some(step) = steps.next_step()? {
        for (trace, cell) in traces.iter_mut().zip(&step.cells) {
            let value = match cell {
                Some(c) => (1.0 - c.steal_pct / 100.0) * (1.0 - c.load_pct / 100.0),
                None => {
                    unknown_ns = unknown_ns.saturating_add(step.length_ns());
                    1.0
                }
            };
            // Six decimals of a share are the four of a percentage.
            let value = (value * 1e6).round() / 1e6;
            report.steps += u64::from(trace.at(step.start_ns, value).map_err(io)?);
        }
        end_ns = step.end_ns;
    }
    for trace in traces.iter_mut() {
        trace.at(end_ns, 1.0).map_err(io)?;
        // A comment to SimGrid; the reader here knows it.
        writeln!(trace.out, "# end {}", plain_seconds(end_ns)).map_err(io)?;
        trace.out.flush().map_err(io)?;
    }
    report
        .lost
        .push("a trace has no end: it says that the CPU is free from there on".into());
    if unknown_ns > 0 {
        report.lost.push(format!(
            "{} s (summed over the CPUs) of unknown load were written as free",
            plain_seconds(unknown_ns)
        ));
    }
    Ok(report)
}

/// Writes SimGrid availability traces (the files that `speed_file` or
/// `availability_file` of a host name), one per CPU, beside each other:
/// `day.txt` becomes `day.cpu0.txt`, `day.cpu1.txt` ...
///
/// # Errors
/// The stream's and those of writing, with the file.
pub fn export_simgrid(
    steps: &mut dyn Steps,
    path: &Path,
    existing: Existing,
) -> Result<ExportReport> {
    // All of them are open at once.
    file_limit::raise();
    let mut traces = Vec::new();
    let mut files = Vec::new();
    for cpu in &steps.header().cpus {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".cpu{cpu}"));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        let file = path.with_file_name(name);
        let created = NewFile::create(&file, existing).map_err(|e| in_file(e, &file))?;
        traces.push(AvailabilityWriter::new(BufWriter::new(created)));
        files.push(file);
    }
    let report = self::traces(steps, &mut traces)?;
    for (trace, file) in traces.into_iter().zip(&files) {
        let whole = trace.out.into_inner().map_err(|e| io(e.into_error()))?;
        whole.finish().map_err(|e| in_file(e, file))?;
    }
    Ok(ExportReport { files, ..report })
}

fn in_file(cause: std::io::Error, file: &Path) -> crate::Error {
    let shown: Arc<str> = file.to_string_lossy().into();
    Fault::Io(cause).at(&shown, None)
}
