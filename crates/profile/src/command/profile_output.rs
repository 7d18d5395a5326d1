// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing profiles: format, place, and the messages about both.

use std::io::{self, Write as _};
use std::path::Path;

use crate::{BoxSteps, ExportReport, Fault, Format, Steps, export, export_simgrid};
use sandbag_input::{Existing, NewFile};
use sandbag_ui::failure::Result;

use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{give_to_caller, stdout};

/// The formats that `--to` takes.
pub(crate) fn writable(text: &str) -> std::result::Result<Format, String> {
    match text.parse::<Format>() {
        Ok(format) if format.is_written() => Ok(format),
        Ok(format) => Err(Fault::NotWritable(format).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The format that was asked for, or that of the file's ending.
pub(crate) fn format_for(asked: Option<Format>, output: &Path) -> Result<Format> {
    asked.map_or_else(|| by_ending(output), Ok)
}

/// Writes a profile and reports what the format lost; returns the warnings of
/// the profile itself.
pub(crate) fn put(
    output: &Path,
    to: Format,
    mut steps: BoxSteps,
    existing: Existing,
    messages: &Messages,
) -> Result<Vec<String>> {
    let report = write(output, to, &mut *steps, existing)?;
    for lost in &report.lost {
        messages.warning(&format!("as {to}: {lost}"));
    }
    if report.files.is_empty() {
        messages.detail(&format!("wrote {} ({to})", output.display()))
    } else {
        for file in &report.files {
            messages.say(&format!("wrote {} ({to})", file.display()));
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

fn write(
    path: &Path,
    to: Format,
    steps: &mut dyn Steps,
    existing: Existing,
) -> Result<ExportReport> {
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
        let report = export_simgrid(steps, path, existing)?;
        report.files.iter().for_each(|file| give_to_caller(file));
        return Ok(report);
    }
    let failed = |cause| Fault::Io(cause).at(&path.to_string_lossy().into(), None);
    let mut file = NewFile::create(path, existing).map_err(failed)?;
    let report = export(steps, to, &mut file).map_err(|error| match *error.fault {
        Fault::Io(cause) if error.place.is_none() => failed(cause),
        _ => error,
    })?;
    file.finish().map_err(failed)?;
    give_to_caller(path);
    Ok(report)
}

fn to_stdout(to: Format, steps: &mut dyn Steps) -> Result<ExportReport> {
    let mut out = stdout();
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

fn is_broken_pipe(error: &crate::Error) -> bool {
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
