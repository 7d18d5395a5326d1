// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guardian: a process that waits for the supervisor to die.
//!
//! It holds the other end of a pipe. When the pipe closes and the journal is
//! there, the supervisor did not get to clean up, and the guardian undoes the
//! journal. It is started before there is a journal, so that there is no
//! moment at which a change is noted and nobody watches. It lives in a session
//! of its own and ignores the signals that people send to programs; only
//! SIGKILL ends it early, and then the supervisor starts another.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use sandbag_kernel::signals::ENDING;

use crate::child;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::undo::{Leftovers, undo};

/// How long a journal may be held by somebody else after the supervisor's
/// end: by the supervisor itself, whose descriptors close one after another,
/// or by another sandbag that found it and undoes it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it goes on with what could not be undone at once: processes that
/// have ended keep their group until their parent has asked for their end.
const PERSISTENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Starts a guardian for a journal that is or will be at `journal`.
pub fn start(journal: &Path) -> Result<Child> {
    let arguments = [journal.display().to_string()];
    child::own(child::GUARDIAN_VERB, &arguments, &[], false)
        .stderr(std::process::Stdio::null())
        .spawn()
        .map_err(|cause| Error::Start {
            what: "the guardian".into(),
            cause,
        })
}

/// Closes the pipe and waits until the guardian has undone what it found.
/// Nobody else may hold the journal any more.
pub fn dismiss(mut guardian: Child) {
    drop(guardian.stdin.take());
    let _ = guardian.wait();
}

/// Closes the pipe without waiting: it goes on in the background with what
/// could not be undone.
pub fn leave_to_it(mut guardian: Child) {
    drop(guardian.stdin.take());
}

/// The guardian process. Returns when the supervisor is gone and everything
/// is undone.
pub fn run(arguments: &[String]) -> Result<()> {
    let Some(path) = arguments.first().map(PathBuf::from) else {
        return Ok(());
    };
    for signal in ENDING {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal as i32, libc::SIG_IGN) };
    }
    let mut byte = [0];
    while !matches!(std::io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
    let mut give_up = Instant::now() + PATIENCE;
    let mut tried = false;
    while path.exists() && Instant::now() < give_up {
        let Some(journal) = Journal::take_over(&path)? else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        // What is left stays in the journal: for the next try, or `restore`.
        if undo(journal, Leftovers::AsNoted).is_empty() {
            break;
        }
        if !tried {
            tried = true;
            give_up = Instant::now() + PERSISTENCE;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
