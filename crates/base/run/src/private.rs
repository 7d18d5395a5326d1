// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A directory and files that only their owner can have written.
//!
//! What a journal says is done with our rights, so its owner and its mode are
//! checked before anything in it is read. A umask decides nothing here.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use crate::error::{Error, Result};

/// Write permission of group and others.
const WRITE_OF_OTHERS: u32 = 0o022;
/// Only owners remove or rename what is in such a directory.
const STICKY: u32 = 0o1000;

/// Makes a directory of mode 0700 if need be.
pub fn make_dir(dir: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::file(dir)(cause));
        }
        _ => {}
    }
    check_dir(dir)
}

/// Makes sure that no other user can write in a directory that is there, nor put
/// another in its place. One that others can only read, of an earlier version,
/// is closed to them: a user who can open it can lock it.
///
/// # Errors
/// [`Error::NotPossible`] for one that others could write in; [`Error::File`]
/// if it cannot be looked at.
pub fn check_dir(dir: &Path) -> Result<()> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Links on the way to it are the administrator's; it must be none itself.
    let above = fs::metadata(parent).map_err(Error::file(parent))?;
    if above.uid() != 0 && above.uid() != us() {
        return Err(not_ours(
            parent,
            &above,
            "set XDG_RUNTIME_DIR to one of yours",
        ));
    }
    if above.mode() & WRITE_OF_OTHERS != 0 && above.mode() & STICKY == 0 {
        return Err(writable(parent, &above));
    }
    let meta = fs::symlink_metadata(dir).map_err(Error::file(dir))?;
    if !meta.is_dir() {
        return Err(trust_error(
            dir,
            "it is no directory".to_owned(),
            "remove it",
        ));
    }
    if meta.uid() != us() {
        return Err(not_ours(dir, &meta, "remove it, or have its owner do so"));
    }
    if meta.mode() & WRITE_OF_OTHERS != 0 {
        return Err(writable(dir, &meta));
    }
    match meta.mode() & 0o7777 {
        0o700 => Ok(()),
        _ => fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(Error::file(dir)),
    }
}

/// Creates a file of mode 0600 for appending. It must not be there.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .read(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // A umask may have taken our own rights away.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens a file for reading and appending: an ordinary one with one name, that
/// is ours and that no other user can write to.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for any other.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        // A FIFO without a reader must not be waited for.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let meta = file.metadata()?;
    let wrong = if !meta.is_file() {
        Some("it is no ordinary file".to_owned())
    } else if meta.uid() != us() {
        Some(format!(
            "it belongs to user {}, not to user {}",
            meta.uid(),
            us()
        ))
    } else if meta.mode() & WRITE_OF_OTHERS != 0 {
        Some(format!(
            "others can write to it (mode {:o})",
            meta.mode() & 0o7777
        ))
    } else if meta.nlink() > 1 {
        Some(format!("it has {} names", meta.nlink()))
    } else {
        None
    };
    match wrong {
        None => Ok(file),
        Some(why) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not read, because {why}: see where it comes from, then remove it"),
        )),
    }
}

fn us() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

fn not_ours(path: &Path, meta: &Metadata, remedy: &str) -> Error {
    let why = format!("it belongs to user {}, not to user {}", meta.uid(), us());
    trust_error(path, why, remedy)
}

fn writable(path: &Path, meta: &Metadata) -> Error {
    trust_error(
        path,
        format!("others can write in it (mode {:o})", meta.mode() & 0o7777),
        "remove what is not yours in it, then chmod go-w",
    )
}

fn trust_error(path: &Path, why: String, remedy: &str) -> Error {
    let what = format!("{} cannot be trusted, because {why}", path.display());
    Error::not_possible(what, remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn error_text(outcome: Result<()>) -> String {
        match outcome {
            Err(error @ Error::NotPossible { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directory_and_files_are_private_whatever_the_umask() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("r");
        // In a process of its own: the umask belongs to all threads.
        // SAFETY: the child calls what these functions call, and ends.
        let made = unsafe {
            match libc::fork() {
                0 => {
                    libc::umask(0);
                    let made = make_dir(&dir).is_ok() && create(&dir.join("1.journal")).is_ok();
                    libc::_exit(i32::from(!made));
                }
                child => {
                    let mut status = -1;
                    libc::waitpid(child, &raw mut status, 0);
                    status
                }
            }
        };
        assert_eq!(made, 0);
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join("1.journal")), 0o600);
    }

    #[test]
    fn a_directory_that_others_can_write_in_is_refused_and_one_they_can_read_closed() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("r");
        fs::create_dir(&dir).unwrap();
        chmod(&dir, 0o755);
        make_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        for open in [0o777, 0o770, 0o702, 0o1777] {
            chmod(&dir, open);
            assert!(
                error_text(make_dir(&dir)).contains("others can write"),
                "{open:o}"
            );
            assert_eq!(mode(&dir), open);
        }
        chmod(&dir, 0o700);
        // A user who can write above it can put another in its place, except
        // in a sticky directory such as /tmp.
        chmod(place.path(), 0o777);
        error_text(make_dir(&dir));
        chmod(place.path(), 0o1777);
        make_dir(&dir).unwrap();
        let link = place.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(error_text(make_dir(&link)).contains("no directory"));
    }

    #[test]
    fn a_file_that_others_could_write_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("1.journal");
        create(&path).unwrap();
        open(&path).unwrap();
        let refused = |path: &Path| match open(path) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("opened"),
        };
        chmod(&path, 0o666);
        assert!(refused(&path).contains("mode 666"));
        chmod(&path, 0o600);
        let link = place.path().join("2.journal");
        symlink(&path, &link).unwrap();
        refused(&link);
        let second = place.path().join("3.journal");
        fs::hard_link(&path, &second).unwrap();
        assert!(refused(&second).contains("2 names"));
        let fifo = place.path().join("4.journal");
        let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a valid string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(refused(&fifo).contains("no ordinary file"));
    }

    #[test]
    #[ignore = "needs root; make unit runs it"]
    fn what_belongs_to_another_user_is_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        chmod(place.path(), 0o1777);
        let dir = place.path().join("r");
        fs::create_dir(&dir).unwrap();
        chmod(&dir, 0o700);
        let path = dir.join("1.journal");
        create(&path).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("user 65534"));
        chown(&dir, Some(65_534), None).unwrap();
        assert!(error_text(make_dir(&dir)).contains("user 65534"));
        chown(place.path(), Some(65_534), None).unwrap();
        chown(&dir, Some(0), None).unwrap();
        assert!(error_text(make_dir(&dir)).contains("user 65534"));
    }
}
