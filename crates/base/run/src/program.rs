// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether CMD can be run at all, asked before anything is changed for it; and
//! how we ourselves were called.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::Error;
use sandbag_ui::failure::Context as _;

/// The words of our own command line, for a record that others may read.
pub fn arguments() -> Vec<String> {
    // Not `args`, which panics where one is not text.
    std::env::args_os()
        .skip(1)
        .map(|word| sandbag_ui::address::public(&word.to_string_lossy()))
        .collect()
}

/// A command line, for people.
pub fn words(command: &[OsString]) -> Vec<String> {
    command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Looks for the program of `command` as execvp(3) will. No command is fine.
pub fn check(command: &[OsString]) -> sandbag_ui::Result<()> {
    check_in(command, Path::new(""), None)
}

/// The file of the program, which was found by [`check`].
pub fn locate(command: &[OsString]) -> sandbag_ui::Result<PathBuf> {
    let program = command.first().context("no command")?;
    Ok(find(program, &search_path())?)
}

pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    find(name.as_ref(), &search_path()).ok()
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
}

/// The same for a program that will be started in `dir`, with this PATH.
pub fn check_in(
    command: &[OsString],
    dir: &Path,
    path: Option<OsString>,
) -> sandbag_ui::Result<()> {
    let Some(program) = command.first() else {
        return Ok(());
    };
    let path = path.unwrap_or_else(search_path);
    let there = if program.as_bytes().contains(&b'/') {
        dir.join(program).into_os_string()
    } else {
        program.clone()
    };
    let Err(cause) = find(&there, &path) else {
        return Ok(());
    };
    let advice = match cause.kind() {
        io::ErrorKind::NotFound => "CMD was not found; give its path, or look at PATH",
        _ => "CMD cannot be executed",
    };
    let program = program.to_string_lossy().into_owned();
    Err(Error::Command { program, cause }).context(advice)
}

/// Where a program is that is named like this.
pub fn find(program: &OsStr, path: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return executable(Path::new(program)).map(|()| program.into());
    }
    let mut result = Err(io::Error::from_raw_os_error(libc::ENOENT));
    for dir in std::env::split_paths(path) {
        let file: PathBuf = dir.join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            // What is there and cannot be executed says more than what is not.
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => result = Err(cause),
            Err(_) => {}
        }
    }
    result
}

fn executable(file: &Path) -> io::Result<()> {
    if std::fs::metadata(file)?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let name = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: a valid C string.
    match unsafe { libc::access(name.as_ptr(), libc::X_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_by_path() {
        let path = OsStr::new("/nonexistent:/bin:/usr/bin");
        assert!(find(OsStr::new("sh"), path).is_ok());
        assert!(find(OsStr::new("/bin/sh"), OsStr::new("")).is_ok());
        let missing = find(OsStr::new("no-such-program"), path).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_cannot_be_executed_is_not_called_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain"), "").unwrap();
        let path = std::env::join_paths([dir.path(), Path::new("/nonexistent")]).unwrap();
        let error = find(OsStr::new("plain"), &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(find(dir.path().as_os_str(), &path).is_err());
    }
}
