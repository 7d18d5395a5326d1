// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of an experiment, one after the other, and its record.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::user::User;
use sandbag_linux::{Root, interrupt, machine};
use sandbag_run::directory::{REPORT_HTML, make_new, remove_result};
use sandbag_run::lock::{holder, try_lock};
use sandbag_run::program;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{
    JsonArgs, Overwrite, RESULTS, SWEEP_JSON, give_to_caller, make_dir, put, put_json,
};
use sandbag_ui::{BadInput, address, bail};

use crate::answer::answers;
use crate::condition::Condition;
use crate::design::{Design, Turn};
use crate::metric::{EXIT, FAILED, Metric};
use crate::record::{FORMAT, OneRun, Program, Sweep};
use crate::report;
use crate::run::{self, STDERR, STDOUT};
use crate::threshold::Threshold;

/// A shorter run has no window of its condition, s.
const LEAST_S: f64 = 0.1;

/// Warnings of runs that are shown.
const MOST_WARNINGS: usize = 5;

/// What `sweep` and `compare` ask for.
pub struct Experiment {
    /// One program, or two.
    pub commands: Vec<Vec<OsString>>,
    pub conditions: Vec<Condition>,
    pub metrics: Vec<Metric>,
    pub fail_if: Vec<String>,
    /// Runs of each condition; none: as many as the time allows.
    pub blocks: Option<usize>,
    /// No run begins that would not end within it.
    pub time: Option<Duration>,
    /// Runs of each program that come first and do not count.
    pub warm_up: usize,
    /// How often a run is made again in its block.
    pub repeats: usize,
    /// How many runs are made again in all.
    pub spoilt: usize,
    pub seed: u64,
    pub failures: Failures,
    /// Options of every run.
    pub more: Vec<String>,
    /// The user that programs, and commands of metrics, run as, where that is not ours.
    pub user: Option<User>,
    pub dir: SweepDir,
    pub overwrite: Overwrite,
    pub json: JsonArgs,
}

/// What a program that fails means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failures {
    /// A result, of which only `failed` is known.
    AreResults,
    /// Its other figures count like those of any run.
    Count,
    /// The end.
    End,
}

/// Whether another run ends within `time`, of which so much is `gone`, if it takes as long as
/// the longest so far.
fn fits(time: Option<Duration>, gone: Duration, longest: Duration) -> bool {
    time.is_none_or(|time| time.saturating_sub(gone) > longest)
}

/// Where the record and the runs are.
pub enum SweepDir {
    /// The beginning of its name, where none was given.
    New(&'static str, Option<PathBuf>),
    /// That of a sweep which was interrupted.
    Resumed(PathBuf),
}

impl SweepDir {
    /// The directory, where it was named.
    pub fn made(&self) -> Option<&Path> {
        match self {
            Self::New(_, dir) => dir.as_deref(),
            Self::Resumed(dir) => Some(dir),
        }
    }
}

/// Keeps other sweeps out of a directory, where its file system has locks, as long as the file
/// is open.
fn lock_dir(dir: &Path) -> Result<Option<File>> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(dir);
    let Ok(file) = opened else { return Ok(None) };
    if !matches!(try_lock(&file), Ok(false)) {
        return Ok(Some(file));
    }
    let who = holder(&Root::default(), &file).map(|pid| format!(" (process {pid})"));
    Err(BadInput(format!(
        "{} is in use by another sweep{}; wait for its end, or name another directory",
        dir.display(),
        who.unwrap_or_default()
    ))
    .into())
}

/// An experiment that is being made.
pub struct Session {
    asked: Experiment,
    thresholds: Vec<Threshold>,
    design: Design,
    pub dir: PathBuf,
    /// Of the directory, until this is dropped.
    _lock: Option<File>,
    pub sweep: Sweep,
    /// A signal asked us to end.
    pub interrupted: bool,
}

