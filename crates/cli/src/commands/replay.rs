// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag replay`: a profile, from any known format.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_kernel::Root;
use sandbag_kernel::topology::Topology;
use sandbag_profile::{BoxSteps, Format, Gaps, MapRule, ReadOptions, Source, Summary, algebra};

use crate::messages::Messages;
use crate::run::options::RunOptions;
use crate::run::{self, Load};
use crate::units::{self, Cpus};

/// Replay a load profile, beside a program or alone
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The profile: a file of any known format, or - for standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    #[command(flatten)]
    reshape: Reshape,

    #[command(flatten)]
    options: RunOptions,
}

/// How a profile is read and fitted to this machine.
#[derive(Debug, Clone, Args)]
pub struct Reshape {
    /// Format of the profile, where it is not to be detected
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,

    /// The CPUs to load [default: those the profile names, or all with --map]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    pub cpus: Option<Cpus>,

    /// How a profile of more CPUs is put on those here: first, mean, max, wrap
    #[arg(long, value_name = "RULE")]
    pub map: Option<MapRule>,

    /// What stands where the profile has no value: hold, zero, cut, error
    #[arg(long, value_name = "WHAT", default_value = "error")]
    pub gaps: Gaps,

    /// What to do with steal: leave it out, or add it to the load
    #[arg(long, value_name = "WHAT", value_parser = ["exclude", "load"],
          default_value = "exclude")]
    pub steal: String,

    /// End of a profile that has none, from its beginning
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub end: Option<std::time::Duration>,

    /// Multiply all loads (clipped at 100, and counted)
    #[arg(long, value_name = "FACTOR")]
    pub scale_load: Option<f64>,

    /// Multiply all times: 0.5 replays twice as fast
    #[arg(long, value_name = "FACTOR")]
    pub scale_time: Option<f64>,

    /// Resample to pieces of this length (time-weighted means)
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub resample: Option<std::time::Duration>,

    /// Only the part FROM..TO of the profile (before any scaling)
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    pub cut: Option<(u64, u64)>,

    /// Repeat the profile until CMD ends, or until Ctrl-C
    #[arg(long = "loop")]
    pub repeat: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text
        .split_once("..")
        .ok_or("expected FROM..TO, such as 10s..1m")?;
    let part = |text: &str, open: u64| match text.trim() {
        "" => Ok(open),
        text => units::duration(text).map(units::nanos),
    };
    match (part(from, 0)?, part(to, u64::MAX)?) {
        (from, to) if from < to => Ok((from, to)),
        _ => Err("the part ends before it begins".to_owned()),
    }
}

impl Reshape {
    fn read_options(&self) -> ReadOptions {
        ReadOptions {
            gaps: self.gaps,
            steal_as_load: self.steal == "load",
            end_ns: self.end.map(units::nanos),
            ..ReadOptions::default()
        }
    }

    /// The profile as a stream, reshaped; once per pass.
    pub fn open(&self, source: &Source) -> sandbag_profile::Result<BoxSteps> {
        let mut steps = source.open(self.from, &self.read_options())?;
        if let Some((from, to)) = self.cut {
            steps = algebra::cut(steps, from, to)?;
        }
        if let Some(factor) = self.scale_time {
            steps = algebra::scale_time(steps, factor)?;
        }
        if let Some(factor) = self.scale_load {
            steps = algebra::scale_load(steps, factor)?;
        }
        if let Some(step) = self.resample {
            steps = algebra::resample(steps, units::nanos(step))?;
        }
        Ok(steps)
    }

    /// The CPUs to load, and the profile mapped to them.
    fn fit(&self, steps: BoxSteps, topology: &Topology) -> sandbag_profile::Result<BoxSteps> {
        let target: Vec<u32> = match (&self.cpus, self.map) {
            (Some(cpus), _) => cpus.on(topology).iter().collect(),
            (None, Some(_)) => topology.online.iter().collect(),
            // As it is, where every CPU of the profile is here.
            (None, None)
                if steps
                    .header()
                    .cpus
                    .iter()
                    .all(|c| topology.online.contains(*c)) =>
            {
                return Ok(steps);
            }
            (None, None) => topology.online.iter().collect(),
        };
        algebra::map_cpus(steps, self.map, &target)
    }
}

impl ReplayArgs {
    /// Whether a program is to be run.
    #[must_use]
    pub fn has_command(&self) -> bool {
        !self.options.command.is_empty()
    }
}

/// Runs the command.
pub fn main(args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    let topology = Topology::read(&Root::default())?;
    let source = Source::new(&args.profile)?;
    let open = {
        let (reshape, topology) = (args.reshape.clone(), topology.clone());
        move |source: &Source| reshape.fit(reshape.open(source)?, &topology)
    };
    // The whole profile is read before anything is changed.
    let mut first = open(&source)?;
    let format = first.header().format;
    let summary = sandbag_profile::summarise(&mut *first)?;
    messages.say(&describe(
        &args.profile.display().to_string(),
        format,
        &summary,
    ));
    let cpus = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    let highest_pct = summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.max_load_pct)
        .fold(0.0, f64::max);
    let mut warnings = summary.warnings.clone();
    if summary.shortest_step_ns < sandbag_burner::board::BOUNDARY_NS {
        warnings.push(format!(
            "the profile has pieces of {} ms: below 100 ms what was got cannot be told piece by \
             piece (--resample 100ms)",
            summary.shortest_step_ns as f64 / 1e6
        ));
    }
    let steps = match args.reshape.repeat {
        false => open(&source)?,
        true => algebra::repeat(None, Box::new(move || open(&source)))?,
    };
    run::run(
        Load {
            cpus,
            steps,
            length_ns: (!args.reshape.repeat).then_some(summary.end_ns),
            highest_pct,
            name: args.profile.display().to_string(),
            warnings,
        },
        &args.options,
        messages,
    )
    .context("replay")
}

/// One line about a profile: what was detected and what is in it.
#[must_use]
pub fn describe(name: &str, format: Format, summary: &Summary) -> String {
    let cpus: sandbag_kernel::CpuList = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    let mean: Vec<f64> = summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.mean_load_pct)
        .collect();
    let mean = mean.iter().sum::<f64>() / mean.len().max(1) as f64;
    format!(
        "{name} ({format}): CPUs {cpus}, {:.1} s in {} pieces of {} to {} ms, mean load {mean:.1} %",
        summary.end_ns as f64 / 1e9,
        summary.steps,
        summary.shortest_step_ns as f64 / 1e6,
        summary.longest_step_ns as f64 / 1e6,
    )
}
