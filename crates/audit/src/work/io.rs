// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A word written and read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::test_work::TestWork;

/// 8 bytes, to and from the begin of a file that has no name any more.
pub(super) struct Words {
    file: File,
    path: PathBuf,
    is_device: bool,
}

/// Devices that forget what is written to them.
const HARMLESS: [&str; 2] = ["/dev/null", "/dev/zero"];

impl Words {
    /// In a directory a file of its own; a character device itself. Never a
    /// file that was there before: its first word would be lost.
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let said = |cause: io::Error| format!("{}: {cause}", path.display());
        let kind = std::fs::metadata(path).map_err(said)?.file_type();
        let is_device = kind.is_char_device();
        let file = match (is_device, kind.is_dir()) {
            // What a word does to other devices is not known.
            (true, _) if HARMLESS.contains(&path.to_string_lossy().as_ref()) => {
                OpenOptions::new().read(true).write(true).open(path)
            }
            (_, true) => nameless(path),
            _ => {
                return Err(format!(
                    "{} is no directory: name one; files of others and devices (but {}) are not \
                     written to",
                    path.display(),
                    HARMLESS.join(" and ")
                ));
            }
        };
        let mut words = Self {
            file: file.map_err(said)?,
            path: path.to_owned(),
            is_device,
        };
        // Read-only and full file systems say so here.
        words.run(1)?;
        Ok(words)
    }

    pub(super) fn word(&mut self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&number.to_ne_bytes(), 0)?;
        let mut back = [0; 8];
        if self.is_device {
            // /dev/null has nothing to give.
            self.file.read_at(&mut back, 0)?;
            return Ok(());
        }
        self.file.read_exact_at(&mut back, 0)?;
        if u64::from_ne_bytes(back) == number {
            Ok(())
        } else {
            Err(io::Error::other("what was read is not what was written"))
        }
    }

    pub(super) fn write_error(&self, cause: &io::Error) -> String {
        format!("a word in {}: {cause}", self.path.display())
    }
}

/// A file in a directory that ends with us: without a name from the begin, or,
/// where the file system cannot do that, without one at once.
fn nameless(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(dir) {
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT | libc::EINVAL)
            ) =>
        {
            let path = dir.join(format!(".sandbag-audit-{}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        other => other,
    }
}

impl TestWork for Words {
    fn run(&mut self, units: u64) -> Result<(), String> {
        for number in 0..units {
            self.word(number)
                .map_err(|cause| self.write_error(&cause))?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        if self.is_device {
            format!(
                "8 bytes written to {} and read from it",
                self.path.display()
            )
        } else {
            format!(
                "8 bytes written to a file in {} and read again",
                self.path.display()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_written_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let mut words = Words::new(dir.path()).unwrap();
        words.run(100).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        Words::new(Path::new("/dev/null")).unwrap().run(10).unwrap();
    }

    #[test]
    fn what_is_not_to_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("data");
        std::fs::write(&theirs, "precious").unwrap();
        let error = Words::new(&theirs).err().unwrap();
        assert!(error.contains("is no directory"), "{error}");
        assert_eq!(std::fs::read(&theirs).unwrap(), b"precious");
        let error = Words::new(&dir.path().join("none")).err().unwrap();
        assert!(error.contains("none"), "{error}");
        // Who knows what others do with a word.
        let error = Words::new(Path::new("/dev/full")).err().unwrap();
        assert!(error.contains("/dev/full"), "{error}");
        assert!(Words::new(Path::new("/proc/self")).is_err());
    }
}
