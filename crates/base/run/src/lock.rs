// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lock for changing what runs share, and for listing the runs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbag_linux::Root;
use sandbag_linux::process::Process;

use crate::error::{Error, Result};

/// How long the lock is waited for. It is held for milliseconds, and for up to
/// 1.5 s per setting that the kernel does not take back at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const POLL: Duration = Duration::from_millis(2);

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
    /// Waits for it, for 5 s at most.
    ///
    /// # Errors
    /// The directory cannot be opened, or is locked for longer than that: the
    /// holder is named.
    pub fn of(dir: &Path) -> Result<Self> {
        Self::within(dir, PATIENCE)
    }

    /// Waits for it, for `patience` at most.
    pub fn within(dir: &Path, patience: Duration) -> Result<Self> {
        let failed = Error::file(dir);
        let file = File::open(dir).map_err(failed)?;
        let begin = Instant::now();
        while !try_lock(&file).map_err(failed)? {
            if begin.elapsed() >= patience {
                return Err(failed(held(&file, patience)));
            }
            std::thread::sleep(POLL);
        }
        Ok(Self(file))
    }
}

/// Locks an open file unless another process has it locked.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: an open descriptor of ours.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let cause = io::Error::last_os_error();
    match cause.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
        _ => Err(cause),
    }
}

fn held(file: &File, patience: Duration) -> io::Error {
    let holder = holder(&Root::default(), file);
    let (who, remedy) = match holder {
        Some(pid) => {
            let name = Process::new(&Root::default(), pid).stat();
            let name = name.map_or_else(|_| String::new(), |stat| stat.name);
            (
                format!("process {pid} ({})", name),
                format!(": end it, or let it go on if it is stopped (kill -CONT {pid})"),
            )
        }
        None => (
            "a process that cannot be seen from here".to_owned(),
            ", perhaps in another container".to_owned(),
        ),
    };
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("locked for more than {patience:?} by {who}{remedy}"),
    )
}

/// Which process holds a lock on this file, by `/proc/locks`
/// (proc_locks(5)).
pub fn holder(root: &Root, file: &File) -> Option<u32> {
    let meta = file.metadata().ok()?;
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let device = format!("{major:02x}:{minor:02x}");
    let locks = root.read("/proc/locks").ok()?;
    let holders = locks.lines().filter_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; those who wait
        // have `->` after the number.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = fields[..] else {
            return None;
        };
        let (on, number) = place.rsplit_once(':')?;
        let pid: u32 = pid.parse().ok()?;
        (number.parse() == Ok(meta.ino()) && pid != 0).then_some((on == device, pid))
    });
    // Inode numbers repeat on other file systems: a lock on the device of our file is preferred.
    // In an overlay the lock is on another device than the file, so any other counts there.
    let found = holders.max_by_key(|(is_on_device, _)| *is_on_device);
    found.map(|(_, pid)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

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
    fn a_lock_that_is_never_released_is_waited_for_in_vain_and_its_holder_named() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Lock::of(dir.path()).unwrap();
        let begin = Instant::now();
        let error = Lock::within(dir.path(), Duration::from_millis(20)).unwrap_err();
        assert!(begin.elapsed() >= Duration::from_millis(20));
        let text = error.to_string();
        let begin = dir.path().display().to_string();
        assert!(text.starts_with(&begin), "{text}");
        let us = format!("by process {} (", std::process::id());
        assert!(text.contains(&us) && text.contains("kill -CONT"), "{text}");
    }

    #[test]
    fn a_file_with_our_number_on_another_device_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        let meta = file.metadata().unwrap();
        let (dev, inode) = (meta.dev(), meta.ino());
        let ours = format!("{:02x}:{:02x}", libc::major(dev), libc::minor(dev));
        let line = |n: u32, pid: u32, on: &str| {
            format!("{n}: FLOCK  ADVISORY  WRITE {pid} {on}:{inode} 0 EOF\n")
        };
        let (before, after) = (line(1, 11, "fff:ff"), line(3, 13, "fff:fe"));
        let all = format!("{before}{}{after}", line(2, 12, &ours));
        for (text, pid) in [
            (all.as_str(), Some(12)),
            (before.as_str(), Some(11)),
            ("", None),
        ] {
            let (_dir, root) = crate::testing::machine(&[("proc/locks", text)]);
            assert_eq!(holder(&root, &file), pid, "{text}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Lock::of(Path::new("/nonexistent/sandbag")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/sandbag: "));
    }
}
