// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that takes its name when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::input_file::is_input;
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
pub enum NameTaken {
    #[error("it exists already; name another, or --force replaces it")]
    Exists,
    #[error("it is an input of this command, too; give the result another name")]
    Input,
    /// By the time the result was whole.
    #[error("another file has this name by now; the result is in {0}")]
    Meanwhile(String),
}

impl NameTaken {
    fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::AlreadyExists, self)
    }

    /// Whether this is the reason of an error, and the name was given so.
    pub fn is_cause(error: &io::Error) -> bool {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        matches!(cause, Some(Self::Exists | Self::Input))
    }
}

/// Refuses a name that a file has already, and one that was read ([`crate::open_input`]). Standard output by another name,
/// devices and pipes are no results.
///
/// # Errors
/// [`NameTaken`].
pub fn refuse_taken(path: &Path, existing: Existing) -> io::Result<()> {
    let taken = existing == Existing::Refuse
        && descriptor(path).is_none()
        && fs::metadata(path).is_ok_and(|meta| meta.is_file());
    if taken {
        Err(NameTaken::Exists.error())
    } else if is_input(path) {
        Err(NameTaken::Input.error())
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
        io::ErrorKind::AlreadyExists => NameTaken::Exists.error(),
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
/// [`NewFile::finish`]. Until then readers see the old file, and an interrupted program leaves no
/// file.
///
/// Where the file system has no unnamed files (open(2), O_TMPFILE: NFS), it is
/// `.NAME.PID` until then, which a program that is killed leaves. Devices and pipes
/// are written directly, and so are files in directories in which none can be made.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    existing: Existing,
    place: Place,
}

/// Where the bytes are until the end.
#[derive(Debug)]
enum Place {
    Target,
    Unnamed,
    Beside(Temporary),
}

/// A name beside a file, which goes with this.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    /// Makes a file of a name that nothing has.
    fn make<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        /// What was killed, and another host's process of our number, leave names.
        const MOST: u32 = 10;
        let name = |nth: u32| {
            let mut name = OsString::from(".");
            name.push(target.file_name().unwrap_or_default());
            name.push(format!(".{}", std::process::id()));
            if nth > 1 {
                name.push(format!(".{nth}"));
            }
            directory(target).join(name)
        };
        let (path, made) = first_free(name, MOST, make);
        made.map(|made| (Self(path), made))
    }
}

/// Makes something of the first of `most` names that nothing has; the first is number 1. The
/// name, and what came of it.
pub fn first_free<T>(
    name: impl Fn(u32) -> PathBuf,
    most: u32,
    make: impl Fn(&Path) -> io::Result<T>,
) -> (PathBuf, io::Result<T>) {
    let mut nth = 1;
    loop {
        let path = name(nth);
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && nth < most => nth += 1,
            made => return (path, made),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may have its own name by now.
        let _ = fs::remove_file(&self.0);
    }
}

impl NewFile {
    /// Begins a file. A symbolic link stays one.
    ///
    /// # Errors
    /// [`NameTaken`], or it cannot be made.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        Self::create_by(path, existing, |options, dir| {
            let mut options = options.clone();
            options.custom_flags(OFlag::O_TMPFILE.bits()).open(dir)
        })
    }

    /// The same; `open_unnamed` makes a file without a name in a directory.
    fn create_by(
        path: &Path,
        existing: Existing,
        open_unnamed: impl FnOnce(&OpenOptions, &Path) -> io::Result<File>,
    ) -> io::Result<Self> {
        refuse_taken(path, existing)?;
        let directly = |target: PathBuf| {
            Ok(Self {
                file: open_new(&target, existing)?,
                target,
                existing,
                place: Place::Target,
            })
        };
        if descriptor(path).is_some() {
            return directly(path.to_owned());
        }
        let target = fs::canonicalize(path).unwrap_or_else(|_| link_target(path));
        let before = fs::metadata(&target);
        if before.as_ref().is_ok_and(|meta| !meta.is_file()) {
            return directly(target);
        }
        // Others may not read it before its end either.
        let mode = before.map_or(0o666, |meta| meta.permissions().mode() & 0o777);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode);
        let made = match open_unnamed(&options, directory(&target)) {
            Ok(file) => Ok((file, Place::Unnamed)),
            Err(_) => {
                options.create_new(true);
                let made = Temporary::make(&target, |name| options.open(name));
                made.map(|(named, file)| (file, Place::Beside(named)))
            }
        };
        match made {
            Ok((file, place)) => Ok(Self {
                file,
                target,
                existing,
                place,
            }),
            // The old one would be lost, and the new one not written.
            Err(error) if is_full(&error) => Err(error),
            Err(_) => directly(target),
        }
    }

    /// Gives it its name, once its bytes are on the disk: a quota, or the server of a network file
    /// system, may refuse them only then.
    ///
    /// # Errors
    /// It cannot take it; [`NameTaken`] where another file came meanwhile.
    pub fn finish(self) -> io::Result<()> {
        sync(&self.file)?;
        self.put(sync)
    }

    /// The same without waiting for the disk: of what is written again and again.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_unsynced(self) -> io::Result<()> {
        self.put(|_| Ok(()))
    }

    fn put(mut self, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        let source = match &self.place {
            Place::Target => return Ok(()),
            Place::Unnamed => format!("/proc/self/fd/{}", self.file.as_raw_fd()).into(),
            Place::Beside(named) => named.0.clone(),
        };
        if let Ok(before) = fs::metadata(&self.target) {
            // The new file keeps the permissions of the old one.
            let _ = self.file.set_permissions(before.permissions());
        }
        let link = |name: &Path| {
            let follow = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, &source, AT_FDCWD, name, follow).map_err(io::Error::from)
        };
        if self.existing == Existing::Refuse {
            return match link(&self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(self.link_numbered(link)?.error())
                }
                // Without /proc, or without such links: at least nothing was touched until now.
                Err(_) => self.copy(sync),
                Ok(()) => Ok(()),
            };
        }
        let rename = |named: &Temporary| fs::rename(&named.0, &self.target);
        let replaced = match &self.place {
            Place::Beside(named) => rename(named),
            _ => Temporary::make(&self.target, link).and_then(|(named, ())| rename(&named)),
        };
        match replaced {
            Err(error) if !is_full(&error) => self.copy(sync),
            replaced => replaced,
        }
    }

    /// Gives it the first free name with a number behind it: measuring again takes minutes.
    fn link_numbered(&self, link: impl Fn(&Path) -> io::Result<()>) -> io::Result<NameTaken> {
        const MOST: u32 = 1000;
        let name = |nth: u32| {
            let mut name = self.target.clone().into_os_string();
            name.push(format!(".{nth}"));
            PathBuf::from(name)
        };
        let (path, linked) = first_free(name, MOST, link);
        linked.map(|()| NameTaken::Meanwhile(path.display().to_string()))
    }

    /// Where it cannot take its name: the target may be a mount, or another's in a sticky directory.
    fn copy(&mut self, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        self.file.rewind()?;
        let mut target = open_new(&self.target, self.existing)?;
        io::copy(&mut self.file, &mut target)?;
        sync(&target)
    }
}

