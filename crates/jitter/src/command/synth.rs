// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter synth`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::stats::summarise;
use crate::synth::{Arrivals, Component, LIKE, Lengths, NamedModel, NoiseModel, fit, synthesise};
use clap::Args;
use sandbag_linux::CpuList;
use sandbag_stats::GENERATOR;
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;

use super::ImportArgs;
use super::export::{ExportFormat, put};
use super::parts::{self, ComponentSpecs, LengthsArg};
use crate::trace_file::open_trace;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::Overwrite;
use sandbag_ui::units;
use sandbag_ui::{BadInput, exit};

/// Of the models of published traces.
const HELP: &str = "\
Examples:
  sandbag jitter synth --period 10ms --length 25us --poisson 300 --length \\
      lognormal:2us:0.8 -o y.sbj
  sandbag jitter synth --period 4ms --jitter 2us --length 5us --period 1s --common \\
      --length 300us --cpus 0-3 -d 10m --seed 7 -o y.sbj
  sandbag jitter synth --like linux-2007 -d 1h -o linux.sbj
  sandbag jitter synth --like node.sbj -d 1h -o longer.sbj

linux-2007 and bgl-io-2007 have the statistics that De, Kothari and Mann
published of their traces, and no more: what they have and what not is said
when they are made. Like a recording FILE: its periodic components, and the
rest at random times, with its lengths, CPU by CPU.

Components add up; where events of two meet, a program sees one, as long as
both.";

/// Make a synthetic trace, the same for the same seed
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SynthArgs {
    #[command(flatten)]
    parts: ComponentSpecs,

    /// Like a published trace, linux-2007 or bgl-io-2007, or like a recording;
    /// components are added to it
    #[arg(long, value_name = "NAME|FILE")]
    like: Option<PathBuf>,

    /// How long
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = units::positive_duration)]
    duration: Duration,

    /// The CPUs of the trace [default: 0; with --like FILE those of FILE]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpu_list)]
    cpus: Option<CpuList>,

    /// Of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Where to, or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    overwrite: Overwrite,

    /// What to write [default: by the ending of OUT, .csv or .json; else sbj]
    #[arg(long, value_enum)]
    to: Option<ExportFormat>,

    #[command(flatten)]
    import: ImportArgs,
}

pub fn main(args: &SynthArgs, messages: &Messages) -> Result<u8> {
    let to = ExportFormat::for_path(args.to, &args.output, ExportFormat::Sbj)?;
    if to == ExportFormat::Causes {
        let text = "a synthetic trace has no causes: --to sbj, csv or json";
        return Err(BadInput(text.to_owned()).into());
    }
    let (mut components, mut cpus) = model_components(args, messages)?;
    for part in &args.parts.0 {
        let component = Component {
            lengths: match &part.lengths {
                LengthsArg::Are(lengths) => lengths.clone(),
                LengthsArg::OfTrace(file) => lengths_of(file, args, messages)?,
            },
            ..part.component.clone()
        };
        parts::check(&component)?;
        components.push(component);
    }
    if components.is_empty() {
        let names: Vec<&str> = LIKE.iter().map(|like| like.name).collect();
        return Err(BadInput(format!(
            "nothing to make: give components (--period, --poisson) or --like {} or a recording",
            names.join(", ")
        ))
        .into());
    }
    if let Some(given) = &args.cpus {
        cpus = given.iter().collect();
    }
    let elsewhere = components
        .iter()
        .flat_map(|component| component.cpus.iter().flatten())
        .find(|cpu| !cpus.contains(cpu));
    if let Some(cpu) = elsewhere {
        return Err(BadInput(format!(
            "a component is on CPU {cpu}, which the trace has not: name it in --cpus"
        ))
        .into());
    }
    if !args.parts.0.is_empty() {
        parts::check_together(&components, &cpus)?;
    }
    let model = NoiseModel {
        cpus,
        duration_ns: units::nanos(args.duration),
        seed: args.seed,
        components,
    };
    let made = synthesise(&model)?;
    let mut trace = made.trace;
    trace.header.recorder = format!(
        "{}: {}",
        trace.header.recorder,
        model
            .components
            .iter()
            .map(component_text)
            .collect::<Vec<_>>()
            .join("; ")
    );
    if let Some(name) = &args.like {
        trace.header.recorder = format!("{}; like {}", trace.header.recorder, name.display());
    }
    put(&trace, to, &args.output, args.overwrite.existing())?;
    if trace.cpus.iter().all(|cpu| cpu.events.is_empty()) {
        messages.warning(&format!(
            "no event falls wholly within {}: a longer --duration, or more events",
            time(model.duration_ns as f64)
        ));
    }
    messages.say(&format!(
        "synthetic, {GENERATOR}, seed {}; {} events drawn, {} of them one with another, {} not \
         ended before the trace",
        args.seed, made.drawn, made.merged, made.beyond
    ));
    for cpu in trace.cpus.iter().map(summarise) {
        messages.detail(&format!(
            "CPU {}: {} events, {:.1} per s, noise {:.4} %",
            cpu.cpu, cpu.events, cpu.rate_per_s, cpu.noise_pct
        ));
    }
    Ok(exit::KEPT)
}

