// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runs of each condition came to, and how that compares with the baseline and with
//! the other program. Ratios are within blocks.

use sandbag_stats::{median, paired_ratio};
use serde::{Deserialize, Serialize};

use crate::figures::ratio_decimals;
use crate::metric::{EXIT, FAILED};
use crate::record::{OneRun, Sweep};
use crate::threshold::LEAST_EQUAL;

/// A metric of a program under a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub program: usize,
    pub condition: usize,
    pub metric: String,
    /// Runs that count.
    pub runs: usize,
    /// Runs of the program that failed, whatever came of their condition.
    pub failed: usize,
    /// Runs whose condition was not kept.
    pub spoilt: usize,
    pub median: Option<f64>,
    pub least: Option<f64>,
    pub greatest: Option<f64>,
    /// To the baseline of the same program; absent of the baseline.
    pub to_baseline: Option<Ratio>,
    /// Of B to A under this condition.
    pub to_first_program: Option<Ratio>,
}

/// A ratio within blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub pairs: usize,
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// The 95 % interval. Older records also have ends of none: see [`Ratio::interval`].
    low: Option<f64>,
    high: Option<f64>,
}

/// Ends of an interval that are nearer, as a share of them, differ by rounding only.
const ROUNDING: f64 = 1e-12;

impl Ratio {
    pub fn new(pairs: usize, ratio: f64, low: f64, high: f64) -> Self {
        let one = Self {
            pairs,
            ratio,
            low: Some(low),
            high: Some(high),
        };
        let ends = one.interval();
        Self {
            low: ends.map(|(low, _)| low),
            high: ends.map(|(_, high)| high),
            ..one
        }
    }

    /// The ends of its interval, where its pairs show how far they scatter.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.low.zip(self.high)?;
        let scatters = high - low > ROUNDING * high || self.pairs >= LEAST_EQUAL;
        (self.pairs > 1 && scatters).then_some((low, high))
    }
}

/// All answers, by metric, program and condition.
pub fn answers(sweep: &Sweep) -> Vec<Answer> {
    let mut all = Vec::new();
    for metric in &sweep.metrics {
        for program in 0..sweep.programs.len() {
            for condition in 0..sweep.conditions.len() {
                all.push(answer(sweep, program, condition, &metric.name));
            }
        }
    }
    all
}

fn answer(sweep: &Sweep, program: usize, condition: usize, metric: &str) -> Answer {
    let values: Vec<f64> = sweep
        .values(program, condition, metric)
        .into_values()
        .collect();
    let cell = sweep
        .runs
        .iter()
        .filter(|run| run.program == program && run.condition == condition);
    let count = |test: &dyn Fn(&OneRun) -> bool| cell.clone().filter(|run| test(run)).count();
    let extreme = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
    Answer {
        program,
        condition,
        metric: metric.to_owned(),
        runs: values.len(),
        failed: count(&OneRun::has_failed),
        spoilt: count(&|run| !run.counts()),
        median: median(&values),
        least: extreme(f64::min),
        greatest: extreme(f64::max),
        to_baseline: (condition > 0)
            .then(|| ratio(sweep, (program, condition), (program, 0), metric))
            .flatten(),
        to_first_program: (program > 0)
            .then(|| ratio(sweep, (program, condition), (0, condition), metric))
            .flatten(),
    }
}

/// Over the blocks that have both.
fn ratio(
    sweep: &Sweep,
    (program, condition): (usize, usize),
    (to_program, to_condition): (usize, usize),
    metric: &str,
) -> Option<Ratio> {
    let of = sweep.values(program, condition, metric);
    let to = sweep.values(to_program, to_condition, metric);
    let both = of
        .iter()
        .filter_map(|(block, of)| Some((*of, *to.get(block)?)));
    let (of, to): (Vec<f64>, Vec<f64>) = both.unzip();
    let found = paired_ratio(&of, &to)?;
    Some(Ratio::new(found.pairs, found.ratio, found.low, found.high))
}

