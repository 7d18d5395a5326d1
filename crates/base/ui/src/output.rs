// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every command that writes has in common.

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use crate::address::public;
use crate::failure::{Context as _, Result};
use crate::report::HOSTS_JSON;
use crate::text::{visible, visible_lines};
use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbag_input::{Existing, NewFile, refuse_taken};
use sandbag_linux::user::User;
use serde::Serialize;

use crate::BadInput;

/// Writes text or JSON to standard output with control characters escaped: it
/// ends on a terminal, or in a log that is shown on one. A reader that closes
/// the pipe early, such as `head`, is no failure.
pub fn print(text: impl AsRef<str>) -> io::Result<()> {
    print_while_read(text).map(drop)
}

/// As [`fn@print`], for what is printed again and again: false once the reader is gone.
pub fn print_while_read(text: impl AsRef<str>) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let text = visible_lines(text.as_ref());
    // Writing nothing would not show it.
    if text.is_empty() && is_closed(&out) {
        return Ok(false);
    }
    is_read(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Whether this is a pipe or a socket whose reading end is closed.
fn is_closed(out: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let seen = fds[0].revents().unwrap_or(PollFlags::empty());
    // Of a pipe the first, of a socket the second.
    polled.is_ok() && seen.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
}

/// Standard output for files in a format of their own: byte for byte, but on a
/// terminal as [`fn@print`].
pub fn stdout() -> Data<io::Stdout> {
    let out = io::stdout();
    Data {
        held: out.is_terminal().then(Vec::new),
        out,
    }
}

/// See [`stdout`]. Whole lines are passed on; the last by `flush`.
pub struct Data<W: Write> {
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
pub fn width() -> Option<usize> {
    width_of(&io::stdout())
}

/// Columns of the terminal that this is; `None` for files and pipes, and for
/// terminals that do not say.
pub fn width_of(stream: &(impl AsFd + io::IsTerminal)) -> Option<usize> {
    size_of(stream).map(|(columns, _)| columns)
}

/// Columns and lines of the terminal that this is; `None` as for [`width_of`].
pub fn size_of(stream: &(impl AsFd + io::IsTerminal)) -> Option<(usize, usize)> {
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
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(columns, _)| *columns > 0)
}

/// What became of writing to standard output, where a closed pipe is no
/// failure.
pub fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    is_read(written).map(drop)
}

/// Whether the other end of standard output was open.
fn is_read(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// Whether results that exist are replaced.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Overwrite {
    /// Replace a result that exists
    #[arg(long)]
    pub force: bool,
}

impl Overwrite {
    /// What becomes of a file that exists.
    pub fn existing(self) -> Existing {
        Existing::by_force(self.force)
    }

    /// Refuses a file that exists, or whose directory does not, before anything is measured for
    /// it.
    pub fn check(self, path: Option<&Path>) -> Result<()> {
        self.check_within(path, None)
    }

    /// The same of a file that may be in the directory `made`, which the command makes.
    pub fn check_within(self, path: Option<&Path>, made: Option<&Path>) -> Result<()> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(());
        };
        if made.is_none() || path.parent() != made {
            check_parent(path)?;
        }
        refuse_taken(path, self.existing())
            .map_err(|error| BadInput(format!("{}: {error}", path.display())).into())
    }

    /// Refuses a directory with a result in it. Why a run was not made is no
    /// result.
    pub fn check_dir(self, dir: Option<&Path>) -> Result<()> {
        if let Some(file) = dir.filter(|dir| dir.exists() && !dir.is_dir()) {
            let file = file.display();
            return Err(BadInput(format!("{file} is no directory; name another one")).into());
        }
        let Some(dir) = dir.filter(|_| !self.force) else {
            return Ok(());
        };
        // Its windows are of no run.
        let of_failure = [RUN_JSON, ACHIEVED_CSV, SHORT_CSV];
        let is_result = |name: &&&str| {
            let failed = || is_failure(&dir.join(RUN_JSON));
            dir.join(**name).exists() && !(of_failure.contains(*name) && failed())
        };
        match RESULTS.iter().find(is_result) {
            None => Ok(()),
            Some(name) => Err(BadInput(format!(
                "{} holds a result already ({name}); name another directory, or --force replaces it",
                dir.display()
            ))
            .into()),
        }
    }
}

