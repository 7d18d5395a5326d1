// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a load feels: programs and real services beside `pace`, and beside an equal
//! competitor, a task on each CPU that never sleeps. Within a trial all conditions follow
//! one another in an order of chance, so that a drift of the machine's speed has the same
//! effect on each.
//!
//! A competitor is equal by the share that it gets, not by its weight: a current kernel
//! gives the same weight between 2 and 50 %, by what runs beside it. Its weight is searched
//! for each program that wants all of its CPUs. Beside one that does not, a competitor gets
//! what is left, whatever its weight; it has the weight that gives the share beside one task
//! that never sleeps.

mod page;
mod subject;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sandbag_load::report::Run;
use sandbag_stats::Chance;

use super::OWN;
use crate::condition::{Condition, Tuning};
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::row::{End, Row};
use crate::setup::Setup;
use subject::Subject;

const LEVELS: [f64; 4] = [20.0, 50.0, 80.0, 95.0];
const LEVELS_QUICK: [f64; 2] = [50.0, 80.0];

/// Share that a competitor had, percent.
const SHARE: &str = "got_pct";
/// Of rows beside programs for which a weight was looked for.
const HUNGRY: &str = "hungry";
/// A share this near to the level, in points, is the level's.
const NEAR_POINTS: f64 = 1.5;
/// Trials in search of a weight.
const TRIALS: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Competitor {
    subjects: Vec<Subject>,
    /// Weight of the competitor, by cell.
    weights: BTreeMap<String, f64>,
}

/// The method whose burners are competitors that never sleep.
fn competitor(pct: f64, weight: f64) -> Condition {
    Condition::Load {
        method: "shares".to_owned(),
        pct,
        tuning: Tuning {
            weight: Some(weight),
            ..Tuning::default()
        },
    }
}

/// What is compared with the competitor: `pace`, and where it feels like one. In full also other periods and slices, which
/// the default is argued from.
fn loads(pct: f64, quick: bool) -> Vec<Condition> {
    let with = |period_ms: f64, slice_ms: f64| Condition::Load {
        method: "pace".to_owned(),
        pct,
        tuning: Tuning {
            period_ms: Some(period_ms),
            slice_ms: Some(slice_ms),
            ..Tuning::default()
        },
    };
    let alike = Condition::Load {
        method: "pace".to_owned(),
        pct,
        tuning: Tuning {
            competitor: true,
            ..Tuning::default()
        },
    };
    let mut loads = vec![Condition::load("pace", pct), alike];
    if !quick {
        for slice_ms in [100.0, 5.0, 0.0] {
            loads.extend([20.0, 10.0, 5.0].map(|period_ms| with(period_ms, slice_ms)));
        }
    }
    loads
}

fn odds(pct: f64) -> f64 {
    pct / (100.0 - pct)
}

/// The weight to try after `weight` gave `share_pct`: the odds of a share are
/// proportional to it, as far as the kernel divides by weights.
fn next_weight(weight: f64, share_pct: f64, pct: f64) -> f64 {
    let next = weight * odds(pct) / odds(share_pct.clamp(1.0, 99.0));
    // What a group takes, in three digits for pages.
    (next.clamp(0.02, 100.0) * 1000.0).round() / 1000.0
}

impl Competitor {
    fn subject(&self, cell: &str) -> Result<(&Subject, f64)> {
        let (name, pct) = cell.split_once('/').context("no cell of this one")?;
        let subject = self.subjects.iter().find(|subject| subject.name == name);
        Ok((subject.context("no such program")?, pct.parse()?))
    }

    fn trial(&self, setup: &Setup, cell: &str, round: u32, condition: &Condition) -> Result<Row> {
        let (subject, _) = self.subject(cell)?;
        let trial = PairTrial {
            programs: &[subject.name],
            words: &subject.words,
            before: &|| subject.clear(),
            condition,
            ..PairTrial::new(cell, round, &setup.cpus)
        };
        let place = setup.place(&setup.cpus);
        let mut row = trial.single(
            &place,
            &|programs, ended| subject.read(programs, ended),
            &figures,
        );
        if subject.hungry {
            row.put(HUNGRY, 1.0);
        }
        if row.end == End::Done && subject.has_end {
            row.put("seconds", row.loaded_s);
        }
        Ok(row)
    }

    /// The weight whose share is nearest to the level.
    fn search(&self, setup: &Setup, cell: &str, pct: f64) -> Result<f64> {
        let (mut weight, mut best) = (odds(pct), (f64::INFINITY, odds(pct)));
        for _ in 0..TRIALS {
            let row = self.trial(setup, cell, 0, &competitor(pct, weight))?;
            let Some(share) = row.get(SHARE) else { break };
            let away = (share - pct).abs();
            if away < best.0 {
                best = (away, weight);
            }
            if away <= NEAR_POINTS {
                break;
            }
            weight = next_weight(weight, share, pct);
        }
        Ok(best.1)
    }
}

