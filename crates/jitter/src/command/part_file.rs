// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording that takes the place of another when it is whole, and can be read until then.

use std::fs::{File, OpenOptions, rename};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sandbag_input::{is_full, open_descriptor, sync};
use sandbag_ui::output::give_to_caller;

/// The new file, `NAME.PID.part` beside the old one.
#[derive(Debug)]
pub struct PartFile {
    pub path: PathBuf,
    target: PathBuf,
}

impl PartFile {
    /// Begins it; `None` where there is no file that it would replace, or none can be made beside
    /// that: it is written directly then.
    ///
    /// # Errors
    /// The disk is full: written directly, the old one would be lost as well.
    pub fn begin(output: &Path) -> io::Result<Option<(Self, File)>> {
        if !output.is_file() || open_descriptor(output).is_some() {
            return Ok(None);
        }
        let Ok(target) = output.canonicalize() else {
            return Ok(None);
        };
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        // Others may not read it before its end either.
        let options = options.write(true).create_new(true).mode(0o600);
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(error) if is_full(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        if let Ok(old) = target.metadata() {
            let _ = file.set_permissions(old.permissions());
        }
        give_to_caller(&path);
        Ok(Some((Self { path, target }, file)))
    }

    /// Replaces the old one, once the bytes are on the disk.
    ///
    /// # Errors
    /// It cannot; the new one keeps its name.
    pub fn finish(&self) -> io::Result<()> {
        sync(&File::open(&self.path)?)?;
        rename(&self.path, &self.target)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_old_one_stays_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (old, link) = (dir.path().join("old"), dir.path().join("link"));
        assert!(PartFile::begin(&old).unwrap().is_none());
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&old, &link).unwrap();
        let (part, mut file) = PartFile::begin(&link).unwrap().unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::read_to_string(&part.path).unwrap(), "new");
        // The name is taken: by what was killed, say.
        assert!(PartFile::begin(&old).unwrap().is_none());
        part.finish().unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(link.is_symlink() && !part.path.exists());
        assert_eq!(old.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    }
}
