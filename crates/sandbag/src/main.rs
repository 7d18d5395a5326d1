// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sandbag binary: arguments in, exit code out.

mod args;
mod commands;
mod exit;
mod hidden;
mod messages;
mod output;
mod profile_output;
mod program;
mod prometheus;
mod reshape;
mod run;
mod units;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use messages::Messages;
use sandbag_report::text::visible;

fn main() -> ExitCode {
    // Our own processes never get as far as the argument parser: a burner
    // should touch as little memory as it can.
    if let Some(code) = hidden::main() {
        return code.into();
    }
    sandbag_burner::signals::outlive_file_limits();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return exit::KEPT.into();
            }
            // It quotes the arguments, so it is made again of harmless ones. Few
            // that are refused are accepted then.
            let words = std::env::args_os();
            let words = words.map(|word| visible(&word.to_string_lossy()));
            match Cli::try_parse_from(words) {
                Err(error) => drop(error.print()),
                Ok(_) => Messages::error(error.to_string().lines().next().unwrap_or_default()),
            }
            return exit::of_usage(std::env::args_os().skip(1)).into();
        }
    };
    let messages = Messages::new(cli.quiet, cli.verbose);
    let with_command = match &cli.command {
        Command::Load(args) => args.has_command(),
        Command::Replay(args) => args.has_command(),
        Command::Slow(args) => args.has_command(),
        Command::Record(args) => args.has_command(),
        Command::Jitter(args) => args.has_command(),
        _ => false,
    };
    let outcome = match &cli.command {
        Command::Doctor(args) => commands::doctor::main(args),
        Command::Load(args) => commands::load::main(args, &messages),
        Command::Replay(args) => commands::replay::main(args, &messages),
        Command::Slow(args) => commands::slow::main(args, &messages),
        Command::Record(args) => commands::record::main(args, &messages),
        Command::Compare(args) => commands::compare::main(args, &messages),
        Command::Lab(args) => commands::lab::main(args, &messages),
        Command::Convert(args) => commands::convert::main(args, &messages),
        Command::Synth(args) => commands::synth::main(args, &messages),
        Command::Jitter(args) => commands::jitter::main(args, &messages),
        Command::Scale(args) => commands::scale::main(args, &messages),
        Command::Audit(args) => commands::audit::main(args, &messages),
        Command::Show(args) => commands::show::main(args, &messages),
        Command::Status(args) => commands::runs::status(args),
        Command::Stop(args) => commands::runs::stop(args, &messages),
        Command::Restore(args) => commands::runs::restore(args, &messages),
        Command::Generate(args) => commands::generate::main(args),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            Messages::error(&messages::told(&error));
            exit::of_error(&error, with_command).into()
        }
    }
}
