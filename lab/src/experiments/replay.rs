// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay (KRASH, figure 3): the load that a scenario puts on the CPUs beside
//! Linpack is recorded, and then replayed beside Linpack and beside ten
//! programs as wide as the machine; and a day of jobs of a model beside
//! Linpack. What was recorded is the reference: the error is that of each
//! second against it.

mod outside;
mod page;
mod scenario;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sandbag_linux::Root;
use sandbag_load::report::{read_achieved, read_run};
use sandbag_run::directory::ACHIEVED_CSV;

use outside::OutsideMonitor;

use super::KRASH;
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, NotHere, Paper, Remarks};
use crate::program::{self, is_there};
use crate::row::{End, Row};
use crate::setup::Setup;
use crate::steal::StealMeter;
use crate::workload;

const LINPACK: &str = include_str!("../workload/linpack.sh");

const INSTANCES: usize = 10;
const SIZE: u32 = 1000;
/// Length of the recording's steps.
const INTERVAL: &str = "500ms";
/// The third replay: a day of jobs of a model, in the time of the scenario.
const LUBLIN: &str = "lublin";
const DAY_S: f64 = 86_400.0;
/// An hour as it is; only where it is asked for.
const HOUR: &str = "hour";
const HOUR_S: f64 = 3_600.0;
/// Rarer than on the published machine of 128 nodes.
const LUBLIN_ARRIVALS: &str = "0.3";
/// After its time Linpack may finish the run that it is in.
const AROUND: Duration = Duration::from_secs(120);

pub(super) struct Replay {
    about: &'static About,
    cells: &'static [&'static str],
}

static FIGURES: [(&About, &[&str]); 2] = [
    (
        &About {
            name: "krash-figure-2",
            paper: KRASH,
            what: "a day of jobs of a model, replayed beside Linpack in two minutes; \
                   with --programs hour, an hour as it is",
            source: "KRASH (Perarnau and Huard, IPDPS 2010), figure 2",
            rounds: [3, 5],
            most_rounds: 5,
            minutes: [3, 15],
            page: |measured| page::sections(measured.rows, measured.dir),
            summary: page::summary,
        },
        &[LUBLIN, HOUR],
    ),
    (
        &About {
            name: "krash-figure-3",
            paper: KRASH,
            what: "a load is recorded beside Linpack, and replayed beside it and beside ten EP",
            source: "KRASH (Perarnau and Huard, IPDPS 2010), figure 3",
            rounds: [3, 5],
            most_rounds: 5,
            minutes: [4, 25],
            page: |measured| page::sections(measured.rows, measured.dir),
            summary: page::summary,
        },
        &["linpack", "ep-10"],
    ),
];

impl Replay {
    /// Figures 2 and 3.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        FIGURES
            .iter()
            .map(|(about, cells)| Box::new(Self { about, cells }) as Box<dyn Paper>)
    }
}

/// With length and CPUs: a recording of the quick form is none of the full one.
fn reference_name(setup: &Setup, ending: &str) -> String {
    let length_s = scenario::length_s(setup);
    format!("reference-{length_s}s-{}.{ending}", setup.cpus)
}

/// The profile that was recorded.
fn reference(setup: &Setup) -> PathBuf {
    setup.dir.join(reference_name(setup, "csv"))
}

/// How long the program of a cell runs.
fn length_s(setup: &Setup, cell: &str) -> f64 {
    match cell {
        HOUR => HOUR_S,
        _ => scenario::length_s(setup),
    }
}

/// What Linpack said at the end of the recording.
fn recorded_linpack(setup: &Setup) -> PathBuf {
    setup.dir.join(reference_name(setup, "linpack"))
}

/// Linpack for so long.
fn linpack(setup: &Setup, length_s: f64) -> Vec<OsString> {
    vec![
        "sh".into(),
        setup.scratch.join("linpack.sh").into(),
        setup.scratch.clone().into(),
        format!("{length_s:.0}").into(),
        setup.cpus.iter().count().to_string().into(),
    ]
}

