// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run directory: made, given to the user behind sudo, and taken away
//! again if nothing came of the run.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

pub use sandbag_ui::output::{ACHIEVED_CSV, REPORT_HTML, RUN_JSON, SHORT_CSV};

use sandbag_input::first_free;
use sandbag_linux::user::User;

use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{RESULTS, give_to, missing, new_name};

/// Version of `run.json`; readers refuse a newer one.
pub const FORMAT: u32 = 1;

/// Of the name of a run directory; the time follows.
pub const RUN_PREFIX: &str = "sandbag-run";

/// Files that a run writes there.
pub const FILES: [&str; 4] = [RUN_JSON, ACHIEVED_CSV, SHORT_CSV, REPORT_HTML];

/// Removes a result that is to be replaced: what is killed before leaves none, and that of
/// before would be taken for its own. `-` is standard output; devices, pipes and links, as
/// /dev/stdout is one, stay.
pub fn remove_result(path: &Path) {
    let is_file = |meta: fs::Metadata| meta.is_file();
    if path.as_os_str() != "-" && fs::symlink_metadata(path).is_ok_and(is_file) {
        let _ = fs::remove_file(path);
    }
}

/// Creates a file of a run directory that is written while the run goes on.
/// What had its name is removed and never written through: it may be a link,
/// or a FIFO without a reader.
pub fn create(path: &Path) -> io::Result<File> {
    let removed = fs::symlink_metadata(path).and_then(|meta| {
        let kind = meta.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            Err(io::Error::other("is a device"))
        } else {
            fs::remove_file(path)
        }
    });
    match removed {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => File::create_new(path),
    }
}

/// Makes what has a name of its own, with the time in it; two of the same second get two names.
/// The name, and what became of it.
pub fn make_new<T>(
    prefix: &str,
    ending: &str,
    make: impl Fn(&Path) -> io::Result<T>,
) -> (PathBuf, io::Result<T>) {
    const MOST: u32 = 100;
    let id = std::process::id();
    let name = |nth: u32| match nth {
        1 => new_name(prefix, ending),
        2 => new_name(prefix, &format!("-{id}{ending}")),
        _ => new_name(prefix, &format!("-{id}-{}{ending}", nth - 1)),
    };
    first_free(name, MOST, make)
}

/// A run directory that is there.
pub struct RunDir {
    path: PathBuf,
    named: bool,
    /// It and what is above it, as far as it was made, the innermost first.
    made: Vec<PathBuf>,
    user: Option<User>,
}

impl RunDir {
    /// Makes it. Where it was not named, a disk that is full or not ours costs the files, not
    /// the load. Under sudo what is made belongs to the calling user.
    ///
    /// # Errors
    /// A directory that was named cannot be made.
    pub fn make(
        wanted: Option<PathBuf>,
        user: Option<User>,
        messages: &Messages,
    ) -> Result<Option<Self>> {
        let named = wanted.is_some();
        let (path, made, outcome) = if let Some(path) = wanted {
            let made = missing(&path);
            let outcome = fs::create_dir_all(&path);
            (path, made, outcome)
        } else {
            let (path, outcome) = make_new(RUN_PREFIX, "", |path| fs::create_dir(path));
            let made = outcome.iter().map(|()| path.clone()).collect();
            (path, made, outcome)
        };
        if let Err(error) = outcome {
            remove_empty(&made);
            if named {
                return Err(error).with_context(|| path.display().to_string());
            }
            messages.warning(&format!(
                "{}: {error}; the run is not written",
                path.display()
            ));
            return Ok(None);
        }
        for dir in &made {
            give_to(dir, user.as_ref());
        }
        Ok(Some(Self {
            path,
            named,
            made,
            user,
        }))
    }

    /// Says why a result could not be written there. Whether the run is a success all the
    /// same, which it is if the directory was not named.
    pub fn excuses(&self, error: &impl Display, messages: &Messages) -> bool {
        if self.named {
            Messages::error(&error.to_string());
        } else {
            messages.warning(&error.to_string());
        }
        !self.named
    }

    /// Removes the results of an earlier run, experiment or sweep, which this one replaces;
    /// links are replaced as well.
    pub fn remove_results(&self) {
        for name in RESULTS {
            let path = self.path.join(name);
            if path.is_symlink() {
                let _ = fs::remove_file(path);
            } else {
                remove_result(&path);
            }
        }
    }

