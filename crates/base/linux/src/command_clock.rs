// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU time of a command on each CPU, by the control group it runs in.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};

use crate::cgroup::{Group, Version};
use crate::perf::GroupClock;
use crate::{CpuList, Error, Result, Root};

/// What a command took of each CPU.
pub trait CommandClock {
    /// Fills in the command's CPU time so far, nanoseconds, one per CPU in the
    /// order of the list that the clock was opened with. Only differences
    /// count. `None` where not all of it was counted: the CPU was offline.
    fn per_cpu_ns(&mut self, out: &mut [Option<u64>]) -> Result<()>;

    /// Whether time that the hypervisor withheld while the command was
    /// running is contained.
    fn counts_steal(&self) -> bool;
}

/// The clock of a command's group by what the group's hierarchy tells: the
/// accounting files of cgroup v1, perf events on v2, where there are none.
pub fn open(root: &Root, group: &Group, cpus: &CpuList) -> Result<Box<dyn CommandClock>> {
    Ok(match group.version() {
        Version::V1 => Box::new(CpuacctClock::open(root, group.accounting_dir(), cpus)?),
        Version::V2 => Box::new(PerfClock::open(group.dir(), cpus)?),
    })
}

/// cgroup v1: `cpuacct.usage_percpu` of the command's group, kept open. It
/// counts the groups below as well, in nanoseconds of the task clock.
///
/// Source: Documentation/admin-guide/cgroup-v1/cpuacct.rst.
#[derive(Debug)]
pub struct CpuacctClock {
    path: PathBuf,
    file: File,
    text: String,
    /// For each CPU recorded, its place among the possible CPUs, in whose
    /// order the file is.
    places: Vec<usize>,
}

impl CpuacctClock {
    /// The clock of the group at `dir` (in the hierarchy of `cpuacct`).
    pub fn open(root: &Root, dir: &Path, cpus: &CpuList) -> Result<Self> {
        let possible = root.path("/sys/devices/system/cpu/possible");
        let text = crate::root::read(&possible)?;
        let numbers: CpuList = text
            .parse()
            .map_err(|_| Error::parse(&possible, "a list of CPUs", &text))?;
        let place = |cpu| {
            let found = numbers.iter().position(|n| n == cpu);
            found.ok_or_else(|| Error::Missing {
                what: format!("CPU {cpu}"),
                remedy: format!("this machine can have the CPUs {numbers}"),
            })
        };
        let path = dir.join("cpuacct.usage_percpu");
        let file = File::open(&path).map_err(Error::read(&path))?;
        Ok(Self {
            path,
            file,
            text: String::new(),
            places: cpus.iter().map(place).collect::<Result<_>>()?,
        })
    }
}

impl CommandClock for CpuacctClock {
    fn per_cpu_ns(&mut self, out: &mut [Option<u64>]) -> Result<()> {
        self.text.clear();
        self.file
            .rewind()
            .and_then(|()| self.file.read_to_string(&mut self.text))
            .map_err(Error::read(&self.path))?;
        let mut words = self.text.split_ascii_whitespace();
        let mut next = 0;
        for (out, place) in out.iter_mut().zip(&self.places) {
            // Both lists ascend, so one pass finds all.
            let word = words.nth(place - next).unwrap_or_default();
            next = place + 1;
            let ns = word.parse().map_err(|_| {
                Error::parse(
                    &self.path,
                    "a number of ns for each possible CPU",
                    &self.text,
                )
            })?;
            *out = Some(ns);
        }
        Ok(())
    }

    fn counts_steal(&self) -> bool {
        false
    }
}

/// cgroup v2: a perf event per CPU on the command's group. It is a wall clock
/// ([`GroupClock`]): stolen time is contained.
#[derive(Debug)]
pub struct PerfClock {
    clock: GroupClock,
    cpus: CpuList,
}

impl PerfClock {
    /// The clock of the group at `dir`, from 0.
    pub fn open(dir: &Path, cpus: &CpuList) -> Result<Self> {
        Ok(Self {
            clock: GroupClock::open(dir, cpus)?,
            cpus: cpus.clone(),
        })
    }
}

impl CommandClock for PerfClock {
    fn per_cpu_ns(&mut self, out: &mut [Option<u64>]) -> Result<()> {
        for (out, cpu) in out.iter_mut().zip(self.cpus.iter()) {
            *out = self.clock.ns(cpu)?;
        }
        Ok(())
    }

    fn counts_steal(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn group(possible: &str, usage: &str) -> (tempfile::TempDir, Root) {
        crate::process::tests::fake(&[
            ("sys/devices/system/cpu/possible", possible),
            ("cpuacct.usage_percpu", usage),
        ])
    }

    #[test]
    fn cpuacct_counts_possible_cpus() {
        let (dir, root) = group("0-1,4-7\n", "10 11 14 15 16 17 \n");
        let cpus = "1,4,7".parse().unwrap();
        let mut clock = CpuacctClock::open(&root, dir.path(), &cpus).unwrap();
        let mut out = [None; 3];
        clock.per_cpu_ns(&mut out).unwrap();
        assert_eq!(out, [11, 14, 17].map(Some));
        let usage = dir.path().join("cpuacct.usage_percpu");
        fs::write(usage, "10 20 30 40 50 60\n").unwrap();
        clock.per_cpu_ns(&mut out).unwrap();
        assert_eq!(out, [20, 30, 60].map(Some));
        assert!(!clock.counts_steal());
    }

    #[test]
    fn the_version_decides_which_clock() {
        let (dir, root) = group("0-1\n", "10 11\n");
        let cpus = "0-1".parse().unwrap();
        let at = |version| Group::at(version, dir.path().to_owned(), None);
        assert!(!open(&root, &at(Version::V1), &cpus).unwrap().counts_steal());
        // No group of v2, and asked as one: by perf, which says so.
        let error = open(&root, &at(Version::V2), &cpus).err().unwrap();
        assert!(error.to_string().starts_with("perf_event_open"), "{error}");
    }

    #[test]
    fn cpuacct_that_says_too_little_is_an_error() {
        let (dir, root) = group("0-3\n", "1 2 3\n");
        let cpus = "0-3".parse().unwrap();
        let mut clock = CpuacctClock::open(&root, dir.path(), &cpus).unwrap();
        let error = clock.per_cpu_ns(&mut [None; 4]).unwrap_err();
        assert!(matches!(error, Error::Parse { .. }), "{error}");
    }

    #[test]
    fn no_file_and_no_such_cpu() {
        let (dir, root) = group("0-3\n", "");
        let missing = dir.path().join("none");
        let cpus = "0".parse().unwrap();
        let error = CpuacctClock::open(&root, &missing, &cpus).unwrap_err();
        assert!(error.is_absent());
        let cpus = "0,9".parse().unwrap();
        let error = CpuacctClock::open(&root, dir.path(), &cpus).unwrap_err();
        assert!(error.to_string().starts_with("CPU 9 is missing"), "{error}");
    }
}
