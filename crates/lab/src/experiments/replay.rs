// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay (KRASH, figure 3): the load that a scenario puts on the CPUs beside
//! Linpack is recorded, and then replayed beside Linpack and beside ten
//! programs as wide as the machine; and a day of jobs of a model beside Linpack. What was recorded is the reference: the
//! error is that of each second against it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sandbag_kernel::Root;
use sandbag_report::{read_achieved, read_run};

use super::{Cell, Choices, Experiment, NotHere, Setup, distinct};
use crate::condition::Condition;
use crate::figure::{Axes, Line, Point, draw};
use crate::machine::StealMeter;
use crate::page::{Section, Table};
use crate::program::{self, Running, is_there};
use crate::row::{End, Row};
use crate::summary::Median;

const LINPACK: &str = include_str!("../workload/linpack.sh");
const INPUT: &str = include_str!("../workload/hpccinf.txt");

/// The paper's scenario, seconds: a real-time loop, nothing, EP on all CPUs,
/// nothing, EP at a higher priority, EP, and then Linpack alone.
const SCENARIO: [(Part, f64); 7] = [
    (Part::RealTime, 15.0),
    (Part::Nothing, 10.0),
    (Part::Ep, 20.0),
    (Part::Nothing, 16.0),
    (Part::EpAhead, 30.0),
    (Part::Ep, 20.0),
    (Part::Nothing, 9.0),
];
/// In the short form all is so much shorter.
const QUICK: f64 = 0.25;
/// EP at a lower nice value than Linpack's.
const AHEAD: i32 = -5;
/// Instances of EP in the second replay.
const INSTANCES: usize = 10;
/// Linpack's problem size.
const SIZE: u32 = 1000;
/// Length of the recording's steps.
const INTERVAL: &str = "500ms";
/// The third replay: a day of jobs of a model, in the time of the scenario.
const LUBLIN: &str = "lublin";
const DAY_S: f64 = 86_400.0;
/// Rarer than on the published machine of 128 nodes.
const LUBLIN_ARRIVALS: &str = "0.3";
/// What the paper reports, points.
const PUBLISHED: &str = "2 ± 1";
/// What we want, points.
const TARGET: f64 = 1.0;
/// After its time Linpack may finish the run that it is in.
const AROUND: Duration = Duration::from_secs(120);

/// What a part of the scenario does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    /// One task of a real-time class that never sleeps; the kernel's throttling
    /// of such classes is left on.
    RealTime,
    Ep,
    EpAhead,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Replay {
    reference: PathBuf,
    dir: PathBuf,
}

fn scale(setup: &Setup) -> f64 {
    if setup.quick { QUICK } else { 1.0 }
}

fn length_s(setup: &Setup) -> f64 {
    SCENARIO.iter().map(|(_, s)| s).sum::<f64>() * scale(setup)
}

impl Replay {
    /// Linpack for the length of the scenario.
    fn linpack(setup: &Setup) -> Vec<OsString> {
        vec![
            "sh".into(),
            setup.scratch.join("linpack.sh").into(),
            setup.scratch.clone().into(),
            format!("{:.0}", length_s(setup)).into(),
            setup.cpus.iter().count().to_string().into(),
        ]
    }

    /// EP on all CPUs, again and again until it is ended.
    fn ep(setup: &Setup) -> Command {
        let tasks = setup.cpus.iter().count().to_string();
        let mut command = Command::new("sh");
        command
            .args(["-c", "while \"$0\" \"$@\"; do :; done"])
            .arg(&setup.sandbag)
            .args(["lab", "work", "ep", "--class", "C", "--tasks", &tasks]);
        command.stdout(std::process::Stdio::null());
        command
    }

    fn part(setup: &Setup, part: Part) -> Result<Option<Running>> {
        let command = match part {
            Part::Nothing => return Ok(None),
            Part::Ep => Self::ep(setup),
            Part::EpAhead => {
                let ep = Self::ep(setup);
                let mut command = Command::new("nice");
                command
                    .args(["-n", &AHEAD.to_string()])
                    .arg(ep.get_program());
                command
                    .args(ep.get_args())
                    .stdout(std::process::Stdio::null());
                command
            }
            Part::RealTime => {
                let mut command = Command::new("timeout");
                // Whatever becomes of us, it ends.
                command.args(["60", "chrt", "-f", "1", "sh", "-c", "while :; do :; done"]);
                command
            }
        };
        Running::start(command, Some(&setup.cpus)).map(Some)
    }