/// Refuses a file whose directory is not there, before anything is measured for it.
///
/// # Errors
/// [`BadInput`] that names the directory.
pub fn check_parent(file: &Path) -> Result<()> {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            let [file, dir] = [file, dir].map(|path| public(&path.to_string_lossy()));
            Err(BadInput(format!("{file}: there is no directory {dir}")).into())
        }
        _ => Ok(()),
    }
}

/// Whether a record says why there was no run.
fn is_failure(record: &Path) -> bool {
    let text = fs::read(record).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&text)
        .is_ok_and(|record| record.get("failed_at").is_some())
}

/// The record of a run, in its directory.
pub const RUN_JSON: &str = "run.json";
/// The record of several nodes.
pub const NODES_JSON: &str = "nodes.json";

/// The windows of a run, in its directory.
pub const ACHIEVED_CSV: &str = "achieved.csv";
/// The windows of 100 ms, on request.
pub const SHORT_CSV: &str = "achieved-100ms.csv";
/// The page, in the directory.
pub const REPORT_HTML: &str = "report.html";

/// What a directory holds a result by: all that a run, an experiment or a sweep replaces there.
pub const RESULTS: [&str; 7] = [
    RUN_JSON,
    NODES_JSON,
    SWEEP_JSON,
    HOSTS_JSON,
    ACHIEVED_CSV,
    SHORT_CSV,
    REPORT_HTML,
];

/// What a program did under many conditions, in the directory above its runs.
pub const SWEEP_JSON: &str = "sweep.json";

/// A name that nothing has: with the time in it.
pub fn new_name(prefix: &str, ending: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let plain = PathBuf::from(format!("{prefix}-{now}{ending}"));
    // Two in the same second.
    if !plain.exists() {
        plain
    } else {
        PathBuf::from(format!("{prefix}-{now}-{}{ending}", std::process::id()))
    }
}

/// Endings that say what a file holds.
const TELLING: [&str; 12] = [
    "csv", "json", "html", "htm", "xml", "sbj", "krash", "simgrid", "md", "gz", "xz", "zst",
];

/// Refuses a name whose ending says that the file holds something else than
/// what the command writes.
pub fn refuse_ending(path: &Path, written: &[&str]) -> Result<()> {
    match ending(path).filter(|ending| TELLING.contains(ending) && !written.contains(ending)) {
        None => Ok(()),
        Some(ending) => {
            let can: Vec<String> = written.iter().map(|ending| format!(".{ending}")).collect();
            Err(BadInput(format!(
                "{}: this command does not write .{ending}; name a file that ends in {}",
                path.display(),
                can.join(" or ")
            ))
            .into())
        }
    }
}

/// A record as JSON, as [`put`] writes it.
pub fn put_json(path: &Path, record: &impl Serialize, existing: Existing) -> Result<()> {
    let text = serde_json::to_string_pretty(record)? + "\n";
    if path.as_os_str() == "-" {
        Ok(print(text)?)
    } else {
        put(path, text, existing)
    }
}

/// `--json[=FILE]`, the same for every command.
#[derive(Debug, Clone, Default, Args)]
pub struct JsonArgs {
    /// Write the result as JSON [default FILE: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
          require_equals = true)]
    json: Option<PathBuf>,
}

