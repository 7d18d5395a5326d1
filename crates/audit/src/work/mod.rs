// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests that sandbag brings along, and the process that runs them.
//!
//! # One process, a thread for each run
//! All CPUs are given the same work on the same memory: pages of one process,
//! the same for every CPU, so that huge pages, cache colours and the luck of an
//! allocation are no difference between CPUs. A run is a new thread pinned to
//! its CPU: its times begin at 0, which matters where the kernel divides time
//! into user and system by ticks counted over a thread's life. The thread reads
//! the clocks itself, right around its loop. Another thread has warmed the CPU,
//! its caches and its frequency before.
//!
//! The process gets its orders by standard input, a line of JSON each, and
//! sleeps in between.

mod combined;
mod compute;
mod io;
mod memory;
mod process;
mod run;
mod syscall;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use process::work;
pub use run::RunFigures;

/// First argument of the process that works.
pub const WORK_VERB: &str = "__audit-work";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spec {
    /// Elements moved between neighbours.
    Memory {
        bytes: u64,
    },
    Syscall,
    /// A word written to and read from a file here, or a device.
    Io {
        /// A directory, or a character device such as `/dev/null`.
        path: PathBuf,
    },
    Both {
        bytes: u64,
        path: PathBuf,
    },
    Compute,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkOrder {
    Prepare {
        test: usize,
        spec: Spec,
    },
    /// Run it there; `warm` units before, which do not count.
    Run {
        test: usize,
        cpu: u32,
        units: u64,
        warm: u64,
    },
    /// Let go of it.
    Leave {
        test: usize,
    },
    /// Find out how the kernel divides CPU time into user and system time.
    Accounting {
        cpu: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is ready, or left.
    Ready {
        /// What a unit is, and what the test does with which sizes.
        about: String,
    },
    Done(RunFigures),
    /// Of `runs` short runs in both modes, in `zeros` user or system time was 0.
    Accounting {
        runs: u32,
        zeros: u32,
    },
    Failed(WorkFault),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkFault {
    /// The CPU went away, or is not for us.
    Displaced(String),
    Work(String),
}

/// A test that was taken up.
pub(crate) trait TestWork: Send {
    /// Does `units`; the same in each run.
    fn run(&mut self, units: u64) -> Result<(), String>;

    /// What it does, with its sizes.
    fn describe(&self) -> String;
}

pub fn unit(spec: &Spec) -> &'static str {
    match spec {
        Spec::Memory { .. } => "planes",
        Spec::Syscall => "calls",
        Spec::Io { .. } => "words",
        Spec::Both { .. } => "rows",
        Spec::Compute => "passes",
    }
}

/// The works that were taken up, by the numbers that they were given.
#[derive(Default)]
struct TestBench {
    works: BTreeMap<usize, Box<dyn TestWork>>,
    array: memory::Keeper,
}

impl TestBench {
    /// Takes a work up; what it says of itself.
    fn prepare(&mut self, test: usize, spec: &Spec) -> Result<String, String> {
        self.works.remove(&test);
        let work: Box<dyn TestWork> = match spec {
            Spec::Memory { bytes } => Box::new(memory::Moves(self.array.of(*bytes)?)),
            Spec::Syscall => Box::new(syscall::Calls),
            Spec::Io { path } => Box::new(io::Words::new(path)?),
            Spec::Both { bytes, path } => {
                // What may be refused at once comes first.
                let words = io::Words::new(path)?;
                Box::new(combined::CombinedWork::new(self.array.of(*bytes)?, words))
            }
            Spec::Compute => Box::new(compute::Vectors::new()),
        };
        let about = work.describe();
        self.works.insert(test, work);
        Ok(about)
    }

    fn get(&mut self, test: usize) -> Result<&mut dyn TestWork, String> {
        match self.works.get_mut(&test) {
            Some(work) => Ok(work.as_mut()),
            None => Err("it was not prepared".to_owned()),
        }
    }
}
