// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library, from within our own binary to where a dynamic linker finds it.
//!
//! It is a file in a directory of the run. Not /proc/PID/fd/N: that name dies
//! with us, while programs that we started may go on to start others, and it
//! means nothing in another namespace. Where files cannot be executed (many
//! /run are mounted noexec) the linker could not load it and would say so in
//! the program's own output, so each place is tried before it is used.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use sandbag_linux::Root;
use sandbag_linux::process::Process;

use crate::inside::error::{Error, Result};
use crate::inside::outcome::{InsideOutcome, SufferEnd};

/// The shared object.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libsandbag_jitter.so"));
/// Its file name.
pub const LIBRARY_NAME: &str = "libsandbag_jitter.so";
/// Where the library looks for the plan.
pub const PLAN_VARIABLE: &str = "SANDBAG_JITTER_PLAN";
/// The program that never suffers: sandbag, which becomes CMD by exec and may
/// have been linked dynamically.
pub const SELF_VARIABLE: &str = "SANDBAG_JITTER_SELF";
/// Where the linker looks for libraries to load first.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// A file of c/: its name and its contents.
macro_rules! c_file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../c/", $name)))
    };
}

/// What C programs need: names and contents.
pub const C_FILES: [(&str, &[u8]); 11] = [
    c_file!("sandbag_jitter.h"),
    c_file!("jitter.c"),
    c_file!("jitter_booking.inc"),
    c_file!("jitter_walk.inc"),
    c_file!("jitter_inject.inc"),
    c_file!("jitter_threads.inc"),
    c_file!("jitter_plan.inc"),
    c_file!("jitter_calls.inc"),
    c_file!("jitter.h"),
    c_file!("plan.h"),
    (LIBRARY_NAME, LIBRARY),
];

/// A directory with the library in it, and room for the plan.
#[derive(Debug)]
pub struct LibraryDir {
    dir: PathBuf,
    keep: bool,
}

/// Directories of ours; our process id follows.
const PREFIX: &str = "sandbag-inside-";

impl LibraryDir {
    /// Makes it for programs of this user and group, if not ours. What runs
    /// left that were killed is removed first.
    ///
    /// # Errors
    /// [`Error::NoPlace`].
    pub fn make(user: Option<(u32, u32)>) -> Result<Self> {
        Self::with_room(user, 0)
    }

    /// The same where a plan of so many bytes finds room, too.
    ///
    /// # Errors
    /// [`Error::NoPlace`].
    pub fn with_room(user: Option<(u32, u32)>, bytes: u64) -> Result<Self> {
        let mut tried = Vec::new();
        let bases = bases(user.is_some());
        for base in bases {
            let made = check_owner(&base).and_then(|()| {
                sweep(&base);
                Self::in_base(&base, user, bytes)
            });
            match made {
                Ok(place) => return Ok(place),
                Err(why) => tried.push(format!("{}: {why}", base.display())),
            }
        }
        Err(Error::NoPlace {
            tried: tried.join("; "),
        })
    }

    fn in_base(
        base: &Path,
        user: Option<(u32, u32)>,
        bytes: u64,
    ) -> std::result::Result<Self, String> {
        if base
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| b" :$;".contains(byte))
        {
            return Err("its name has a space, colon or dollar sign".to_owned());
        }
        let made = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(fs::Permissions::from_mode(0o711))
            .tempdir_in(base)
            .map_err(|error| error.to_string())?;
        let library = made.path().join(LIBRARY_NAME);
        let written = || {
            // The umask may have taken from what was asked.
            fs::set_permissions(made.path(), fs::Permissions::from_mode(0o711))?;
            fs::write(&library, LIBRARY)?;
            fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
            if let Some((uid, gid)) = user {
                chown(made.path(), Some(uid), Some(gid))?;
            }
            executable(&library)
        };
        written().map_err(|error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM) => "mounted noexec".to_owned(),
            Some(libc::ENOSPC | libc::EDQUOT) => "it is full".to_owned(),
            _ => error.to_string(),
        })?;
        // The library is there by now. The plan is allocated whole when it is
        // written: who takes the room meanwhile is noticed then.
        let free = free_bytes(base).unwrap_or(u64::MAX);
        if free < bytes {
            return Err(format!(
                "{} KiB are free, and the plan takes {}",
                free >> 10,
                bytes.div_ceil(1 << 10)
            ));
        }
        Ok(Self {
            dir: made.keep(),
            keep: false,
        })
    }

    /// Where the plan goes.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.dir.join("plan")
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What a program's environment is to hold. Others that are to be loaded
    /// stay before ours: a sanitizer insists on being the first.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut preload = std::env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
        if !preload.is_empty() {
            preload.push(":");
        }
        preload.push(self.dir.join(LIBRARY_NAME));
        let own_path = fs::read_link("/proc/self/exe").unwrap_or_default();
        vec![
            (PRELOAD_VARIABLE, preload),
            (PLAN_VARIABLE, self.plan().into_os_string()),
            (SELF_VARIABLE, own_path.into_os_string()),
        ]
    }

    /// Leaves the directory to those that live on, for what they start would
    /// complain of a library that is gone. How many they are.
    pub fn leave_to_the_living(&mut self, outcome: &InsideOutcome) -> usize {
        let living = living(outcome);
        self.keep = living > 0;
        living
    }
}

