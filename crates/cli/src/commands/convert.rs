// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag convert`: a profile from one format to another.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use sandbag_kernel::Root;
use sandbag_kernel::topology::Topology;
use sandbag_profile::{
    BoxSteps, ExportReport, Fault, Format, NewFile, Steps, export, export_simgrid, summarise,
};

use crate::exit::{self, BadInput};
use crate::messages::Messages;
use crate::reshape::{self, Reshape, describe};

/// Turn a load profile of any known format into any other
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The profile: a file of any known format, - for standard input, or what
    /// a Prometheus has of a machine:
    /// 'prometheus+http://HOST:9090/?instance=X&from=...&to=...'
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where to, or - for standard output; SimGrid takes a file per CPU
    /// (day.simgrid becomes day.cpu0.simgrid ...)
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Format to write: see `sandbag show --formats` [default: by the ending
    /// of OUT, .krash, .profile or .simgrid; else native]
    #[arg(long, value_name = "FORMAT", value_parser = writable)]
    to: Option<Format>,

    #[command(flatten)]
    reshape: Reshape,
}

/// The formats that `--to` takes.
pub(super) fn writable(text: &str) -> std::result::Result<Format, String> {
    match text.parse::<Format>() {
        Ok(format) if format.is_written() => Ok(format),
        Ok(format) => Err(Fault::NotWritable(format).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the command.
pub fn main(args: &ConvertArgs, messages: &Messages) -> Result<u8> {
    let to = format_for(args.to, &args.output)?;
    refuse_same_file(&args.input, &args.output)?;
    let source = Arc::new(reshape::source(&args.input)?);
    let topology = Topology::read(&Root::default())?;
    let open = || args.reshape.open(&source, &topology);
    // To its end before OUT is touched: a bad profile costs nobody a file.
    let mut first = open()?;
    let format = first.header().format;
    let summary = summarise(&mut *first)?;
    messages.say(&describe(source.name(), format, &summary));
    for warning in &summary.warnings {
        messages.warning(warning);
    }
    // What reading it had to say has been said.
    put(&args.output, to, open()?, messages)?;
    Ok(exit::KEPT)
}

/// The format that was asked for, or that of the file's ending.
pub(super) fn format_for(asked: Option<Format>, output: &Path) -> Result<Format> {
    asked.map_or_else(|| by_ending(output), Ok)
}

/// Writes a profile, and says what was lost on the way; returns what the
/// profile itself has to say.
pub(super) fn put(
    output: &Path,
    to: Format,
    mut steps: BoxSteps,
    messages: &Messages,
) -> Result<Vec<String>> {
    let report = write(output, to, &mut *steps)?;
    for lost in &report.lost {
        messages.warning(&format!("as {to}: {lost}"));
    }
    match report.files.is_empty() {
        true => messages.detail(&format!("wrote {} ({to})", output.display())),
        false => {
            for file in &report.files {
                messages.say(&format!("wrote {} ({to})", file.display()));
            }
        }
    }
    Ok(steps.warnings())
}

fn by_ending(path: &Path) -> Result<Format> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    Ok(match ending {
        "krash" | "profile" => Format::Krash,
        "simgrid" => Format::SimGrid,
        "gz" | "xz" | "zst" => {
            return Err(BadInput(format!(
                "{}: packed files are read, not written; write to - and pipe it through gzip, xz \
                 or zstd",
                path.display()
            ))
            .into());
        }
        // Nothing native, whatever it is.
        "json" | "sbj" | "html" => {
            return Err(BadInput(format!(
                "{}: a profile is not written as .{ending} unless --to names a format (sandbag show \
                 --formats); jitter is written by `sandbag jitter convert`",
                path.display()
            ))
            .into());
        }
        _ => Format::Native,
    })
}

/// The input is read while the output is written.
pub(crate) fn refuse_same_file(input: &Path, output: &Path) -> Result<()> {
    let identity = |path: &Path| {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((meta.dev(), meta.ino()))
    };
    match identity(input).zip(identity(output)) {
        Some((from, to)) if from == to => Err(BadInput(format!(
            "{} is both IN and OUT; give another name for OUT",
            output.display()
        ))
        .into()),
        _ => Ok(()),
    }
}

fn write(path: &Path, to: Format, steps: &mut dyn Steps) -> Result<ExportReport> {
    let to_stream = path.as_os_str() == "-";
    let cpus = steps.header().cpus.len();
    if to_stream && to == Format::SimGrid && cpus != 1 {
        return Err(BadInput(format!(
            "a SimGrid trace is of one CPU and the profile has {cpus}: name a file (-o day.simgrid \
             writes day.cpu0.simgrid and so on), or take one CPU (--cpus 0 --map first)"
        ))
        .into());
    }
    if to_stream {
        return to_stdout(to, steps);
    }
    if to == Format::SimGrid {
        return Ok(export_simgrid(steps, path)?);
    }
    let failed = |cause| Fault::Io(cause).at(&path.to_string_lossy().into(), None);
    let mut file = NewFile::create(path).map_err(failed)?;
    let report = export(steps, to, &mut file).map_err(|error| match *error.fault {
        Fault::Io(cause) if error.place.is_none() => failed(cause),
        _ => error,
    })?;
    file.finish().map_err(failed)?;
    Ok(report)
}

fn to_stdout(to: Format, steps: &mut dyn Steps) -> Result<ExportReport> {
    let mut out = io::stdout().lock();
    let written = export(steps, to, &mut out).and_then(|report| {
        out.flush().map_err(Fault::Io)?;
        Ok(report)
    });
    match written {
        // A reader that has seen enough, such as head.
        Err(error) if is_broken_pipe(&error) => Ok(ExportReport::default()),
        other => Ok(other?),
    }
}

fn is_broken_pipe(error: &sandbag_profile::Error) -> bool {
    matches!(&*error.fault, Fault::Io(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_names_the_format() {
        let format = |name: &str| by_ending(Path::new(name));
        assert_eq!(format("a.krash").unwrap(), Format::Krash);
        assert_eq!(format("a.profile").unwrap(), Format::Krash);
        assert_eq!(format("a.simgrid").unwrap(), Format::SimGrid);
        assert_eq!(format("a.csv").unwrap(), Format::Native);
        assert_eq!(format("-").unwrap(), Format::Native);
        assert!(format("a.csv.gz").unwrap_err().to_string().contains("gzip"));
        assert!(format("a.json").unwrap_err().to_string().contains("--to"));
    }

    #[test]
    fn what_is_only_read_cannot_be_asked_for() {
        assert!(writable("sar").unwrap_err().contains("only be read"));
        assert!(writable("xml").unwrap_err().contains("not a format"));
        assert_eq!(writable("krash"), Ok(Format::Krash));
    }
}
