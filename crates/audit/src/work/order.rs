// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders to the worker process, and its replies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::run::RunFigures;
use super::test_work::WorkFault;

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

pub fn unit(spec: &Spec) -> &'static str {
    match spec {
        Spec::Memory { .. } => "planes",
        Spec::Syscall => "calls",
        Spec::Io { .. } => "words",
        Spec::Both { .. } => "rows",
        Spec::Compute => "passes",
    }
}
