// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing profiles, and saying what the format could not hold.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::algebra::Resample;
use crate::number::{NS_PER_S, plain_seconds};
use crate::{Error, Fault, Format, Result, Steps, native};

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

fn io(e: std::io::Error) -> Error {
    Fault::Io(e).into()
}

/// Writes a profile as `format`. Native is written as it is read; KRASH lists
/// CPU after CPU, so its entries are collected first (8 bytes each); SimGrid
/// takes a file per CPU, here only a profile of one CPU
/// (see [`export_simgrid`]).
///
/// # Errors
/// The stream's, those of writing, or a format that cannot be written.
pub fn export(steps: &mut dyn Steps, format: Format, out: &mut dyn Write) -> Result<ExportReport> {
    match format {
        Format::Native => native_rows(steps, out),
        Format::Krash => krash(steps, out),
        Format::SimGrid => match steps.header().cpus.len() {
            1 => {
                let mut traces = [Trace::new(out)];
                simgrid(steps, &mut traces)
            }
            _ => Err(Fault::Argument {
                what: "number of CPUs for one SimGrid trace",
                value: steps.header().cpus.len().to_string(),
                must: "1; each CPU takes a file of its own",
            }
            .into()),
        },
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

/// Whole seconds, each the mean of what it covers; whole percents.
fn krash(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let has_steal = steps.header().has_steal;
    let mut watched = Watched::new(steps);
    let mut seconds = Resample::new(&mut watched, NS_PER_S)?;
    let mut entries: Vec<Vec<(u32, u8)>> = vec![Vec::new(); cpus.len()];
    let mut report = ExportReport::default();
    let (mut full, mut unknown, mut end_ns) = (0u64, 0u64, 0);
    while let Some(step) = seconds.next_step()? {
        let second = u32::try_from(step.start_ns / NS_PER_S).map_err(|_| {
            Error::from(Fault::Argument {
                what: "length for KRASH",
                value: plain_seconds(step.end_ns),
                must: "below 2^32 seconds",
            })
        })?;
        for (cell, entries) in step.cells.iter().zip(&mut entries) {
            unknown += u64::from(cell.is_none());
            let load = cell.map_or(0.0, |c| c.load_pct);
            let whole = load.round();
            report.rounding_points = report.rounding_points.max((load - whole).abs());
            let whole = whole as u8;
            if entries.last().is_none_or(|(_, last)| *last != whole) {
                full += u64::from(whole == 100);
                entries.push((second, whole));
                report.steps += 1;
            }
        }
        end_ns = step.end_ns;
    }
    let end_s = end_ns.div_ceil(NS_PER_S);
    if report.rounding_points > 0.0 {
        let by = report.rounding_points;
        report.lost.push(format!(
            "loads were rounded to whole percents, by up to {by:.2} points"
        ));
    }
    if watched.uneven {
        report.lost.push(
            "steps that do not begin and end on whole seconds were averaged over each second"
                .into(),
        );
    }
    if end_s * NS_PER_S != end_ns {
        report.lost.push(format!(
            "the end was moved from {} s to {end_s} s",
            plain_seconds(end_ns)
        ));
    }
    if unknown > 0 {
        report.lost.push(format!(
            "{unknown} unknown loads (CPU times second) were written as 0"
        ));
    }
    if full > 0 {
        report.lost.push(format!(
            "{full} entries ask for 100, of which KRASH itself makes 99"
        ));
    }
    if has_steal {
        report.lost.push("steal is not written".into());
    }
    write_krash(&mut BufWriter::new(out), &cpus, &entries, end_s).map_err(io)?;
    Ok(report)
}

fn write_krash(
    out: &mut dyn Write,
    cpus: &[u32],
    entries: &[Vec<(u32, u8)>],
    end_s: u64,
) -> std::io::Result<()> {
    writeln!(out, "cpu {{\n\tprofile {{")?;
    for (cpu, entries) in cpus.iter().zip(entries) {
        writeln!(out, "\t\t{cpu} {{")?;
        for (second, load_pct) in entries {
            writeln!(out, "\t\t\t{second}\t{load_pct}")?;
        }
        writeln!(out, "\t\t}}")?;
    }
    writeln!(out, "\t}}\n}}\nkill {end_s}")?;
    out.flush()
}

/// Notices steps that do not lie on whole seconds.
struct Watched<'a> {
    inner: &'a mut dyn Steps,
    uneven: bool,
}

impl<'a> Watched<'a> {
    fn new(inner: &'a mut dyn Steps) -> Self {
        Self {
            inner,
            uneven: false,
        }
    }
}

impl Steps for Watched<'_> {
    fn header(&self) -> &crate::Header {
        self.inner.header()
    }
    fn next_step(&mut self) -> Result<Option<crate::Step>> {
        let step = self.inner.next_step()?;
        self.uneven |= step.as_ref().is_some_and(|s| s.start_ns % NS_PER_S != 0);
        Ok(step)
    }
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }
}

/// One availability trace being written: `<second> <value>` lines.
struct Trace<W> {
    out: W,
    last: Option<f64>,
}

impl<W: Write> Trace<W> {
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
fn simgrid<W: Write>(steps: &mut dyn Steps, traces: &mut [Trace<W>]) -> Result<ExportReport> {
    let mut report = ExportReport::default();
    let (mut unknown_ns, mut end_ns) = (0u64, 0);
    for trace in traces.iter_mut() {
        writeln!(trace.out, "# availability of one CPU, written by sandbag").map_err(io)?;
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
pub fn export_simgrid(steps: &mut dyn Steps, path: &Path) -> Result<ExportReport> {
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
        let created = File::create(&file).map_err(|e| {
            let shown: Arc<str> = file.to_string_lossy().into();
            Fault::Io(e).at(&shown, None)
        })?;
        traces.push(Trace::new(BufWriter::new(created)));
        files.push(file);
    }
    let report = simgrid(steps, &mut traces)?;
    Ok(ExportReport { files, ..report })
}
