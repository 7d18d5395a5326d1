// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lim`: CPU-Lim. A process that used more than its share of the time since
//! it began is stopped (SIGSTOP) until it has no longer (SIGCONT).
//!
//! Published twice: with Wrekavoc ([`LimVariant::Wrekavoc`]), and as HPCC
//! rewrote it (Buchert et al. 2011, section III; [`LimVariant::CpuLim`]): one
//! real-time process looks at all the node's processes at every interval.

use std::time::Duration;

use clap::Args;
use sandbag_linux::sched::Attributes;

use super::{Method, MethodOptions, OptionGroup};
use crate::board::BOUNDARY_NS;
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

/// Above the hogs' priority, so that beside them it still looks.
const PRIORITY: u32 = 2;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    options.no_period("lim has no period, but an interval")?;
    let variant = options.lim.lim_variant.unwrap_or_default();
    let interval_ns = match (options.lim.lim_interval, variant) {
        (Some(time), _) => nanos(time),
        (None, LimVariant::CpuLim) => 10_000_000,
        (None, LimVariant::Wrekavoc) => 100_000_000,
    };
    if !(1_000_000..=BOUNDARY_NS).contains(&interval_ns) {
        return Err("the interval of lim lies between 1 and 100 ms".to_owned());
    }
    let throttling = Throttling::Lim {
        variant,
        interval_ns,
    };
    Ok(Method {
        about: "stops each process that used more than its share of the time since it began",
        attributes: Attributes::Fifo { priority: PRIORITY },
        parameters: vec![
            ("variant", variant.name().to_owned()),
            ("interval_ms", format!("{}", interval_ns as f64 / 1e6)),
            ("priority", PRIORITY.to_string()),
        ],
        ..Method::of_node("lim", throttling)
    })
}
