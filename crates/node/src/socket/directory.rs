// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of the sockets.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::SocketError;
use crate::spec::NodeName;

/// Ending of a socket's name.
const ENDING: &str = "sock";
/// How long the lock is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where sockets are. Nothing is made before a node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// `nodes` in the directory of the journals (`/run/sandbag`, or
    /// `$XDG_RUNTIME_DIR/sandbag` without root).
    #[must_use]
    pub fn in_registry(registry: &Path) -> Self {
        Self {
            path: registry.join("nodes"),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a node's socket is.
    #[must_use]
    pub fn socket(&self, name: &NodeName) -> PathBuf {
        self.path.join(format!("{name}.{ENDING}"))
    }

    /// Names of all sockets, ascending, also of those that nobody serves.
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
        self.check(&self.path, owner, 0)?;
        // The mode of a directory that was there, or that a umask thinned.
        fs::set_permissions(&self.path, Permissions::from_mode(0o700))
            .map_err(|cause| self.failed("chmod 700", cause))
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

    /// Only one process at a time makes or removes sockets: between looking
    /// whether anybody serves one and taking its place nobody may do the
    /// same. The lock ends with the value. It is held for microseconds, so
    /// that whoever waits longer than a second waits for a stopped process.
    pub(super) fn lock(&self) -> Result<Flock<File>, SocketError> {
        let mut dir = File::open(&self.path).map_err(|cause| self.failed("open", cause))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((file, Errno::EAGAIN | Errno::EINTR)) if Instant::now() < until => dir = file,
                Err((_, errno)) => return Err(self.failed("lock", errno.into())),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn failed(&self, call: &'static str, cause: io::Error) -> SocketError {
        SocketError::Call {
            path: self.path.clone(),
            call,
            cause,
        }
    }
}