/// Ten EP at the same time for the length of the scenario.
fn ten_ep(setup: &Setup) -> Vec<OsString> {
    ten(&scenario::ep(setup), scenario::length_s(setup))
}

/// Ten of a program that does not end by itself, for so long; fails if one ends before.
fn ten(program: &Command, length_s: f64) -> Vec<OsString> {
    // 124 is the code of a program that `timeout` ended.
    let script = format!(
        "all=; for i in $(seq {INSTANCES}); do timeout {length_s:.0} \"$0\" \"$@\" & \
         all=\"$all $!\"; done; \
         for one in $all; do wait $one; [ $? = 124 ] || {{ kill $all 2>/dev/null; exit 1; }}; done"
    );
    let mut words: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
    words.push(program.get_program().to_owned());
    words.extend(program.get_args().map(OsString::from));
    words
}

/// The profile of the third replay, the same every time.
fn lublin(setup: &Setup) -> Result<PathBuf> {
    let path = setup.dir.join(format!("lublin-{}.csv", setup.cpus));
    let words = format!(
        "-q synth lublin --force --arrivals {LUBLIN_ARRIVALS} -d {DAY_S}s --cpus {} -o",
        setup.cpus
    );
    program::make_file(&setup.sandbag, &words, &path, AROUND)?;
    Ok(path)
}

/// The profile of the hour, and the options for it: the first hour of a recording that the
/// user names, or the tenth hour of a day whose load swings, in steps of 10 s.
fn hour(setup: &Setup) -> Result<(PathBuf, String)> {
    if let Some(recording) = &setup.chosen.profile {
        return Ok((recording.clone(), "--cut 0s..1h --gaps hold".to_owned()));
    }
    let path = setup.dir.join(format!("daily-{}.csv", setup.cpus));
    let words = format!(
        "-q synth daily --force --step 10s --seed 1 -d {DAY_S}s --cpus {} -o",
        setup.cpus
    );
    program::make_file(&setup.sandbag, &words, &path, AROUND)?;
    Ok((path, "--cut 9h..10h".to_owned()))
}

/// The seconds of a run of Linpack, from what `linpack.sh` says at its end.
fn linpack_s(said: &str) -> Option<f64> {
    let mut words = said.split_whitespace();
    let mut after = |name: &str| {
        let found = words.find(|word| *word == name);
        found.and_then(|_| words.next()?.parse::<f64>().ok())
    };
    let (runs, seconds) = (after("runs")?, after("seconds")?);
    (runs > 0.0).then(|| seconds / runs)
}

/// What the replay of a cell leaves.
fn run_dir(dir: &Path, cell: &str, round: u32) -> PathBuf {
    dir.join(format!("run-{cell}-{}", round + 1))
}

