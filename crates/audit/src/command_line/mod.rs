// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit`: are all CPUs of this machine equal?

mod compare;
pub mod exit_codes;
mod gather;
mod output;
mod progress;
mod run;
mod show;
mod values;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::model::Audit;
use crate::report::file::{self, MOST_BYTES};
use crate::report::terminal::{self, TerminalStyle};
use clap::{Args, Subcommand};
use sandbag_input::open_input;
use sandbag_ui::failure::{Context as _, Result};

use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;

/// Are all CPUs of this machine equal? Which charges a program more, and why
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// Run the tests on each CPU, and say which differ
    #[command(after_long_help = exit_codes::HELP)]
    Run(Box<run::RunArgs>),
    /// Show an audit again, or write it in another form
    #[command(after_long_help = exit_codes::SHOW_HELP)]
    Show(show::ShowArgs),
    /// Compare two audits of a machine: quiet and loaded, before and after
    #[command(after_long_help = exit_codes::COMPARE_HELP)]
    Compare(compare::CompareArgs),
    /// Compare the audits of many hosts: which host, which CPU of which host is slower
    #[command(after_long_help = exit_codes::GATHER_HELP)]
    Gather(gather::GatherArgs),
}

pub fn main(args: &AuditArgs, messages: &Messages) -> Result<u8> {
    match &args.action {
        AuditAction::Run(args) => run::main(args, messages),
        AuditAction::Show(args) => show::main(args, messages),
        AuditAction::Compare(args) => compare::main(args, messages),
        AuditAction::Gather(args) => gather::main(args, messages),
    }
}

/// What `sandbag show` says of an audit; `None` if the file, which names us, is of
/// something else.
pub fn show_file(path: &Path, messages: &Messages) -> Option<Result<String>> {
    let mut head = String::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_string(&mut head));
    let is_audit = read.is_ok() && head.contains("\"took_ns\"") && head.contains("\"begun\"");
    is_audit.then(|| {
        let audit = read_audit(path)?;
        Ok(terminal::audit(&audit, &look(messages)))
    })
}

/// How much of a file is looked at to tell whether it is an audit.
const HEAD: u64 = 512;

/// An audit that was written, from standard input for `-`.
fn read_audit(path: &Path) -> Result<Audit> {
    let name = || path.display().to_string();
    let from: Box<dyn std::io::Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(open_input(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                sandbag_ui::Failure::from(BadInput(format!("{}: there is no such file", name())))
            }
            _ => sandbag_ui::Failure::from(error).context(name()),
        })?)
    };
    let mut text = Vec::new();
    let mut from = from.take(MOST_BYTES + 1);
    let head = from.by_ref().take(HEAD).read_to_end(&mut text);
    head.with_context(name)?;
    // What is no object is not read to its end, which a pipe need not have.
    if text.trim_ascii_start().starts_with(b"{") {
        from.read_to_end(&mut text).with_context(name)?;
    }
    if text.len() as u64 > MOST_BYTES {
        return Err(BadInput(format!("{}: larger than any audit", name())).into());
    }
    file::read(&text).map_err(|error| BadInput(format!("{}: {error}", name())).into())
}

/// As wide as the terminal, and everything with `-v`.
fn look(messages: &Messages) -> TerminalStyle {
    TerminalStyle {
        columns: sandbag_ui::output::width().unwrap_or(terminal::COLUMNS),
        all: messages.is_verbose(),
    }
}
