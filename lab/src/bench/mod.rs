// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark of sandbag: runs the real program cell by cell and prints how
//! large the error of each method was, verified three ways.
//!
//! `cells` says what is measured, `runner` runs one cell, `clocks`, `tasks`
//! and `closing` verify it, `windows` and `tables` turn it into figures,
//! `compete` is the competition, `place` and `churn` the groups around it,
//! `tools` the comparison with others' tools, `jitter` the collector of OS jitter
//! and its replay, `scale` the predictor of jitter at scale and `figures` what it
//! draws, `audit` what audits find, `hierarchy` the switch from cgroup v1 to v2 and
//! back. `results` and `report` keep and show what was found.

mod audit;
mod cells;
mod child;
mod churn;
mod clocks;
mod closing;
mod compete;
mod figures;
mod hierarchy;
mod holders;
mod jitter;
mod latency;

mod markdown;
mod mounts;
mod mpstat;
mod nodes;
mod on_v2;
mod place;
mod programs;
mod report;
mod results;
mod row;
mod runner;
mod scale;
mod session;
mod tables;
mod tasks;
mod tools;
mod windows;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use sandbag_kernel::Root;

/// Measures how well sandbag holds a load; needs root
#[derive(Debug, Parser)]
#[command(
    name = "sandbag-bench",
    version,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    session: session::SessionArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Remove what a killed benchmark left: groups, and moved cgroup mounts
    Clean,
    /// Run a program while the cpu controllers are on the cgroup v2 tree (root,
    /// SANDBAG_DISPOSABLE=1); afterwards all is as it was. Exit code 5 where
    /// they cannot be moved
    OnV2(on_v2::OnV2Args),
    /// Hold other load generators (stress-ng) against sandbag beside the same
    /// spinners; needs root
    Others(tools::OthersArgs),
    /// Measure how nearly proportional slowed programs are to their speed
    Nodes(nodes::NodesArgs),
    /// Measure what the collector of OS jitter costs, and how exactly a trace
    /// is replayed
    Jitter(jitter::JitterArgs),
    /// Measure how fast and how right the predictor of jitter at scale is
    Scale(scale::ScaleArgs),
    /// Draw figures 5, 6 and 8 of De, Kothari and Mann (2008) from traces
    Figures(figures::FiguresArgs),
    /// Plant differences on a CPU, and see whether `sandbag audit` finds them
    Audit(audit::AuditArgs),
    /// Be such a difference
    #[command(hide = true)]
    AuditPlant(audit::plant::PlantArgs),
    /// Count work for some time
    #[command(hide = true)]
    Work(nodes::work::WorkArgs),
    /// Compete for the CPUs, and print the CPU time taken as JSON
    #[command(hide = true)]
    Compete(compete::CompeteArgs),
    /// Measure the wake-up delay of a 1 ms sleeper
    #[command(hide = true)]
    Latency(latency::LatencyArgs),
    /// Put the cgroup mounts back when standard input closes
    #[command(hide = true)]
    HierarchyGuard,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.verb {
        Some(Verb::OnV2(args)) => {
            return on_v2::on_v2(args).unwrap_or_else(|e| {
                eprintln!("sandbag-bench: {e:#}");
                ExitCode::FAILURE
            });
        }
        None => session::run(&arguments.session),
        Some(Verb::Clean) => clean(),
        Some(Verb::Others(args)) => tools::others(args),
        Some(Verb::Nodes(args)) => nodes::nodes(args),
        Some(Verb::Jitter(args)) => jitter::jitter(args),
        Some(Verb::Scale(args)) => scale::scale(args),
        Some(Verb::Figures(args)) => figures::figures(args),
        Some(Verb::Audit(args)) => audit::audit(args),
        Some(Verb::AuditPlant(args)) => audit::plant::plant(args),
        Some(Verb::Work(args)) => nodes::work::work(args),
        Some(Verb::Compete(args)) => compete::compete(args),
        Some(Verb::Latency(args)) => latency::latency(args),
        Some(Verb::HierarchyGuard) => hierarchy::guard(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("sandbag-bench: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn clean() -> Result<()> {
    let root = Root::default();
    // Groups first: the mounts cannot come back while v2 groups hold tasks of
    // a benchmark that was killed. In the middle of the switch neither version
    // has the cpu controller, and there are no groups to look for.
    let groups = match place::Layout::detect(&root) {
        Ok(layout) => layout.clean()?,
        Err(_) => 0,
    };
    let moved = hierarchy::restore()?;
    let groups = groups + place::Layout::detect(&root)?.clean()?;
    println!(
        "{groups} groups removed; cgroup mounts {}",
        if moved {
            "restored"
        } else {
            "as they should be"
        }
    );
    Ok(())
}