    /// That of a run which is a part of this one; it is there, and was named by us.
    pub fn below(&self, name: &str) -> Self {
        Self {
            path: self.path.join(name),
            named: self.named,
            made: Vec::new(),
            user: self.user.clone(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives our files to the user behind sudo, and no other file: the
    /// directory may have been there before.
    pub fn give(&self) {
        for name in FILES {
            give_to(&self.path.join(name), self.user.as_ref());
        }
    }

    /// Removes what a run that failed left, unless windows were written. A
    /// directory that was there before stays.
    pub fn discard_if_empty(&self) {
        for name in [ACHIEVED_CSV, SHORT_CSV] {
            let path = self.path.join(name);
            // The first line names the columns. What is no file is not ours.
            let is_file = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
            if is_file && fs::read_to_string(&path).is_ok_and(|text| text.lines().count() <= 1) {
                let _ = fs::remove_file(path);
            }
        }
        self.give();
        remove_empty(&self.made);
    }
}

/// Removes directories, the innermost first; one that has anything in it
/// stays, and so does all above it.
fn remove_empty(dirs: &[PathBuf]) {
    for dir in dirs {
        let _ = fs::remove_dir(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_ui::output::Overwrite;

    #[test]
    fn only_a_directory_without_windows_is_discarded() {
        let place = tempfile::tempdir().unwrap();
        let messages = Messages::new(true, 0);
        for (text, stays) in [("time\n", false), ("time\n1\n", true)] {
            let wanted = place.path().join("deep/r");
            let dir = RunDir::make(Some(wanted.clone()), None, &messages)
                .unwrap()
                .unwrap();
            fs::write(wanted.join(ACHIEVED_CSV), text).unwrap();
            dir.discard_if_empty();
            assert_eq!(wanted.exists(), stays);
            assert_eq!(place.path().join("deep").exists(), stays);
        }
        let there = place.path().join("there");
        fs::create_dir(&there).unwrap();
        let dir = RunDir::make(Some(there.clone()), None, &messages)
            .unwrap()
            .unwrap();
        dir.discard_if_empty();
        assert!(there.exists(), "it was there before");
    }

    #[test]
    fn results_of_an_earlier_run_go_and_other_files_stay() {
        let place = tempfile::tempdir().unwrap();
        let messages = Messages::new(true, 0);
        for name in [RUN_JSON, ACHIEVED_CSV, "stdout.txt"] {
            fs::write(place.path().join(name), "x").unwrap();
        }
        let dir = RunDir::make(Some(place.path().to_owned()), None, &messages)
            .unwrap()
            .unwrap();
        dir.remove_results();
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "stdout.txt");
    }

    #[test]
    fn each_file_that_would_be_replaced_is_a_result() {
        let place = tempfile::tempdir().unwrap();
        let messages = Messages::new(true, 0);
        let check = |force| Overwrite { force }.check_dir(Some(place.path()));
        for name in FILES.into_iter().chain(RESULTS) {
            check(false).unwrap();
            let file = place.path().join(name);
            fs::write(&file, "mine").unwrap();
            let error = check(false).unwrap_err().to_string();
            assert!(error.contains(&format!("({name})")), "{error}");
            check(true).unwrap();
            let dir = RunDir::make(Some(place.path().to_owned()), None, &messages);
            dir.unwrap().unwrap().remove_results();
            assert!(!file.exists(), "{name}");
        }
        let failure = r#"{"failed_at": "2026-11-30T00:00:00Z"}"#;
        fs::write(place.path().join(RUN_JSON), failure).unwrap();
        check(false).unwrap();
        // The windows of a run that failed are of no run.
        fs::write(place.path().join(ACHIEVED_CSV), "").unwrap();
        check(false).unwrap();
        fs::write(place.path().join(REPORT_HTML), "").unwrap();
        check(false).unwrap_err();
    }

    #[test]
    fn only_a_file_is_removed_before_it_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let pipe = place.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&link, &pipe] {
            remove_result(path);
            assert!(path.symlink_metadata().is_ok(), "{}", path.display());
        }
        remove_result(&file);
        assert!(!file.exists());
    }

    #[test]
    fn two_of_one_name_get_two_directories() {
        let place = tempfile::tempdir().unwrap();
        let prefix = place.path().join("r");
        // Another run is quicker, again and again.
        let taken = std::cell::Cell::new(0);
        let create = |path: &Path| {
            if taken.get() < 3 {
                taken.set(taken.get() + 1);
                fs::create_dir(path)?;
            }
            fs::create_dir(path)
        };
        let (path, made) = make_new(prefix.to_str().unwrap(), ".d", create);
        made.unwrap();
        assert!(path.is_dir() && path.to_str().unwrap().ends_with(".d"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
    }

    #[test]
    fn one_that_cannot_be_made_is_none() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let messages = Messages::new(true, 0);
        assert!(RunDir::make(Some(file.join("r")), None, &messages).is_err());
    }
}
