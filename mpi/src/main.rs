// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-mpi`: the compute-barrier benchmark (De, Kothari and Mann 2008) whose
//! ranks are MPI's, on as many machines as MPI reaches.
//!
//! All ranks run the same work and meet at an MPI barrier after each phase; rank 0
//! reads the trace for all, gathers what each measured, and tells it.

mod barrier;
mod place;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mpi::traits::Communicator as _;

/// The compute-barrier benchmark of sandbag with MPI ranks
///
/// Start it with what starts MPI programs: mpirun -n 16 sandbag-mpi bench, or
/// srun. Alone it has one rank.
#[derive(Debug, Parser)]
#[command(name = "sandbag-mpi", version)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Bench(run::BenchArgs),
    /// The MPI library, and where each rank runs
    Info,
}

/// As of `sandbag` itself: wrong usage or bad input.
const USAGE: u8 = 2;
/// It failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        eprintln!("sandbag-mpi: MPI cannot be initialised here");
        return ExitCode::from(USAGE);
    };
    let world = universe.world();
    // All have the same arguments: one says what is wrong with them.
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
    let done = match &cli.action {
        Action::Bench(args) => run::bench(args, &world),
        Action::Info => run::info(&world),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if first {
                eprintln!("sandbag-mpi: {error:#}");
            }
            ExitCode::from(if error.is::<run::Untold>() {
                FAILED
            } else {
                USAGE
            })
        }
    }
}
