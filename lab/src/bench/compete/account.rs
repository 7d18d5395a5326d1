// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Competitors account their own CPU time per CPU, in shared memory.
//!
//! cgroup v2 has no per-CPU clock of a group, and a group around the competitors would
//! change what is measured. So every competitor reads its own CPU clock after each piece of
//! work of some 50 us and adds the difference to the word of the CPU it is on. The words are
//! in a file that the driver maps too, and outlive a competitor that is killed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::shared::SharedMemory;
use sandbag_linux::{clock, sched};

/// Words per line: one line per CPU, so that CPUs do not share cache lines.
const LINE: usize = 8;

/// What is counted in the first line.
#[derive(Debug, Clone, Copy)]
pub enum Counter {
    /// Competitors that run.
    Started,
    /// Competitors that could not become what they should be.
    Failed,
    /// Processes that competitors started.
    Forked,
}

/// Word of the first line with the end of the competitors.
const END: usize = 3;

/// Per-CPU totals of a group of competitors.
#[derive(Debug)]
pub struct Account {
    words: SharedMemory,
    cpus: usize,
}

impl Account {
    /// In memory of only this process and its children.
    pub fn anonymous(cpus: usize) -> Result<Self> {
        let words = SharedMemory::anonymous(size(cpus)?).context("map the account")?;
        Ok(Self { words, cpus })
    }

    /// Creates the file `path`, readable and writable for everyone: the competitors may
    /// run as another user.
    pub fn create(path: &Path, cpus: usize) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(path)
            .with_context(|| format!("create {}", path.display()))?;
        file.set_len(size(cpus)? as u64)
            .with_context(|| format!("size {}", path.display()))?;
        Self::map(&file, cpus)
    }

    /// Maps the file that [`Self::create`] made for the same number of CPUs.
    pub fn open(path: &Path, cpus: usize) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("open {}", path.display()))?;
        let length = file.metadata()?.len();
        ensure!(
            length == size(cpus)? as u64,
            "{} has {length} bytes, which is not an account of {cpus} CPUs",
            path.display()
        );
        Self::map(&file, cpus)
    }

    fn map(file: &File, cpus: usize) -> Result<Self> {
        let words = SharedMemory::of_file(file, size(cpus)?, true, false);
        let words = words.context("map the account")?;
        Ok(Self { words, cpus })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < (1 + self.cpus) * LINE);
        // SAFETY: inside the mapping, aligned (the mapping is to a page), and
        // every access anywhere is atomic.
        unsafe { &*self.words.start().as_ptr().cast::<AtomicU64>().add(index) }
    }

    pub fn add(&self, cpu: usize, ns: u64) {
        let cpu = cpu.min(self.cpus - 1);
        self.word((1 + cpu) * LINE).fetch_add(ns, Ordering::Relaxed);
    }

    /// CPU time of every CPU so far, nanoseconds.
    pub fn totals_ns(&self) -> Vec<u64> {
        (0..self.cpus).map(|cpu| self.cpu_ns(cpu)).collect()
    }

    /// CPU time of one CPU so far, nanoseconds; 0 for one that is not there.
    pub fn cpu_ns(&self, cpu: usize) -> u64 {
        if cpu >= self.cpus {
            return 0;
        }
        self.word((1 + cpu) * LINE).load(Ordering::Relaxed)
    }

    pub fn count(&self, what: Counter) {
        self.word(what as usize).fetch_add(1, Ordering::Release);
    }

    pub fn counted(&self, what: Counter) -> u64 {
        self.word(what as usize).load(Ordering::Acquire)
    }

    /// Notes when the competitors will end, `CLOCK_MONOTONIC`.
    pub fn set_end(&self, ns: u64) {
        self.word(END).store(ns, Ordering::Release);
    }

    /// When they will end; `None` before they have begun.
    pub fn end_ns(&self) -> Option<u64> {
        Some(self.word(END).load(Ordering::Acquire)).filter(|ns| *ns > 0)
    }
}

fn size(cpus: usize) -> Result<usize> {
    ensure!(cpus > 0, "no CPUs");
    Ok((1 + cpus) * LINE * size_of::<u64>())
}

/// Books the time of the calling process, difference by difference. One per
/// process: it begins with what the process has used since it was forked.
#[derive(Debug)]
pub struct Meter<'a> {
    account: &'a Account,
    booked_ns: u64,
}

impl<'a> Meter<'a> {
    pub fn new(account: &'a Account) -> Self {
        Self {
            account,
            booked_ns: 0,
        }
    }

    /// Books what was used since the last call, on the CPU we are on now.
    pub fn book(&mut self) {
        let now = clock::process_cpu();
        self.account.add(
            sched::current_cpu() as usize,
            now.saturating_sub(self.booked_ns),
        );
        self.booked_ns = now;
    }
}

/// Number of CPUs the kernel is configured for: the size of the books.
pub fn configured_cpus() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_CONF)
        .ok()
        .flatten()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(1)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_are_the_same_account() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("account");
        let ours = Account::create(&path, 3).unwrap();
        let theirs = Account::open(&path, 3).unwrap();
        theirs.add(0, 5);
        theirs.add(2, 7);
        theirs.add(99, 1);
        theirs.count(Counter::Started);
        assert_eq!(ours.end_ns(), None);
        theirs.set_end(9);
        assert_eq!(ours.end_ns(), Some(9));
        assert_eq!(ours.totals_ns(), [5, 0, 8]);
        theirs.count(Counter::Forked);
        let counters = [Counter::Started, Counter::Failed, Counter::Forked];
        assert_eq!(counters.map(|of| ours.counted(of)), [1, 0, 1]);
        assert_eq!(ours.cpu_ns(3), 0);
    }

    #[test]
    fn accounts_of_another_size_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("account");
        Account::create(&path, 3).unwrap();
        assert!(Account::open(&path, 4).is_err());
        assert!(Account::anonymous(0).is_err());
    }

    #[test]
    fn a_meter_books_all_of_the_processs_time() {
        let account = Account::anonymous(configured_cpus()).unwrap();
        let mut meter = Meter::new(&account);
        meter.book();
        meter.book();
        let booked: u64 = account.totals_ns().iter().sum();
        assert!(booked > 0 && booked <= clock::process_cpu());
    }
}
