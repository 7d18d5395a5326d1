// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenario of figure 3, recorded as the load that everything except
//! Linpack puts on the CPUs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{AROUND, INTERVAL};
use crate::program::{self, Running, Start};
use crate::setup::Setup;

/// The paper's scenario, seconds: a real-time loop, nothing, EP on all CPUs,
/// nothing, EP at a higher priority, EP, and then Linpack alone.
const SCENARIO: [(ScenarioPart, f64); 7] = [
    (ScenarioPart::RealTime, 15.0),
    (ScenarioPart::Nothing, 10.0),
    (ScenarioPart::Ep, 20.0),
    (ScenarioPart::Nothing, 16.0),
    (ScenarioPart::EpAhead, 30.0),
    (ScenarioPart::Ep, 20.0),
    (ScenarioPart::Nothing, 9.0),
];
/// Factor of all lengths in the short form.
const QUICK: f64 = 0.25;
/// EP at a lower nice value than Linpack's.
const AHEAD: i32 = -5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScenarioPart {
    Nothing,
    /// One task of a real-time class that never sleeps; the kernel's throttling
    /// of such classes is left on.
    RealTime,
    Ep,
    EpAhead,
}

fn scale(setup: &Setup) -> f64 {
    setup.form(QUICK, 1.0)
}

pub fn length_s(setup: &Setup) -> f64 {
    SCENARIO.iter().map(|(_, s)| s).sum::<f64>() * scale(setup)
}

/// EP on all CPUs, again and again until it is ended.
pub fn ep(setup: &Setup) -> Command {
    let tasks = setup.cpus.iter().count().to_string();
    let mut command = Command::new("sh");
    command
        .args(["-c", "while \"$0\" \"$@\"; do :; done"])
        .arg(&setup.own)
        .args(["work", "ep", "--class", "C", "--tasks", &tasks])
        .stdout(Stdio::null());
    command
}

fn part(setup: &Setup, part: ScenarioPart) -> Result<Option<Running>> {
    let command = match part {
        ScenarioPart::Nothing => return Ok(None),
        ScenarioPart::Ep => ep(setup),
        ScenarioPart::EpAhead => {
            let ep = ep(setup);
            let mut command = program::command("nice", &format!("-n {AHEAD}"));
            command.arg(ep.get_program()).args(ep.get_args());
            command.stdout(Stdio::null());
            command
        }
        ScenarioPart::RealTime => {
            // It ends even if this program does not end it.
            let mut command = program::command("timeout", "60 chrt -f 1 sh -c");
            command.arg("while :; do :; done");
            command
        }
    };
    let start = Start {
        cpus: Some(&setup.cpus),
        ..Start::default()
    };
    Running::start(command, start).map(Some)
}

/// Records the scenario beside a program, as the load that everything except
/// the program puts on the CPUs, and keeps what the program says in `said`.
pub fn record(setup: &Setup, program: Vec<OsString>, path: &Path, said: &Path) -> Result<()> {
    let new = path.with_extension("new");
    let words = format!(
        "-q record -i {INTERVAL} --as-root --force --cpus {} -o",
        setup.cpus
    );
    let mut command = program::command(&setup.sandbag, &words);
    command.arg(&new).arg("--").args(program);
    let said = File::create(said).with_context(|| said.display().to_string())?;
    command.stdout(said);
    // The program, too, is on these CPUs.
    let start = Start {
        cpus: Some(&setup.cpus),
        ..Start::default()
    };
    let mut recording = Running::start(command, start)?;
    for (what, seconds) in SCENARIO {
        let until = Instant::now() + Duration::from_secs_f64(seconds * scale(setup));
        hold(what, part(setup, what)?, until)?;
    }
    let status = recording.wait(AROUND)?;
    ensure!(
        status.is_some_and(|status| status.success()),
        "recording Linpack beside the scenario: {}",
        status.map_or("it did not end".to_owned(), |status| status.to_string())
    );
    fs::rename(&new, path).context("keep the reference")
}

/// Lets a part of the scenario run until then. One that has ended before is missing in the
/// recording.
fn hold(part: ScenarioPart, running: Option<Running>, until: Instant) -> Result<()> {
    sandbag_linux::interrupt::sleep_until(until)?;
    if let Some(mut running) = running {
        ensure!(
            !running.has_ended(),
            "recording the scenario: the part {part:?} ended before its time"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_ends_before_its_time_is_an_error() {
        let start = |words: &str| {
            let command = program::command("sleep", words);
            Running::start(command, Start::default()).unwrap()
        };
        let mut ended = start("0");
        ended.wait(AROUND).unwrap().unwrap();
        let error = hold(ScenarioPart::Ep, Some(ended), Instant::now()).unwrap_err();
        assert!(error.to_string().contains("part Ep ended"), "{error}");
        hold(ScenarioPart::Ep, Some(start("600")), Instant::now()).unwrap();
        hold(ScenarioPart::Nothing, None, Instant::now()).unwrap();
    }

    #[test]
    fn the_scenario_is_the_papers() {
        // 15 + 10 + 20 + 16 + 30 + 20 seconds, and then Linpack alone.
        let loaded: f64 = SCENARIO[..6].iter().map(|(_, s)| s).sum();
        assert!((loaded - 111.0).abs() < 1e-9);
    }
}
