// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracefs: the kernel's own record of what it does, in an instance of ours.
//!
//! An instance (`instances/NAME`) has events, a clock, CPUs and buffers of its
//! own; what others trace is not touched, and removing the directory undoes
//! all of it (Documentation/trace/ftrace.rst, "Instances").
//!
//! Where tracefs is not mounted it is mounted on a descriptor and nowhere else
//! (`fsmount`, Linux 5.2): no other process sees it, and it ends with the
//! descriptor.

pub mod format;
mod instance;
pub mod ring;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::remove_dir;
use crate::mountinfo;
use crate::root::write;
use crate::{Error, Result, Root};
pub use instance::{Instance, LossCounts};

/// The tree.
#[derive(Debug)]
pub struct TraceFs {
    dir: PathBuf,
    /// Keeps a mount of our own.
    _mount: Option<OwnedFd>,
}

/// How long the removal of a busy instance is retried: a process that reads
/// from it may be ending.
const PATIENCE: Duration = Duration::from_millis(1500);

impl TraceFs {
    /// The mounted tree, else one mounted for us alone.
    ///
    /// # Errors
    /// [`Error::Missing`] with the remedy where the kernel has no tracing,
    /// where we may not, or where it is locked down.
    pub fn open(root: &Root) -> Result<Self> {
        if let Some(dir) = mount_point(root)? {
            return match fs::read_dir(dir.join("instances")) {
                Ok(_) => Ok(Self { dir, _mount: None }),
                Err(cause) => Err(access_error(root, &format!("{}", dir.display()), &cause)),
            };
        }
        if !root.is_live() {
            return Err(Error::Missing {
                what: "tracefs".to_owned(),
                remedy: "it is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)"
                    .to_owned(),
            });
        }
        let kinds = root.read("/proc/filesystems")?;
        if !kinds.split_whitespace().any(|kind| kind == "tracefs") {
            return Err(Error::Missing {
                what: "tracefs".to_owned(),
                remedy: "this kernel was built without tracing (CONFIG_EVENT_TRACING)".to_owned(),
            });
        }
        let mount =
            detached_mount().map_err(|cause| access_error(root, "mounting tracefs", &cause))?;
        Ok(Self {
            dir: PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())),
            _mount: Some(mount),
        })
    }

    /// The instances that there are.
    pub fn instances(&self) -> Result<Vec<String>> {
        let path = self.dir.join("instances");
        let listing = fs::read_dir(&path).map_err(|cause| Error::Read { path, cause })?;
        let names = listing.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    /// The number of an event, by which perf events know it.
    ///
    /// # Errors
    /// [`Error::Read`] where the kernel has no such event.
    pub fn event_id(&self, system: &str, name: &str) -> Result<u16> {
        let path = self.dir.join("events").join(system).join(name).join("id");
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        let id = text.trim().parse();
        id.map_err(|_| Error::parse(&path, "a number", &text))
    }

    /// Makes an instance. It traces nothing yet, and its buffers, which the
    /// kernel makes of its usual size, are as small as can be.
    pub fn make(self, name: &str) -> Result<Instance> {
        let dir = self.dir.join("instances").join(name);
        fs::create_dir(&dir).map_err(Error::make(&dir))?;
        let instance = Instance { dir, fs: self };
        // Of every CPU; those that are wanted get theirs later.
        let prepared = instance
            .set_on(false)
            .and_then(|()| write(&instance.dir.join("buffer_size_kb"), LEAST_KIB));
        match prepared {
            Ok(()) => Ok(instance),
            Err(error) => {
                let _ = instance.fs.remove(name);
                Err(error)
            }
        }
    }

    /// Removes an instance; it may be gone.
    ///
    /// # Errors
    /// [`Error::Remove`] if it cannot be removed: a process has a file of it open.
    pub fn remove(&self, name: &str) -> Result<()> {
        remove_dir(&self.dir.join("instances").join(name), PATIENCE)
    }
}

/// The smallest buffer: the kernel rounds it up to two pages.
const LEAST_KIB: u64 = 1;

/// Where it is mounted; below debugfs, too, is a mount of its own.
fn mount_point(root: &Root) -> Result<Option<PathBuf>> {
    let mut dirs = mountinfo::read(root)?
        .into_iter()
        .filter(|mount| mount.kind == "tracefs")
        .map(|mount| mount.point);
    Ok(dirs.find(|dir| dir.join("trace_clock").exists() || !readable(dir)))
}

/// Whether we may see what is in it: if not, there may be all.
fn readable(dir: &Path) -> bool {
    !matches!(fs::read_dir(dir), Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied)
}

/// Why we may not, in words.
fn access_error(root: &Root, what: &str, cause: &io::Error) -> Error {
    let lockdown = root
        .read("/sys/kernel/security/lockdown")
        .unwrap_or_default();
    // SAFETY: no arguments, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let remedy = match cause.kind() {
        io::ErrorKind::PermissionDenied if lockdown.contains("[confidentiality]") => {
            "the kernel is locked down (confidentiality), which forbids tracing: boot with \
             lockdown=integrity or none"
        }
        io::ErrorKind::PermissionDenied if !is_root => "it needs root",
        io::ErrorKind::PermissionDenied => {
            "it needs CAP_SYS_ADMIN in the first user namespace: not in a container of an \
             ordinary user"
        }
        io::ErrorKind::ReadOnlyFilesystem => "it is mounted read-only, as in a container",
        _ => "it cannot be used on this machine",
    };
    Error::Missing {
        what: format!("access to tracefs ({what}: {cause})"),
        remedy: remedy.to_owned(),
    }
}

/// A mount that is in no namespace.
fn detached_mount() -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: libc::c_uint = 1;
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    const FSMOUNT_CLOEXEC: libc::c_uint = 1;
    const NOSUID_NODEV_NOEXEC: libc::c_uint = 2 | 4 | 8;
    const TRACEFS: &CStr = c"tracefs";
    let descriptor = |returned: libc::c_long| match i32::try_from(returned) {
        // SAFETY: a descriptor that a system call just gave us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: a string that ends, and flags.
    let context =
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, TRACEFS.as_ptr(), FSOPEN_CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes no key and no value.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            none,
            none,
            0,
        )
    };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an open descriptor of ours, and flags.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            NOSUID_NODEV_NOEXEC,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_where_it_is_mounted() {
        let mounts = "30 23 0:7 / /sys/kernel/debug rw - debugfs debugfs rw\n\
             31 23 0:12 / /sys/kernel/my\\040tracing rw - tracefs tracefs rw\n";
        let (dir, root) = crate::process::tests::fake(&[("proc/self/mountinfo", mounts)]);
        let error = TraceFs::open(&root).unwrap_err().to_string();
        assert!(error.contains("is not mounted"), "{error}");
        let own = dir.path().join("sys/kernel/my tracing");
        fs::create_dir_all(own.join("instances")).unwrap();
        fs::write(own.join("trace_clock"), "[local]\n").unwrap();
        let found = TraceFs::open(&root).unwrap();
        assert_eq!(found.dir, own);
        assert!(found.instances().unwrap().is_empty());
        found.remove("none").unwrap();
    }
}
