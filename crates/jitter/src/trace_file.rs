// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces as arguments of commands: options, reading, warnings. For the commands here and
//! for other crates that read traces.

use std::io::Read;
use std::path::Path;

use clap::Args;
use sandbag_ui::messages::Messages;

use crate::import::{self, ImportOptions, JitterRecording, Unit};
use crate::{JitterTrace, Result};

/// Facts that a file of another tool may lack
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
    pub fn options(&self) -> ImportOptions {
        ImportOptions {
            unit: self.unit,
            cpu: self.cpu,
            without_causes: false,
        }
    }

    /// To read events only, without their causes.
    pub fn of_events(&self) -> ImportOptions {
        ImportOptions {
            without_causes: true,
            ..self.options()
        }
    }
}

/// Reads a file, or standard input for `-`, and prints its warnings.
pub fn open(path: &Path, options: &ImportOptions, messages: &Messages) -> Result<JitterRecording> {
    let recording = import::open(path, options)?;
    warn(&recording, &path.display().to_string(), messages);
    Ok(recording)
}

/// Reads a trace as [`open`] does.
pub fn open_trace(
    path: &Path,
    options: &ImportOptions,
    messages: &Messages,
) -> Result<JitterTrace> {
    let recording = open(path, options, messages)?;
    let in_file = |error: crate::Error| error.in_file(&path.display().to_string());
    recording.into_trace().map_err(in_file)
}

/// Reads a byte stream that messages call `name`, and prints its warnings.
pub fn read(from: impl Read + Send, name: &str, messages: &Messages) -> Result<JitterRecording> {
    let recording = import::read(from, name, &ImportOptions::default())?;
    warn(&recording, name, messages);
    Ok(recording)
}

fn warn(recording: &JitterRecording, name: &str, messages: &Messages) {
    for warning in recording.warnings() {
        messages.warning(&format!("{name}: {warning}"));
    }
}
