// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab on-v2 -- CMD`: runs a program while the cpu controllers are
//! on the cgroup v2 tree. What happens to the machine and how it is undone:
//! [`crate::bench::hierarchy`].

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::bench::hierarchy::{self, OnV2};
use sandbag_linux::interrupt;
use sandbag_ui::exit;

/// Arguments of `on-v2`.
#[derive(Debug, Args)]
pub struct OnV2Args {
    /// Only say whether the controllers can be moved, by moving them there
    /// and back
    #[arg(long, conflicts_with = "command")]
    check: bool,
    /// The program, and its arguments
    #[arg(last = true, required_unless_present = "check", value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the program; its exit code, or that of what is not possible where the
/// controllers cannot be moved.
pub fn on_v2(args: &OnV2Args) -> Result<u8> {
    // The interrupt is for the program; we only note it and restore the mounts.
    interrupt::watch()?;
    if hierarchy::restore()? {
        eprintln!("sandbag-lab: restored the cgroup mounts that a killed run had left moved");
    }
    let program = std::env::current_exe().context("find this program")?;
    let v2 = match OnV2::switch(&program) {
        Ok(v2) => v2,
        Err(e) => {
            eprintln!("sandbag-lab: the controllers cannot be moved to cgroup v2 here: {e:#}");
            return Ok(exit::NOT_POSSIBLE);
        }
    };
    let Some((name, arguments)) = args.command.split_first() else {
        v2.back()?;
        println!("the controllers can be moved to cgroup v2 and back");
        return Ok(exit::KEPT);
    };
    let status = Command::new(name)
        .args(arguments)
        .status()
        .with_context(|| format!("run {}", name.display()));
    v2.back()?;
    let status = status?;
    Ok(exit::of_command(status.code(), status.signal()))
}
