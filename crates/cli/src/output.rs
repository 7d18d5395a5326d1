// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every command that writes has in common.

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_burner::command::User;
use sandbag_profile::NewFile;
use sandbag_report::text::{visible, visible_lines};

use crate::exit::BadInput;

/// Writes text or JSON to standard output, with what could drive a terminal
/// made visible: it ends in one, or in a log that is shown on one. Whoever
/// closed the pipe, such as `head`, has seen enough: that is no failure.
pub(crate) fn print(text: impl AsRef<str>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = visible_lines(text.as_ref());
    unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Standard output for files in a format of their own: byte for byte, but on a
/// terminal as [`print`].
pub(crate) fn stdout() -> Data<io::Stdout> {
    let out = io::stdout();
    Data {
        held: out.is_terminal().then(Vec::new),
        out,
    }
}

/// See [`stdout`]. Whole lines are passed on; the last by `flush`.
pub(crate) struct Data<W: Write> {
    out: W,
    /// What a terminal has not got yet; `None`: this is no terminal.
    held: Option<Vec<u8>>,
}

impl<W: Write> Write for Data<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(held) = &mut self.held else {
            return self.out.write(bytes);
        };
        held.extend_from_slice(bytes);
        if let Some(end) = held.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = held.drain(..=end).collect();
            let lines = visible_lines(&String::from_utf8_lossy(&lines));
            self.out.write_all(lines.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(held) = &mut self.held {
            let rest = visible(&String::from_utf8_lossy(held));
            held.clear();
            self.out.write_all(rest.as_bytes())?;
        }
        self.out.flush()
    }
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
        let mut out = stdout();
        return Ok(unless_closed(
            out.write_all(text.as_ref()).and_then(|()| out.flush()),
        )?);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn data(terminal: bool, pieces: &[&[u8]]) -> Vec<u8> {
        let mut data = Data {
            out: Vec::new(),
            held: terminal.then(Vec::new),
        };
        for piece in pieces {
            data.write_all(piece).unwrap();
        }
        data.flush().unwrap();
        data.out
    }

    #[test]
    fn data_reaches_a_terminal_escaped_and_a_pipe_as_it_is() {
        // A character that two writes share is still one.
        let pieces: [&[u8]; 3] = [b"host \xc2", b"\x9b31m\nnext", b"\x1b[m"];
        let expected = b"host \\u009b31m\nnext\\u001b[m";
        assert_eq!(data(true, &pieces), expected);
        assert_eq!(data(false, &pieces), pieces.concat());
    }
}
