// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter convert`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::import::JitterRecording;
use crate::{CpuTrace, Fault, JitterTrace, Notes, Span, TraceEvent, TraceHeader, format};
use clap::{Args, ValueEnum};
use sandbag_input::{Existing, NewFile};
use sandbag_ui::failure::{Context as _, Result};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::select::SelectArgs;
use super::{ImportArgs, causes};
use crate::trace_file::open_trace;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{
    Overwrite, give_to_caller, refuse_ending, refuse_same_file, stdout, unless_closed,
};
use sandbag_ui::{BadInput, exit};

/// Write a trace, or what another tool recorded, as a trace, CSV or JSON
///
/// Only what holds events can be written; a histogram cannot.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// A trace or a file of another tool; - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where to, or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    overwrite: Overwrite,

    /// What to write [default: by the ending of OUT, .sbj or .json; else csv]
    #[arg(long, value_enum)]
    to: Option<ExportFormat>,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    import: ImportArgs,
}

/// A trace as JSON. Events are written one by one: a value of each would take more memory than
/// the trace itself.
#[derive(Serialize)]
struct JsonTrace<'a> {
    header: &'a TraceHeader,
    notes: Option<&'a Notes>,
    cpus: Vec<JsonCpu<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<Value>,
}

#[derive(Serialize)]
struct JsonCpu<'a> {
    cpu: u32,
    known: &'a [Span],
    #[serde(serialize_with = "starts_and_lengths")]
    events: &'a [TraceEvent],
}

impl<'a> JsonCpu<'a> {
    fn of(cpu: &'a CpuTrace) -> Self {
        Self {
            cpu: cpu.cpu,
            known: &cpu.known,
            events: &cpu.events,
        }
    }
}

fn starts_and_lengths<S: Serializer>(events: &&[TraceEvent], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(events.iter().map(|event| [event.start_ns, event.length_ns]))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// A trace of this program
    Sbj,
    /// A row per event: CPU, start and length in ns
    Csv,
    /// A row per cause of each event, and per what they leave of it
    Causes,
    /// An object with header, notes, known stretches, events and causes
    Json,
}

impl ExportFormat {
    /// What was asked for, else what the ending of the file says.
    pub(super) fn for_path(asked: Option<Self>, path: &Path, usual: Self) -> Result<Self> {
        if let Some(asked) = asked {
            return Ok(asked);
        }
        refuse_ending(path, &["sbj", "csv", "json"])?;
        let ending = path.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("sbj") => Self::Sbj,
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => usual,
        })
    }
}

pub fn main(args: &ConvertArgs, messages: &Messages) -> Result<u8> {
    refuse_same_file(&args.input, &args.output)?;
    args.overwrite.check(Some(&args.output))?;
    let to = ExportFormat::for_path(args.to, &args.output, ExportFormat::Csv)?;
    let trace = open_trace(&args.input, &args.import.options(), messages)?;
    let part = args.select.of(JitterRecording::Trace(trace), false)?;
    // What is cut out begins where it was cut.
    let trace = part.into_trace()?.beginning_at(args.select.begin_ns());
    if to == ExportFormat::Causes && trace.attribution.as_ref().is_none_or(|a| a.cpus.is_empty()) {
        return Err(BadInput(format!(
            "{}: nothing is known of the causes of its events: they are recorded by \
             `sandbag jitter record` as root, and are in traces of osnoise",
            args.input.display()
        ))
        .into());
    }
    put(&trace, to, &args.output, args.overwrite.existing())?;
    Ok(exit::KEPT)
}

/// Writes a trace to a file, whole or not at all, or to standard output.
pub(super) fn put(
    trace: &JitterTrace,
    to: ExportFormat,
    output: &Path,
    existing: Existing,
) -> Result<()> {
    if output.as_os_str() == "-" {
        let written = write(trace, to, &mut BufWriter::new(stdout()));
        return Ok(unless_closed(written)?);
    }
    let name = output.display().to_string();
    let mut file = NewFile::create(output, existing).with_context(|| name.clone())?;
    let written = write(trace, to, &mut BufWriter::new(&mut file));
    written.and_then(|()| file.finish()).with_context(|| name)?;
    give_to_caller(output);
    Ok(())
}

fn write(trace: &JitterTrace, to: ExportFormat, out: &mut impl Write) -> io::Result<()> {
    match to {
        ExportFormat::Sbj => match format::write(trace, &mut *out).map_err(|error| *error.fault) {
            Err(Fault::Io(cause)) => return Err(cause),
            Err(fault) => return Err(io::Error::other(fault)),
            Ok(()) => {}
        },
        ExportFormat::Csv => {
            writeln!(out, "cpu,start_ns,length_ns")?;
            for cpu in &trace.cpus {
                for event in &cpu.events {
                    writeln!(out, "{},{},{}", cpu.cpu, event.start_ns, event.length_ns)?;
                }
            }
        }
        ExportFormat::Causes => {
            if let Some(attribution) = &trace.attribution {
                causes::csv(trace, attribution, out)?;
            }
        }
        ExportFormat::Json => {
            let all = JsonTrace {
                header: &trace.header,
                notes: trace.notes.as_ref(),
                cpus: trace.cpus.iter().map(JsonCpu::of).collect(),
                attribution: trace.attribution.as_deref().map(causes::json),
            };
            serde_json::to_writer(&mut *out, &all)?;
            writeln!(out)?;
        }
    }
    out.flush()
}
