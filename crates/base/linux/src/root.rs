// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory under which `/proc` and `/sys` are looked for.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// `/` on a live machine, a temporary directory in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl Root {
    /// A root at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// `absolute` (such as `/proc/stat`) under this root.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.0.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// True for the live machine: only there do system calls and files speak
    /// of the same thing.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The text of the file at `absolute` under this root.
    pub fn read(&self, absolute: impl AsRef<Path>) -> Result<String> {
        read(&self.path(absolute))
    }
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::read(path))
}

/// The text of a file without surrounding white space, parsed.
pub fn read_value<T: std::str::FromStr>(path: &Path, expected: &'static str) -> Result<T> {
    let text = read(path)?;
    text.trim()
        .parse()
        .map_err(|_| Error::parse(path, expected, &text))
}

/// Writes a value to an existing file in one `write`, as control files want
/// it. Never creates: a control file that is not there is an error, not a new
/// file.
pub fn write(path: &Path, value: impl std::fmt::Display) -> Result<()> {
    let value = value.to_string();
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|cause| Error::Write {
            path: path.to_owned(),
            value,
            cause,
        })
}
