// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every command that writes has in common.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Result;

use crate::exit::BadInput;

/// Writes to standard output. Whoever closed the pipe, such as `head`, has
/// seen enough: that is no failure.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
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
