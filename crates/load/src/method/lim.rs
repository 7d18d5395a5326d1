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

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use sandbag_linux::sched::Attributes;

use super::{Method, MethodOptions, OptionGroup, Scope};
use crate::board::BOUNDARY_NS;
use crate::burn::Duty;
use crate::throttle::{LimVariant, Throttling};
use sandbag_ui::units::{self, nanos};

/// Options of `lim`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct LimOptions {
    /// lim: as rewritten (cpu-lim), or as first published (wrekavoc)
    #[arg(long, value_name = "WHICH")]
    pub lim_variant: Option<LimVariant>,

    /// lim: time between two looks at the processes, 1 to 100 ms
    /// [default: 10ms; wrekavoc 100ms, and each process once a second]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub lim_interval: Option<Duration>,
}

impl LimOptions {
    pub(super) fn option_groups(&self) -> [OptionGroup; 2] {
        [
            (self.lim_variant.is_some(), &["lim"], "no variant"),
            (self.lim_interval.is_some(), &["lim"], "no interval"),
        ]
    }
}

/// Times between two looks, ns.
const INTERVALS_NS: RangeInclusive<u64> = 1_000_000..=BOUNDARY_NS;

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
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        options.no_period("lim has no period, but an interval")?;
        let own = Self::of(options.lim.lim_variant.unwrap_or_default());
        let interval_ns = options.lim.lim_interval.map_or(own.interval_ns, nanos);
        if !INTERVALS_NS.contains(&interval_ns) {
            return Err("the interval of lim lies between 1 and 100 ms".to_owned());
        }
        Ok(Self { interval_ns, ..own })
    }

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
