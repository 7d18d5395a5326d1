// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that takes its name when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

/// What is being written. Until [`NewFile::finish`] there is no file of that
/// name, or the one that was there before: who reads it meanwhile (also we
/// ourselves, where an output is an input) reads the old one, and whoever is
/// interrupted leaves nothing behind.
///
/// Devices and pipes are written as they are; and so are files where the file
/// system or the directory's permissions know no unnamed files (open(2),
/// O_TMPFILE).
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    unnamed: bool,
}

impl NewFile {
    /// Begins a file. A symbolic link stays one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| followed(path));
        let directly = |target: PathBuf| {
            Ok(Self {
                file: File::create(&target)?,
                target,
                unnamed: false,
            })
        };
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
                unnamed: true,
            }),
            Err(_) => directly(target),
        }
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// It cannot take it.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if !self.unnamed {
            return Ok(());
        }
        if let Ok(before) = fs::metadata(&self.target) {
            // Whoever could read the old one can read the new one.
            let _ = self.file.set_permissions(before.permissions());
        }
        let mut name = OsString::from(".");
        name.push(self.target.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let named = directory(&self.target).join(name);
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let linked = linkat(
            AT_FDCWD,
            own.as_str(),
            AT_FDCWD,
            &named,
            AtFlags::AT_SYMLINK_FOLLOW,
        );
        match linked {
            Ok(()) => fs::rename(&named, &self.target).inspect_err(|_| {
                let _ = fs::remove_file(&named);
            }),
            Err(_) => {
                // Without /proc: at least nothing was touched until now.
                self.file.rewind()?;
                io::copy(&mut self.file, &mut File::create(&self.target)?).map(drop)
            }
        }
    }
}

/// To where links lead that lead to nothing yet: that is where the file is to be,
/// as if a shell wrote it.
fn followed(path: &Path) -> PathBuf {
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

        let mut dropped = NewFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");

        let mut new = NewFile::create(&link).unwrap();
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
    fn a_link_to_what_is_not_there_yet_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("second", &link).unwrap();
        std::os::unix::fs::symlink("c", dir.path().join("second")).unwrap();
        let mut new = NewFile::create(&link).unwrap();
        new.write_all(b"new").unwrap();
        new.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("c")).unwrap(), "new");
    }

    #[test]
    fn a_name_that_is_not_there_yet_and_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let new = NewFile::create(&path).unwrap();
        assert!(!path.exists());
        new.finish().unwrap();
        assert!(path.is_file());
        let mut null = NewFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"x").unwrap();
        null.finish().unwrap();
        assert!(NewFile::create(&dir.path().join("no/such")).is_err());
    }
}
