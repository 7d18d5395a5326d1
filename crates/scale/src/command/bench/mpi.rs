// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPI ranks on this machine: mpirun starts sandbag-mpi. MPI cannot be part of a static program,
//! and every cluster has its own.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::{Context as _, Result};

use super::args::{BenchArgs, allowed_cpus};
use sandbag_run::program::on_path;
use sandbag_ui::NotPossible;
use sandbag_ui::units::Cpus;

/// The program that is linked with MPI.
const PROGRAM: &str = "sandbag-mpi";

/// Becomes mpirun.
pub(super) fn main(args: &BenchArgs) -> Result<u8> {
    let program = launcher_path().or_else(|| on_path(PROGRAM)).ok_or_else(|| {
        NotPossible(format!(
            "there is no {PROGRAM} beside this program or on the PATH: build it with `make mpi` \
             (it needs an MPI library, such as Debian's libopenmpi-dev), or leave --mpi out: ranks \
             are then processes with shared memory"
        ))
    })?;
    let mpirun = on_path("mpirun").ok_or_else(|| {
        NotPossible(
            "there is no mpirun on the PATH: install an MPI, such as Debian's openmpi-bin, or \
             leave --mpi out: ranks are then processes with shared memory"
                .to_owned(),
        )
    })?;
    let topology = Topology::read(&Root::default())?;
    let cpus = allowed_cpus(&Cpus::All, &topology)?.len();
    let ranks = args.ranks.unwrap_or(cpus as u32);
    let mut command = Command::new(mpirun);
    command.args(["-n", &ranks.to_string()]);
    // Open MPI refuses root and more ranks than cores without these, and sandbag-mpi pins its
    // ranks itself. Other libraries ignore them.
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none");
    command.arg(program).arg("bench");
    command.args(args.options.to_args());
    Err(command.exec()).context("start mpirun")
}

fn launcher_path() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let path = own.with_file_name(PROGRAM);
    path.is_file().then_some(path)
}
