// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that takes its name when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

/// What becomes of a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is not written.
    Refuse,
    /// The new one takes its place.
    Replace,
}

impl Existing {
    /// What `--force` chooses.
    pub fn by_force(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// Why a name is not written to, as the cause of an [`io::Error`] of kind
/// [`io::ErrorKind::AlreadyExists`].
#[derive(Debug, thiserror::Error)]
#[error("it exists already; name another, or --force replaces it")]
pub struct NameTaken;

impl NameTaken {
    fn error() -> io::Error {
        io::Error::new(io::ErrorKind::AlreadyExists, Self)
    }

    /// Whether this is the reason of an error.
    pub fn is_cause(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<Self>())
    }
}

/// Refuses a name that a file has already. Standard output by another name,
/// devices and pipes are no results.
///
/// # Errors
/// [`NameTaken`].
pub fn refuse_taken(path: &Path, existing: Existing) -> io::Result<()> {
    let taken = existing == Existing::Refuse
        && descriptor(path).is_none()
        && fs::metadata(path).is_ok_and(|meta| meta.is_file());
    if taken {
        Err(NameTaken::error())
    } else {
        Ok(())
    }
}

/// Opens a file that is written piece by piece, and read meanwhile.
///
/// # Errors
/// [`NameTaken`], or it cannot be made.
pub fn open_new(path: &Path, existing: Existing) -> io::Result<File> {
    if let Some(duplicate) = open_descriptor(path) {
        return duplicate;
    }
    refuse_taken(path, existing)?;
    let is_there = fs::metadata(path).is_ok();
    let mut options = OpenOptions::new();
    options.write(true);
    match existing {
        // What comes into being meanwhile stays, too.
        Existing::Refuse if !is_there => options.create_new(true),
        _ => options.create(true).truncate(true),
    };
    let opened = options.open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => NameTaken::error(),
        _ => error,
    })
}

/// The descriptor of this process that a path names, such as /dev/stdout.
fn descriptor(path: &Path) -> Option<RawFd> {
    let name = path.file_name()?.to_str()?;
    let is_in = |dir: &str| path.parent() == Some(Path::new(dir));
    match name {
        "stdout" if is_in("/dev") => Some(1),
        "stderr" if is_in("/dev") => Some(2),
        _ if is_in("/dev/fd") || is_in("/proc/self/fd") => {
            name.parse().ok().filter(|number| *number >= 0)
        }
        _ => None,
    }
}

/// A duplicate of the descriptor that a path names; `None` for every other path. Opened by its
/// name a file would be written from its beginning, also where a shell opened it to append.
pub fn open_descriptor(path: &Path) -> Option<io::Result<File>> {
    let number = descriptor(path)?;
    // SAFETY: it is borrowed for one system call, which refuses a number that is not open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Some(descriptor.try_clone_to_owned().map(File::from))
}

/// A file that appears under its name, or replaces the old one, only in
/// [`NewFile::finish`]. Until then readers see the old file (also where an
/// output is an input), and an interrupted program leaves no file.
///
/// Devices and pipes are written directly, and so are files where the file
/// system or the permissions of the directory do not allow unnamed files
/// (open(2), O_TMPFILE).
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    existing: Existing,
    unnamed: bool,
}

impl NewFile {
    /// Begins a file. A symbolic link stays one.
    ///
    /// # Errors
    /// [`NameTaken`], or it cannot be made.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        refuse_taken(path, existing)?;
        let directly = |target: PathBuf| {
            Ok(Self {
                file: open_new(&target, existing)?,
                target,
                existing,
                unnamed: false,
            })
        };
        if descriptor(path).is_some() {
            return directly(path.to_owned());
        }
        let target = fs::canonicalize(path).unwrap_or_else(|_| link_target(path));
        if fs::metadata(&target).is_ok_and(|meta| !meta.is_file()) {
            return directly(target);
        }
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o666)
            .custom_flags(OFlag::O_TMPFILE.bits())
            .open(directory(&target));
        match unnamed {
            Ok(file) => Ok(Self {
                file,
                target,
                existing,
                unnamed: true,
            }),
            Err(_) => directly(target),
        }
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// It cannot take it; [`NameTaken`] where another file came meanwhile.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if !self.unnamed {
            return Ok(());
        }
        if let Ok(before) = fs::metadata(&self.target) {
            // The new file keeps the permissions of the old one.
            let _ = self.file.set_permissions(before.permissions());
        }
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let link = |name: &Path| {
            let follow = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, own.as_str(), AT_FDCWD, name, follow)
        };
        if self.existing == Existing::Refuse {
            match link(&self.target) {
                Ok(()) => return Ok(()),
                Err(Errno::EEXIST) => return Err(NameTaken::error()),
                Err(_) => return self.copy(),
            }
        }
        let mut name = OsString::from(".");
        name.push(self.target.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let named = directory(&self.target).join(name);
        match link(&named) {
            Ok(()) => fs::rename(&named, &self.target).inspect_err(|_| {
                let _ = fs::remove_file(&named);
            }),
            Err(_) => self.copy(),
        }
    }

    /// Without /proc: at least nothing was touched until now.
    fn copy(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        let mut target = open_new(&self.target, self.existing)?;
        io::copy(&mut self.file, &mut target).map(drop)
    }
}

