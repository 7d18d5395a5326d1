// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sweep.json`: everything that is known about a sweep, finished or not.

use std::collections::BTreeMap;
use std::path::Path;

use sandbag_input::Existing;
use sandbag_load::report::same_load::SameLoad;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::output::{SWEEP_JSON, put_json};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::condition::Condition;
use crate::metric::{FAILED, MetricAbout};
use crate::threshold::Judged;

/// Version of the file; readers ignore fields they do not know.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sweep {
    pub format: u32,
    pub sandbag: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub arguments: Vec<String>,
    /// Name of the machine; absent in older records.
    pub host: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    pub seed: u64,
    /// Runs of each condition that were wanted; absent where a time was given.
    pub wanted: Option<usize>,
    /// The first one is the baseline.
    pub conditions: Vec<Condition>,
    /// For sandbag, of every run beside its condition.
    #[serde(default)]
    pub options: Vec<String>,
    pub programs: Vec<Program>,
    pub metrics: Vec<MetricAbout>,
    pub runs: Vec<OneRun>,
    /// All runs that were wanted are made.
    pub complete: bool,
    #[serde(default)]
    pub answers: Vec<Answer>,
    #[serde(default)]
    pub thresholds: Vec<Judged>,
    /// Of a comparison of two programs under one load: whether it was the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_load: Option<SameLoad>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// `A`, `B`.
    pub name: String,
    pub command: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OneRun {
    /// From 1, in the order in which they were made.
    pub number: usize,
    /// From 1.
    pub block: usize,
    /// Its place in the list.
    pub condition: usize,
    pub program: usize,
    /// Its directory, below that of the sweep.
    pub dir: String,
    pub verdict: Verdict,
    pub reason: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// `--timeout` ended the program: it failed, whatever its exit code is. Not in older records.
    #[serde(default)]
    pub timed_out: bool,
    /// By metric; of a run that failed `failed` only.
    pub values: BTreeMap<String, f64>,
    /// What sandbag warned of.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl OneRun {
    /// Its condition was kept.
    pub fn counts(&self) -> bool {
        self.verdict == Verdict::Kept
    }

    pub fn has_failed(&self) -> bool {
        self.timed_out || self.exit_code != Some(0)
    }

    /// It says whether its program fails: a failure counts whatever came of the condition.
    pub fn counts_for_failures(&self) -> bool {
        self.counts() || self.has_failed()
    }
}

impl Sweep {
    /// The value of each block in which there is one. Of several tries that count for `failed`
    /// it is the greatest.
    pub fn values(&self, program: usize, condition: usize, metric: &str) -> BTreeMap<usize, f64> {
        let counts: fn(&OneRun) -> bool = match metric {
            FAILED => OneRun::counts_for_failures,
            _ => OneRun::counts,
        };
        let of_cell =
            |run: &&OneRun| counts(run) && run.program == program && run.condition == condition;
        let mut values = BTreeMap::new();
        for run in self.runs.iter().filter(of_cell) {
            if let Some(value) = run.values.get(metric) {
                let greatest = values.entry(run.block).or_insert(*value);
                *greatest = f64::max(*greatest, *value);
            }
        }
        values
    }

    /// The warnings of all runs, each with the number of its runs.
    pub fn warnings(&self) -> Vec<(&str, usize)> {
        let mut all: Vec<(&str, usize)> = Vec::new();
        for text in self.runs.iter().flat_map(|run| &run.warnings) {
            match all.iter_mut().find(|(known, _)| known == text) {
                Some((_, runs)) => *runs += 1,
                None => all.push((text, 1)),
            }
        }
        all
    }

