// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-mpi`: the compute-barrier benchmark (De, Kothari and Mann 2008) with MPI ranks, on
//! all machines of the MPI program.
//!
//! All ranks run the same work and meet at an MPI barrier after each phase. Rank 0 reads the
//! trace, gathers the times of all ranks, and prints the result. `start` runs sandbag on the
//! hosts of all ranks, beginning at one time.

mod barrier;
mod place;
mod run;
mod start;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mpi::traits::Communicator as _;
use sandbag_linux::launcher::{Launched, launched};
use sandbag_ui::exit;

/// The compute-barrier benchmark of sandbag with MPI ranks, and one start of sandbag on their hosts
///
/// Start it as an MPI program: mpirun -n 16 sandbag-mpi bench, or srun. Alone it has one rank.
#[derive(Debug, Parser)]
#[command(name = "sandbag-mpi", version)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Bench(run::BenchArgs),
    Start(start::StartArgs),
    /// Print the MPI library, and where each rank runs
    Info,
}

/// Writes one message, in one piece: a launcher joins the output of all ranks.
fn say(text: std::fmt::Arguments<'_>) {
    let line = format!("sandbag-mpi: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Launchers that start the processes of an MPI program; OAR and sandbag itself do not.
fn starts_ranks(launched: &Launched) -> bool {
    !["OAR", "sandbag"].contains(&launched.by)
}

/// Why a world of this size is not what the launcher started: without its connection each
/// process would be a program of one rank.
fn misfit(size: i32, launched: Option<&Launched>, library: &str) -> Option<String> {
    let found = launched.filter(|one| starts_ranks(one) && size == 1 && one.size > 1)?;
    Some(format!(
        "the launcher ({}) started {} processes, and MPI knows 1: its library ({library}) does not \
         fit the launcher, or this is a shell of a step (srun --pty). Take the mpirun of that library, \
         also for one rank, or srun --mpi=pmix or --mpi=pmi2",
        found.by, found.size
    ))
}

fn main() -> ExitCode {
    // Before the library can add variables of its own.
    let launched = launched();
    let Some(universe) = mpi::initialize() else {
        say(format_args!("MPI cannot be initialised here"));
        return ExitCode::from(exit::NOT_POSSIBLE);
    };
    let world = universe.world();
    // All ranks have the same arguments: the first reports errors in them.
    let first = world.rank() == 0;
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if first {
                let _ = error.print();
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    if let Some(why) = misfit(world.size(), launched.as_ref(), &run::library()) {
        // All of them have rank 0.
        if launched.is_some_and(|one| one.rank == 0) {
            say(format_args!("{why}"));
        }
        return ExitCode::from(exit::NOT_POSSIBLE);
    }
    let done = match &cli.action {
        Action::Bench(args) => run::bench(args, &world),
        Action::Info => run::info(&world),
        Action::Start(args) => match start::start(args, &world) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => {
                // Each rank's error is its own.
                say(format_args!("rank {}: {error:#}", world.rank()));
                return ExitCode::from(exit::OUR_FAILURE);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if first {
                say(format_args!("{error:#}"));
            }
            ExitCode::from(if error.is::<run::Unwritten>() {
                exit::FAILED
            } else {
                exit::USAGE
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_s_processes_are_one_program() {
        let fits = |size, by, started| {
            let launched = Launched {
                by,
                rank: 0,
                size: started,
            };
            misfit(size, Some(&launched), "X").is_none()
        };
        assert!(!fits(1, "Slurm", 2) && !fits(1, "Hydra", 400));
        assert!(fits(2, "Slurm", 2) && fits(1, "Open MPI", 1));
        // Of several programs in one world each launcher's number may be its own part.
        assert!(fits(4, "Slurm", 2));
        // A program beside the load of each host, and a host of a job.
        assert!(fits(1, "sandbag", 2) && fits(1, "OAR", 2));
        assert!(misfit(1, None, "X").is_none());
        let of_step = Launched {
            by: "Slurm",
            rank: 0,
            size: 8,
        };
        let why = misfit(1, Some(&of_step), "X").unwrap();
        assert!(why.contains("shell of a step"), "{why}");
    }
}