/// What `--like` gives, and its CPUs.
fn model_components(args: &SynthArgs, messages: &Messages) -> Result<(Vec<Component>, Vec<u32>)> {
    let Some(wanted) = &args.like else {
        return Ok((Vec::new(), vec![0]));
    };
    if let Some(like) = wanted.to_str().and_then(NamedModel::named) {
        messages.say(&format!("{} has: {}", like.name, like.has));
        messages.say(&format!("{} has not: {}", like.name, like.has_not));
        return Ok((like.components(), vec![0]));
    }
    let names: Vec<&str> = LIKE.iter().map(|like| like.name).collect();
    if !wanted.exists() && wanted.as_os_str() != "-" {
        return Err(BadInput(format!(
            "--like {}: neither a file nor one of {}",
            wanted.display(),
            names.join(", ")
        ))
        .into());
    }
    let trace = open_trace(wanted, &args.import.options(), messages)?;
    let components = fit(&trace);
    for component in &components {
        messages.detail(&component_text(component));
    }
    Ok((components, trace.header.cpus))
}

fn lengths_of(file: &Path, args: &SynthArgs, messages: &Messages) -> Result<Lengths> {
    let trace = open_trace(file, &args.import.options(), messages)?;
    Lengths::of_events(&trace.lengths_ns()).ok_or_else(|| {
        BadInput(format!(
            "{} has no events, and so no lengths",
            file.display()
        ))
        .into()
    })
}

/// A component in words.
fn component_text(component: &Component) -> String {
    let mut text = match component.arrivals {
        Arrivals::Periodic {
            period_ns,
            phase_ns,
            jitter_ns,
            share,
        } => {
            let mut text = format!("every {}", time(period_ns));
            if let Some(phase) = phase_ns {
                text += &format!(" from {}", time(phase));
            }
            if jitter_ns > 0.0 {
                text += &format!(" (sd {})", time(jitter_ns));
            }
            if share < 1.0 {
                text += &format!(" {:.0} % of them", share * 100.0);
            }
            text
        }
        Arrivals::Poisson { per_s } => format!("at random, {per_s:.1} per s"),
    };
    text += &match &component.lengths {
        Lengths::Fixed(ns) => format!(", {}", time(*ns)),
        Lengths::Lognormal { median_ns, sigma } => {
            format!(", lognormal, median {}, sigma {sigma}", time(*median_ns))
        }
        Lengths::Exponential { least_ns, mean_ns } => {
            format!(", {} and exponential, {}", time(*least_ns), time(*mean_ns))
        }
        Lengths::Pareto { least_ns, alpha } => {
            format!(", Pareto from {}, alpha {alpha}", time(*least_ns))
        }
        Lengths::Quantiles(_) => ", lengths of a recording".to_owned(),
        Lengths::Mixed(_) | Lengths::Within { .. } => ", mixed lengths".to_owned(),
    };
    if component.common {
        text += ", in common";
    }
    if let Some(cpus) = &component.cpus {
        let list: CpuList = cpus.iter().copied().collect();
        text += &format!(", CPU {list}");
    }
    text
}
