// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter`: OS jitter, recorded, shown, compared.

mod compare;
mod export;
mod record;
mod show;

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::Result;
use clap::{Args, Subcommand};
use sandbag_jitter::{Fault, Trace, format};

use crate::messages::Messages;

/// OS jitter: what takes CPUs away from programs, event by event
#[derive(Debug, Args)]
pub struct JitterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Record on each CPU every stretch of time in which a program did not run
    Record(record::RecordArgs),
    /// Show a trace: how often, how long, the worst
    Show(show::ShowArgs),
    /// Compare the lengths of events of two traces
    Compare(compare::CompareArgs),
    /// Write a trace as CSV or JSON
    Convert(export::ConvertArgs),
}

/// Runs the command.
pub fn main(args: &JitterArgs, messages: &Messages) -> Result<u8> {
    match &args.action {
        Action::Record(args) => record::main(args, messages),
        Action::Show(args) => show::main(args, messages),
        Action::Compare(args) => compare::main(args, messages),
        Action::Convert(args) => export::main(args, messages),
    }
}

/// Whether a file is a trace.
pub fn is_trace(path: &Path) -> bool {
    let mut head = Vec::new();
    // Looking into a pipe would take its beginning away.
    let read = path
        .is_file()
        .then(|| File::open(path)?.take(8).read_to_end(&mut head));
    matches!(read, Some(Ok(_))) && format::is_trace(&head)
}

/// A trace as `jitter show` shows it.
///
/// # Errors
/// It cannot be read.
pub fn shown(path: &Path, messages: &Messages) -> Result<String> {
    show::shown(path, messages)
}

/// The whole trace of a file; what it has to say is said.
fn read(path: &Path, messages: &Messages) -> Result<Trace> {
    let name = path.display().to_string();
    let opened = File::open(path).map_err(|cause| sandbag_jitter::Error::from(Fault::Io(cause)));
    let trace = opened
        .and_then(|file| format::read(BufReader::with_capacity(1 << 20, file)))
        .map_err(|error| error.in_file(&name))?;
    for warning in &trace.warnings {
        messages.warning(&format!("{name}: {warning}"));
    }
    Ok(trace)
}

/// Nanoseconds as people read them: three digits and a unit.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (12.3, "12.3 ns"),
            (1_234.0, "1.23 us"),
            (123_456.0, "123 us"),
            (4e6, "4.00 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