/// Waits until all of a file is on its disk; pipes and devices have none.
///
/// # Errors
/// The disk, a quota or the server of a network file system refuses it.
pub fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if is_one_of(&error, &[Errno::EINVAL, Errno::EROFS]) => Ok(()),
        synced => synced,
    }
}

/// Whether there is no room for another file.
pub fn is_full(error: &io::Error) -> bool {
    is_one_of(error, &[Errno::ENOSPC, Errno::EDQUOT])
}

fn is_one_of(error: &io::Error, numbers: &[Errno]) -> bool {
    let is_it = |number: i32| numbers.contains(&Errno::from_raw(number));
    error.raw_os_error().is_some_and(is_it)
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

    type Create = fn(&Path, Existing) -> io::Result<NewFile>;

    /// As on a file system without unnamed files.
    fn create_named(path: &Path, existing: Existing) -> io::Result<NewFile> {
        NewFile::create_by(path, existing, |_, _| Err(Errno::EOPNOTSUPP.into()))
    }

    #[test]
    fn the_old_one_stays_until_the_new_one_is_whole() {
        the_old_one_stays(NewFile::create);
        the_old_one_stays(create_named);
    }

    fn the_old_one_stays(create: Create) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("a.csv", &link).unwrap();

        let mut dropped = create(&path, Existing::Replace).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");

        let mut new = create(&link, Existing::Replace).unwrap();
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
        for create in [NewFile::create as Create, create_named] {
            let _ = fs::remove_file(&path);
            let mut new = create(&path, Existing::Refuse).unwrap();
            new.write_all(b"new").unwrap();
            fs::write(&path, "old").unwrap();
            let error = new.finish().unwrap_err();
            assert!(!NameTaken::is_cause(&error), "{error}");
            let numbered = dir.path().join("a.csv.1");
            assert!(error.to_string().contains("a.csv.1"), "{error}");
            assert_eq!(fs::read_to_string(&numbered).unwrap(), "new");
            fs::remove_file(numbered).unwrap();
        }
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
        for create in [NewFile::create as Create, create_named] {
            for existing in [Existing::Refuse, Existing::Replace] {
                let _ = fs::remove_file(&path);
                let new = create(&path, existing).unwrap();
                assert!(!path.exists());
                new.finish().unwrap();
                assert!(path.is_file());
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            }
        }
        let mut null = NewFile::create(Path::new("/dev/null"), Existing::Refuse).unwrap();
        null.write_all(b"x").unwrap();
        null.finish().unwrap();
        assert!(NewFile::create(&dir.path().join("no/such"), Existing::Refuse).is_err());
    }
    /// A file that was killed while it was written, and two at once, keep their names.
    #[test]
    fn a_temporary_name_that_is_taken_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        let stale = dir.path().join(format!(".c.{}", std::process::id()));
        fs::write(&stale, "stale").unwrap();
        for create in [NewFile::create as Create, create_named] {
            let mut new = create(&path, Existing::Replace).unwrap();
            new.write_all(b"new").unwrap();
            new.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(fs::read_to_string(&stale).unwrap(), "stale");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_file_of_the_machine_s_own_is_written_to_and_not_replaced() {
        // Nothing can be made beside it, also by root.
        let path = Path::new("/proc/self/comm");
        let before = fs::read_to_string(path).unwrap();
        let mut new = create_named(path, Existing::Replace).unwrap();
        assert!(matches!(new.place, Place::Target));
        new.write_all(before.as_bytes()).unwrap();
        new.finish().unwrap();
    }

    #[test]
    fn what_is_not_on_a_disk_needs_no_sync() {
        let (_reader, writer) = nix::unistd::pipe().unwrap();
        sync(&File::from(writer)).unwrap();
        sync(&File::create("/dev/null").unwrap()).unwrap();
    }
}