    /// Records the scenario beside Linpack, as the load that everything except
    /// Linpack puts on the CPUs.
    fn record(&self, setup: &Setup) -> Result<()> {
        let new = self.reference.with_extension("new");
        let mut command = Command::new(&setup.sandbag);
        command
            .args(["-q", "record", "-i", INTERVAL, "--as-root", "-o"])
            .arg(&new)
            .args(["--cpus", &setup.cpus.to_string(), "--"])
            .args(Self::linpack(setup));
        let mut recording = Running::start(command, None)?;
        for (part, seconds) in SCENARIO {
            let until = Instant::now() + Duration::from_secs_f64(seconds * scale(setup));
            let running = Self::part(setup, part)?;
            crate::interrupt::sleep_until(until)?;
            drop(running);
        }
        let status = recording.wait(AROUND)?;
        ensure!(
            status.is_some_and(|status| status.success()),
            "recording Linpack beside the scenario: {}",
            status.map_or("it did not end".to_owned(), |status| status.to_string())
        );
        fs::rename(&new, &self.reference).context("keep the reference")
    }

    /// The profile of the third replay, the same every time.
    fn lublin(setup: &Setup) -> Result<PathBuf> {
        let path = setup.dir.join("lublin.csv");
        let mut command = Command::new(&setup.sandbag);
        command
            .args(["-q", "synth", "lublin", "--arrivals", LUBLIN_ARRIVALS])
            .args(["-d", &format!("{DAY_S}s")])
            .args(["--cpus", &setup.cpus.to_string(), "-o"])
            .arg(&path);
        let ended = program::run(command, None, AROUND)?;
        ensure!(
            ended.status.is_some_and(|status| status.success()),
            "synth lublin: {}",
            ended.last_words()
        );
        Ok(path)
    }

    fn run_dir(dir: &Path, cell: &Cell, round: u32) -> PathBuf {
        dir.join(format!("run-{}-{}", cell.key, round + 1))
    }
}

impl Experiment for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn about(&self) -> &'static str {
        "a load is recorded beside Linpack and replayed beside it and beside ten EP"
    }

    fn source(&self) -> &'static str {
        "KRASH (Perarnau and Huard, IPDPS 2010), figure 3"
    }

    fn rounds(&self, quick: bool) -> u32 {
        if quick { 1 } else { 5 }
    }

    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<()> {
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
        let ranks = setup.cpus.iter().count().to_string();
        let input = INPUT
            .replace("@N@", &SIZE.to_string())
            .replace("@RANKS@", &ranks);
        for (name, text) in [("hpccinf.txt", input.as_str()), ("linpack.sh", LINPACK)] {
            let path = setup.scratch.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        self.dir.clone_from(&setup.dir);
        self.reference = setup.dir.join("reference.csv");
        if !self.reference.is_file() {
            self.record(setup)?;
        }
        Ok(())
    }

    fn cells(&self, _setup: &Setup) -> Vec<Cell> {
        ["linpack", "ep-10", LUBLIN]
            .map(|key| Cell {
                key: key.to_owned(),
            })
            .into()
    }

    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
        let words = match cell.key.as_str() {
            "linpack" | LUBLIN => Self::linpack(setup),
            _ => {
                let ep = Self::ep(setup);
                let mut script = format!("for i in $(seq {INSTANCES}); do timeout ");
                script += &format!("{:.0} \"$0\" \"$@\" & done; wait", length_s(setup));
                let mut words: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
                words.push(ep.get_program().to_owned());
                words.extend(ep.get_args().map(OsString::from));
                words
            }
        };
        let dir = Self::run_dir(&setup.dir, cell, round);
        let _ = fs::remove_dir_all(&dir);
        let mut command = Command::new(&setup.sandbag);
        command.args(["-q", "replay"]);
        let profile = match cell.key.as_str() {
            LUBLIN => {
                let factor = (length_s(setup) / DAY_S).to_string();
                command.args(["--scale-time", &factor, "--resample", INTERVAL]);
                Self::lublin(setup)?
            }
            _ => self.reference.clone(),
        };
        command
            .arg(&profile)
            .args([
                "--cpus",
                &setup.cpus.to_string(),
                "--map",
                "first",
                "--as-root",
                "--out",
            ])
            .arg(&dir)
            .arg("--")
            .args(words);
        let mut steal = StealMeter::start(&Root::default(), &setup.cpus)?;
        let limit = Duration::from_secs_f64(length_s(setup)) + AROUND;
        let ended = program::run(command, None, limit)?;
        let mut row = Row {
            cell: cell.key.clone(),
            round,
            program: cell.key.clone(),
            condition: Condition::Replay {
                profile: profile
                    .file_name()
                    .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            },
            cpus: setup.cpus.to_string(),
            unloaded_s: 0.0,
            loaded_s: ended.seconds,
            end: End::Done,
            steal_pct: steal.steal_pct()?,
            figures: BTreeMap::new(),
        };
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
                let error = run.error_1s.context("a replay without a window of 1 s")?;
                for (name, value) in [
                    ("mean_points", error.mean_points),
                    ("mean_abs_points", error.mean_abs_points),
                    ("sd_points", error.sd_points),
                    ("worst_points", error.worst_points.abs()),
                    ("windows", error.windows as f64),
                ] {
                    row.figures.insert(name.to_owned(), value);
                }
            }
        }
        Ok(vec![row])
    }

    fn page(&self, rows: &[Row]) -> Result<Vec<Section>> {
        let mut table = Table::new(&[
            "beside",
            "mean error, points",
            "mean abs.",
            "sd",
            "worst 1 s",
            "windows",
            "n",
            "not counted",
        ]);
        for program in distinct(rows, |row| row.program.clone()) {
            let own: Vec<&Row> = rows.iter().filter(|row| row.program == program).collect();
            let figure = |name: &str| {
                Median::of(&figures(&own, name)).map_or_else(String::new, |m| m.show(3))
            };
            let counted = figures(&own, "sd_points").len();
            table.push(vec![
                program,
                figure("mean_points"),
                figure("mean_abs_points"),
                figure("sd_points"),
                figure("worst_points"),
                figures(&own, "windows").iter().sum::<f64>().to_string(),
                counted.to_string(),
                (own.len() - counted).to_string(),
            ]);
        }
        let mut sections = vec![
            Section::new("Error against the reference")
                .text(&format!(
                    "Per second and CPU; medians over the runs. The paper has {PUBLISHED} for both \
                     runs, we want {TARGET} at most. Seconds with more than 3 % steal are not \
                     counted by the run itself."
                ))
                .table(table),
        ];
        if let Some(row) = rows.iter().find(|row| row.end == End::Done) {
            let cell = Cell {
                key: row.cell.clone(),
            };
            let dir = Self::run_dir(&self.dir, &cell, row.round);
            for cpu in row.cpus.parse::<sandbag_kernel::CpuList>()?.iter() {
                sections.push(self.curves(&dir, cpu, &row.program)?);
            }
        }
        Ok(sections)
    }

    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
        distinct(rows, |row| row.program.clone())
            .into_iter()
            .map(|program| {
                let own: Vec<&Row> = rows.iter().filter(|row| row.program == program).collect();
                let (abs, sd) = (figures(&own, "mean_abs_points"), figures(&own, "sd_points"));
                let ours = match (Median::of(&abs), Median::of(&sd)) {
                    (Some(abs), Some(sd)) => {
                        format!("{:.3} ± {:.3}, n = {}", abs.value, sd.value, abs.n)
                    }
                    _ => "no run".to_owned(),
                };
                [
                    format!("replay beside {program}: mean abs. error and sd per 1 s, points"),
                    PUBLISHED.to_owned(),
                    ours,
                ]
            })
            .collect()
    }
}

