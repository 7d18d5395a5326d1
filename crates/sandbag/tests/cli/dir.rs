// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of the binary in a directory of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use tempfile::TempDir;

/// An empty directory in which the binary runs.
pub struct Dir {
    here: TempDir,
    /// Where an ordinary user's journals go: a session manager need not have named one.
    runtime: TempDir,
}

impl Dir {
    pub fn new() -> Self {
        Self {
            here: TempDir::new().unwrap(),
            runtime: TempDir::new().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.here.path()
    }

    /// Whether this is root's: groups can be made.
    pub fn is_root(&self) -> bool {
        std::fs::metadata(self.path()).unwrap().uid() == 0
    }

    pub fn runtime(&self) -> &Path {
        self.runtime.path()
    }

    /// Writes a file.
    pub fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// All that is in it, at any depth: paths, and what files hold.
    pub fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut contents = BTreeMap::new();
        let mut dirs = vec![self.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                contents.insert(path.clone(), std::fs::read(&path).ok());
                if path.is_dir() {
                    dirs.push(path);
                }
            }
        }
        contents
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin(env!("CARGO_PKG_NAME")).unwrap();
        command
            .current_dir(self.path())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Assert {
        self.command(arguments).assert()
    }

    /// What a user sees who types these lines on a terminal of 80 columns: each
    /// after `$`, then standard output, standard error, and the exit code if it
    /// is not 0. A `<` in front of the last word feeds standard input.
    pub fn transcript(&self, lines: &[impl AsRef<str>]) -> String {
        let mut text = String::new();
        for line in lines.iter().map(AsRef::as_ref) {
            let (words, file) = line.split_once(" < ").unwrap_or((line, ""));
            let words: Vec<&str> = words.split_whitespace().collect();
            let mut command = self.command(&words);
            command.env("COLUMNS", "80").env("TZ", "UTC");
            if !file.is_empty() {
                command.write_stdin(std::fs::read(self.path().join(file)).unwrap());
            }
            let output = command.output().unwrap();
            text += &format!("$ sandbag {line}\n");
            for stream in [output.stdout, output.stderr] {
                text += &String::from_utf8(stream).unwrap();
            }
            match output.status.code() {
                Some(0) => text.push('\n'),
                code => text += &format!("exit code {}\n\n", code.unwrap()),
            }
        }
        let version = concat!("sandbag ", env!("CARGO_PKG_VERSION"));
        text.replace(version, "sandbag VERSION")
    }

    /// Runs it with words that blanks separate.
    pub fn line(&self, words: &str) -> Assert {
        self.run(&words.split(' ').collect::<Vec<_>>())
    }
}

/// A recording of the profile crate's tests.
pub fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../profile/tests/fixtures")
        .join(name);
    path.to_str().unwrap().to_owned()
}