    /// The same question was asked, on the same machine if this record names it.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.host.is_none() || self.host == other.host)
            && (self.kernel.is_none() || self.kernel == other.kernel)
            && self.conditions == other.conditions
            && self.options == other.options
            && self.programs == other.programs
            && self.metrics == other.metrics
            && self.seed == other.seed
    }

    pub fn write(&self, dir: &Path) -> Result<()> {
        put_json(&dir.join(SWEEP_JSON), self, Existing::Replace)
    }

    /// # Errors
    /// There is none, or it is of a later sandbag.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(SWEEP_JSON);
        let name = || path.display().to_string();
        let text = std::fs::read(&path).with_context(name)?;
        let sweep: Self = serde_json::from_slice(&text).with_context(name)?;
        sandbag_ui::ensure!(
            sweep.format <= FORMAT && sweep.is_sound(),
            "{}: it is of a later sandbag, or damaged",
            name()
        );
        Ok(sweep)
    }

    /// Every place that is named exists.
    fn is_sound(&self) -> bool {
        let (conditions, programs) = (self.conditions.len(), self.programs.len());
        let runs = self.runs.iter();
        let answers = self.answers.iter();
        conditions > 0
            && programs > 0
            && !self.metrics.is_empty()
            && runs
                .map(|run| (run.condition, run.program))
                .chain(answers.map(|one| (one.condition, one.program)))
                .all(|(condition, program)| condition < conditions && program < programs)
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// `a` and `b` under loads of 0 and 30 %: p99 by program, condition and block.
    pub(crate) fn sweep(values: &[[&[f64]; 2]]) -> Sweep {
        let condition = |name: &str| Condition {
            name: name.to_owned(),
            words: vec!["load".to_owned(), name.to_owned()],
        };
        let mut runs = Vec::new();
        for (program, cells) in values.iter().enumerate() {
            for (condition, blocks) in cells.iter().enumerate() {
                for (block, value) in blocks.iter().enumerate() {
                    runs.push(OneRun {
                        number: runs.len() + 1,
                        block: block + 1,
                        condition,
                        program,
                        dir: format!("run-{:03}", runs.len() + 1),
                        verdict: Verdict::Kept,
                        reason: String::new(),
                        exit_code: Some(0),
                        signal: None,
                        timed_out: false,
                        warnings: Vec::new(),
                        values: [("p99".to_owned(), *value), ("failed".to_owned(), 0.0)].into(),
                    });
                }
            }
        }
        Sweep {
            format: FORMAT,
            sandbag: "0.1.0".to_owned(),
            started_at: "2026-03-01T12:00:00Z".to_owned(),
            arguments: Vec::new(),
            host: Some("node1".to_owned()),
            kernel: Some("6.1.0".to_owned()),
            seed: 1,
            wanted: Some(values[0][0].len()),
            conditions: vec![condition("0"), condition("30")],
            options: Vec::new(),
            programs: ["A", "B"][..values.len()]
                .iter()
                .map(|name| Program {
                    name: (*name).to_owned(),
                    command: vec![format!("./{}", name.to_lowercase())],
                })
                .collect(),
            metrics: vec![MetricAbout {
                name: "p99".to_owned(),
                unit: "ms".to_owned(),
                higher_is_better: false,
                asked: "p99 [ms]: /p99=(.*)/".to_owned(),
            }],
            runs,
            complete: true,
            answers: Vec::new(),
            thresholds: Vec::new(),
            same_load: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_a_forged_place_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweep = fixture::sweep(&[[&[1.0, 2.0], &[2.0, 4.0]]]);
        sweep.write(dir.path()).unwrap();
        let read = Sweep::read(dir.path()).unwrap();
        assert!(read.is_like(&sweep));
        sweep.kernel = Some("6.1.1".to_owned());
        assert!(!read.is_like(&sweep));
        sweep.kernel = None;
        assert!(sweep.is_like(&read));
        sweep.options.push("--timeout=500ms".to_owned());
        assert!(!sweep.is_like(&read));
        assert_eq!(read.values(0, 1, "p99"), [(1, 2.0), (2, 4.0)].into());
        // What was not kept does not count.
        sweep.runs[2].verdict = Verdict::Missed;
        assert_eq!(sweep.values(0, 1, "p99"), [(2, 4.0)].into());
        sweep.runs[1].timed_out = true;
        sweep.write(dir.path()).unwrap();
        let read = Sweep::read(dir.path()).unwrap();
        let failed: Vec<bool> = read.runs.iter().map(OneRun::has_failed).collect();
        assert_eq!(failed, [false, true, false, false]);
        sweep.runs[0].condition = 7;
        sweep.write(dir.path()).unwrap();
        assert!(Sweep::read(dir.path()).is_err());
        assert!(Sweep::read(&dir.path().join("none")).is_err());
    }
}
