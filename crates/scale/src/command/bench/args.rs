// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of `scale bench`, and the CPUs they mean.

use clap::{Args, ValueEnum};
use sandbag_jitter::trace_file::ImportArgs;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, sched};
use sandbag_ui::BadInput;
use sandbag_ui::failure::Result;
use sandbag_ui::units::{self, Cpus};

use crate::file::BenchOptions;

/// Measure how jitter slows down ranks that compute and wait for each other
///
/// Each rank is a process: it computes for a quantum, then waits for all others at a barrier in
/// shared memory, again and again. With --jitter each rank replays a portion of a trace between
/// two steps of its work, so that no event is too short. Phases with and without jitter
/// alternate. The slowdown is printed against two references: the same run without injected
/// jitter, and the quantum as it was calibrated on the quiet CPU.
///
/// With --mpi the ranks are MPI processes, started with mpirun on this machine; `mpirun ...
/// sandbag-mpi bench` does the same on several machines.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Number of ranks [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576), allow_negative_numbers = true)]
    pub ranks: Option<u32>,

    /// CPUs of the ranks, in turn: 0,2-3, or all, even, odd, core
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    pub cpus: Cpus,

    /// Virtual ranks: they compute one after another on these CPUs and never wait; the slowest
    /// of each phase is found afterwards
    #[arg(long = "virtual", conflicts_with = "rounds")]
    pub virtually: bool,

    /// Clock of virtual ranks. CPU time stands still while other tasks have the CPU, so that a
    /// busy machine measures as a quiet one
    #[arg(long, value_enum, default_value_t = ClockArg::Wall, requires = "virtually")]
    pub clock: ClockArg,

    /// Trials of each phase of a virtual rank with the same events, of which the fastest counts:
    /// this removes noise of the host
    #[arg(long, value_name = "N", default_value_t = 1, requires = "virtually", value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    pub repeats: u32,

    /// MPI ranks: sandbag-mpi, from the directory of this program or the PATH, under mpirun.
    /// Convert a trace that needs --unit or --cpu first (jitter convert)
    #[arg(long, conflicts_with_all = ["virtually", "cpus", "unit", "cpu"])]
    pub mpi: bool,

    #[command(flatten)]
    pub options: BenchOptions,

    #[command(flatten)]
    pub import: ImportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// Wall time, as for ranks that meet
    Wall,
    /// CPU time of the rank
    Cpu,
}

/// The requested CPUs. Of a set by rule (all, even, odd, core) those that this process may use:
/// a container, a cpuset or `taskset` may leave it fewer than the machine has.
pub fn allowed_cpus(asked: &Cpus, topology: &Topology) -> Result<CpuList> {
    let cpus = asked.online(topology)?;
    let before = sched::affinity(0)?;
    let Cpus::List(_) = asked else {
        let ours = cpus.intersection(&before);
        return if !ours.is_empty() {
            Ok(ours)
        } else {
            Err(BadInput(format!(
                "of CPUs {cpus} this process may use none; it may use {before}"
            ))
            .into())
        };
    };
    // Named CPUs may be outside the affinity that `taskset` left, but not outside the cpuset.
    let refused = cpus
        .iter()
        .find(|cpu| sched::set_affinity(0, &CpuList::from_iter([*cpu])).is_err());
    sched::set_affinity(0, &before)?;
    match refused {
        None => Ok(cpus),
        Some(cpu) => Err(BadInput(format!(
            "CPU {cpu} is not left to this process (a container or a cpuset); it may use {before}"
        ))
        .into()),
    }
}