impl Replay {
    /// Reference and replay over time.
    fn curves(&self, dir: &Path, cpu: u32, program: &str) -> Result<Section> {
        let path = dir.join(sandbag_report::write::ACHIEVED_CSV);
        let (mut asked, mut got) = (Vec::new(), Vec::new());
        for row in read_achieved(&path)? {
            let row = row?;
            if row.cpu == cpu && row.hole == 0 {
                let x = row.time_s + row.length_s / 2.0;
                let point = |y| Point {
                    x,
                    y,
                    low: y,
                    high: y,
                };
                asked.push(point(row.asked_pct));
                got.push(point(row.got_pct));
            }
        }
        let end = asked.last().map_or(1.0, |point| point.x + 0.5);
        let axes = Axes {
            title: format!("CPU {cpu}, beside {program}"),
            x: "s".to_owned(),
            y: "load, %".to_owned(),
            x_range: (0.0, end),
            x_names: Vec::new(),
            y_range: (0.0, 105.0),
        };
        let line = |name: &str, points| Line {
            name: name.to_owned(),
            points,
            connected: true,
            reference: false,
        };
        let svg = draw(&axes, &[line("reference", asked), line("replayed", got)])?;
        Ok(Section::new(&format!("CPU {cpu} over time")).figure(svg))
    }
}

fn figures(rows: &[&Row], name: &str) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.counts())
        .filter_map(|row| row.figures.get(name).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn the_scenario_is_the_papers() {
        // 15 + 10 + 20 + 16 + 30 + 20 seconds, and then Linpack alone.
        let loaded: f64 = SCENARIO[..6].iter().map(|(_, s)| s).sum();
        assert!((loaded - 111.0).abs() < 1e-9);
    }

    #[test]
    fn errors_stand_beside_the_papers() {
        let mut rows = [row(0, 0.0, 30.0), row(1, 0.0, 30.0)];
        for row in &mut rows {
            row.figures.insert("mean_abs_points".to_owned(), 0.04);
            row.figures.insert("sd_points".to_owned(), 0.08);
        }
        let lines = Replay::default().summary(&rows);
        assert_eq!(lines[0][1], PUBLISHED);
        assert_eq!(lines[0][2], "0.040 ± 0.080, n = 2");
        rows[0].steal_pct = 10.0;
        rows[1].end = End::OverLimit { limit_s: 1.0 };
        assert_eq!(Replay::default().summary(&rows)[0][2], "no run");
    }
}
