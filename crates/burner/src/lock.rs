// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One at a time: whoever changes what runs share, or asks who they are.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use crate::error::{Error, Result};

/// The lock on the directory of the journals, held as long as this lives.
///
/// A journal is there a moment before it is locked itself, and must not be
/// taken for a dead run's then. And what belongs to the machine (a
/// controller, a sysctl) is changed for the first run that needs it and put
/// back after the last: looking who else needs it, noting and changing must
/// be one step.
///
/// Not to be taken twice by one thread, which would wait for itself.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    /// Waits for it.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn of(dir: &Path) -> Result<Self> {
        let failed = |cause| Error::File {
            path: dir.to_owned(),
            cause,
        };
        let file = File::open(dir).map_err(failed)?;
        loop {
            // SAFETY: an open descriptor of ours.
            match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
                0 => return Ok(Self(file)),
                _ => match io::Error::last_os_error() {
                    cause if cause.kind() == io::ErrorKind::Interrupted => {}
                    cause => return Err(failed(cause)),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn the_second_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::of(dir.path()).unwrap();
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = Lock::of(dir.path()).unwrap();
                assert!(released.load(Ordering::SeqCst));
            });
            std::thread::sleep(Duration::from_millis(30));
            released.store(true, Ordering::SeqCst);
            drop(first);
        });
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Lock::of(Path::new("/nonexistent/sandbag")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/sandbag: "));
    }
}
