// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmarks. Each is an [`Experiment`](crate::experiment::Experiment) whose
//! report is a text ([`benchmark`]).
//!
//! `loads` measures how well loads are held: [`cells`] lists its cells, [`runner`] runs
//! one, [`clocks`], [`tasks`] and [`closing`] verify it, [`windows`] and [`tables`]
//! compute its figures; [`compete`] has the competitors, [`place`] and [`churn`] the
//! groups around it.

mod audit;
mod benchmark;
mod cells;
mod churn;
mod clocks;
mod closing;
mod compete;
mod jitter;
mod nodes;
mod place;
mod report;
mod row;
mod runner;
pub mod scale;
mod session;
mod tables;
pub mod tasks;
mod windows;

use anyhow::Result;
use clap::Subcommand;
use sandbag_linux::Root;
use sandbag_ui::messages::Messages;

/// The benchmarks; each needs root.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Measure how well loads are held, verified two ways
    Loads(session::SessionArgs),
    /// Remove the groups that a killed benchmark left
    Clean,
    /// Measure how closely the rate of slowed programs follows the speed
    Nodes(nodes::NodesArgs),
    /// Measure the cost of the collector of OS jitter, and the accuracy of
    /// replays
    Jitter(jitter::JitterArgs),
    /// Measure the speed and the accuracy of the predictor of jitter at scale
    Scale(scale::ScaleArgs),
    /// Plant differences on a CPU, and count which of them `sandbag audit` finds
    Audit(audit::AuditArgs),
    /// Simulate audits of equal CPUs and of slow ones, and count what they find
    AuditWorlds(audit::simulate::WorldsArgs),
    /// Make such a difference on a CPU until it is killed
    #[command(hide = true)]
    AuditPlant(audit::plant::PlantArgs),
    /// Compete for the CPUs
    #[command(hide = true)]
    Compete(compete::CompeteArgs),
}

pub fn main(verb: &BenchVerb, messages: &Messages) -> Result<()> {
    match verb {
        BenchVerb::Loads(args) => session::run(args, messages),
        BenchVerb::Clean => clean(),
        BenchVerb::Nodes(args) => nodes::nodes(args, messages),
        BenchVerb::Jitter(args) => jitter::jitter(args, messages),
        BenchVerb::Scale(args) => scale::scale(args, messages),
        BenchVerb::Audit(args) => audit::audit(args, messages),
        BenchVerb::AuditWorlds(args) => {
            audit::simulate::print_worlds(args);
            Ok(())
        }
        BenchVerb::AuditPlant(args) => audit::plant::plant(args),
        BenchVerb::Compete(args) => compete::compete(args),
    }
}

fn clean() -> Result<()> {
    let groups = place::Layout::detect(&Root::default())?.clean()?;
    println!("{groups} groups removed");
    Ok(())
}
