// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one scenario in a guest, by hand; see `docs/testing.md`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use sandbag_machine_tests::guest::{self, Guest, GuestKind, Kernel};

/// Boot a guest, run a scenario in it, print what it says
#[derive(Debug, Parser)]
struct Arguments {
    /// Shell script; `tests/guest/lib.sh` says what it can use. Without one, only fetch
    /// and build what all guests are made of
    scenario: Option<PathBuf>,
    /// A Debian with systemd as PID 1 in place of a bare busybox
    #[arg(long)]
    systemd: bool,
    /// Its kernel: 6.1 (CFS), 6.1-rt (osnoise) or 6.12 (EEVDF)
    #[arg(long, default_value = "6.1", value_parser = kernel)]
    kernel: Kernel,
    /// CPUs of the guest
    #[arg(long, default_value_t = 4)]
    cpus: u32,
    /// Seconds after which the guest is killed
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Also put this program and its libraries into the guest; repeatable
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Another word of the kernel's command line, such as idle=poll; repeatable
    #[arg(long, value_name = "WORD")]
    parameter: Vec<String>,
}

fn kernel(name: &str) -> anyhow::Result<Kernel> {
    match Kernel::ALL.iter().find(|kernel| kernel.name() == name) {
        Some(kernel) => Ok(*kernel),
        None => bail!("neither 6.1 nor 6.1-rt nor 6.12"),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let kind = if arguments.systemd {
        GuestKind::Systemd
    } else {
        GuestKind::Bare
    };
    let Some(scenario) = &arguments.scenario else {
        for kernel in Kernel::ALL {
            guest::prepare(GuestKind::Systemd, kernel).map_err(anyhow::Error::msg)?;
        }
        return Ok(());
    };
    guest::prepare(kind, arguments.kernel).map_err(anyhow::Error::msg)?;
    let own = std::env::current_exe()?;
    let mut programs: Vec<PathBuf> = ["spinner", "killer", "patched"]
        .map(|name| own.with_file_name(name))
        .into();
    match guest::sandbag() {
        Ok(sandbag) => programs.push(sandbag),
        Err(reason) => eprintln!("without sandbag: {reason}"),
    }
    programs.extend(guest::rtla());
    programs.extend(arguments.with.iter().cloned());
    let outcomes = Guest {
        kind,
        kernel: arguments.kernel,
        cpus: arguments.cpus,
        timeout: Duration::from_secs(arguments.timeout),
        programs,
        parameters: arguments.parameter.clone(),
    }
    .run(std::slice::from_ref(scenario))?;
    let outcome = outcomes.first().context("no outcome")?;
    for line in &outcome.lines {
        println!("{line}");
    }
    eprintln!(
        "up after {:.1} s, {:.1} s in all; others used {:.0} % of this machine",
        outcome.boot.as_secs_f64(),
        outcome.total.as_secs_f64(),
        outcome.others_pct
    );
    if outcome.status != 0 {
        bail!("the scenario ended with status {}", outcome.status);
    }
    Ok(())
}
