// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans of long events, and programs that suffer them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sandbag_jitter::inside::library::LibraryDir;
use sandbag_jitter::inside::outcome::InsideOutcome;
use sandbag_jitter::inside::plan::{InsideOptions, PlanFile, PlanStart, Portion};
use sandbag_jitter::replay::{PlanColumn, PlannedEvent};

/// Longer than the noise of a busy machine.
pub const LENGTH_NS: u64 = 1_000_000;
/// Distance of two events, ns.
pub const APART_NS: u64 = 10_000_000;

/// A hundred events in a second, again and again, for each process from its
/// own start.
pub fn options() -> InsideOptions {
    InsideOptions {
        begin: PlanStart::EachStart,
        repeat: true,
        overhead_ns: 3_000,
        exit_ns: 1_000,
        on_time_ns: 100_000,
        supervisor: Some(std::process::id()),
        ..InsideOptions::default()
    }
}

pub fn column() -> PlanColumn {
    let events = (0..100).map(|n| PlannedEvent::new(n * APART_NS + APART_NS / 2, LENGTH_NS));
    PlanColumn {
        known_ns: 100 * APART_NS,
        events: events.collect(),
    }
}

/// Four portions that begin at different places.
pub fn portions() -> Vec<Portion> {
    let portion = |n: u64| Portion {
        column: 0,
        offset_ns: n * 20 * APART_NS,
        length_ns: 100 * APART_NS,
    };
    (0..4).map(portion).collect()
}

/// A plan in its place.
pub struct PlanTrial {
    pub place: LibraryDir,
    pub plan: PlanFile,
}

impl PlanTrial {
    pub fn new(options: &InsideOptions) -> Self {
        Self::of(options, &[column()], &portions())
    }

    pub fn of(options: &InsideOptions, columns: &[PlanColumn], portions: &[Portion]) -> Self {
        let place = LibraryDir::make(None, 0).unwrap();
        let mut plan = PlanFile::create(&place.plan(), columns, portions, options).unwrap();
        plan.begin(sandbag_linux::clock::monotonic()).unwrap();
        Self { place, plan }
    }

    /// The program with the library.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = plain(program);
        command.envs(self.place.environment());
        command
    }

    pub fn outcome(&self) -> InsideOutcome {
        self.plan.outcome().unwrap()
    }
}

/// The program without it, and without a rank.
pub fn plain(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in [
        "LD_PRELOAD",
        "SANDBAG_JITTER_PLAN",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ] {
        command.env_remove(name);
    }
    command
}

/// Compiles a program with more arguments for the compiler.
pub fn compile(dir: &Path, source: &str, more: &[&str]) -> PathBuf {
    let path = dir.join(source.trim_end_matches(".c"));
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&path)
        .arg(programs.join(source))
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    path
}

/// Output and exit status of a program.
pub fn output_text(output: &Output) -> String {
    format!(
        "{}{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status
    )
}