impl Experiment for Replay {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about.name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let chosen = &setup.chosen;
        let is_asked_for = |cell: &&str| *cell != HOUR || !chosen.programs.is_empty();
        let cells = self.cells.iter().copied().filter(is_asked_for);
        let cells = cells.filter(|cell| chosen.has(cell));
        cells.map(str::to_owned).collect()
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let words_of_program = match cell {
            "linpack" | LUBLIN | HOUR => linpack(setup, length_s(setup, cell)),
            _ => ten_ep(setup),
        };
        let dir = run_dir(&setup.dir, cell, round);
        let _ = fs::remove_dir_all(&dir);
        let (profile, options) = match cell {
            LUBLIN => {
                let factor = scenario::length_s(setup) / DAY_S;
                let options = format!("--scale-time {factor} --resample {INTERVAL}");
                (lublin(setup)?, options)
            }
            HOUR => hour(setup)?,
            _ => (reference(setup), String::new()),
        };
        let words = format!(
            "-q replay {options} --cpus {0} --pin {0} --map first --as-root",
            setup.cpus
        );
        let mut command = program::command(&setup.sandbag, &words);
        command.arg(&profile).arg("--out").arg(&dir);
        command.arg("--").args(words_of_program);
        let mut steal = StealMeter::start(&Root::default(), &setup.cpus)?;
        let limit = Duration::from_secs_f64(length_s(setup, cell)) + AROUND;
        let monitor = OutsideMonitor::start(&setup.sandbag, &setup.cpus);
        let ended = program::run(command, None, limit)?;
        let condition = Condition::Replay {
            profile: profile
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        };
        let mut row = Row::under(cell, round, cell, &condition, &setup.cpus);
        row.loaded_s = ended.seconds;
        let found = steal.disturbance()?;
        (row.steal_pct, row.foreign_pct) = (found.steal_pct, found.foreign_pct);
        match ended.status {
            None => {
                row.end = End::OverLimit {
                    limit_s: limit.as_secs_f64(),
                };
            }
            Some(status) if !status.success() => {
                row.end = End::Failed {
                    why: format!("{status}: {}", ended.last_words()),
                };
            }
            Some(_) => {
                let run = read_run(&dir)?;
                // By the groups of the run: a program that is killed with its parent, as those
                // of `timeout` are, is in no account of ours.
                let foreign = run.cpus.iter().map(|cpu| cpu.foreign_pct);
                if let Some(known) = foreign.collect::<Option<Vec<f64>>>() {
                    row.foreign_pct = known.iter().sum::<f64>() / known.len().max(1) as f64;
                }
                let error = run.error_1s.context("a replay without a window of 1 s")?;
                row.put("mean_points", error.mean_points);
                row.put("mean_abs_points", error.mean_abs_points);
                row.put("sd_points", error.sd_points);
                row.put("worst_points", error.worst_points.abs());
                row.put("windows", error.windows as f64);
                let achieved = read_achieved(&dir.join(ACHIEVED_CSV))?;
                let achieved = achieved.collect::<std::result::Result<Vec<_>, _>>()?;
                let began_at = run.began_at.context("a replay that never began")?;
                monitor.put_error(&began_at, &achieved, &mut row)?;
                if let Some(seconds) = linpack_s(&ended.out) {
                    row.put("linpack_s", seconds);
                }
                if cell == "linpack" {
                    let recorded = fs::read_to_string(recorded_linpack(setup));
                    if let Some(seconds) = recorded.ok().as_deref().and_then(linpack_s) {
                        row.put("recorded_linpack_s", seconds);
                    }
                }
            }
        }
        Ok(vec![row])
    }
}

impl Paper for Replay {
    fn about(&self) -> &'static About {
        self.about
    }

    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        setup.chosen.check(self.cells.iter().copied())?;
        let has_hour = setup.chosen.programs.iter().any(|name| name == HOUR);
        if setup.chosen.profile.is_some() && !has_hour {
            return Err(NotHere(format!("--profile is for --programs {HOUR}")).into());
        }
        for (program, package) in [
            ("hpcc", "hpcc"),
            ("mpirun", "openmpi-bin"),
            ("chrt", "util-linux"),
        ] {
            if !is_there(program) {
                return Err(
                    NotHere(format!("no {program} here; apt-get install {package}")).into(),
                );
            }
        }
        let input = workload::hpccinf(SIZE, setup.cpus.iter().count() as u32);
        for (name, text) in [("hpccinf.txt", input.as_str()), ("linpack.sh", LINPACK)] {
            let path = setup.scratch.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        if !self.cells.contains(&LUBLIN) && !reference(setup).is_file() {
            let program = linpack(setup, scenario::length_s(setup));
            scenario::record(setup, program, &reference(setup), &recorded_linpack(setup))?;
        }
        Ok(Remarks::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_ten_programs_that_ends_early_is_a_failure() {
        let code = |script: &str| {
            let mut program = Command::new("sh");
            program.args(["-c", script]);
            let words = ten(&program, 1.0);
            let mut command = Command::new(&words[0]);
            let status = command.args(&words[1..]).status().unwrap();
            status.code()
        };
        assert_eq!(code("exec sleep 60"), Some(0));
        // As the loop of EP ends after a wrong result.
        assert_eq!(code("while false; do :; done"), Some(1));
    }
}
