// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known when a run is over, apart from its windows.

use crate::command::Ended;

/// Why the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The profile's end was reached and there was no command to wait for.
    ProfileOver,
    /// The command ended.
    CommandOver,
    /// Our own time limit.
    TimedOut,
    /// A signal, without a command: the ordinary way to end an open load.
    Stopped,
    /// A second signal, or one before the start: at once, command or not.
    Interrupted,
}

/// The end of one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuOutcome {
    /// Kernel number.
    pub cpu: u32,
    /// CPU time of its burners, ns.
    pub burner_ns: u64,
    /// Load that was given up for want of room, ns.
    pub lost_ns: u64,
    /// Least share (0 to 1) that the burners would have had without sleeping.
    pub least_headroom: Option<f64>,
    /// Times the weight was changed.
    pub weight_changes: u64,
    /// CPU time of the command there, ns.
    pub command_ns: Option<u64>,
}

/// How the command fared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandOutcome {
    /// From its first instruction to its end, ns.
    pub wall_ns: u64,
    /// How it ended and what it used.
    pub how: Ended,
    /// How often it was moved to another CPU.
    pub migrations: Option<Migrations>,
}

/// Migrations, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrations {
    /// Of all threads of all processes in the command's group, to its end.
    All(u64),
    /// Of the command's first thread, to the last second.
    FirstThread(u64),
}

/// What we cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of supervisor and guardian, ns.
    pub cpu_ns: u64,
    /// The part of it that was over when the run proper began: reading the
    /// profile, making groups, starting burners.
    pub start_cpu_ns: u64,
    /// Wake-ups of the supervisor.
    pub wakeups: u64,
    /// Writes to the group tree.
    pub writes: u64,
    /// Peak resident set of the supervisor, KiB.
    pub resident_kib: u64,
    /// Largest private memory of a burner, KiB.
    pub burner_private_kib: u64,
    /// Largest delay of a wake-up at a window's end, ns.
    pub worst_late_ns: u64,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Length on the run's clock, ns.
    pub run_ns: u64,
    /// Time it stood still, ns.
    pub paused_ns: u64,
    /// Why it ended.
    pub end: End,
    /// Per CPU, in the order of the plan.
    pub cpus: Vec<CpuOutcome>,
    /// The command, if it was started and ended.
    pub command: Option<CommandOutcome>,
    /// Our cost.
    pub cost: Cost,
}
