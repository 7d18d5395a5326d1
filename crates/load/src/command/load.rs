// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag load`: a constant load.

use std::time::Duration;

use clap::Args;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};
use sandbag_ui::failure::Result;

use crate::node::Target;
use crate::pacing::LONGEST_NS;

use crate::command::run::options::RunOptions;
use crate::command::run::{self, RunLoad};
use sandbag_run::program;
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::units::{self, Cpus, Loads, nanos};

/// Hold a constant load on some CPUs
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The load, in percent of one CPU: 50, 50%, 12.5; or for each CPU its
    /// own: 0=30,2-3=60
    #[arg(value_name = "PERCENT", value_parser = units::loads)]
    loads: Loads,

    /// Where: 0,2-3, or all, even, odd, core (one per core) [default: all, or
    /// those that PERCENT names]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// How long, also where CMD goes on after that; without it until CMD ends, or until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = held_duration)]
    duration: Option<Duration>,

    #[command(flatten)]
    options: RunOptions,
}

/// A load without an end is a profile of this length.
const OPEN_END: Duration = Duration::from_secs(10 * 365 * 86_400);

impl LoadArgs {
    pub fn has_command(&self) -> bool {
        !self.options.hold.command.is_empty()
    }
}

pub fn main(args: &LoadArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.options.hold.command)?;
    run::record_failure(&args.options, messages, |options| {
        let start_at = options.start_at()?;
        let root = Root::default();
        let cpus = match (&args.cpus, &args.loads, &options.beside) {
            (None, Loads::All(_), Some(name)) => {
                Some(Cpus::List(Target::of(&root, name)?.cpus(&root)?))
            }
            (cpus, ..) => cpus.clone(),
        };
        let load = constant(&args.loads, cpus.as_ref(), args.duration)?;
        run::run(load, start_at, options, messages)
    })
}

/// A time for which a load or a speed can be held and measured: a period of it.
pub fn held_duration(text: &str) -> std::result::Result<Duration, String> {
    match units::positive_duration(text)? {
        short if nanos(short) < LONGEST_NS => {
            Err("must be 20ms or longer: less than a period cannot be held".to_owned())
        }
        long => Ok(long),
    }
}

/// A constant load as the load of a run; without a duration it has no end.
pub fn constant(loads: &Loads, cpus: Option<&Cpus>, duration: Option<Duration>) -> Result<RunLoad> {
    let topology = Topology::read(&Root::default())?;
    let asked = cpus.map(|cpus| cpus.on(&topology));
    let each: Vec<(u32, f64)> = match loads {
        Loads::All(pct) => {
            let cpus = asked.unwrap_or_else(|| topology.usable.clone());
            cpus.iter().map(|cpu| (cpu, *pct)).collect()
        }
        Loads::PerCpu(each) => {
            let of = |(cpus, pct): &(CpuList, f64)| -> Vec<(u32, f64)> {
                cpus.iter().map(|cpu| (cpu, *pct)).collect()
            };
            let mut each: Vec<(u32, f64)> = each.iter().flat_map(of).collect();
            each.sort_unstable_by_key(|(cpu, _)| *cpu);
            let named: CpuList = each.iter().map(|(cpu, _)| *cpu).collect();
            if let Some(asked) = asked.filter(|asked| *asked != named) {
                return Err(BadInput(format!(
                    "--cpus {asked} and the loads, of CPUs {named}, name different CPUs; leave out \
                     --cpus"
                ))
                .into());
            }
            each
        }
    };
    if each.is_empty() {
        return Err(BadInput("--cpus names no CPU of this machine".to_owned()).into());
    }
    let length = nanos(duration.unwrap_or(OPEN_END));
    Ok(RunLoad {
        steps: sandbag_profile::constants(&each, length),
        cpus: each.iter().map(|(cpu, _)| *cpu).collect(),
        length_ns: duration.map(nanos),
        highest_pct: each.iter().map(|(_, pct)| *pct).fold(0.0, f64::max),
        name: format!("constant {loads}"),
        warnings: Vec::new(),
    })
}
