// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fake machines and journals for the tests of this crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandbag_linux::Root;
use tempfile::TempDir;

use crate::journal::{Entry, Journal, RunInfo};

/// Writes these files below a directory.
pub fn put(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A machine with these files.
pub fn machine(files: &[(&str, &str)]) -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), files);
    let root = Root::at(dir.path());
    (dir, root)
}

/// A run on CPU 0.
pub fn info(pid: u32) -> RunInfo {
    RunInfo {
        pid,
        cpus: "0".into(),
        ..RunInfo::of_this_process("test")
    }
}

/// The journal of a run in this directory, which is made.
pub fn journal(dir: &Path, info: RunInfo, entries: &[Entry]) -> Journal {
    fs::create_dir_all(dir).unwrap();
    let mut journal = Journal::create(dir, info).unwrap();
    for entry in entries {
        journal.note(entry.clone()).unwrap();
    }
    journal
}

/// Lets go of a journal, as when its run and its guardian are killed; where it is.
pub fn abandon(journal: Journal) -> PathBuf {
    let path = journal.path().to_owned();
    drop(journal);
    await_dead(&path);
    path
}

/// Waits until no process holds a journal: a child that another test has just forked
/// holds it until it executes its program.
pub fn await_dead(path: &Path) {
    while Journal::take_over(path).unwrap().is_none() {
        std::thread::yield_now();
    }
}

/// A group of ours, whose processes are killed.
pub fn group(dir: &Path) -> Entry {
    Entry::Group {
        dirs: vec![dir.to_owned()],
        back: None,
    }
}

/// A process that sleeps until it is killed.
pub fn sleeper() -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap()
}

pub fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

pub fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}