/// To where links lead that lead to nothing yet: that is where the file is to be,
/// as if a shell wrote it.
fn link_target(path: &Path) -> PathBuf {
    /// As the kernel (path_resolution(7)).
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = directory(&path).join(link),
            Err(_) => break,
        }
    }
    path
}

fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_old_one_stays_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("a.csv", &link).unwrap();

        let mut dropped = NewFile::create(&path, Existing::Replace).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");

        let mut new = NewFile::create(&link, Existing::Replace).unwrap();
        new.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        new.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_exists_is_refused_also_if_it_came_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let mut new = NewFile::create(&path, Existing::Refuse).unwrap();
        new.write_all(b"new").unwrap();
        fs::write(&path, "old").unwrap();
        assert!(NameTaken::is_cause(&new.finish().unwrap_err()));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("a.csv", &link).unwrap();
        for name in [&path, &link] {
            let refused = NewFile::create(name, Existing::Refuse).unwrap_err();
            assert!(NameTaken::is_cause(&refused), "{refused}");
            assert!(NameTaken::is_cause(
                &open_new(name, Existing::Refuse).unwrap_err()
            ));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        for name in ["/dev/null", "/dev/stdout", "/proc/self/fd/1"] {
            refuse_taken(Path::new(name), Existing::Refuse).unwrap();
        }
    }

    #[test]
    fn what_a_descriptor_appends_to_is_kept_and_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("week.csv");
        for (existing, of) in [
            (Existing::Refuse, "/dev/fd"),
            (Existing::Replace, "/proc/self/fd"),
        ] {
            fs::write(&path, "monday\n").unwrap();
            let append = OpenOptions::new().append(true).open(&path).unwrap();
            let name = Path::new(of).join(append.as_raw_fd().to_string());
            let mut piecewise = open_new(&name, existing).unwrap();
            piecewise.write_all(b"tuesday\n").unwrap();
            let mut whole = NewFile::create(&name, existing).unwrap();
            whole.write_all(b"wednesday\n").unwrap();
            whole.finish().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text, "monday\ntuesday\nwednesday\n");
        }
    }

    #[test]
    fn names_of_descriptors() {
        for (name, number) in [
            ("/dev/stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/0", Some(0)),
            ("/dev/fd", None),
            ("/dev/fd/-1", None),
            ("/dev/fd/1/a.csv", None),
            ("/dev/null", None),
            ("stdout", None),
        ] {
            assert_eq!(descriptor(Path::new(name)), number, "{name}");
        }
        let closed = open_descriptor(Path::new("/dev/fd/1000000000")).unwrap();
        assert!(closed.is_err());
        assert!(open_descriptor(Path::new("/dev/null")).is_none());
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("second", &link).unwrap();
        std::os::unix::fs::symlink("c", dir.path().join("second")).unwrap();
        let mut new = NewFile::create(&link, Existing::Replace).unwrap();
        new.write_all(b"new").unwrap();
        new.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("c")).unwrap(), "new");
    }

    #[test]
    fn a_name_that_is_not_there_yet_and_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let new = NewFile::create(&path, Existing::Replace).unwrap();
        assert!(!path.exists());
        new.finish().unwrap();
        assert!(path.is_file());
        let mut null = NewFile::create(Path::new("/dev/null"), Existing::Refuse).unwrap();
        null.write_all(b"x").unwrap();
        null.finish().unwrap();
        assert!(NewFile::create(&dir.path().join("no/such"), Existing::Refuse).is_err());
    }
}