impl JsonArgs {
    /// The file, `-` for standard output; `None` where JSON is not asked for.
    pub fn path(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Refuses a file that exists or cannot be made, before anything is measured for it.
    pub fn check(&self, overwrite: Overwrite) -> Result<()> {
        self.check_within(overwrite, None)
    }

    /// The same of a file that may be in the directory `made`, which the command makes.
    pub fn check_within(&self, overwrite: Overwrite, made: Option<&Path>) -> Result<()> {
        overwrite.check_within(self.path(), made)
    }

    /// Writes lines, of which each is a record where JSON is asked for.
    pub fn put_lines(&self, text: &str, existing: Existing) -> Result<()> {
        match self.path().filter(|path| path.as_os_str() != "-") {
            Some(path) => put(path, text, existing),
            None => Ok(print(text)?),
        }
    }

    /// Writes the record where it is asked for, and the text on standard output
    /// unless the record is there.
    pub fn put_or(
        &self,
        record: &impl Serialize,
        text: impl FnOnce() -> Result<String>,
        existing: Existing,
    ) -> Result<()> {
        if let Some(path) = self.path() {
            put_json(path, record, existing)?;
            if path.as_os_str() == "-" {
                return Ok(());
            }
        }
        Ok(print(text()?)?)
    }
}

/// `html` of `a.html`.
pub(crate) fn ending(path: &Path) -> Option<&str> {
    path.extension().and_then(|ending| ending.to_str())
}

/// Writes a file's content to [`stdout`].
pub fn put_data(data: impl AsRef<[u8]>) -> Result<()> {
    let mut out = stdout();
    let written = out.write_all(data.as_ref()).and_then(|()| out.flush());
    Ok(unless_closed(written)?)
}

/// Writes a file, whole or not at all; standard output for `-`.
pub fn put(path: &Path, text: impl AsRef<[u8]>, existing: Existing) -> Result<()> {
    if path.as_os_str() == "-" {
        return put_data(text);
    }
    put_by(path, text.as_ref(), existing, NewFile::finish)
}

/// Writes a file that is written again soon: without a wait for the disk.
pub fn rewrite(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    put_by(
        path,
        text.as_ref(),
        Existing::Replace,
        NewFile::finish_unsynced,
    )
}

fn put_by(
    path: &Path,
    text: &[u8],
    existing: Existing,
    finish: impl FnOnce(NewFile) -> io::Result<()>,
) -> Result<()> {
    let name = || path.display().to_string();
    let mut file = NewFile::create(path, existing).with_context(name)?;
    let written = file.write_all(text);
    written.and_then(|()| finish(file)).with_context(name)?;
    give_to_caller(path);
    Ok(())
}

/// A file or directory of ours becomes the user's. One that was not written
/// cannot, and a device that was written to must not.
pub fn give_to(path: &Path, user: Option<&User>) {
    let found = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() || meta.is_dir());
    if let Some(user) = user.filter(|_| found) {
        let _ = lchown(path, Some(user.uid), Some(user.gid));
    }
}

/// Under sudo the calling user owns what we leave.
pub fn give_to_caller(path: &Path) {
    give_to(path, User::behind_sudo().as_ref());
}

/// A directory and what is above it, as far as they are missing, the innermost first.
pub fn missing(dir: &Path) -> Vec<PathBuf> {
    // What ends in `..` is another name of a directory that may be there.
    dir.ancestors()
        .filter(|dir| dir.file_name().is_some())
        .take_while(|dir| !dir.exists())
        .map(Path::to_owned)
        .collect()
}

/// Makes a directory and all above it. Under sudo the calling user owns what is made; what was
/// there before stays its owner's.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    let made = missing(dir);
    fs::create_dir_all(dir)?;
    for dir in &made {
        give_to_caller(dir);
    }
    Ok(())
}

/// The input is read while the output is written.
pub fn refuse_same_file(input: &Path, output: &Path) -> Result<()> {
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

    #[test]
    fn a_result_may_be_in_the_directory_that_is_made_for_it() {
        let overwrite = Overwrite { force: false };
        let check = |file: &str, made: Option<&str>| {
            let (file, made) = (Path::new(file), made.map(Path::new));
            overwrite.check_within(Some(file), made).is_ok()
        };
        let made = Some("/no/res");
        assert!(check("/no/res/r.json", made) && check("-", None) && check("r.json", made));
        assert!(!check("/no/res/r.json", None) && !check("/no/else/r.json", made));
        assert!(check("/dev/stdout", None));
    }

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
    fn every_directory_that_is_to_be_made_is_known() {
        for (dir, wanted) in [
            ("src", vec![]),
            ("src/none/a", vec!["src/none/a", "src/none"]),
            ("none/..", vec!["none"]),
            ("/", vec![]),
        ] {
            let wanted: Vec<PathBuf> = wanted.into_iter().map(PathBuf::from).collect();
            assert_eq!(missing(Path::new(dir)), wanted, "{dir}");
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_is_known() {
        let failed = |kind: io::ErrorKind| is_read(Err(kind.into()));
        assert!(is_read(Ok(())).unwrap());
        assert!(!failed(io::ErrorKind::BrokenPipe).unwrap());
        assert!(failed(io::ErrorKind::StorageFull).is_err());
        assert!(unless_closed(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        // Without a byte that is written.
        let (reader, writer) = io::pipe().unwrap();
        let null = fs::File::open("/dev/null").unwrap();
        assert!(!is_closed(&writer) && !is_closed(&null));
        drop(reader);
        assert!(is_closed(&writer));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_closed(&ours));
        drop(theirs);
        assert!(is_closed(&ours));
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