impl Experiment for Competitor {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let levels = match &setup.chosen.loads[..] {
            [] => setup.form(&LEVELS_QUICK[..], &LEVELS[..]),
            loads => loads,
        };
        let of = |subject: &Subject| {
            levels
                .iter()
                .map(move |pct| format!("{}/{pct}", subject.name))
                .collect::<Vec<_>>()
        };
        self.subjects.iter().flat_map(of).collect()
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let (_, pct) = self.subject(cell)?;
        let weight = self.weights.get(cell).copied().unwrap_or(odds(pct));
        let mut conditions = vec![competitor(pct, weight)];
        conditions.extend(loads(pct, setup.quick));
        let mut chance = Chance::new(u64::from(round), cell);
        for last in (1..conditions.len()).rev() {
            conditions.swap(last, chance.below(last as u64 + 1) as usize);
        }
        conditions
            .iter()
            .map(|condition| self.trial(setup, cell, round, condition))
            .collect()
    }

    fn line(&self, row: &Row) -> String {
        let figure = row.get("seconds").map(|s| format!("{s:.2} s"));
        let latency = || Some(format!("p99 {:.0} us", row.get("p99_us")?));
        let share = row.get(SHARE).unwrap_or(f64::NAN);
        match (row.why_failed(), figure.or_else(latency)) {
            (None, Some(figure)) => format!("{}: {share:.1} %, {figure}", row.condition.name()),
            _ => row.line(),
        }
    }
}

impl Paper for Competitor {
    fn about(&self) -> &'static About {
        &About {
            name: "competitor",
            paper: OWN,
            what: "wake-up latency, services and parallel programs beside pace, and beside a competitor \
                   that never sleeps and has the same share",
            source: "no paper; docs/explanation/methods.md argues with these figures",
            rounds: [4, 6],
            most_rounds: 30,
            minutes: [16, 500],
            page: |measured| Ok(page::sections(measured.rows, measured.chosen)),
            summary: page::summary,
        }
    }

    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        let (subjects, skipped) = subject::make(setup)?;
        self.subjects = subjects;
        for subject in &self.subjects {
            chosen.insert(format!("about {}", subject.name), subject.about.clone());
        }
        for cell in self.cells(setup) {
            let (subject, pct) = self.subject(&cell)?;
            if subject.hungry {
                let kept = chosen.get(&cell).map(|weight| weight.parse()).transpose()?;
                let weight = match kept {
                    Some(weight) => weight,
                    None => self.search(setup, &cell, pct)?,
                };
                chosen.insert(cell.clone(), weight.to_string());
                self.weights.insert(cell, weight);
            }
        }
        Ok(Remarks {
            skipped,
            ..Remarks::default()
        })
    }
}

fn figures(run: &Run) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    let shares = run.cpus.iter().map(|cpu| cpu.got_pct).sum::<f64>();
    add(SHARE, shares / run.cpus.len().max(1) as f64);
    if let Some(error) = run.error_1s {
        add("mean_abs_points", error.mean_abs_points);
        add("worst_points", error.worst_points.abs());
    }
    if let Some(command) = &run.command {
        let per_s = |count: f64| count / command.wall_s;
        add(
            "switches_per_s",
            per_s((command.switches.0 + command.switches.1) as f64),
        );
        if let Some(migrations) = command.migrations {
            add("migrations_per_s", per_s(migrations as f64));
        }
    }
    add("supervisor_pct", run.supervisor.pct_per_cpu);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_the_share() {
        assert_eq!(next_weight(1.0, 50.0, 80.0), 4.0);
        assert_eq!(next_weight(4.0, 80.0, 50.0), 1.0);
        // It is starved: at most what a group takes.
        assert_eq!(next_weight(4.0, 0.0, 80.0), 100.0);
        assert_eq!(next_weight(0.1, 100.0, 20.0), 0.02);
    }

    #[test]
    fn the_reference_is_a_competitor_and_the_default_is_compared_first() {
        let words = competitor(80.0, 4.0).name();
        assert_eq!(words, "80 % by shares, weight 4");
        let names: Vec<String> = loads(80.0, true).iter().map(Condition::name).collect();
        assert_eq!(names, ["80 % by pace", "80 % by pace, feel competitor"]);
        assert!(loads(80.0, false).len() > 5);
    }
}
