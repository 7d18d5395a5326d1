// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sandbag binary: arguments in, exit code out.

mod args;
mod generate;
mod hidden;
mod moved;
mod reference;
mod runs;
mod show;

use std::process::ExitCode;

use args::{Cli, Command};
use sandbag_hosts::command::with_host_in_names;
use sandbag_ui::address::public;
use sandbag_ui::messages::Messages;
use sandbag_ui::text::visible;
use sandbag_ui::{Result, exit};

fn main() -> ExitCode {
    sandbag_linux::child::die_with_parent();
    // Our own processes never get as far as the argument parser: a burner
    // should touch as little memory as it can.
    if let Some(code) = hidden::main() {
        return code.into();
    }
    sandbag_linux::signals::outlive_file_limits();
    let words = with_host_in_names(std::env::args_os());
    let (cli, hosts) = match Cli::read(words.clone()) {
        Ok(read) => read,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return exit::KEPT.into();
            }
            // It quotes the arguments, so it is made again of harmless ones. Few
            // that are refused are accepted then.
            let words = words.iter();
            let words = words.map(|word| visible(&public(&word.to_string_lossy())).into());
            match Cli::read(words) {
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
    let outcome = match &hosts {
        Some((verb, args)) => sandbag_hosts::command::main(args, verb, &words[1..], &messages),
        None => run(&cli.command, &messages),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            Messages::error(&error.line());
            error.exit_code(with_command).into()
        }
    }
}

fn run(command: &Command, messages: &Messages) -> Result<u8> {
    match command {
        Command::Doctor(args) => sandbag_load::command::doctor::main(args),
        Command::Load(args) => sandbag_load::command::load::main(args, messages),
        Command::Replay(args) => sandbag_load::command::replay::main(args, messages),
        Command::Slow(args) => sandbag_load::command::slow::main(args, messages),
        Command::Record(args) => sandbag_load::command::record::main(args, messages),
        Command::Compare(args) => sandbag_sweep::compare::main(args, messages),
        Command::Sweep(args) => sandbag_sweep::command::main(args, messages),
        Command::Lab(args) => moved::lab(args),
        Command::Convert(args) => sandbag_profile::command::convert::main(args, messages),
        Command::Synth(args) => sandbag_profile::command::synth::main(args, messages),
        Command::Jitter(args) => sandbag_jitter::command::main(args, messages),
        Command::Scale(args) => sandbag_scale::command::main(args, messages),
        Command::Audit(args) => sandbag_audit::command_line::main(args, messages),
        Command::Gather(args) => sandbag_hosts::gather::main(args, messages),
        Command::Show(args) => show::main(args, messages),
        Command::Status(args) => runs::status(args, messages),
        Command::Top(args) => sandbag_load::command::top::main(args, messages),
        Command::Set(args) => sandbag_load::command::set::main(args, messages),
        Command::Stop(args) => runs::stop(args, messages),
        Command::Restore(args) => runs::restore(args, messages),
        Command::Generate(args) => generate::main(args, Cli::definition()),
    }
}
