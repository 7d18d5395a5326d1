// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunables under `/proc/sys`, by the names that sysctl(8) uses.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::root::{read, read_value, write};
use crate::{Error, Result, Root};

/// One tunable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    path: PathBuf,
}

impl Sysctl {
    /// The tunable `name`, such as `kernel.sched_rt_runtime_us`. A name with
    /// slashes is taken as the path that it is, so that parts of it may
    /// contain dots. Whether it exists is not asked here.
    pub fn new(root: &Root, name: &str) -> Self {
        let name = if name.contains('/') {
            name.to_owned()
        } else {
            name.replace('.', "/")
        };
        Self {
            path: root.path(format!("/proc/sys/{name}")),
        }
    }

    /// The tunable whose file is `path`, as [`path`](Self::path) gave it.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its value, without the final newline. Several values in one file are
    /// separated by single blanks.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Error::is_absent`] if this kernel does not have it.
    pub fn get(&self) -> Result<String> {
        Ok(words(&read(&self.path)?))
    }

    /// Its value as a number or the like; `expected` says in the error what
    /// it should be.
    pub fn get_as<T: FromStr>(&self, expected: &'static str) -> Result<T> {
        read_value(&self.path, expected)
    }

    /// Sets it and reads it back: some tunables clamp what they are given.
    ///
    /// # Errors
    /// [`Error::Write`] if the kernel refuses, [`Error::ReadBack`] if it took
    /// another value, [`Error::Read`].
    pub fn set(&self, value: impl std::fmt::Display) -> Result<()> {
        let value = words(&value.to_string());
        write(&self.path, &value)?;
        let got = self.get()?;
        if got == value {
            return Ok(());
        }
        Err(Error::ReadBack {
            path: self.path.clone(),
            value,
            got,
        })
    }
}

fn words(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    #[test]
    fn get_set_and_put_back() {
        let (_dir, root) = fake(&[("proc/sys/kernel/sched_rt_runtime_us", "950000\n")]);
        let sysctl = Sysctl::new(&root, "kernel.sched_rt_runtime_us");
        let before = sysctl.get().unwrap();
        assert_eq!(before, "950000");
        sysctl.set(-1).unwrap();
        assert_eq!(sysctl.get_as::<i64>("a number").unwrap(), -1);
        sysctl.set(&before).unwrap();
        assert_eq!(sysctl.get().unwrap(), before);
    }

    #[test]
    fn several_values_and_slashes() {
        let (_dir, root) = fake(&[("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")]);
        let sysctl = Sysctl::new(&root, "net/ipv4/tcp_rmem");
        assert_eq!(sysctl.get().unwrap(), "4096 131072 6291456");
        sysctl.set("1 2  3").unwrap();
        assert_eq!(sysctl.get().unwrap(), "1 2 3");
        assert!(sysctl.get_as::<u64>("a number").is_err());
    }

    #[test]
    fn what_is_not_there_is_not_made() {
        let (_dir, root) = fake(&[("proc/sys/kernel/x", "1\n")]);
        let sysctl = Sysctl::new(&root, "kernel.y");
        assert!(sysctl.get().unwrap_err().is_absent());
        assert!(sysctl.set(1).unwrap_err().is_absent());
        assert!(!sysctl.path().exists());
    }

    #[test]
    fn a_value_that_was_not_taken_is_an_error() {
        // A device that swallows everything and reads as nothing.
        let (dir, root) = fake(&[("proc/sys/kernel/x", "")]);
        let path = dir.path().join("proc/sys/kernel/null");
        std::os::unix::fs::symlink("/dev/null", path).unwrap();
        let error = Sysctl::new(&root, "kernel.null").set(5).unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("reads `` after `5` was written"), "{error}");
    }
}
