// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's own programs: what runs under the conditions that are compared.
//!
//! Each does a fixed amount of work, prints how long that took, and checks its own
//! result. They are started as processes of their own, so that they meet
//! a load or a slowed node as any program does.

pub mod chain;
mod count;
pub mod datagrams;
pub mod ep;
pub mod latency;
pub mod service;
pub mod sleepers;
pub mod stream;
mod tasks;
mod work;

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use work::{WorkArgs, work};

/// The input of hpcc: a Linpack of this size on this number of ranks, with the rest of
/// its suite at its smallest.
pub fn hpccinf(size: u32, ranks: u32) -> String {
    include_str!("hpccinf.txt")
        .replace("@N@", &size.to_string())
        .replace("@RANKS@", &ranks.to_string())
}

/// Tasks of the two programs that have several (Buchert et al. 2011).
pub const TASKS: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Computes.
    Compute,
    /// Sends datagrams to an address without a receiver.
    Datagrams,
    /// Computes, sleeps as long, computes.
    ComputeSleep,
    /// STREAM's four kernels.
    Memory,
    /// Five processes that compute, joined.
    Processes,
    /// Five threads that compute, joined.
    Threads,
    /// NAS EP.
    Ep,
    /// Tasks that spin, and on each CPU one that wakes up every millisecond.
    Sleepers,
    /// Computes for a given time.
    Count,
    /// A server, and requests to it at a fixed rate.
    Service,
}

impl Name {
    /// The six micro-benchmarks, in the order of the paper's figures.
    pub const MICRO: [Self; 6] = [
        Self::Compute,
        Self::Datagrams,
        Self::ComputeSleep,
        Self::Memory,
        Self::Processes,
        Self::Threads,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Datagrams => "datagrams",
            Self::ComputeSleep => "compute-sleep",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Ep => "ep",
            Self::Sleepers => "sleepers",
            Self::Count => "count",
            Self::Service => "service",
        }
    }
}

/// What a program prints when it is done, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkReport {
    pub seconds: f64,
    /// Of that, intended sleep, seconds.
    pub slept_s: f64,
    pub amount: u64,
    pub right: bool,
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}

impl WorkReport {
    /// Of work whose time is not known yet.
    fn of(amount: u64, right: bool) -> Self {
        Self {
            amount,
            right,
            ..Self::default()
        }
    }
}