impl Session {
    /// Everything that can be wrong, before a run is made.
    ///
    /// # Errors
    /// Bad input, or a condition that cannot be had.
    pub fn new(asked: Experiment) -> Result<Self> {
        for command in &asked.commands {
            program::check(command)?;
        }
        let names = ["A", "B"].into_iter().map(str::to_owned);
        let programs = names.zip(&asked.commands).map(|(name, command)| Program {
            name,
            command: program::words(command),
        });
        let metrics = asked.metrics.iter();
        let mut sweep = Sweep {
            format: FORMAT,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: jiff::Timestamp::now().to_string(),
            arguments: program::arguments(),
            host: machine::host(&Root::default()),
            kernel: machine::kernel(&Root::default()),
            seed: asked.seed,
            wanted: asked.blocks,
            // A URL may have a password: the record is passed on.
            conditions: asked.conditions.iter().map(Condition::public).collect(),
            options: asked
                .more
                .iter()
                .map(|word| address::public(word))
                .collect(),
            programs: programs.collect(),
            metrics: metrics.map(|metric| metric.about.clone()).collect(),
            runs: Vec::new(),
            complete: false,
            answers: Vec::new(),
            thresholds: Vec::new(),
            same_load: None,
        };
        let thresholds = asked.fail_if.iter();
        let thresholds = thresholds.map(|text| Threshold::parse(text, &sweep));
        let thresholds = thresholds.collect::<Result<_, _>>().map_err(BadInput)?;
        asked.json.check_within(asked.overwrite, asked.dir.made())?;
        for condition in &asked.conditions {
            run::check(condition, &asked.more, &asked.commands[0])?;
        }
        let lock;
        let dir = match &asked.dir {
            SweepDir::Resumed(dir) => {
                lock = lock_dir(dir)?;
                let before = Sweep::read(dir)?;
                if !before.is_like(&sweep) {
                    let text = format!(
                        "{} is a sweep of other conditions, options, programs or metrics, or of \
                         another seed, host or kernel",
                        dir.display()
                    );
                    return Err(BadInput(text).into());
                }
                sweep.runs = before.runs;
                sweep.started_at = before.started_at;
                dir.clone()
            }
            SweepDir::New(name, dir) => {
                let (dir, made) = match dir {
                    // What is no directory is refused below.
                    Some(dir) if dir.exists() => (dir.clone(), Ok(())),
                    Some(dir) => (dir.clone(), make_dir(dir)),
                    None => make_new(name, "", |dir| {
                        fs::create_dir(dir)?;
                        give_to_caller(dir);
                        Ok(())
                    }),
                };
                made.with_context(|| dir.display().to_string())?;
                // Before its results are refused: they are those of a sweep that still runs.
                lock = lock_dir(&dir)?;
                asked.overwrite.check_dir(Some(&dir))?;
                for name in RESULTS {
                    remove_result(&dir.join(name));
                }
                asked.json.path().into_iter().for_each(remove_result);
                dir
            }
        };
        let mut session = Self {
            design: Design {
                cells: sweep.conditions.len() * asked.commands.len(),
                blocks: asked.blocks,
                first: 1,
                repeats: asked.repeats,
                spoilt: asked.spoilt,
                seed: asked.seed,
            },
            asked,
            thresholds,
            dir,
            _lock: lock,
            sweep,
            interrupted: false,
        };
        session.design = session.design.resumed(&session.done());
        Ok(session)
    }

    /// Makes all runs, and has what came of them left, whatever ends them.
    ///
    /// # Errors
    /// A run without a result, a metric that is missing, or results that cannot be written.
    pub fn make(
        &mut self,
        messages: &Messages,
        leave: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        interrupt::watch()?;
        // One that is killed in its warm-up goes on as well.
        self.judge()?;
        let made = self.all(messages);
        self.interrupted = made.is_err() && interrupt::came();
        // A directory without results can be used again.
        let is_empty = made.is_err() && self.sweep.runs.is_empty() && !self.interrupted;
        if is_empty {
            remove_result(&self.dir.join(SWEEP_JSON));
        } else {
            self.judge()?;
        }
        match made {
            Err(error) if is_empty => Err(error),
            Err(error) if !self.interrupted => {
                leave(self)?;
                Err(error)
            }
            _ => leave(self),
        }
    }

    fn all(&mut self, messages: &Messages) -> Result<()> {
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        // Also of one that goes on: after a reboot nothing is warm.
        if self.design.next(&self.done()).is_some() {
            for turn in 0..self.asked.warm_up * self.asked.commands.len() {
                let from = Instant::now();
                let program = turn % self.asked.commands.len();
                let dir = self.dir.join(format!("warm-up-{:02}", turn + 1));
                let finished = run::make(
                    &self.asked.conditions[0],
                    &self.asked.more,
                    &self.asked.commands[program],
                    &dir,
                    messages,
                )?;
                longest = longest.max(from.elapsed() - finished.waited);
                messages.say(&format!("warm-up of {}", self.sweep.programs[program].name));
            }
        }
        let warm_up = begin.elapsed();
        while let Some(turn) = self.design.next(&self.done()) {
            if !fits(self.asked.time, begin.elapsed(), longest) {
                break;
            }
            let from = Instant::now();
            let waited = self.one(turn, messages)?;
            longest = longest.max(from.elapsed() - waited);
            self.judge()?;
        }
        if let (Some(time), true) = (self.asked.time, self.sweep.runs.is_empty()) {
            bail!(
                "--time is too short for one run: the warm-up took {:.1} s of {:.1} s",
                warm_up.as_secs_f64(),
                time.as_secs_f64()
            );
        }
        self.sweep.complete = self.asked.time.is_some() || self.design.next(&self.done()).is_none();
        Ok(())
    }

