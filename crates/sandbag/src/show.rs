// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag show`: finds out what a file is, and gives it to its subject.

use std::ffi::OsStr;
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
use sandbag_ui::report::HOSTS_JSON;
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
    let path = directory_of(path);
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

/// The directory of a record that is shown by it: with what is beside it.
fn directory_of(path: &Path) -> &Path {
    let records = [output::SWEEP_JSON, output::NODES_JSON, HOSTS_JSON];
    let is_record = |name: &str| records.contains(&name);
    match path.file_name().and_then(OsStr::to_str) {
        Some(name) if is_record(name) && path.is_file() => match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        },
        _ => path,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_directory_is_shown_as_its_directory_is() {
        let nodes = r#"{"format": 1, "sandbag": "0.1.0", "started_at": "", "host": "h",
            "verdict": "missed", "nodes": []}"#;
        for (name, text) in [
            (output::SWEEP_JSON, r#"{"sandbag": "0.1.0"}"#),
            (HOSTS_JSON, r#"{"sandbag": "0.1.0"}"#),
            (output::NODES_JSON, nodes),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            let said = |path: &Path| run(path, &Messages::new(true, 0)).map_err(|why| why.line());
            assert_eq!(said(&file), said(dir.path()), "{name}");
            assert_eq!(said(&file).is_ok(), name == output::NODES_JSON, "{name}");
            assert_eq!(directory_of(&file), dir.path());
        }
        assert_eq!(directory_of(Path::new("run.json")), Path::new("run.json"));
    }
}
