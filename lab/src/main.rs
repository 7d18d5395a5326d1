// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: the papers' experiments, method against method, and the benchmarks, on
//! the machine at hand.
//!
//! An [`experiment`] lists its cells and measures one of them; [`run`](mod@run) measures
//! all of them round by round, and [`journal`] keeps the rows. The papers' experiments
//! are in [`experiments`], from below: [`workload`] has the programs, [`program`] and
//! [`place`] run them under a [`condition`], [`pair`] makes a [`row`] of two runs,
//! [`summary`] computes figures from the rows, [`results`] writes them, [`page`] and
//! [`index`] show them. The benchmarks, whose report is a text with tables, are in
//! [`bench`].

mod agreement;
mod bench;
mod command;
mod condition;
mod decide;
mod experiment;
mod experiments;
mod figure;
mod index;
mod journal;
mod page;
mod pair;
#[cfg(test)]
#[path = "../../crates/base/linux/tests/support/patience.rs"]
mod patience;
mod place;
mod program;
mod published;
mod reading;
mod results;
mod row;
mod run;
mod setup;
mod steal;
mod summary;
mod table;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sandbag_ui::messages::Messages;
use sandbag_ui::{BadInput, NotPossible, exit};

/// Re-run the papers' experiments, and measure how well sandbag does
#[derive(Debug, Parser)]
#[command(name = "sandbag-lab", version, after_long_help = exit::HELP, max_term_width = 100)]
struct Cli {
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Paper(command::LabVerb),
    #[command(flatten)]
    Benchmark(bench::BenchVerb),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let messages = Messages::new(cli.quiet, 0);
    let outcome = match &cli.command {
        Command::Paper(verb) => command::main(verb, &messages),
        Command::Benchmark(verb) => bench::main(verb, &messages).map(|()| exit::KEPT),
    };
    let code = outcome.unwrap_or_else(|error| {
        Messages::error(&format!("{error:#}"));
        if error.is::<BadInput>() {
            exit::USAGE
        } else if error.is::<NotPossible>() {
            exit::NOT_POSSIBLE
        } else {
            exit::FAILED
        }
    });
    code.into()
}
