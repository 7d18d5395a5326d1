// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One trial: a program without a condition and under it, right after each other, so
//! that a drift of the machine's speed has the same effect on both.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use sandbag_linux::CpuList;
use sandbag_load::report::Run;

use crate::condition::Condition;
use crate::place::{PlacedRun, Runner};
use crate::reading::{ProgramResult, Read, Reading};
use crate::row::{End, Row};
use crate::steal::Disturbance;

type Figures = BTreeMap<String, f64>;

/// A pair, or several that share their runs.
pub struct PairTrial<'a> {
    pub cell: &'a str,
    /// The round; odd ones begin with the condition.
    pub round: u32,
    pub cpus: &'a CpuList,
    pub programs: &'a [&'a str],
    pub words: &'a [OsString],
    /// What brings the machine into the same state before each run.
    pub before: &'a dyn Fn() -> Result<()>,
    pub condition: &'a Condition,
}

struct Half {
    met: PlacedRun,
    reading: Reading,
}

impl<'a> PairTrial<'a> {
    /// Of no program yet, without a condition.
    pub fn new(cell: &'a str, round: u32, cpus: &'a CpuList) -> Self {
        Self {
            cell,
            round,
            cpus,
            programs: &[],
            words: &[],
            before: &|| Ok(()),
            condition: &Condition::Unloaded,
        }
    }

    /// Makes both runs: a row for each program that was begun. `read` finds the
    /// programs' times in what they said; `of_run` takes figures from what
    /// sandbag recorded. Whatever fails or hangs, with the condition or
    /// without, is a row that says so.
    pub fn pairs(
        &self,
        runner: &dyn Runner,
        read: &Read<'_>,
        of_run: &dyn Fn(&Run) -> Figures,
    ) -> Vec<Row> {
        let (alone, under) = if self.round.is_multiple_of(2) {
            let alone = self.half(runner, &Condition::Unloaded, read);
            (alone, self.half(runner, self.condition, read))
        } else {
            let under = self.half(runner, self.condition, read);
            (self.half(runner, &Condition::Unloaded, read), under)
        };
        let limit_s = runner.limit().as_secs_f64();
        let begun = self.begun(&alone).min(self.begun(&under));
        self.programs[..begun]
            .iter()
            .map(|program| {
                let mut row = self.row(program, [&alone, &under]);
                row.figures = recorded(&under, of_run);
                match (outcome(&alone, program), outcome(&under, program)) {
                    (Some(ProgramResult::Failed { why }), _) => {
                        row.end = failed(format!("without the condition: {why}"));
                    }
                    (None, _) => {
                        row.end = failed(format!(
                            "it takes longer than the limit of {limit_s} s without the condition"
                        ));
                    }
                    (Some(ProgramResult::Done { seconds, figures }), under) => {
                        row.unloaded_s = seconds;
                        let unloaded = |(name, value)| (format!("unloaded_{name}"), value);
                        row.figures.extend(figures.into_iter().map(unloaded));
                        end(&mut row, under, limit_s);
                    }
                }
                row
            })
            .collect()
    }

    /// Makes the run under the condition only, of a program whose time is
    /// given and whose other figures count: the row of the first program.
    pub fn single(
        &self,
        runner: &dyn Runner,
        read: &Read<'_>,
        of_run: &dyn Fn(&Run) -> Figures,
    ) -> Row {
        let under = self.half(runner, self.condition, read);
        let program = self.programs.first().copied().unwrap_or_default();
        let mut row = self.row(program, [&under, &under]);
        row.figures = recorded(&under, of_run);
        end(
            &mut row,
            outcome(&under, program),
            runner.limit().as_secs_f64(),
        );
        row
    }

    fn half(&self, runner: &dyn Runner, condition: &Condition, read: &Read<'_>) -> Result<Half> {
        (self.before)()?;
        let met = runner.meet(condition, self.words)?;
        let reading = read(self.programs, &met.ended);
        Ok(Half { met, reading })
    }

    /// Programs of a run that were begun: after the one that did not end, none
    /// was.
    fn begun(&self, half: &Result<Half>) -> usize {
        match half {
            Ok(half) => self.programs.len().min(half.reading.len() + 1),
            Err(_) => self.programs.len(),
        }
    }

    fn row(&self, program: &str, halves: [&Result<Half>; 2]) -> Row {
        let mut row = Row::under(self.cell, self.round, program, self.condition, self.cpus);
        // Of the runs' whole time.
        let met = || halves.into_iter().flatten().map(|half| &half.met);
        let seconds: f64 = met().map(|met| met.ended.seconds).sum();
        let mean = |of: fn(&Disturbance) -> f64| {
            let sum: f64 = met()
                .map(|met| met.ended.seconds * of(&met.disturbance))
                .sum();
            if seconds > 0.0 { sum / seconds } else { 0.0 }
        };
        row.steal_pct = mean(|found| found.steal_pct);
        row.foreign_pct = mean(|found| found.foreign_pct);
        row
    }
}

/// What a program came to in a run; `None` if it did not end.
fn outcome(half: &Result<Half>, program: &str) -> Option<ProgramResult> {
    match half {
        Ok(half) => half.reading.get(program).cloned(),
        Err(error) => Some(ProgramResult::Failed {
            why: format!("{error:#}"),
        }),
    }
}

fn recorded(half: &Result<Half>, of_run: &dyn Fn(&Run) -> Figures) -> Figures {
    let run = half.as_ref().ok().and_then(|half| half.met.run.as_ref());
    run.map(of_run).unwrap_or_default()
}

