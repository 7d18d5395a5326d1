// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lim`: CPU-Lim. A process that used more than its share of the time since
//! it began is stopped (SIGSTOP) until it has no longer (SIGCONT).
//!
//! Published twice: with Wrekavoc ([`LimVariant::Wrekavoc`]), and as HPCC
//! rewrote it (Buchert et al. 2011, section III; [`LimVariant::CpuLim`]): one
//! real-time process looks at all the node's processes at every interval.
//!
//! # Published flaws, kept
//! - It is a share per process and not per node: two processes on one CPU at
//!   speed 0.5 are both within their share and run at full speed.
//! - Threads count together: a program of N threads on N CPUs gets mu / N.
//! - Sleeping is to a process' merit: after 10 s of waiting it runs at full
//!   speed for as long as that bought.
//! - The share is that since the process began. A change of speed shows only
//!   once that share has followed, which takes as long as the process is old.
//! - Every look costs, and more with every process; a process that begins is
//!   at full speed until it is looked at. The interval must be calibrated.
//! - The program notices: its parent is told of the stop, it can send SIGCONT
//!   itself (it is stopped again at the next look).
//! - Wrekavoc's stops last whole seconds.
//!
//! A process that its user stopped before us is left alone. One that he stops
//! while we hold it goes on with ours: a process is stopped once.

use sandbag_linux::sched::Attributes;

use super::{Method, Scope};
use crate::burn::Duty;
use crate::throttle::{LimVariant, Throttling};

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub struct Lim {
    /// Which of the two.
    pub variant: LimVariant,
    /// Time between two looks, ns. Of Wrekavoc: at the list of processes;
    /// each is looked at once a second.
    pub interval_ns: u64,
}

impl Lim {
    /// The interval of a variant if the user names none.
    #[must_use]
    pub fn of(variant: LimVariant) -> Self {
        Self {
            variant,
            interval_ns: match variant {
                LimVariant::CpuLim => 10_000_000,
                LimVariant::Wrekavoc => 100_000_000,
            },
        }
    }
}

/// Before it the hogs' priority, so that beside them it still looks.
const PRIORITY: u32 = 2;

/// Lowest speed, 0.01.
const MOST: f64 = 0.99;

impl Method for Lim {
    fn name(&self) -> &'static str {
        "lim"
    }

    fn about(&self) -> &'static str {
        "stops each process that used more than its share of the time since it began"
    }

    fn duty(&self) -> Duty {
        Duty::Throttle(Throttling::Lim {
            variant: self.variant,
            interval_ns: self.interval_ns,
        })
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fifo { priority: PRIORITY }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn settles(&self) -> bool {
        false
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("variant", self.variant.name().to_owned()),
            ("interval_ms", format!("{}", self.interval_ns as f64 / 1e6)),
            ("priority", PRIORITY.to_string()),
        ]
    }
}
