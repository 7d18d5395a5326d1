// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag show`: finds out what a file is, and gives it to its subject.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use sandbag_audit::command_line as audit;
use sandbag_jitter::command as jitter;
use sandbag_load::command::show as run_show;
use sandbag_profile::Format;
use sandbag_profile::command::reshape;
use sandbag_profile::command::show::{self as profile_show, ShowArgs};
use sandbag_sweep::command as sweep;
use sandbag_ui::messages::Messages;
use sandbag_ui::{Result, exit, output};

/// How much of a file is looked at to find out whether it is jitter.
const HEAD: u64 = 16 << 10;

/// Runs the command.
pub fn main(args: &ShowArgs, messages: &Messages) -> Result<u8> {
    let text = match args.file() {
        None => profile_show::formats(),
        Some(file) if run_show::is_run(file) => run(file, messages)?,
        Some(file) => recording(file, args, messages)?,
    };
    output::print(text)?;
    Ok(exit::KEPT)
}

fn run(path: &Path, messages: &Messages) -> Result<String> {
    if path.join(output::SWEEP_JSON).exists() {
        return sweep::show(path);
    }
    if sandbag_hosts::gather::is_experiment(path) {
        return sandbag_hosts::gather::show(path);
    }
    if let Some(text) = audit::show_file(path, messages) {
        return text;
    }
    if let Some(text) = jitter::show_replay(path) {
        return text;
    }
    run_show::run(path, messages)
}

fn recording(file: &Path, args: &ShowArgs, messages: &Messages) -> Result<String> {
    let source = Arc::new(reshape::source(file)?);
    let mut head = Vec::new();
    // An unreadable file is an error of the profile.
    let read = source
        .reader()
        .map(|from| from.take(HEAD).read_to_end(&mut head));
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    let is_profile = Format::detect(text).is_some();
    if read.is_ok() && !args.names_a_format() && jitter::is_recording(text, is_profile) {
        return jitter::show_text(source.reader()?, source.name(), messages);
    }
    profile_show::text(source, args, messages)
}