/// What a reader without time wants to know of a metric, a sentence each; with the first one
/// what failed.
pub fn sentences(sweep: &Sweep, metric: &str) -> Vec<String> {
    let baseline = &sweep.conditions[0].name;
    let mut all = Vec::new();
    for one in sweep.answers.iter().filter(|one| one.metric == metric) {
        let condition = &sweep.conditions[one.condition].name;
        let program = &sweep.programs[one.program].name;
        let whose = if sweep.programs.len() > 1 {
            format!(" of {program}")
        } else {
            String::new()
        };
        if one.failed > 0 && one.metric == sweep.metrics[0].name {
            let cell = |run: &&OneRun| (run.program, run.condition) == (one.program, one.condition);
            let runs = sweep.runs.iter().filter(cell).count();
            all.push(format!(
                "{program} failed in {} of {runs} runs at {condition}.",
                one.failed
            ));
        }
        if one.metric == sweep.metrics[0].name {
            all.extend(without_run(sweep, one));
        }
        if [FAILED, EXIT].contains(&&*one.metric) {
            continue;
        }
        if let Some(ratio) = &one.to_baseline {
            let what = format!("{}{whose} at {condition}", one.metric);
            all.push(format!("{} that at {baseline}.", compared(&what, ratio)));
        }
        if let Some(ratio) = &one.to_first_program {
            let what = format!("{} of {program} at {condition}", one.metric);
            let first = &sweep.programs[0].name;
            all.push(format!("{} that of {first}.", compared(&what, ratio)));
        }
    }
    all
}

/// Where all runs of a cell were spoilt: why the last one was.
fn without_run(sweep: &Sweep, one: &Answer) -> Option<String> {
    let runs = sweep.runs.iter();
    let mut cell = runs.filter(|run| (run.program, run.condition) == (one.program, one.condition));
    if cell.clone().any(OneRun::counts) {
        return None;
    }
    let last = cell.next_back()?;
    let program = &sweep.programs[one.program].name;
    let condition = &sweep.conditions[one.condition].name;
    Some(format!(
        "No run of {program} at {condition} counts: {} was {}: {}.",
        last.dir, last.verdict, last.reason
    ))
}

/// A program of which no metric has a value, under no condition, and why.
pub fn unmeasured(sweep: &Sweep) -> Option<String> {
    let is_unmeasured = |program: &usize| {
        let runs = sweep.runs.iter();
        let mut own = sweep.answers.iter().filter(|one| one.program == *program);
        runs.clone().any(|run| run.program == *program) && own.all(|one| one.runs == 0)
    };
    let program = (0..sweep.programs.len()).find(is_unmeasured)?;
    let name = &sweep.programs[program].name;
    let runs = sweep.runs.iter().filter(|run| run.program == program);
    let last = runs.clone().next_back()?;
    let failed = runs.clone().filter(|run| run.has_failed()).count();
    let spoilt = Some(format!(
        "; {} was {}: {}",
        last.dir, last.verdict, last.reason
    ));
    let spoilt = spoilt.filter(|_| !last.counts()).unwrap_or_default();
    Some(format!(
        "no metric of {name} has a value: {failed} of its {} runs failed{spoilt}",
        runs.count()
    ))
}

