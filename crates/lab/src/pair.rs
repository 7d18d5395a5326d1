// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One trial: a program without a condition and under it, right after each
//! other, so that a machine whose speed drifts cannot tell them apart.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use sandbag_kernel::{CpuList, Root};
use sandbag_report::Run;

use crate::condition::{Condition, Met, Place};
use crate::experiment::{Cell, Setup};
use crate::machine::StealMeter;
use crate::program::Ended;
use crate::row::{End, Row};
use crate::workload::Done;

/// What is read from a program's run, by the name of the program: its time
/// in seconds and what else it says.
pub type Reading = BTreeMap<String, (f64, BTreeMap<String, f64>)>;

/// A pair, or several that share their runs.
pub struct Trial<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The round; odd ones begin with the condition.
    pub round: u32,
    /// CPUs of program and condition.
    pub cpus: &'a CpuList,
    /// The programs that run one after another.
    pub programs: &'a [&'a str],
    /// What runs them.
    pub words: &'a [OsString],
    /// What brings the machine into the same state before each run.
    pub before: &'a dyn Fn() -> Result<()>,
    /// The condition.
    pub condition: &'a Condition,
}

impl Trial<'_> {
    /// Makes both runs. `read` finds the programs' times in what they said, a
    /// program that is not there did not end; `of_run` takes figures from
    /// what sandbag recorded.
    ///
    /// # Errors
    /// The unloaded run failed, or nothing can be started.
    pub fn pairs(
        &self,
        setup: &Setup,
        read: &dyn Fn(&Self, &Ended) -> Result<Reading>,
        of_run: &dyn Fn(&Run) -> BTreeMap<String, f64>,
    ) -> Result<Vec<Row>> {
        let place = Place {
            sandbag: &setup.sandbag,
            cpus: self.cpus,
            scratch: &setup.scratch,
            limit: setup.limit,
        };
        let mut steal = StealMeter::start(&Root::default(), self.cpus)?;
        let unloaded = || -> Result<Reading> {
            (self.before)()?;
            let met = place.meet(&Condition::Unloaded, self.words)?;
            ensure!(
                met.ended.status.is_some(),
                "{} takes longer than the limit of {} s even unloaded",
                self.programs.join(", "),
                setup.limit.as_secs()
            );
            read(self, &met.ended)
        };
        // A failure under the condition is a result; the reading's, too.
        let loaded = || -> Result<(Met, Reading)> {
            (self.before)()?;
            let met = place.meet(self.condition, self.words)?;
            let reading = read(self, &met.ended)?;
            Ok((met, reading))
        };
        let (alone, under) = if self.round.is_multiple_of(2) {
            let alone = unloaded()?;
            (alone, loaded())
        } else {
            let under = loaded();
            (unloaded()?, under)
        };
        let steal_pct = steal.steal_pct()?;
        // After the one that did not end none was begun.
        let begun = match &under {
            Ok((_, reading)) => reading.len() + 1,
            Err(_) => self.programs.len(),
        };
        self.programs
            .iter()
            .take(begun)
            .map(|program| {
                let (unloaded_s, _) = alone
                    .get(*program)
                    .with_context(|| format!("{program} said nothing when it ran unloaded"))?;
                let mut row = Row {
                    cell: self.cell.key.clone(),
                    round: self.round,
                    program: (*program).to_owned(),
                    condition: self.condition.clone(),
                    cpus: self.cpus.to_string(),
                    unloaded_s: *unloaded_s,
                    loaded_s: 0.0,
                    end: End::Done,
                    steal_pct,
                    figures: BTreeMap::new(),
                };
                match &under {
                    Err(error) => {
                        row.end = End::Failed {
                            why: format!("{error:#}"),
                        }
                    }
                    Ok((met, reading)) => {
                        if let Some(run) = &met.run {
                            row.figures = of_run(run);
                        }
                        match reading.get(*program) {
                            Some((seconds, figures)) => {
                                row.loaded_s = *seconds;
                                row.figures.extend(figures.clone());
                            }
                            None => {
                                row.end = End::OverLimit {
                                    limit_s: setup.limit.as_secs_f64(),
                                }
                            }
                        }
                    }
                }
                Ok(row)
            })
            .collect()
    }
}

