// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library on its way from our binary to a place where a dynamic linker finds it.
//!
//! It is a file in a directory of the run. Not /proc/PID/fd/N: that name ends with
//! sandbag, while programs that sandbag started may go on to start others, and it
//! means nothing in another namespace. Where files cannot be executed (/run is often
//! mounted noexec) the linker could not load it and would print an error to the
//! program's output, so each place is tried before it is used.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use sandbag_linux::Root;
use sandbag_linux::process::{self, Process};
use sandbag_run::lock::try_lock;

use crate::inside::error::{Error, Result};

/// The shared object.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libsandbag_jitter.so"));
/// Its file name.
pub const LIBRARY_NAME: &str = "libsandbag_jitter.so";
/// Where the library looks for the plan.
pub const PLAN_VARIABLE: &str = "SANDBAG_JITTER_PLAN";
/// The program that never suffers: sandbag, which becomes CMD by exec and may be
/// linked dynamically.
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
    /// Held as long as the run lives, for runs that cannot see our process.
    #[expect(dead_code, reason = "closing it unlocks")]
    lock: File,
}

/// Directories of ours; our process id follows.
const PREFIX: &str = "sandbag-inside-";

impl LibraryDir {
    /// Makes it for programs of this user and group (ours if `None`), where a plan
    /// of `bytes` finds room. The directories of killed runs are removed first.
    ///
    /// # Errors
    /// [`Error::NoPlace`].
    pub fn make(user: Option<(u32, u32)>, bytes: u64) -> Result<Self> {
        let mut tried = Vec::new();
        for base in bases(user.is_some()) {
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

    fn in_base(base: &Path, user: Option<(u32, u32)>, bytes: u64) -> Result<Self, String> {
        let mut name = base.as_os_str().as_bytes().iter();
        if name.any(|byte| b" :$;".contains(byte)) {
            return Err("its name has a space, colon or dollar sign".to_owned());
        }
        let made = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(fs::Permissions::from_mode(0o711))
            .tempdir_in(base)
            .map_err(|error| error.to_string())?;
        let lock = open_dir(made.path()).and_then(|dir| try_lock(&dir).map(|_| dir));
        let lock = lock.map_err(|error| error.to_string())?;
        let library = made.path().join(LIBRARY_NAME);
        let written = || {
            // The umask may have removed some.
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
        // The library is written by now. The plan is allocated whole when it is
        // written: if the room is taken meanwhile, that fails.
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
            lock,
        })
    }

    /// Path of the plan.
    pub fn plan(&self) -> PathBuf {
        self.dir.join("plan")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Variables of the program's environment. Other libraries to preload stay
    /// before ours: a sanitizer must be the first.
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

    /// Keeps the directory if processes of the program are still running: programs
    /// that they start would complain about a missing library. Their number.
    pub fn keep_for_running(&mut self) -> usize {
        let living = living(&self.dir);
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

/// Free space of a file system for users other than root.
fn free_bytes(path: &Path) -> Option<u64> {
    let about = nix::sys::statvfs::statvfs(path).ok()?;
    // Their types differ between machines.
    #[allow(clippy::useless_conversion)]
    u64::from(about.blocks_available()).checked_mul(u64::from(about.fragment_size()))
}

/// Number of processes that have the library of this directory, with jitter or without, also
/// those of containers.
fn living(dir: &Path) -> usize {
    let Some(name) = dir.file_name().and_then(|name| name.to_str()) else {
        return 0;
    };
    let library = format!("{name}/{LIBRARY_NAME}");
    let has_it = |pid: &u32| {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&maps).contains(&library)
    };
    let all = process::pids(&Root::default()).unwrap_or_default();
    all.iter().filter(|pid| has_it(pid)).count()
}

fn lives(pid: u32) -> bool {
    Process::new(&Root::default(), pid).lives()
}

/// Directories to try, in this order: those of the user, then memory.
fn bases(for_another_user: bool) -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let mut bases: Vec<PathBuf> = variable("TMPDIR").map(PathBuf::from).into_iter().collect();
    if !for_another_user {
        bases.extend(variable("XDG_RUNTIME_DIR").map(PathBuf::from));
    }
    if geteuid().is_root() {
        bases.push("/run".into());
    }
    bases.extend(["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from));
    bases.retain(|base| base.is_absolute());
    bases
}

/// Checks that only root and this user can replace a directory that is made there:
/// its contents are loaded into CMD.
fn check_owner(base: &Path) -> Result<(), String> {
    const WRITE_OF_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let meta = fs::metadata(base).map_err(|error| error.to_string())?;
    if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
        return Err(format!("it belongs to user {}", meta.uid()));
    }
    if meta.mode() & WRITE_OF_OTHERS != 0 && meta.mode() & STICKY == 0 {
        Err("others can write in it, and it has no sticky bit".to_owned())
    } else {
        Ok(())
    }
}

/// Removes the directories of killed runs, unless a process of theirs still runs:
/// then the next run looks again.
fn sweep(base: &Path) {
    let us = geteuid();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        if pid.is_none_or(lives) {
            continue;
        }
        let path = entry.path();
        let ours = fs::symlink_metadata(&path)
            .is_ok_and(|meta| meta.is_dir() && (us.is_root() || meta.uid() == us.as_raw()));
        // The number may be that of a process in another container, which has the lock.
        let is_held = || open_dir(&path).is_ok_and(|dir| matches!(try_lock(&dir), Ok(false)));
        if !ours || is_held() {
            continue;
        }
        if living(&path) == 0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Others may put any kind of file in its place.
fn open_dir(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path)
}

/// Whether it can be mapped as a program is.
fn executable(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: a new mapping that is removed again, of a page of a longer file.
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
        if geteuid().is_root() {
            chown(dir.path(), Some(65_534), None).unwrap();
            assert!(check_owner(dir.path()).unwrap_err().contains("user 65534"));
        }
    }

    #[test]
    fn a_place_is_there_and_goes_again() {
        let place = LibraryDir::make(None, 0).unwrap();
        let dir = place.dir().to_owned();
        assert!(dir.join(LIBRARY_NAME).exists());
        let environment = place.environment();
        assert_eq!(environment[1].1, dir.join("plan"));
        drop(place);
        assert!(!dir.exists());
    }

    #[test]
    fn a_base_with_separators_in_its_name_or_too_little_room_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let odd = base.path().join("a b");
        fs::create_dir(&odd).unwrap();
        for (base, bytes, reason) in [
            (odd.as_path(), 0, "space"),
            (&base.path().join("missing"), 0, "No such file"),
            (base.path(), u64::MAX, "are free, and the plan takes"),
        ] {
            let error = LibraryDir::in_base(base, None, bytes).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        // Nothing is left there.
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
        // Of another PID namespace.
        let held = base.path().join(format!("{PREFIX}4294967294-x"));
        for dir in [&dead, &alive, &other, &held] {
            fs::create_dir(dir).unwrap();
        }
        let lock = open_dir(&held).unwrap();
        assert!(try_lock(&lock).unwrap());
        sweep(base.path());
        assert!(!dead.exists() && alive.exists() && other.exists() && held.exists());
        drop(lock);
        sweep(base.path());
        assert!(!held.exists());
    }
}