impl Drop for LibraryDir {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// What others than root may use of a file system.
fn free_bytes(path: &Path) -> Option<u64> {
    let about = nix::sys::statvfs::statvfs(path).ok()?;
    // Their types differ between machines.
    #[allow(clippy::useless_conversion)]
    u64::from(about.blocks_available()).checked_mul(u64::from(about.fragment_size()))
}

fn living(outcome: &InsideOutcome) -> usize {
    let pids = outcome
        .slots
        .iter()
        .filter(|slot| slot.held && slot.ended != SufferEnd::Exit && lives(slot.pid));
    let mut pids: Vec<u32> = pids.map(|slot| slot.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.len()
}

fn lives(pid: u32) -> bool {
    Process::new(&Root::default(), pid).lives()
}

/// In the order in which they are tried: what the user wishes, then memory.
fn bases(for_another_user: bool) -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let mut bases: Vec<PathBuf> = variable("TMPDIR").map(PathBuf::from).into_iter().collect();
    if !for_another_user {
        bases.extend(variable("XDG_RUNTIME_DIR").map(PathBuf::from));
    }
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        bases.push("/run".into());
    }
    bases.extend(["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from));
    bases.retain(|base| base.is_absolute());
    bases
}

/// Whether nobody but root and us can put another directory in the place of
/// one that we make there: what lies in it is loaded into CMD.
fn check_owner(base: &Path) -> std::result::Result<(), String> {
    const WRITE_OF_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let meta = fs::metadata(base).map_err(|error| error.to_string())?;
    // SAFETY: no arguments, cannot fail.
    let us = unsafe { libc::geteuid() };
    if meta.uid() != 0 && meta.uid() != us {
        return Err(format!("it belongs to user {}", meta.uid()));
    }
    if meta.mode() & WRITE_OF_OTHERS != 0 && meta.mode() & STICKY == 0 {
        Err("others can write in it, and it has no sticky bit".to_owned())
    } else {
        Ok(())
    }
}

/// Removes what killed runs of ours left, unless somebody of theirs lives:
/// such a directory is looked at again by the next run.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        if pid.is_none_or(lives) {
            continue;
        }
        let path = entry.path();
        // SAFETY: no arguments, cannot fail.
        let us = unsafe { libc::geteuid() };
        let ours = fs::symlink_metadata(&path)
            .is_ok_and(|meta| meta.is_dir() && (meta.uid() == us || us == 0));
        if ours && nobody_lives(&path.join("plan")) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Of a plan that was left.
fn nobody_lives(plan: &Path) -> bool {
    match crate::inside::plan::read_outcome(plan) {
        Some(outcome) => living(&outcome) == 0,
        None => true,
    }
}

/// Whether it can be mapped as a program is.
fn executable(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: a mapping of its own that is taken away again, of a page of a
    // file that is longer.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(at, 4096);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_asks_for_no_version_of_any_c_library() {
        let has = |what: &[u8]| LIBRARY.windows(what.len()).any(|bytes| bytes == what);
        assert!(LIBRARY.starts_with(b"\x7fELF"));
        assert!(has(b"sandbag_jitter_poll\0") && has(b"libdl.so.2\0"));
        assert!(!has(b"libc.so.6"));
        // A version would have its name among the strings.
        assert!(!has(b"GLIBC_"), "built against a version");
    }

    #[test]
    fn a_directory_in_which_others_can_replace_ours_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let chmod = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        check_owner(dir.path()).unwrap();
        chmod(0o777);
        assert!(check_owner(dir.path()).unwrap_err().contains("sticky"));
        chmod(0o1777);
        check_owner(dir.path()).unwrap();
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            chown(dir.path(), Some(65_534), None).unwrap();
            assert!(check_owner(dir.path()).unwrap_err().contains("user 65534"));
        }
    }

    #[test]
    fn a_place_is_there_and_goes_again() {
        let place = LibraryDir::make(None).unwrap();
        let dir = place.dir().to_owned();
        assert!(dir.join(LIBRARY_NAME).exists());
        let environment = place.environment();
        assert_eq!(environment[1].1, dir.join("plan"));
        drop(place);
        assert!(!dir.exists());
    }

    #[test]
    fn places_with_separators_in_their_names_are_not_used() {
        let base = tempfile::tempdir().unwrap();
        let odd = base.path().join("a b");
        fs::create_dir(&odd).unwrap();
        assert!(
            LibraryDir::in_base(&odd, None, 0)
                .unwrap_err()
                .contains("space")
        );
        assert!(LibraryDir::in_base(&base.path().join("missing"), None, 0).is_err());
        // Nor those that are full, and nothing is left there.
        let full = LibraryDir::in_base(base.path(), None, u64::MAX).unwrap_err();
        assert!(full.contains("are free, and the plan takes"), "{full}");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_run_left_is_removed() {
        let base = tempfile::tempdir().unwrap();
        // No process has that number.
        let dead = base.path().join(format!("{PREFIX}4294967295-x"));
        let alive = base
            .path()
            .join(format!("{PREFIX}{}-x", std::process::id()));
        let other = base.path().join("else");
        for dir in [&dead, &alive, &other] {
            fs::create_dir(dir).unwrap();
        }
        sweep(base.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
    }
}
