// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guardian: a process that waits for the supervisor to die.
//!
//! It holds the other end of a pipe. When the pipe closes and the journal is
//! still there, the supervisor did not get to clean up, and the guardian
//! undoes the journal. It lives in a session of its own and ignores the
//! signals that people send to programs; only SIGKILL ends it early, and then
//! the supervisor starts another.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::child;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::undo::undo;

/// Starts a guardian for a journal.
pub fn start(journal: &Journal) -> Result<Child> {
    let fd = journal.fd().as_raw_fd();
    let arguments = [fd.to_string(), journal.path().display().to_string()];
    child::own(child::GUARDIAN_VERB, &arguments, &[fd], false)
        .stderr(std::process::Stdio::null())
        .spawn()
        .map_err(|cause| Error::Start {
            what: "the guardian".into(),
            cause,
        })
}

/// The guardian process. Returns when the supervisor is gone and everything
/// is undone.
pub fn run(arguments: &[String]) -> Result<()> {
    let (Some(fd), Some(path)) = (
        arguments.first().and_then(|fd| fd.parse().ok()),
        arguments.get(1),
    ) else {
        return Ok(());
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let journal = Journal::inherit(fd, PathBuf::from(path));
    let mut byte = [0];
    while !matches!(std::io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
    if !Path::new(path).exists() {
        return Ok(());
    }
    let left = undo(&journal.entries()?);
    if left.is_empty() {
        journal.close()?;
    }
    Ok(())
}
