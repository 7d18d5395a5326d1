// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag load`: a constant load.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use sandbag_kernel::Root;
use sandbag_kernel::topology::Topology;

use crate::exit::BadInput;
use crate::messages::Messages;
use crate::program;
use crate::run::options::RunOptions;
use crate::run::{self, Load};
use crate::units::{self, Cpus, nanos};

/// Hold a constant load on some CPUs
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The load, in percent of one CPU: 50, 50%, 12.5
    #[arg(value_name = "PERCENT", value_parser = units::load)]
    percent: f64,

    /// Where: 0,2-3, or all, even, odd, core (one per core)
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    cpus: Cpus,

    /// How long; without it until CMD ends, or until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Duration>,

    #[command(flatten)]
    options: RunOptions,
}

/// A load without an end is a profile of this length.
const OPEN_END: Duration = Duration::from_secs(10 * 365 * 86_400);

impl LoadArgs {
    /// Whether a program is to be run.
    #[must_use]
    pub fn has_command(&self) -> bool {
        !self.options.hold.command.is_empty()
    }
}

/// Runs the command.
pub fn main(args: &LoadArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.options.hold.command)?;
    run::recorded(&args.options, messages, |options| {
        let load = constant(args.percent, &args.cpus, args.duration)?;
        run::run(load, options, messages)
    })
}

/// A constant load as the load of a run; without a duration it has no end.
///
/// # Errors
/// [`BadInput`] if there is no such CPU.
pub fn constant(percent: f64, cpus: &Cpus, duration: Option<Duration>) -> Result<Load> {
    let topology = Topology::read(&Root::default())?;
    let cpus: Vec<u32> = cpus.on(&topology).iter().collect();
    if cpus.is_empty() {
        return Err(BadInput("--cpus names no CPU of this machine".to_owned()).into());
    }
    let length = nanos(duration.unwrap_or(OPEN_END));
    Ok(Load {
        steps: sandbag_profile::constant(&cpus, percent, length),
        cpus,
        length_ns: duration.map(nanos),
        highest_pct: percent,
        name: format!("constant {percent} %"),
        warnings: Vec::new(),
    })
}
