// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag replay`: a profile, from any known format.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_profile::{InputSource, algebra};
use sandbag_ui::failure::{Context as _, Result};

use crate::command::run::options::RunOptions;
use crate::command::run::{self, RunLoad};
use sandbag_profile::command::reshape::{self, Reshape, describe};
use sandbag_run::program;
use sandbag_ui::messages::Messages;

/// Replay a load profile, beside a program or alone
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The profile: a file of any known format, - for standard input, or what
    /// a Prometheus has of a machine:
    /// 'prometheus+http://HOST:9090/?instance=X&from=...&to=...'
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    #[command(flatten)]
    reshape: Reshape,

    /// Repeat the profile until CMD ends, or until Ctrl-C
    #[arg(long = "loop")]
    repeat: bool,

    #[command(flatten)]
    options: RunOptions,
}

impl ReplayArgs {
    pub fn has_command(&self) -> bool {
        !self.options.hold.command.is_empty()
    }
}

pub fn main(args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.options.hold.command)?;
    run::record_failure(&args.options, messages, |options| {
        let start_at = options.start_at()?;
        let source = reshape::source(&args.profile)?;
        let (load, about) = prepare(Arc::new(source), &args.reshape, args.repeat)?;
        messages.say(&about);
        run::run(load, start_at, options, messages).context("replay")
    })
}

/// A profile as the load of a run, and one line about it. The whole profile
/// is read before anything is changed.
pub fn prepare(
    source: Arc<InputSource>,
    reshape: &Reshape,
    repeat: bool,
) -> Result<(RunLoad, String)> {
    let topology = Topology::read(&Root::default())?;
    let open = {
        let reshape = reshape.clone();
        move |source: &Arc<InputSource>| reshape.open_for_here(source, &topology)
    };
    let mut first = open(&source)?;
    let format = first.header().format;
    let summary = sandbag_profile::summarise(&mut *first)?;
    let name = source.name().to_string();
    let about = describe(&name, format, &summary);
    let cpus = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    let highest_pct = summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.max_load_pct)
        .fold(0.0, f64::max);
    let mut warnings = summary.warnings.clone();
    if summary.shortest_step_ns < crate::board::BOUNDARY_NS {
        warnings.push(format!(
            "the profile has pieces of {} ms: below 100 ms what was got cannot be told piece by \
             piece (--resample 100ms)",
            summary.shortest_step_ns as f64 / 1e6
        ));
    }
    let steps = if !repeat {
        open(&source)?
    } else {
        algebra::repeat(None, Box::new(move || open(&source)))?
    };
    let load = RunLoad {
        cpus,
        steps,
        length_ns: (!repeat).then_some(summary.end_ns),
        highest_pct,
        name,
        warnings,
    };
    Ok((load, about))
}
