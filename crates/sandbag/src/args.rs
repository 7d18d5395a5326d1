// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line as a whole; help, man pages and completions come from
//! here.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{generate, moved, runs};
use sandbag_audit::command_line as audit;
use sandbag_hosts::command::{self as hosts, HostsArgs, HostsVerb};
use sandbag_hosts::gather;
use sandbag_jitter::command as jitter;
use sandbag_load::command::{doctor, load, record, replay, set, slow, top};
use sandbag_profile::command::{convert, show, synth};
use sandbag_scale::command as scale;
use sandbag_sweep::{command as sweep, compare};
use sandbag_ui::{exit, help};

/// Puts a program under CPU conditions that you choose, gives the same
/// conditions every time, and shows how well they were kept
#[derive(Debug, Parser)]
#[command(name = "sandbag", version, after_long_help = exit::HELP, max_term_width = 100)]
pub struct Cli {
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Say more (may be given more than once)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The definition, with the options of each command in groups.
    pub fn definition() -> clap::Command {
        help::grouped(hosts::augmented(Self::command()))
    }

    /// What these words ask for, the program's name first; and whether on many hosts.
    pub fn read(
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, Option<(HostsVerb, HostsArgs)>), clap::Error> {
        let matches = Self::definition().try_get_matches_from(words)?;
        Ok((Self::from_arg_matches(&matches)?, hosts::chosen(&matches)))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this machine can do, per method, by trying it
    Doctor(doctor::DoctorArgs),
    /// Hold a constant load on some CPUs
    #[command(after_long_help = exit::HELP)]
    Load(load::LoadArgs),
    /// Replay a load profile, beside a program or alone
    #[command(after_long_help = exit::HELP)]
    Replay(replay::ReplayArgs),
    /// Slow CPUs for a program: virtual nodes, slower or unequal CPUs
    #[command(after_long_help = exit::HELP)]
    Slow(slow::SlowArgs),
    /// Record the load of each CPU as a profile; with CMD the opposing load
    #[command(after_long_help = exit::HELP)]
    Record(record::RecordArgs),
    /// Compare two programs under the same load
    Compare(compare::CompareArgs),
    /// Measure how a program responds to loads, speeds, profiles, jitter
    Sweep(sweep::SweepArgs),
    /// The papers' experiments are the program sandbag-lab
    #[command(hide = true, disable_help_flag = true)]
    Lab(moved::LabArgs),
    /// Turn a load profile of any known format into any other
    Convert(convert::ConvertArgs),
    /// Make a load profile from a model: shapes, chance, jobs of a parallel machine
    Synth(synth::SynthArgs),
    /// OS jitter: what takes CPUs away from programs, event by event
    Jitter(jitter::JitterArgs),
    /// What OS jitter does to a parallel program at scale
    Scale(scale::ScaleArgs),
    /// Are all CPUs of this machine equal? Which charges a program more, and why
    #[command(after_long_help = audit::exit_codes::HELP)]
    Audit(audit::AuditArgs),
    /// Make one report of the hosts of an experiment
    Gather(gather::GatherArgs),
    /// Show a load profile, or what a run got
    Show(show::ShowArgs),
    /// Show the runs of this machine, with what they take right now
    Status(runs::StatusArgs),
    /// Watch the runs of this machine: asked and got of each CPU, as it happens
    Top(top::TopArgs),
    /// Change a run while it goes on: its load, its speed; pause and resume it
    Set(set::SetArgs),
    /// End runs in the background, as Ctrl-C would
    Stop(runs::StopArgs),
    /// Undo what a killed run left
    Restore(runs::RestoreArgs),
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}
