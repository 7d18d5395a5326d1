// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of the sockets.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::error::SocketError;
use crate::node::spec::NodeName;

const ENDING: &str = "sock";
const PATIENCE: Duration = Duration::from_secs(1);

/// Where sockets are. Nothing is made before a node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// `nodes` in the directory of the journals (`/run/sandbag`, or
    /// `$XDG_RUNTIME_DIR/sandbag` without root).
    pub fn in_registry(registry: &Path) -> Self {
        Self {
            path: registry.join("nodes"),
        }
    }

    /// `loads`, for the sockets of loads, which have the names of process ids.
    pub fn of_loads(registry: &Path) -> Self {
        Self {
            path: registry.join("loads"),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn socket(&self, name: &NodeName) -> PathBuf {
        self.path.join(format!("{name}.{ENDING}"))
    }

    /// Names of all sockets, ascending, also of those without a server.
    pub(super) fn names(&self) -> Result<Vec<NodeName>, SocketError> {
        let listing = match fs::read_dir(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|cause| self.failed("read", cause))?,
        };
        let mut names: Vec<NodeName> = listing
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == ENDING))
            .filter_map(|path| path.file_stem()?.to_str()?.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Makes it if need be, and makes sure that only `owner` can write to it.
    pub(super) fn prepare(&self, owner: u32) -> Result<(), SocketError> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        // Who can write to the parent can put another directory in our place.
        self.check(parent, owner, 0o022)?;
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.failed("make", cause));
            }
            _ => {}
        }
        match self.check(&self.path, owner, 0) {
            // Removed by the last node in this moment: locking tells.
            Err(SocketError::Call { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            checked => checked?,
        }
        // The mode of a directory that was there, or that a umask thinned.
        match fs::set_permissions(&self.path, Permissions::from_mode(0o700)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("chmod 700", cause))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, path: &Path, owner: u32, forbidden: u32) -> Result<(), SocketError> {
        let meta = fs::symlink_metadata(path).map_err(|cause| SocketError::Call {
            path: path.to_owned(),
            call: "look at",
            cause,
        })?;
        let wrong = |why: String, remedy| SocketError::Directory {
            path: path.to_owned(),
            why,
            remedy,
        };
        if !meta.is_dir() {
            return Err(wrong("it is no directory".to_owned(), "remove it"));
        }
        if meta.uid() != owner {
            let why = format!("it belongs to user {}, not to user {owner}", meta.uid());
            return Err(wrong(why, "remove it, or let its owner do so"));
        }
        match meta.mode() & forbidden {
            0 => Ok(()),
            _ => Err(wrong(
                format!("it has mode {:o}", meta.mode() & 0o7777),
                "take the others' write permission away (chmod go-w)",
            )),
        }
    }

    /// One process at a time makes or removes sockets. The lock is held for
    /// microseconds: a wait beyond a second means a stopped process.
    pub(super) fn lock(&self) -> Result<Flock<File>, SocketError> {
        let mut dir = File::open(&self.path).map_err(|cause| self.failed("open", cause))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
                // The last holder may have removed the directory.
                Ok(lock) if !self.is(&lock) => {
                    return Err(self.failed("lock", io::ErrorKind::NotFound.into()));
                }
                Ok(lock) => return Ok(lock),
                Err((file, Errno::EAGAIN | Errno::EINTR)) if Instant::now() < until => dir = file,
                Err((_, errno)) => return Err(self.failed("lock", errno.into())),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether an open directory is the one that has its name.
    fn is(&self, open: &File) -> bool {
        let of = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let named = fs::symlink_metadata(&self.path).map(of).ok();
        named.is_some() && open.metadata().map(of).ok() == named
    }

    /// Makes and locks it, again if the last node of another run removes it meanwhile.
    pub(super) fn prepare_and_lock(&self, owner: u32) -> Result<Flock<File>, SocketError> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.prepare(owner)?;
            match self.lock() {
                Err(SocketError::Call { cause, .. })
                    if cause.kind() == io::ErrorKind::NotFound && Instant::now() < until => {}
                locked => return locked,
            }
        }
    }

    /// Removes it if nothing is in it; it is locked by the caller.
    pub(super) fn remove_if_empty(&self, _lock: &Flock<File>) {
        let _ = fs::remove_dir(&self.path);
    }

    fn failed(&self, call: &'static str, cause: io::Error) -> SocketError {
        SocketError::Call {
            path: self.path.clone(),
            call,
            cause,
        }
    }
}