/// `p99 at 30 is 2.01 times (1.90 to 2.12)`.
fn compared(what: &str, ratio: &Ratio) -> String {
    let digits = ratio_decimals(ratio, 2);
    let value = format!("{:.digits$}", ratio.ratio);
    let Some((low, high)) = ratio.interval() else {
        let pairs = match ratio.pairs {
            1 => "one pair".to_owned(),
            pairs => format!("{pairs} pairs with the same ratio"),
        };
        return format!("{what} was {value} times ({pairs}: no interval)");
    };
    let interval = format!("{low:.digits$} to {high:.digits$}");
    if low > 1.0 || high < 1.0 {
        format!("{what} is {value} times ({interval})")
    } else {
        format!("{what} is not shown to differ ({interval} times) from")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use sandbag_stats::Verdict;

    #[test]
    fn ratios_are_within_blocks() {
        // The machine drifts by half; the program takes twice as long under load.
        let mut sweep = fixture::sweep(&[[&[1.0, 1.2, 1.5], &[2.0, 2.4, 3.0]]]);
        sweep.answers = answers(&sweep);
        let [base, loaded] = &sweep.answers[..] else {
            panic!("{:?}", sweep.answers)
        };
        assert_eq!((base.median, base.to_baseline), (Some(1.2), None));
        let ratio = loaded.to_baseline.unwrap();
        let (low, high) = ratio.interval().unwrap();
        assert!((ratio.ratio - 2.0).abs() < 1e-9 && high - low < 1e-9);
        assert_eq!((loaded.least, loaded.greatest), (Some(2.0), Some(3.0)));
        assert_eq!(
            sentences(&sweep, "p99"),
            ["p99 at 30 is 2.00 times (2.00 to 2.00) that at 0."]
        );
    }

    #[test]
    fn pairs_that_do_not_show_their_scatter_have_no_interval() {
        for (values, said) in [
            (&[1.0][..], "one pair"),
            (&[1.0, 1.1], "2 pairs with the same ratio"),
        ] {
            let more: Vec<f64> = values.iter().map(|value| 1.5 * value).collect();
            let mut sweep = fixture::sweep(&[[values, &more]]);
            sweep.answers = answers(&sweep);
            let said = format!("p99 at 30 was 1.50 times ({said}: no interval) that at 0.");
            assert_eq!(sentences(&sweep, "p99"), [said]);
            let ratio = sweep.answers[1].to_baseline.unwrap();
            let json = serde_json::to_value(ratio).unwrap();
            assert!(json["low"].is_null() && json["high"].is_null(), "{json}");
            // As older records have it.
            let before = format!(
                r#"{{"pairs": {}, "ratio": 1.5, "low": 1.5, "high": 1.5}}"#,
                values.len()
            );
            let before: Ratio = serde_json::from_str(&before).unwrap();
            assert_eq!(before.interval(), None);
        }
    }

    #[test]
    fn what_fails_under_a_condition_is_a_result() {
        let mut sweep = fixture::sweep(&[[&[1.0, 1.1], &[1.0, 1.2]], [&[2.0, 2.3], &[2.1, 2.2]]]);
        sweep.runs[3].exit_code = Some(1);
        sweep.runs[3].values.remove("p99");
        sweep.runs[0].verdict = Verdict::Undecided;
        // It failed in a run that was spoilt, too.
        let mut spoilt = sweep.runs[3].clone();
        spoilt.verdict = Verdict::Missed;
        sweep.runs.push(spoilt);
        sweep.answers = answers(&sweep);
        let one = &sweep.answers[1];
        assert_eq!((one.runs, one.failed, one.to_baseline), (1, 2, None));
        assert_eq!((sweep.answers[0].spoilt, sweep.answers[0].runs), (1, 1));
        let said = sentences(&sweep, "p99").join("\n");
        assert!(said.contains("A failed in 2 of 3 runs at 30."), "{said}");
        assert!(said.contains("p99 of B at 0 was"), "{said}");
        // A run that was spoilt and did not fail is a run.
        sweep.runs[2].verdict = Verdict::Undecided;
        let said = sentences(&sweep, "p99").join("\n");
        assert!(said.contains("A failed in 2 of 3 runs at 30."), "{said}");
    }

    #[test]
    fn a_condition_that_was_never_kept_has_a_reason() {
        let mut sweep = fixture::sweep(&[[&[1.0, 1.1], &[1.0, 1.2]]]);
        let reason = "the jitter: 77 of 3116 events that were due were injected";
        for run in &mut sweep.runs[2..] {
            (run.verdict, run.reason) = (Verdict::Missed, reason.to_owned());
        }
        sweep.answers = answers(&sweep);
        let said = format!("No run of A at 30 counts: run-004 was missed: {reason}.");
        assert_eq!(sentences(&sweep, "p99"), [said]);
        sweep.runs[2].verdict = Verdict::Kept;
        sweep.answers = answers(&sweep);
        assert!(!sentences(&sweep, "p99").join("").contains("No run"));
    }

    #[test]
    fn a_program_without_a_value_is_named() {
        let mut sweep = fixture::sweep(&[[&[1.0], &[1.0]], [&[2.0], &[2.0]]]);
        let unmeasured = |sweep: &mut Sweep| {
            sweep.answers = answers(sweep);
            unmeasured(sweep)
        };
        sweep.runs[2].values.remove("p99");
        sweep.runs[2].exit_code = Some(1);
        assert_eq!(unmeasured(&mut sweep), None);
        (sweep.runs[3].verdict, sweep.runs[3].reason) = (Verdict::Missed, "why".to_owned());
        assert_eq!(
            unmeasured(&mut sweep).unwrap(),
            "no metric of B has a value: 1 of its 2 runs failed; run-004 was missed: why"
        );
        // Not one of which no run was made.
        sweep.runs.truncate(2);
        assert_eq!(unmeasured(&mut sweep), None);
    }

    #[test]
    fn a_small_difference_is_seen() {
        let high = [1.0031, 1.0033, 1.0032];
        let mut sweep = fixture::sweep(&[[&[1.0; 3], &high]]);
        sweep.answers = answers(&sweep);
        let said = sentences(&sweep, "p99").join("\n");
        assert!(said.contains("is 1.003 times (1.003 to 1.003)"), "{said}");
    }
}