    fn done(&self) -> Vec<(Turn, bool)> {
        let programs = self.asked.commands.len();
        let turn = |run: &OneRun| Turn {
            block: run.block,
            cell: run.condition * programs + run.program,
        };
        let runs = self.sweep.runs.iter();
        runs.map(|run| (turn(run), run.counts())).collect()
    }

    /// Makes a run; how long it waited for CPUs that another run had.
    fn one(&mut self, turn: Turn, messages: &Messages) -> Result<Duration> {
        let programs = self.asked.commands.len();
        let (condition, program) = (turn.cell / programs, turn.cell % programs);
        let number = self.sweep.runs.len() + 1;
        let name = format!("run-{number:03}");
        let dir = self.dir.join(&name);
        let asked = &self.asked.conditions[condition];
        let command = &self.asked.commands[program];
        let finished = run::make(asked, &self.asked.more, command, &dir, messages)?;
        let (exit_code, signal) = finished.end();
        let mut values = BTreeMap::new();
        let mut missing = None;
        let verdict = finished.verdict();
        let ended_well = finished.is_success();
        let whose = self.sweep.programs[program].name.clone();
        let failed = match (exit_code, signal) {
            _ if finished.timed_out => ", ended by --timeout".to_owned(),
            (Some(0), _) => String::new(),
            (_, Some(signal)) => format!(", ended by signal {signal}"),
            (code, None) => format!(", exit code {}", code.unwrap_or(-1)),
        };
        if let (Verdict::Undecided, Some(wall)) = (verdict, finished.own("wall"))
            && wall < LEAST_S
        {
            if !ended_well {
                bail!(
                    "{name}: {whose} failed{failed}, after {wall:.3} s, before its condition could \
                     be measured: what it said is in {} and {STDERR}",
                    dir.join(STDOUT).display()
                );
            }
            bail!(
                "{name}: the program ended after {wall:.3} s, and a condition is measured over \
                 {LEAST_S} s at least: let one run do its work several times"
            );
        }
        if ended_well || self.asked.failures == Failures::Count {
            for metric in &self.asked.metrics {
                match metric.value(&finished, &dir, self.asked.user.as_ref()) {
                    Ok(value) => drop(values.insert(metric.about.name.clone(), value)),
                    Err(_) if metric.optional => {}
                    // What the run is spoilt by may have cost it, and it does not count.
                    Err(_) if metric.is_own() && verdict != Verdict::Kept => {}
                    Err(why) => missing = Some((metric.about.name.clone(), why)),
                }
            }
        }
        let is_asked = |name| self.sweep.metrics.iter().any(|metric| metric.name == name);
        for name in [FAILED, EXIT] {
            let value = finished
                .own(name)
                .filter(|_| name == FAILED || is_asked(name));
            values.extend(value.map(|value| (name.to_owned(), value)));
        }
        let first = self.asked.metrics.first().and_then(|metric| {
            let value = values.get(&metric.about.name)?;
            Some(format!(
                ", {} {}",
                metric.about.name,
                report::number(*value)
            ))
        });
        let reason = match verdict {
            Verdict::Kept => String::new(),
            _ => finished.reason,
        };
        let why = Some(format!(" ({reason})")).filter(|_| !reason.is_empty());
        messages.say(&format!(
            "{name}: block {}, {whose} at {}: {verdict}{}{failed}{}",
            turn.block,
            asked.name,
            why.unwrap_or_default(),
            first.unwrap_or_default()
        ));
        if let Some((metric, why)) = missing {
            bail!(
                "metric {metric}: {name} ({whose} at {}): {why}; its output is in {}",
                asked.name,
                dir.join(STDOUT).display()
            );
        }
        self.sweep.runs.push(OneRun {
            number,
            block: turn.block,
            condition,
            program,
            dir: name,
            verdict,
            reason,
            exit_code,
            signal,
            timed_out: finished.timed_out,
            values,
            warnings: finished.warnings,
        });
        if !ended_well && self.asked.failures == Failures::End {
            bail!(
                "{whose} failed{failed}: what it said is in {} and {STDERR} (--ignore-failure goes \
                 on)",
                dir.join(STDOUT).display()
            );
        }
        Ok(finished.waited)
    }

