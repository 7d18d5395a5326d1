// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter compare`.

use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use sandbag_ui::quantity::time;
use sandbag_ui::{BadInput, exit};

use super::select::SelectArgs;
use super::{ImportArgs, counts, write_page};
use crate::import::JitterRecording;
use crate::page::{self, ComparisonPage};
use crate::stats::{LikenessVerdict, likeness};
use crate::tables::{compared, distances, limits, verdict_words, verdicts};
use crate::trace_file::open;
use crate::{JitterTrace, Selection};

pub(super) const HELP: &str = "\
Exit codes:
  0 compared, 1 failed, 2 wrong usage or bad input; with --strict also 3 the
  traces differ, 4 undecided.";

/// Compare the lengths of events of two traces, or what other tools recorded
///
/// All CPUs of a file are taken together. Two traces differ if they lie further
/// apart than parts of the same one do (block bootstrap); they are the same if
/// not, and if those parts are near each other. With fewer than 100 events in
/// one, only the rates are judged. Where one file holds only counts, their bins
/// say how far the two lie apart at least, and there is no verdict.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The reference
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    b: PathBuf,

    /// A page with figures: densities and cumulative shares overlaid,
    /// quantiles, distances, verdict; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    /// Exit with 3 if the traces differ, with 4 if that cannot be said
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    import: ImportArgs,
}

pub fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check(args.html.as_deref())?;
    args.json.check(args.overwrite)?;
    let options = args.import.of_events();
    let one = |path: &Path| -> Result<JitterRecording> {
        args.select.of(open(path, &options, messages)?, true)
    };
    let verdict = match (one(&args.a)?, one(&args.b)?) {
        (JitterRecording::Trace(a), JitterRecording::Trace(b)) => {
            let [a, b] = seen_by_both(a, b, messages)?;
            traces(args, &a, &b, messages)?
        }
        _ if args.html.is_some() || args.json.path().is_some() => {
            let text = "--html and --json are for events; one of the files holds only how they are \
                        distributed";
            return Err(BadInput(text.to_owned()).into());
        }
        // Lower bounds of the distances decide nothing.
        (a, b) => {
            output::print(counts::compare(&a, &b, args.select.above_ns())?)?;
            LikenessVerdict::Undecided
        }
    };
    Ok(match verdict {
        LikenessVerdict::Differs if args.strict => exit::MISSED,
        LikenessVerdict::Undecided if args.strict => exit::UNDECIDED,
        _ => exit::KEPT,
    })
}

/// Both without the events that the loop of the other could not have seen: recorders differ
/// in what they detect, and that is no difference of the machines.
fn seen_by_both(a: JitterTrace, b: JitterTrace, messages: &Messages) -> Result<[JitterTrace; 2]> {
    let above_ns = a.least_seen_ns().max(b.least_seen_ns());
    let short = |trace: &JitterTrace| {
        let lengths = trace.lengths_ns().into_iter();
        lengths.filter(|ns| *ns < above_ns).count()
    };
    for (trace, name, other) in [(&a, "A", "B"), (&b, "B", "A")] {
        let count = short(trace);
        if count > 0 {
            messages.warning(&format!(
                "{count} events of {name} are left out: they are shorter than {}, and {other} \
                 could not have seen such",
                time(above_ns as f64)
            ));
        }
    }
    let selection = Selection {
        above_ns,
        ..Selection::default()
    };
    Ok([selection.of(a)?, selection.of(b)?])
}

fn traces(
    args: &CompareArgs,
    a: &JitterTrace,
    b: &JitterTrace,
    messages: &Messages,
) -> Result<LikenessVerdict> {
    let Some(found) = likeness(a, b) else {
        let text = "in one of the traces no time is known: nothing to compare";
        return Err(BadInput(text.to_owned()).into());
    };
    let is_stdout = |path: Option<&Path>| path.is_some_and(|path| path.as_os_str() == "-");
    let is_page = is_stdout(args.html.as_deref());
    if is_page && is_stdout(args.json.path()) {
        let text = "standard output takes one form: give the page or the JSON a file";
        return Err(BadInput(text.to_owned()).into());
    }
    if let Some(file) = &args.html {
        let names = [&args.a, &args.b].map(|path| path.display().to_string());
        let page = ComparisonPage {
            a_name: &names[0],
            a,
            b_name: &names[1],
            b,
            likeness: &found,
        };
        let page = page::render_comparison(&page);
        write_page(file, &page, args.overwrite.existing(), messages)?;
    }
    let text = || {
        if is_page {
            return Ok(String::new());
        }
        let distances = found.lengths.as_ref().map(distances);
        let distances = distances.map(|table| format!("\n{}\n", table.terminal()));
        Ok(format!(
            "{}: {}\n\nlimit: {}\n{}\n\n{}\n{}",
            verdict_words(found.verdict).1,
            found.reason,
            limits(&found),
            verdicts(&found).terminal(),
            compared(a, b, &found).terminal(),
            distances.unwrap_or_default(),
        ))
    };
    args.json.put_or(&found, text, args.overwrite.existing())?;
    Ok(found.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuNotes, CpuTrace, LoopClock, Notes, Span, TraceEvent, TraceHeader};

    #[test]
    fn events_that_one_loop_cannot_see_are_left_out_of_both() {
        let trace = |least_ns: Option<f64>, lengths: &[u64]| {
            let event = |(at, ns): (usize, &u64)| TraceEvent::new(at as u64 * 1000, *ns);
            let events = lengths.iter().enumerate().map(event).collect();
            let cpu = CpuTrace::new(0, vec![Span::new(0, 1_000_000)], events);
            let notes = least_ns.map(|ns| Notes {
                cpus: vec![CpuNotes {
                    least_ns: 10.0,
                    threshold_ns: ns + 10.0,
                    ..CpuNotes::default()
                }],
            });
            let header = TraceHeader::new("test", LoopClock::Imported, vec![0]);
            JitterTrace::new(header, vec![cpu], notes)
        };
        let lengths = |traces: [JitterTrace; 2]| traces.map(|trace| trace.lengths_ns());
        let quiet = Messages::new(true, 0);
        let (fine, coarse) = (trace(Some(90.0), &[100, 300]), trace(Some(200.0), &[300]));
        let left = lengths(seen_by_both(fine, coarse, &quiet).unwrap());
        assert_eq!(left, [vec![300], vec![300]]);
        let (made, made_too) = (trace(None, &[1, 300]), trace(None, &[2]));
        let left = lengths(seen_by_both(made, made_too, &quiet).unwrap());
        assert_eq!(left, [vec![1, 300], vec![2]]);
    }
}
