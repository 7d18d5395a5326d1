// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guardian: a process that waits for the supervisor to die.
//!
//! It holds the other end of a pipe. When the pipe closes and the journal is
//! there, the supervisor did not get to clean up, and the guardian undoes the
//! journal. It is started before there is a journal, so that there is no
//! moment at which a change is noted and no guardian watches. It lives in a session
//! of its own and ignores the signals that people send to programs; only
//! SIGKILL ends it early, and then the supervisor starts another.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::signals::ENDING;

use crate::child;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::undo::{Left, Leftovers, undo_on};

/// How long a journal may be held by another process after the supervisor's
/// end: by the supervisor itself, whose descriptors close one after another,
/// or by another sandbag that found it and undoes it. After that it is undone
/// all the same: each step may be done twice.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a journal that is held.
const POLL: Duration = Duration::from_millis(2);
/// First and longest pause between two tries to undo what could not be undone
/// at once: processes that have ended keep their group until their parent has
/// asked for their end.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

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
/// No other process may hold the journal any more.
pub fn dismiss(mut guardian: Child) {
    release(&mut guardian);
    let _ = guardian.wait();
}

/// Closes the pipe without waiting: it goes on in the background with what
/// could not be undone.
pub fn leave_to_it(mut guardian: Child) {
    release(&mut guardian);
}

/// Closes the pipe of one that may be stopped: it would not see that, and never end.
pub(crate) fn release(guardian: &mut Child) {
    drop(guardian.stdin.take());
    let _ = kill(Pid::from_raw(guardian.id().cast_signed()), Signal::SIGCONT);
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
    finish(&path, PATIENCE, PAUSES, |journal| {
        undo_on(&Root::default(), journal, Leftovers::AsNoted)
    });
    Ok(())
}

/// Undoes a journal whose run has ended, until nothing is left that another
/// try could undo. What is left then stays in it, for `restore` to name.
fn finish(
    path: &Path,
    patience: Duration,
    (mut pause, most): (Duration, Duration),
    mut undo: impl FnMut(Journal) -> Left,
) {
    let begin = Instant::now();
    let mut ours = None;
    loop {
        let journal = match Journal::open(path) {
            Ok(None) => return,
            Ok(Some(journal)) => match journal.inode() {
                // Undone by another sandbag, and this is a later run's.
                Ok(inode) if *ours.get_or_insert(inode) != inode => return,
                Ok(_) => journal,
                Err(_) => {
                    std::thread::sleep(pause);
                    continue;
                }
            },
            // Nothing that we would undo.
            Err(Error::File { cause, .. }) if cause.kind() == ErrorKind::InvalidData => return,
            // Too many files are open, say.
            Err(_) => {
                std::thread::sleep(pause);
                continue;
            }
        };
        let locked = journal.lock().unwrap_or(false);
        if !locked && begin.elapsed() < patience {
            std::thread::sleep(POLL);
            continue;
        }
        // Removed by the process that held it.
        if locked && !path.exists() {
            return;
        }
        if undo(journal).later.is_empty() {
            return;
        }
        std::thread::sleep(pause);
        pause = most.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(2));

    fn journal(dir: &Path) -> Journal {
        testing::journal(dir, testing::info(7), &[])
    }

    fn later(why: &str) -> Left {
        Left {
            later: vec![why.to_owned()],
            ..Left::default()
        }
    }

    #[test]
    fn one_that_is_stopped_is_not_waited_for_without_end() {
        use std::process::{Command, Stdio};
        // It ends when its pipe closes, as a guardian does.
        let mut cat = Command::new("cat");
        let cat = cat.stdin(Stdio::piped()).stdout(Stdio::null());
        let guardian = cat.spawn().unwrap();
        let pid = Pid::from_raw(guardian.id().cast_signed());
        kill(pid, Signal::SIGSTOP).unwrap();
        let (over, ended) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            dismiss(guardian);
            over.send(()).unwrap();
        });
        let ended = ended.recv_timeout(Duration::from_secs(10));
        if ended.is_err() {
            kill(pid, Signal::SIGKILL).unwrap();
        }
        waiting.join().unwrap();
        ended.unwrap();
    }

    #[test]
    fn a_journal_that_somebody_keeps_locked_is_undone_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let held = journal(dir.path());
        let path = held.path().to_owned();
        let begin = Instant::now();
        finish(&path, Duration::from_millis(30), PAUSES, |journal| {
            journal.close().unwrap();
            Left::default()
        });
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert!(!path.exists());
    }

    #[test]
    fn what_could_not_be_undone_is_tried_again_until_nothing_is_left_to_try() {
        let dir = tempfile::tempdir().unwrap();
        let path = journal(dir.path()).path().to_owned();
        let mut tries = 0;
        finish(&path, Duration::ZERO, PAUSES, |_| {
            tries += 1;
            match tries {
                // For longer than it would wait for a lock.
                1..40 => later("processes do not leave"),
                _ => Left {
                    never: vec!["not understood".to_owned()],
                    ..Left::default()
                },
            }
        });
        assert_eq!(tries, 40);
        assert!(path.exists());
    }

    #[test]
    fn the_journal_of_a_later_run_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = journal(dir.path());
        let path = first.path().to_owned();
        drop(first);
        let mut second = None;
        let mut tries = 0;
        finish(&path, Duration::ZERO, PAUSES, |first| {
            tries += 1;
            // Another sandbag undoes it, and a process gets the same number;
            // the first file keeps its inode as long as it is open.
            std::fs::remove_file(first.path()).unwrap();
            second = Some((journal(dir.path()), first));
            later("not yet")
        });
        assert_eq!(tries, 1);
        assert!(path.exists());
    }
}