    /// Answers to what is known so far, and the record.
    fn judge(&mut self) -> Result<()> {
        self.sweep.answers = answers(&self.sweep);
        let judged = self.thresholds.iter().map(|one| one.judge(&self.sweep));
        self.sweep.thresholds = judged.collect();
        self.sweep.write(&self.dir)
    }

    /// The page, the tables on the terminal, the record where it is asked for.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn leave(&self, messages: &Messages) -> Result<()> {
        let sweep = &self.sweep;
        let page = self.dir.join(REPORT_HTML);
        put(&page, report::page(sweep), sandbag_input::Existing::Replace)?;
        messages.show(&report::terminal(sweep));
        let warnings = sweep.warnings();
        for (text, runs) in warnings.iter().take(MOST_WARNINGS) {
            let times = if *runs == 1 { "run" } else { "runs" };
            messages.warning(&format!("{text} (in {runs} {times})"));
        }
        if let Some(more @ 1..) = warnings.len().checked_sub(MOST_WARNINGS) {
            messages.warning(&format!("{more} other warnings are in {SWEEP_JSON}"));
        }
        if let Some(path) = self.asked.json.path() {
            put_json(path, sweep, self.asked.overwrite.existing())?;
        }
        messages.say(&format!(
            "Results: {}, {}",
            self.dir.join(SWEEP_JSON).display(),
            page.display()
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn no_run_begins_that_would_not_end_in_time() {
        let s = Duration::from_secs;
        assert!(fits(None, s(9), s(9)));
        assert!(fits(Some(s(10)), s(4), s(5)));
        assert!(!fits(Some(s(10)), s(5), s(5)));
        assert!(!fits(Some(s(10)), s(11), s(0)));
    }

    #[test]
    fn a_directory_is_of_one_sweep_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let first = lock_dir(place.path()).unwrap();
        let error = lock_dir(place.path()).unwrap_err().line();
        let us = format!("another sweep (process {})", std::process::id());
        assert!(error.contains(&us), "{error}");
        drop(first);
        assert!(lock_dir(place.path()).unwrap().is_some());
        assert!(lock_dir(&place.path().join("none")).unwrap().is_none());
    }

    /// Without time for a run.
    fn session(dir: &Path) -> Session {
        let mut sweep = fixture::sweep(&[[&[1.0], &[2.0]]]);
        sweep.runs.clear();
        Session {
            asked: Experiment {
                commands: vec![vec!["true".into()]],
                conditions: sweep.conditions.clone(),
                metrics: Vec::new(),
                fail_if: Vec::new(),
                blocks: None,
                time: Some(Duration::ZERO),
                warm_up: 0,
                repeats: 0,
                spoilt: 0,
                seed: 0,
                failures: Failures::AreResults,
                more: Vec::new(),
                user: None,
                dir: SweepDir::New("sandbag-sweep", None),
                overwrite: Overwrite::default(),
                json: JsonArgs::default(),
            },
            thresholds: Vec::new(),
            design: Design {
                cells: 2,
                blocks: None,
                first: 1,
                repeats: 0,
                spoilt: 0,
                seed: 0,
            },
            dir: dir.to_owned(),
            _lock: None,
            sweep,
            interrupted: false,
        }
    }

    #[test]
    fn a_time_in_which_no_run_fits_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let make = |dir: &Path| session(dir).make(&Messages::new(true, 0), |_| Ok(()));
        let error = make(place.path()).unwrap_err().line();
        assert!(error.contains("--time is too short for one run"), "{error}");
        assert!(!place.path().join(SWEEP_JSON).exists());
    }

    #[test]
    fn the_record_is_there_before_the_first_run() {
        let place = tempfile::tempdir().unwrap();
        let make = |dir: &Path| session(dir).make(&Messages::new(true, 0), |_| Ok(()));
        let error = make(&place.path().join("none")).unwrap_err().line();
        assert!(error.contains(SWEEP_JSON), "{error}");
    }
}
