// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter`: OS jitter, recorded, shown, compared, replayed.

mod api;
mod attribute;
mod bars;
mod causes;
mod compare;
mod count_table;
mod distribution;
mod export;
mod memory;
mod page;
mod parts;
mod periodic;
mod plan_args;
mod record;
mod replay;
mod select;
mod show;
mod synth;
mod verify;

use std::io::Read;
use std::path::Path;

use crate::format;
use crate::import::{self, ImportOptions, JitterRecording, Unit};
use clap::{Args, Subcommand};
use sandbag_ui::failure::Result;

use sandbag_ui::messages::Messages;

/// OS jitter: what takes CPUs away from programs, event by event
#[derive(Debug, Args)]
pub struct JitterArgs {
    #[command(subcommand)]
    action: JitterAction,
}

#[derive(Debug, Subcommand)]
enum JitterAction {
    /// Record on each CPU every stretch of time in which a program did not run
    Record(record::RecordArgs),
    /// Show a trace, or what another tool recorded: how often, how long, the worst
    Show(show::ShowArgs),
    /// Compare the lengths of events of two traces, or what other tools recorded
    Compare(compare::CompareArgs),
    /// Write a trace, or what another tool recorded, as a trace, CSV or JSON
    Convert(export::ConvertArgs),
    /// Replay the jitter of a trace on CPUs, beside a program or alone
    #[command(after_long_help = replay::HELP)]
    Replay(Box<replay::ReplayArgs>),
    /// Say how well a trace is reproduced here: replay it and record again
    Verify(Box<verify::VerifyArgs>),
    /// Write the header, the source and the library for programs that ask for
    /// their jitter themselves
    Api(api::ApiArgs),
    /// Make a trace that nobody recorded, the same for the same seed
    Synth(synth::SynthArgs),
}

impl JitterArgs {
    /// Whether a program is to be run.
    #[must_use]
    pub fn has_command(&self) -> bool {
        matches!(&self.action, JitterAction::Replay(args) if args.has_command())
    }
}

/// What a file of another tool may leave open
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// Unit of the times of a file that does not name it (LogGOPSim)
    #[arg(long, value_enum)]
    unit: Option<Unit>,

    /// CPU of a file that holds one and does not name it [default: the number
    /// at the end of the file's name, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=65_535))]
    cpu: Option<u32>,
}

impl ImportArgs {
    /// How a trace is read.
    #[must_use]
    pub fn options(&self) -> ImportOptions {
        ImportOptions {
            unit: self.unit,
            cpu: self.cpu,
            without_causes: false,
        }
    }

    /// For who needs the events only.
    pub fn of_events(&self) -> ImportOptions {
        ImportOptions {
            without_causes: true,
            ..self.options()
        }
    }
}

/// Runs the command.
pub fn main(args: &JitterArgs, messages: &Messages) -> Result<u8> {
    match &args.action {
        JitterAction::Record(args) => record::main(args, messages),
        JitterAction::Show(args) => show::main(args, messages),
        JitterAction::Compare(args) => compare::main(args, messages),
        JitterAction::Convert(args) => export::main(args, messages),
        JitterAction::Replay(args) => replay::main(args, messages),
        JitterAction::Verify(args) => verify::main(args, messages),
        JitterAction::Api(args) => api::main(args, messages),
        JitterAction::Synth(args) => synth::main(args, messages),
    }
}

/// Whether a file that begins like this (unpacked) is jitter. A profile that
/// looks like a bare table of numbers remains one.
pub fn is_recording(head: &[u8], is_profile: bool) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    format::is_trace(text) || (!is_profile && import::detect(text).is_some())
}

/// What `from` holds, as `jitter show` shows it; `name` is what it is called.
///
/// # Errors
/// It cannot be read.
pub fn show_text(from: impl Read + Send, name: &str, messages: &Messages) -> Result<String> {
    let recording = import::read(from, name, &ImportOptions::default())?;
    warn(&recording, name, messages);
    Ok(show::show_recording(&recording, name))
}

/// What the directory of a replay, or its run.json, has; `None` if it is of
/// something else.
///
/// # Errors
/// It cannot be read.
pub fn show_replay(path: &Path) -> Option<Result<String>> {
    Some(replay::read_record(path)?.map(|record| replay::shown(&record)))
}

/// All that a file holds; what it has to say is said.
pub fn read(path: &Path, options: &ImportOptions, messages: &Messages) -> Result<JitterRecording> {
    let recording = import::open(path, options)?;
    warn(&recording, &path.display().to_string(), messages);
    Ok(recording)
}

fn warn(recording: &JitterRecording, name: &str, messages: &Messages) {
    for warning in recording.warnings() {
        messages.warning(&format!("{name}: {warning}"));
    }
}