/// Reads what the lab's own programs say: a line each, in their order.
///
/// # Errors
/// A line is none of theirs, or a result was wrong.
pub fn own_words(trial: &Trial<'_>, ended: &Ended) -> Result<Reading> {
    let mut reading = Reading::new();
    for (program, line) in trial.programs.iter().zip(ended.out.lines()) {
        let done: Done =
            serde_json::from_str(line).with_context(|| format!("{program} said {line:?}"))?;
        ensure!(done.right, "the result of {program} is wrong");
        let mut figures = done.figures;
        if done.slept_s > 0.0 {
            figures.insert("slept_s".to_owned(), done.slept_s);
        }
        reading.insert((*program).to_owned(), (done.seconds, figures));
    }
    if ended.status.is_some() {
        let missing = trial.programs.iter().find(|p| !reading.contains_key(**p));
        ensure!(
            missing.is_none(),
            "{} said nothing; {}",
            missing.unwrap_or(&""),
            ended.last_words()
        );
    }
    Ok(reading)
}

/// The time of the whole program, by us.
///
/// # Errors
/// None.
pub fn whole_time(trial: &Trial<'_>, ended: &Ended) -> Result<Reading> {
    let mut reading = Reading::new();
    if ended.status.is_some() {
        for program in trial.programs {
            reading.insert((*program).to_owned(), (ended.seconds, BTreeMap::new()));
        }
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn setup(scratch: PathBuf, limit: Duration) -> Setup {
        Setup {
            sandbag: PathBuf::from("/no/sandbag"),
            cpus: CpuList::from_iter([0]),
            quick: true,
            loading: Vec::new(),
            slowing: Vec::new(),
            left_out: Vec::new(),
            limit,
            sources: None,
            dir: scratch.clone(),
            scratch,
        }
    }

    fn trial(script: &str, limit: Duration, programs: &[&str]) -> Result<Vec<Row>> {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(dir.path().to_owned(), limit);
        let words = ["sh", "-c", script].map(OsString::from);
        let trial = Trial {
            cell: &Cell {
                key: "k".to_owned(),
            },
            round: 0,
            cpus: &setup.cpus,
            programs,
            words: &words,
            before: &|| Ok(()),
            condition: &Condition::Spinners,
        };
        trial.pairs(&setup, &own_words, &|_| BTreeMap::new())
    }

    const DONE: &str = r#"{"seconds":0.5,"slept_s":0,"amount":1,"right":true}"#;
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn each_program_of_a_trial_has_its_row() {
        let script = format!("echo '{DONE}'; echo '{DONE}'");
        let rows = trial(&script, LONG, &["a", "b"]).unwrap();
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter()
                .all(|row| row.end == End::Done && row.loaded_s == 0.5)
        );
    }

    #[test]
    fn a_program_that_hangs_under_the_condition_is_over_the_limit() {
        // The second run, under the condition, finds the file and hangs.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("again");
        let script = format!(
            "echo '{DONE}'; if [ -e {0} ]; then sleep 100; fi; touch {0}; echo '{DONE}'",
            file.display()
        );
        let rows = trial(&script, Duration::from_secs(1), &["a", "b"]).unwrap();
        assert_eq!(rows[0].end, End::Done);
        assert_eq!(rows[1].end, End::OverLimit { limit_s: 1.0 });
    }

    #[test]
    fn a_wrong_result_is_no_figure() {
        let wrong = DONE.replace("true", "false");
        let error = trial(&format!("echo '{wrong}'"), LONG, &["a"]).unwrap_err();
        assert!(error.to_string().contains("the result of a is wrong"));
        let error = trial("true", LONG, &["a"]).unwrap_err();
        assert!(error.to_string().contains("a said nothing"), "{error}");
    }
}
