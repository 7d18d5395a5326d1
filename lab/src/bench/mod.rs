// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmarks: run the real program cell by cell and prints how
//! large the error of each method was, verified three ways.
//!
//! `cells` says what is measured, `runner` runs one cell, `clocks`, `tasks`
//! and `closing` verify it, `windows` and `tables` turn it into figures,
//! `compete` is the competition, `place` and `churn` the groups around it,
//! `jitter` the collector of OS jitter and its replay, `scale` the predictor of
//! jitter at scale and `figures` what it draws, `audit` what audits find,
//! `hierarchy` the switch from cgroup v1 to v2 and back. `benchmark` keeps and shows what was found.

mod audit;
mod benchmark;
mod cells;
mod churn;
mod clocks;
mod closing;
mod compete;
mod figures;
mod hierarchy;
mod jitter;
mod latency;

mod markdown;
mod mpstat;
mod nodes;
mod on_v2;
mod place;
pub mod programs;
mod report;
mod row;
mod run_cost;
mod runner;
mod scale;
mod session;
mod tables;
mod tasks;
mod windows;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use sandbag_linux::Root;

/// The benchmarks; each needs root.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Measure how well loads are held, verified three ways
    Loads(session::SessionArgs),
    /// Remove what a killed benchmark left: groups, and moved cgroup mounts
    Clean,
    /// Run a program while the cpu controllers are on the cgroup v2 tree (root,
    /// SANDBAG_DISPOSABLE=1); afterwards all is as it was. Exit code 5 where
    /// they cannot be moved
    OnV2(on_v2::OnV2Args),
    /// Measure how nearly proportional slowed programs are to their speed
    Nodes(nodes::NodesArgs),
    /// Measure what the collector of OS jitter costs, and how exactly a trace
    /// is replayed
    Jitter(jitter::JitterArgs),
    /// Measure how fast and how right the predictor of jitter at scale is
    Scale(scale::ScaleArgs),
    /// Draw figures 5 and 6 of De, Kothari and Mann (2008) from traces
    Figures(figures::FiguresArgs),
    /// Plant differences on a CPU, and see whether `sandbag audit` finds them
    Audit(audit::AuditArgs),
    /// Simulate audits of equal CPUs and of slow ones, and count what they find
    AuditWorlds(audit::simulate::WorldsArgs),
    /// Be such a difference
    #[command(hide = true)]
    AuditPlant(audit::plant::PlantArgs),
    /// Count work for some time
    #[command(hide = true)]
    CountWork(nodes::work::WorkArgs),
    /// Compete for the CPUs
    #[command(hide = true)]
    Compete(compete::CompeteArgs),
    /// Measure the wake-up delay of a 1 ms sleeper
    #[command(hide = true)]
    Latency(latency::LatencyArgs),
    /// Put the cgroup mounts back when standard input closes
    #[command(hide = true)]
    HierarchyGuard,
}

/// Runs one of them.
#[must_use]
pub fn main(verb: &BenchVerb) -> ExitCode {
    let outcome = match verb {
        BenchVerb::OnV2(args) => {
            return on_v2::on_v2(args).unwrap_or_else(|error| failed(&error));
        }
        BenchVerb::Loads(args) => session::run(args),
        BenchVerb::Clean => clean(),
        BenchVerb::Nodes(args) => nodes::nodes(args),
        BenchVerb::Jitter(args) => jitter::jitter(args),
        BenchVerb::Scale(args) => scale::scale(args),
        BenchVerb::Figures(args) => figures::figures(args),
        BenchVerb::Audit(args) => audit::audit(args),
        BenchVerb::AuditWorlds(args) => {
            audit::simulate::print_worlds(args);
            Ok(())
        }
        BenchVerb::AuditPlant(args) => audit::plant::plant(args),
        BenchVerb::CountWork(args) => nodes::work::work(args),
        BenchVerb::Compete(args) => compete::compete(args),
        BenchVerb::Latency(args) => latency::latency(args),
        BenchVerb::HierarchyGuard => hierarchy::guard(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("sandbag-lab: {error:#}");
    ExitCode::FAILURE
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
