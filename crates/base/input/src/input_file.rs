// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a command reads: no result takes their place.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Without links: the number of a file that was removed is soon that of another.
static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Opens an input. From then on this process replaces it by no result, also with `--force`.
///
/// # Errors
/// It cannot be opened, or is a directory.
pub fn open_input(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if meta.is_file() {
        read.extend(fs::canonicalize(path));
    }
    Ok(file)
}

/// Whether the name is one of an input.
pub(crate) fn is_input(path: &Path) -> bool {
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    fs::canonicalize(path).is_ok_and(|path| read.contains(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Existing, NameTaken, NewFile, open_new};

    #[test]
    fn what_was_read_is_replaced_by_no_result() {
        let dir = tempfile::tempdir().unwrap();
        let (read, link) = (dir.path().join("read"), dir.path().join("link"));
        fs::write(&read, "old").unwrap();
        std::os::unix::fs::symlink(&read, &link).unwrap();
        assert!(NewFile::create(&link, Existing::Replace).is_ok());
        drop(open_input(&read).unwrap());
        for path in [&read, &link] {
            let refused = NewFile::create(path, Existing::Replace).map(drop);
            assert!(NameTaken::is_cause(&refused.unwrap_err()));
            assert!(open_new(path, Existing::Replace).is_err());
        }
        assert_eq!(fs::read_to_string(&read).unwrap(), "old");
        let error = open_input(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
