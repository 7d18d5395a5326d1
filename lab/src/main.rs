// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' experiments and the benchmarks of sandbag.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sandbag_lab::{bench, command};
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
    let verb = match &cli.command {
        Command::Paper(verb) => verb,
        Command::Benchmark(benchmark) => return bench::main(benchmark),
    };
    match command::main(verb, &Messages::new(cli.quiet, 0)) {
        Ok(code) => code.into(),
        Err(error) => {
            Messages::error(&format!("{error:#}"));
            let code = if error.is::<BadInput>() {
                exit::USAGE
            } else if error.is::<NotPossible>() {
                exit::NOT_POSSIBLE
            } else {
                exit::FAILED
            };
            code.into()
        }
    }
}
