// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter`: OS jitter, recorded, shown, compared, replayed.

mod api;
mod attribute;
mod bars;
mod causes;
mod compare;
mod counts;
mod export;
mod gather;
mod memory;
mod part_file;
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

use clap::{Args, Subcommand};
use sandbag_input::Existing;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;

pub use crate::trace_file::ImportArgs;
use crate::{format, import, trace_file};

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
    #[command(after_long_help = compare::HELP)]
    Compare(compare::CompareArgs),
    /// Compare the jitter of many hosts: which is noisier
    #[command(after_long_help = gather::HELP)]
    Gather(gather::GatherArgs),
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
    /// Make a synthetic trace, the same for the same seed
    Synth(synth::SynthArgs),
}

impl JitterArgs {
    /// Whether a program is to be run.
    pub fn has_command(&self) -> bool {
        matches!(&self.action, JitterAction::Replay(args) if args.has_command())
    }
}

pub fn main(args: &JitterArgs, messages: &Messages) -> Result<u8> {
    match &args.action {
        JitterAction::Record(args) => record::main(args, messages),
        JitterAction::Show(args) => show::main(args, messages),
        JitterAction::Compare(args) => compare::main(args, messages),
        JitterAction::Gather(args) => gather::main(args, messages),
        JitterAction::Convert(args) => export::main(args, messages),
        JitterAction::Replay(args) => replay::main(args, messages),
        JitterAction::Verify(args) => verify::main(args, messages),
        JitterAction::Api(args) => api::main(args, messages),
        JitterAction::Synth(args) => synth::main(args, messages),
    }
}

/// Whether a file that begins like this (decompressed) is jitter. A profile that looks like
/// a plain table of numbers remains a profile.
pub fn is_recording(head: &[u8], is_profile: bool) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    format::is_trace(text) || (!is_profile && import::detect(text).is_some())
}

/// The text of `jitter show` for a byte stream that messages call `name`.
pub fn show_text(from: impl Read + Send, name: &str, messages: &Messages) -> Result<String> {
    let recording = trace_file::read(from, name, messages)?;
    Ok(show::show_recording(&recording, name))
}

/// The text for the directory of a replay or its run.json; `None` if the path is of
/// something else.
pub fn show_replay(path: &Path) -> Option<Result<String>> {
    Some(replay::read_record(path)?.map(|record| replay::shown(&record)))
}

/// Writes a page, to standard output for `-`.
fn write_page(path: &Path, page: &str, existing: Existing, messages: &Messages) -> Result<()> {
    output::put(path, page, existing)?;
    if path.as_os_str() != "-" {
        messages.say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
