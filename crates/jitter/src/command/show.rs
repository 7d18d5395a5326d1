// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter show`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::import::JitterRecording;
use crate::page::{self as html, TracePage};
use crate::{JitterTrace, tables};
use clap::Args;
use sandbag_ui::failure::Result;
use sandbag_ui::table::fit;
use sandbag_ui::text::visible;

use super::bars::decades;
use super::periodic::{self, Periods};
use super::select::SelectArgs;
use super::{ImportArgs, causes, counts, write_page};
use crate::trace_file::open;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use sandbag_ui::{BadInput, exit};

/// Of the longest events, listed unless another number is asked for.
const WORST: usize = 5;

/// Show a trace, or what another tool recorded: how often, how long, the worst
///
/// Of a tool that wrote down only how many events had which length, counts and
/// quantiles are shown, as exact as its bins are.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A trace, or a file of osnoise, rtla, netgauge, LogGOPSim, FTQ, FWQ,
    /// oslat, cyclictest, sysjitter or a noise injector; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// How many of the longest events are listed
    #[arg(long, value_name = "N", default_value_t = WORST)]
    worst: usize,

    /// Without periods and what CPUs have in common, which take a second or so
    /// for a million events
    #[arg(long)]
    brief: bool,

    /// A page with figures: densities, events over time, cumulative shares,
    /// spectra, correlations; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "brief")]
    html: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    import: ImportArgs,
}

pub fn main(args: &ShowArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check(args.html.as_deref())?;
    args.json.check(args.overwrite)?;
    let is_stdout = |path: Option<&Path>| path.is_some_and(|path| path.as_os_str() == "-");
    let is_page = is_stdout(args.html.as_deref());
    if is_page && is_stdout(args.json.path()) {
        let text = "standard output takes one form: give the page or the JSON a file";
        return Err(BadInput(text.to_owned()).into());
    }
    let recording = open(&args.file, &args.import.options(), messages)?;
    let recording = args.select.of(recording, false)?;
    let name = args.file.display().to_string();
    let found = match &recording {
        JitterRecording::Trace(trace) if !args.brief => Some(Periods::of(trace)),
        _ => None,
    };
    if let Some(file) = &args.html {
        let (JitterRecording::Trace(trace), Some(found)) = (&recording, &found) else {
            let text = "--html is for events; this file holds only how they are distributed";
            return Err(BadInput(text.to_owned()).into());
        };
        let html = html::render(&TracePage {
            name: &name,
            trace,
            spectra: &found.spectra,
            correlations: &found.pairs,
            worst: args.worst,
        });
        write_page(file, &html, args.overwrite.existing(), messages)?;
    }
    let existing = args.overwrite.existing();
    match &recording {
        JitterRecording::Trace(trace) => {
            let figures = figures(trace, found.as_ref())?;
            let text = || {
                if is_page {
                    return Ok(String::new());
                }
                Ok(text(trace, &name, args.worst, found.as_ref()))
            };
            args.json.put_or(&figures, text, existing)?;
        }
        JitterRecording::Distribution(all) => {
            let text = || Ok(counts::text(all, &name));
            args.json.put_or(all, text, existing)?;
        }
    }
    Ok(exit::KEPT)
}

/// Of each CPU, with who took how much where that is known.
fn figures(trace: &JitterTrace, found: Option<&Periods>) -> Result<Vec<serde_json::Value>> {
    let all = periodic::figures(trace, found);
    let all = all.into_iter().map(serde_json::to_value);
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    if let Some(attribution) = &trace.attribution {
        for (figures, cpu) in all.iter_mut().zip(&trace.cpus) {
            causes::add_json(figures, cpu, attribution);
        }
    }
    Ok(all)
}

/// With as many of the longest as usual.
pub(super) fn show_recording(recording: &JitterRecording, name: &str) -> String {
    match recording {
        JitterRecording::Trace(trace) => text(trace, name, WORST, Some(&Periods::of(trace))),
        JitterRecording::Distribution(all) => counts::text(all, name),
    }
}

fn text(trace: &JitterTrace, name: &str, worst: usize, found: Option<&Periods>) -> String {
    let header = &trace.header;
    let mut text = format!(
        "{}: recorded by {}",
        visible(name),
        visible(&header.recorder)
    );
    if let Some(host) = &header.host {
        let _ = write!(text, " on {}", visible(host));
    }
    if let Some(kernel) = &header.kernel {
        let _ = write!(text, ", Linux {}", visible(kernel));
    }
    if let Some(priority) = header.real_time {
        let _ = write!(text, ", as a real-time task of priority {priority}");
    }
    let width = output::width();
    let _ = writeln!(
        text,
        "\n\n{}",
        fit(&tables::summary(trace).terminal(), 1, width)
    );
    if let Some(notes) = trace.how_found() {
        let how = fit(&tables::how_found(notes).terminal(), 1, width);
        let _ = writeln!(text, "\nHow they were found\n{how}");
    }
    let lengths = trace.lengths_ns().into_iter().map(|ns| (ns, 1));
    let _ = writeln!(text, "\nLengths\n{}", decades(lengths));
    if let Some(found) = found {
        text += &found.text();
    }
    let attribution = trace.attribution.as_deref();
    text.extend(attribution.map(|all| causes::text(trace, all)));
    if worst > 0 {
        let longest = tables::longest(trace, worst).terminal();
        let _ = writeln!(text, "\nLongest events\n{longest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ShowArgs,
    }

    #[test]
    fn standard_output_takes_a_page_or_json() {
        let words = ["show", "--html", "-", "--json", "/no/trace.sbj"];
        let args = Line::parse_from(words).args;
        let error = main(&args, &Messages::new(true, 0)).unwrap_err();
        assert!(error.to_string().contains("one form"), "{error}");
    }
}