fn end(row: &mut Row, outcome: Option<ProgramResult>, limit_s: f64) {
    match outcome {
        Some(ProgramResult::Done { seconds, figures }) => {
            row.loaded_s = seconds;
            row.figures.extend(figures);
        }
        Some(ProgramResult::Failed { why }) => row.end = failed(why),
        None => row.end = End::OverLimit { limit_s },
    }
}

fn failed(why: String) -> End {
    End::Failed { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::tests::{DONE, ended};
    use crate::reading::{marked_words, own_words};
    use std::cell::RefCell;
    use std::time::Duration;

    /// Its output without the condition and under it; empty means that the run fails,
    /// `...` at the end that it hangs there.
    struct FakeTrial {
        alone: &'static str,
        under: &'static str,
        met: RefCell<Vec<Condition>>,
    }

    impl FakeTrial {
        fn new(alone: &'static str, under: &'static str) -> Self {
            Self {
                alone,
                under,
                met: RefCell::default(),
            }
        }
    }

    impl Runner for FakeTrial {
        fn meet(&self, condition: &Condition, _words: &[OsString]) -> Result<PlacedRun> {
            self.met.borrow_mut().push(condition.clone());
            let (said, steal_pct) = match condition {
                Condition::Unloaded => (self.alone, 1.0),
                _ => (self.under, 4.0),
            };
            anyhow::ensure!(!said.is_empty(), "no such method");
            let (said, hangs) = match said.strip_suffix("...") {
                Some(said) => (said, true),
                None => (said, false),
            };
            Ok(PlacedRun {
                ended: ended(&said.replace("DONE", DONE), hangs),
                run: None,
                disturbance: Disturbance {
                    steal_pct,
                    foreign_pct: steal_pct / 2.0,
                },
            })
        }

        fn limit(&self) -> Duration {
            Duration::from_secs(7)
        }
    }

    /// A single run where the fake says nothing without the condition.
    fn trial(fake: &FakeTrial, round: u32, programs: &[&str]) -> Vec<Row> {
        let cpus = CpuList::from_iter([0]);
        let trial = PairTrial {
            programs,
            condition: &Condition::Spinners,
            ..PairTrial::new("k", round, &cpus)
        };
        match fake.alone {
            "" => vec![trial.single(fake, &own_words, &|_| BTreeMap::new())],
            _ => trial.pairs(fake, &marked_words, &|_| BTreeMap::new()),
        }
    }

    fn why(row: &Row) -> &str {
        row.why_failed().unwrap()
    }

    #[test]
    fn each_program_of_a_trial_has_its_row() {
        let fake = FakeTrial::new("= a\nDONE\n= b\nDONE\n", "= a\nDONE\n= b\nDONE\n");
        let rows = trial(&fake, 0, &["a", "b"]);
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!((&row.end, row.loaded_s), (&End::Done, 0.5));
            // Both runs took as long.
            assert!((row.steal_pct - 2.5).abs() < 1e-12);
            assert!((row.foreign_pct - 1.25).abs() < 1e-12);
        }
        let _ = trial(&fake, 1, &["a", "b"]);
        let met = fake.met.into_inner();
        assert_eq!(met[0], Condition::Unloaded);
        assert_eq!(met[3], Condition::Unloaded, "odd rounds turn round");
    }

    #[test]
    fn a_program_that_fails_takes_no_other_with_it() {
        let fake = FakeTrial::new(
            "= a\nDONE\n= b\nDONE\n= c\n! 1\n",
            "= a\n! 2\n= b\nDONE\n= c\nDONE\n",
        );
        let rows = trial(&fake, 0, &["a", "b", "c"]);
        assert!(why(&rows[0]).starts_with("exit code 2"));
        assert_eq!(rows[1].end, End::Done);
        assert!(why(&rows[2]).starts_with("without the condition: exit code 1"));
    }

    #[test]
    fn a_program_that_hangs_under_the_condition_is_over_the_limit() {
        let fake = FakeTrial::new("= a\nDONE\n= b\nDONE\n= c\nDONE\n", "= a\nDONE\n= b\n...");
        let rows = trial(&fake, 0, &["a", "b", "c"]);
        assert_eq!(rows.len(), 2, "the third was not begun");
        assert_eq!(rows[0].end, End::Done);
        assert_eq!(rows[1].end, End::OverLimit { limit_s: 7.0 });
        let hangs_alone = FakeTrial::new("= a\n...", "= a\nDONE\n");
        assert!(why(&trial(&hangs_alone, 1, &["a"])[0]).contains("limit of 7 s without"));
    }

    #[test]
    fn a_condition_that_fails_fails_all_its_programs() {
        let fake = FakeTrial::new("= a\nDONE\n= b\nDONE\n", "");
        let rows = trial(&fake, 0, &["a", "b"]);
        assert!(rows.iter().all(|row| why(row) == "no such method"));
    }

    #[test]
    fn a_single_run_is_one_under_the_condition() {
        for (said, expected) in [
            ("DONE", End::Done),
            ("...", End::OverLimit { limit_s: 7.0 }),
        ] {
            let fake = FakeTrial::new("", said);
            let row = trial(&fake, 1, &["a"]).remove(0);
            assert_eq!((row.end, row.unloaded_s), (expected, 0.0));
            assert_eq!((row.steal_pct, fake.met.borrow().len()), (4.0, 1));
        }
    }
}
