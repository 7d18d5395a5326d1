// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every command that writes has in common.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_burner::command::User;
use sandbag_profile::NewFile;

use crate::exit::BadInput;

/// Standard output. A reader that closed the pipe, such as `head`, has seen
/// enough: what follows is dropped, and that is no failure.
#[derive(Debug)]
pub(crate) struct Stdout(io::Stdout);

/// Standard output for a command that writes piece by piece.
pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush())
    }
}

/// Writes to [`stdout`].
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_ref())?;
    out.flush()
}

/// Columns of the terminal that standard output is.
pub(crate) fn width() -> Option<usize> {
    width_of(&io::stdout())
}

/// Columns of the terminal that this is; `None` for files and pipes, and for
/// terminals that do not say.
pub(crate) fn width_of(stream: &(impl AsFd + io::IsTerminal)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    // SAFETY: all zero is a valid size, and the call fills in one of these.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let fd = stream.as_fd().as_raw_fd();
        match libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) {
            0 => size,
            _ => return None,
        }
    };
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// What became of writing to standard output, where a closed pipe is no
/// failure.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a file, whole or not at all; standard output for `-`.
pub(crate) fn put(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if path.as_os_str() == "-" {
        return Ok(print(text)?);
    }
    let name = || path.display().to_string();
    let mut file = NewFile::create(path).with_context(name)?;
    let written = file.write_all(text.as_ref());
    written.and_then(|()| file.finish()).with_context(name)?;
    give_to_caller(path);
    Ok(())
}

/// A file or directory of ours becomes the user's. One that was not written
/// cannot, and a device that was written to must not.
pub(crate) fn give_to(path: &Path, user: Option<&User>) {
    let found = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() || meta.is_dir());
    if let Some(user) = user.filter(|_| found) {
        let _ = lchown(path, Some(user.uid), Some(user.gid));
    }
}

/// Under sudo the calling user owns what we leave.
pub(crate) fn give_to_caller(path: &Path) {
    give_to(path, User::behind_sudo().as_ref());
}

/// The input is read while the output is written.
pub(crate) fn refuse_same_file(input: &Path, output: &Path) -> Result<()> {
    let identity = |path: &Path| {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((meta.dev(), meta.ino()))
    };
    match identity(input).zip(identity(output)) {
        Some((from, to)) if from == to => Err(BadInput(format!(
            "{} is both IN and OUT; give another name for OUT",
            output.display()
        ))
        .into()),
        _ => Ok(()),
    }
}
