// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale bench`.

mod mpi;
mod ours;
mod virtually;

use std::path::Path;

use crate::bench::{Settings, measure};
use crate::file::{BenchOptions, Files, OutputStyle, ResultFile, rows_of};
use clap::{Args, ValueEnum};
use sandbag_jitter::JitterTrace;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;

use sandbag_jitter::trace_file::{ImportArgs, open_trace};
use sandbag_ui::messages::Messages;
use sandbag_ui::output;
use sandbag_ui::units::{self, Cpus};
use sandbag_ui::{BadInput, exit};

/// Measure what jitter does to ranks that compute and wait for each other
///
/// Each rank is a process: it computes for a quantum, then waits for all others
/// at a barrier in shared memory, again and again. With --jitter each suffers a
/// portion of a trace between two steps of its work, so that no event is too
/// short; phases with and without it come in turn. The slowdown is told against
/// both references: the same run without injected jitter, and the quantum as it
/// was calibrated on the quiet CPU.
///
/// With --mpi the ranks are MPI processes, started with mpirun on this machine;
/// `mpirun ... sandbag-mpi bench` does the same on many.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// How many ranks [default: as many as CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576), allow_negative_numbers = true)]
    ranks: Option<u32>,

    /// Where ranks run, in turn: 0,2-3, or all, even, odd, core
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    cpus: Cpus,

    /// Virtual ranks: they only compute and never meet, one after another on
    /// these CPUs; the slowest of each phase is looked for afterwards
    #[arg(long = "virtual")]
    virtually: bool,

    /// Time of virtual ranks: of the wall, or of the CPU, which stands still
    /// while others have it, so that a busy machine is as good as a quiet one
    #[arg(long, value_enum, default_value_t = ClockArg::Wall, requires = "virtually")]
    clock: ClockArg,

    /// Do each phase of a virtual rank so often with the same events; the fastest
    /// counts. Takes what the host has of its own out of the measurement
    #[arg(long, value_name = "N", default_value_t = 1, requires = "virtually", value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    repeats: u32,

    /// Ranks of MPI: sandbag-mpi, from beside this program or on the PATH,
    /// under mpirun. A trace that needs --unit or --cpu to be read has to be
    /// converted before (jitter convert)
    #[arg(long, conflicts_with_all = ["virtually", "cpus", "unit", "cpu"])]
    mpi: bool,

    #[command(flatten)]
    options: BenchOptions,

    #[command(flatten)]
    import: ImportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockArg {
    /// As for real ranks
    Wall,
    /// What the rank itself had of the CPU
    Cpu,
}

/// Runs the command.
pub fn main(args: &BenchArgs, messages: &Messages) -> Result<u8> {
    if let Some(path) = &args.options.output {
        output::refuse_ending(path, &["csv", "zst"])?;
    }
    if args.mpi {
        return mpi::main(args);
    }
    let topology = Topology::read(&Root::default())?;
    let cpus: Vec<u32> = ours::of(&args.cpus, &topology)?.iter().collect();
    let jitter = args.options.jitter.as_ref();
    let trace = jitter.map(|path| read(path, args, messages)).transpose()?;
    let plan = trace.as_ref().map(|trace| args.options.plan(trace));
    let ranks = args.ranks.unwrap_or(cpus.len() as u32);
    let settings = Settings {
        cpus,
        cpu_clock: args.clock == ClockArg::Cpu,
        repeats: args.repeats,
        ..args.options.settings(ranks, plan.transpose()?)
    };
    if args.virtually {
        virtually::main(args, &settings, trace.as_ref(), messages)
    } else {
        really(args, &settings, trace.as_ref(), messages)
    }
}

fn read(path: &Path, args: &BenchArgs, messages: &Messages) -> Result<JitterTrace> {
    Ok(open_trace(path, &args.import.of_events(), messages)?)
}

/// Where figures go.
const OUT: OutputStyle = OutputStyle {
    print: |text| output::print(text),
    written: output::give_to_caller,
};

/// Ranks on a CPU, at most, where they meet.
const MOST_PER_CPU: usize = 16;

/// Ranks that are processes.
fn really(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&JitterTrace>,
    messages: &Messages,
) -> Result<u8> {
    let (ranks, cpus) = (settings.ranks as usize, settings.cpus.len());
    if ranks > MOST_PER_CPU * cpus {
        return Err(BadInput(format!(
            "{ranks} ranks that meet on {cpus} CPUs would only wait for CPUs: take --virtual, or \
             {} ranks at most",
            MOST_PER_CPU * cpus
        ))
        .into());
    }
    if ranks > cpus {
        messages.warning(&format!(
            "{ranks} ranks on {cpus} CPUs: they wait for CPUs as well as for each other, and what \
             is measured is mostly that. Take --virtual for more ranks than CPUs"
        ));
    }
    let files = Files::create(&args.options)?;
    let measured = measure(settings)?;
    let cpus = settings.cpus.iter().cycle();
    let places = cpus.map(|cpu| format!("CPU {cpu}"));
    let places = places.take(settings.ranks as usize).collect();
    let suffered = trace.zip(settings.plan.as_ref());
    let Some(all) = ResultFile::new(&args.options, &measured, suffered, places) else {
        return Err(sandbag_ui::failure!("no phase ended in the time there was"));
    };
    let text = all.text(&format!("{} CPUs", settings.cpus.len()));
    files.write(OUT, &text, &all.json(), rows_of(&measured))?;
    Ok(exit::KEPT)
}
