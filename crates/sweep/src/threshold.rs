// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-if`: a comparison of metrics at conditions, judged with its interval.
//!
//! `p99@30 > 1.5 * p99@0`; `B.p99@30 > A.p99@30`; `failed@30 > 0`. A side is made of
//! numbers, `METRIC@CONDITION`, `+ - * /` and parentheses. A value is the mean over the
//! blocks; the difference of both sides has the interval of the jackknife over blocks
//! (Tukey; Student's t), which for sums is that of the paired differences. One value of
//! `failed`, compared with a number, is a count and has no interval.

use std::collections::BTreeSet;

use sandbag_stats::error_of_mean;
use serde::{Deserialize, Serialize};

use crate::metric::FAILED;
use crate::record::{OneRun, Sweep};

/// A comparison as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    left: Expression,
    /// Fails if the left side is greater; else if it is less.
    greater: bool,
    /// Equal sides fail as well.
    or_equal: bool,
    right: Expression,
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(f64),
    Value(Place),
    Two(Box<Expression>, char, Box<Expression>),
}

/// `B.p99@30`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    program: usize,
    metric: String,
    condition: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The comparison holds, for sure.
    Failed,
    /// It does not, for sure.
    Passed,
    Unsure,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Passed => "passed",
            Self::Unsure => "unsure",
        }
    }
}

/// Fewer blocks whose differences are the same do not show how far they scatter: two programs
/// that fail by chance, each once of two times, do that in one sweep of sixteen.
pub const LEAST_EQUAL: usize = 3;

/// A comparison with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub fail_if: String,
    pub outcome: Outcome,
    pub reason: String,
}

impl Threshold {
    /// # Errors
    /// It is no comparison, or names what is not there.
    pub fn parse(text: &str, sweep: &Sweep) -> Result<Self, String> {
        let fault = |what: String| format!("--fail-if '{text}': {what}");
        let mut parser = Parser { rest: text, sweep };
        let side = |parser: &mut Parser<'_>| parser.sum().map_err(fault);
        let left = side(&mut parser)?;
        let (greater, or_equal) = parser.comparison().ok_or_else(|| {
            fault("expected >, >=, < or <= between two sides, as in p99@30 > 1.5 * p99@0".into())
        })?;
        let right = side(&mut parser)?;
        let rest = parser.rest.trim();
        if !rest.is_empty() {
            return Err(fault(format!("`{rest}` is left over")));
        }
        if let (Expression::Value(place), Expression::Number(number), more)
        | (Expression::Number(number), Expression::Value(place), more) = (
            &left,
            &right,
            greater == matches!(left, Expression::Value(_)),
        ) && place.metric == FAILED
            && (!(0.0..=1.0).contains(number) || (*number == 1.0 && more && !or_equal))
        {
            return Err(fault(format!(
                "failed is the share of the blocks that failed, from 0 to 1: compared with {number} \
                 it says nothing"
            )));
        }
        Ok(Self {
            text: text.to_owned(),
            left,
            greater,
            or_equal,
            right,
        })
    }

    /// What the runs say.
    pub fn judge(&self, sweep: &Sweep) -> Judged {
        let judged = |outcome, reason: String| Judged {
            fail_if: self.text.clone(),
            outcome,
            reason,
        };
        let mut places = BTreeSet::new();
        self.left.places(&mut places);
        self.right.places(&mut places);
        let rows: Vec<(&Place, _)> = places
            .iter()
            .map(|place| {
                let values = sweep.values(place.program, place.condition, &place.metric);
                (place, values)
            })
            .collect();
        let mut blocks: BTreeSet<usize> = sweep.runs.iter().map(|run| run.block).collect();
        blocks.retain(|block| rows.iter().all(|(_, values)| values.contains_key(block)));
        let sides = |left_out: Option<usize>| -> Option<(f64, f64)> {
            let mean = |place: &Place| {
                let (_, values) = rows.iter().find(|(of, _)| *of == place)?;
                let kept = blocks.iter().filter(|block| Some(**block) != left_out);
                let kept: Vec<f64> = kept
                    .filter_map(|block| values.get(block).copied())
                    .collect();
                (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
            };
            Some((self.left.value(&mean)?, self.right.value(&mean)?))
        };
        let Some((left, right)) = sides(None) else {
            let why = match blocks.len() {
                0 => "there is no block in which all of its values are known",
                _ => "it cannot be computed (a division by 0?)",
            };
            return judged(Outcome::Unsure, why.to_owned());
        };
        let difference = left - right;
        let shown = format!("{} against {}", short(left), short(right));
        let count = blocks.len() as f64;
        let pseudo: Option<Vec<f64>> = blocks
            .iter()
            .map(|block| {
                let (left, right) = sides(Some(*block))?;
                let value = count * difference - (count - 1.0) * (left - right);
                value.is_finite().then_some(value)
            })
            .collect();
        // An interval would call three failures of five unsure.
        let is_count = places.len() == 1 && places.iter().all(|place| place.metric == FAILED);
        let half = if is_count {
            Some((difference, 0.0))
        } else {
            pseudo.filter(|all| all.len() > 1).and_then(|all| {
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                Some((mean, error_of_mean(all.iter().copied())?))
            })
        };
        let Some((middle, half)) = half else {
            let why = format!("{shown}, of {} block: no interval", blocks.len());
            return judged(Outcome::Unsure, why);
        };
        if !is_count && half == 0.0 && blocks.len() < LEAST_EQUAL {
            let count = blocks.len();
            let why = format!("{shown}; {count} blocks with the same difference have no interval");
            return judged(Outcome::Unsure, why);
        }
        let (low, high) = (middle - half, middle + half);
        let reason = if is_count {
            let noun = if blocks.len() == 1 { "block" } else { "blocks" };
            format!("{shown}, counted in {} {noun}", blocks.len())
        } else {
            format!(
                "{shown}; the difference is {} to {} (95 %, {} blocks)",
                short(low),
                short(high),
                blocks.len()
            )
        };
        let (low, high) = if self.greater {
            (low, high)
        } else {
            (-high, -low)
        };
        let is_sure = |fails: bool| match (fails, self.or_equal) {
            (true, true) => low >= 0.0,
            (true, false) => low > 0.0,
            (false, true) => high < 0.0,
            (false, false) => high <= 0.0,
        };
        let outcome = match (is_sure(true), is_sure(false)) {
            (true, _) => Outcome::Failed,
            (_, true) => Outcome::Passed,
            _ => Outcome::Unsure,
        };
        // Those that failed may be those that would have been over it.
        let lost = without_value(&places, sweep);
        if outcome == Outcome::Passed && lost > 0 {
            let why = format!("{reason}; runs that failed and have no value: {lost}");
            return judged(Outcome::Unsure, why);
        }
        judged(outcome, reason)
    }
}

/// The runs that failed in a block in which a value is not known. They may be spoilt as well:
/// a program that crashes at once leaves too short a run to tell whether its condition was kept.
fn without_value(places: &BTreeSet<Place>, sweep: &Sweep) -> usize {
    let is_lost = |run: &&OneRun| {
        let of_run = |place: &Place| {
            (place.program, place.condition) == (run.program, run.condition)
                && !sweep
                    .values(place.program, place.condition, &place.metric)
                    .contains_key(&run.block)
        };
        run.has_failed() && places.iter().any(of_run)
    };
    sweep.runs.iter().filter(is_lost).count()
}

/// Four digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size => (3 - size.log10().floor() as i32).clamp(0, 9),
    };
    let digits = usize::try_from(digits).unwrap_or(0);
    format!("{value:.digits$}")
}

impl Expression {
    fn places(&self, all: &mut BTreeSet<Place>) {
        match self {
            Self::Number(_) => {}
            Self::Value(place) => {
                all.insert(place.clone());
            }
            Self::Two(left, _, right) => {
                left.places(all);
                right.places(all);
            }
        }
    }

    fn value(&self, of: &impl Fn(&Place) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Self::Number(number) => *number,
            Self::Value(place) => of(place)?,
            Self::Two(left, sign, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        };
        value.is_finite().then_some(value)
    }
}

/// How deep parentheses may be.
const DEEPEST: usize = 50;

struct Parser<'t> {
    rest: &'t str,
    sweep: &'t Sweep,
}

impl<'t> Parser<'t> {
    fn sum(&mut self) -> Result<Expression, String> {
        self.row(&['+', '-'], DEEPEST)
    }

    /// A row of operations of the same rank.
    fn row(&mut self, signs: &[char], depth: usize) -> Result<Expression, String> {
        let part = |parser: &mut Self| match signs[0] {
            '+' => parser.row(&['*', '/'], depth),
            _ => parser.atom(depth),
        };
        let mut left = part(self)?;
        loop {
            self.rest = self.rest.trim_start();
            let Some(sign) = self.rest.chars().next().filter(|sign| signs.contains(sign)) else {
                return Ok(left);
            };
            self.rest = &self.rest[sign.len_utf8()..];
            left = Expression::Two(Box::new(left), sign, Box::new(part(self)?));
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Expression, String> {
        self.rest = self.rest.trim_start();
        if let Some(inner) = self.rest.strip_prefix('(') {
            let depth = depth.checked_sub(1).ok_or("too many parentheses")?;
            self.rest = inner;
            let value = self.row(&['+', '-'], depth)?;
            self.rest = self
                .rest
                .trim_start()
                .strip_prefix(')')
                .ok_or("a ) is missing")?;
            return Ok(value);
        }
        // A name may have - and + in it (of a file): it ends with a blank. In double quotes it
        // may have anything else.
        let mut quoted = false;
        let is_end = |c: char| {
            quoted ^= c == '"';
            !quoted && (c.is_whitespace() || "()*/<>=".contains(c))
        };
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let word = &*word.replace('"', "");
        if word.is_empty() {
            return Err("a number or METRIC@CONDITION is missing".to_owned());
        }
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Expression::Number(number)),
            _ => self.place(word).map(Expression::Value),
        }
    }

    fn place(&self, word: &str) -> Result<Place, String> {
        let (name, condition) = word
            .split_once('@')
            .ok_or_else(|| format!("`{word}` is neither a number nor METRIC@CONDITION"))?;
        let (program, metric) = name.split_once('.').unwrap_or(("A", name));
        let list = |names: Vec<&str>| names.join(", ");
        let programs: Vec<&str> = self.sweep.programs.iter().map(|one| &*one.name).collect();
        let conditions: Vec<&str> = self.sweep.conditions.iter().map(|one| &*one.name).collect();
        let metrics = self.sweep.metrics.iter().map(|one| &*one.name);
        let metrics: Vec<&str> = metrics.chain([FAILED]).collect();
        let find = |names: &[&str], name: &str| names.iter().position(|one| *one == name);
        if !metrics.contains(&metric) {
            let known = list(metrics);
            return Err(format!("there is no metric `{metric}`; there are {known}"));
        }
        Ok(Place {
            program: find(&programs, program).ok_or_else(|| {
                format!(
                    "there is no program `{program}`; there are {}",
                    list(programs.clone())
                )
            })?,
            metric: metric.to_owned(),
            condition: find(&conditions, condition).ok_or_else(|| {
                let known = list(conditions.clone());
                format!("there is no condition `{condition}`; there are {known}")
            })?,
        })
    }

    /// Whether greater, and whether or equal.
    fn comparison(&mut self) -> Option<(bool, bool)> {
        let rest = self.rest.trim_start();
        for (sign, which) in [
            (">=", (true, true)),
            ("<=", (false, true)),
            (">", (true, false)),
            ("<", (false, false)),
        ] {
            if let Some(rest) = rest.strip_prefix(sign) {
                self.rest = rest;
                return Some(which);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use proptest::prelude::*;
    use sandbag_stats::Verdict;
    use sandbag_stats::chance::Chance;

    fn judge(text: &str, sweep: &Sweep) -> (Outcome, String) {
        let judged = Threshold::parse(text, sweep).unwrap().judge(sweep);
        (judged.outcome, judged.reason)
    }

    #[test]
    fn it_fails_only_where_that_is_sure() {
        let sweep = fixture::sweep(&[
            [&[10.0, 11.0, 10.5, 12.0], &[20.0, 22.5, 21.0, 24.0]],
            [&[10.1, 10.9, 10.6, 11.9], &[30.0, 31.0, 33.0, 36.0]],
        ]);
        for (text, outcome) in [
            ("p99@30 > 1.5 * p99@0", Outcome::Failed),
            ("p99@30 > 2.5 * p99@0", Outcome::Passed),
            ("p99@30 > 2 * p99@0", Outcome::Unsure),
            ("p99@30 / p99@0 >= 1.9", Outcome::Failed),
            ("p99@30 < 3 * p99@0", Outcome::Failed),
            ("p99@30 < p99@0", Outcome::Passed),
            ("B.p99@30 > A.p99@30", Outcome::Failed),
            ("B.p99@0 > p99@0", Outcome::Unsure),
            ("(p99@30 - p99@0) * 2 > 10 + 5", Outcome::Failed),
            ("p99@30-1 > 0", Outcome::Unsure),
            ("failed@30 > 0", Outcome::Passed),
            ("failed@30 >= 0", Outcome::Failed),
        ] {
            if text.contains("30-1") {
                // A name may have a - in it.
                assert!(Threshold::parse(text, &sweep).is_err());
                continue;
            }
            let (found, reason) = judge(text, &sweep);
            assert_eq!(found, outcome, "{text}: {reason}");
        }
        let one = fixture::sweep(&[[&[1.0], &[9.0]]]);
        let (outcome, reason) = judge("p99@30 > p99@0", &one);
        assert_eq!(
            (outcome, &*reason),
            (
                Outcome::Unsure,
                "9.000 against 1.000, of 1 block: no interval"
            )
        );
        for (blocks, outcome) in [(2, Outcome::Unsure), (3, Outcome::Failed)] {
            let (low, high) = (vec![1.0; blocks], vec![2.0; blocks]);
            let equal = fixture::sweep(&[[&low, &high]]);
            let (found, reason) = judge("p99@30 > p99@0", &equal);
            assert_eq!(found, outcome, "{reason}");
        }
        let zero = fixture::sweep(&[[&[0.0, 0.0], &[9.0, 9.0]]]);
        assert!(
            judge("p99@30 / p99@0 > 1", &zero)
                .1
                .contains("division by 0")
        );
    }

    #[test]
    fn names_in_quotes_may_have_blanks_and_signs() {
        let mut sweep = fixture::sweep(&[[&[10.0, 11.0, 10.5, 12.0], &[20.0, 22.5, 21.0, 24.0]]]);
        "my day (2).csv".clone_into(&mut sweep.conditions[1].name);
        let text = "p99@\"my day (2).csv\">1.5*p99@0";
        assert_eq!(judge(text, &sweep).0, Outcome::Failed);
        assert!(Threshold::parse("p99@\"my day > 1", &sweep).is_err());
    }

    #[test]
    fn it_is_not_passed_by_those_that_did_not_fail() {
        let mut sweep = fixture::sweep(&[[&[10.0, 11.0, 10.5, 12.0], &[20.0, 22.5, 21.0, 24.0]]]);
        let text = "p99@30 > 2.5 * p99@0";
        assert_eq!(judge(text, &sweep).0, Outcome::Passed);
        let hanging = sweep.runs.iter_mut().rfind(|run| run.condition == 1);
        let hanging = hanging.unwrap();
        (hanging.timed_out, hanging.exit_code) = (true, None);
        hanging.values.remove("p99");
        // Nor by those of which it is not known whether their condition was kept.
        for verdict in [Verdict::Kept, Verdict::Undecided] {
            let hanging = sweep.runs.iter_mut().rfind(|run| run.condition == 1);
            hanging.unwrap().verdict = verdict;
            let (outcome, reason) = judge(text, &sweep);
            assert_eq!(outcome, Outcome::Unsure);
            assert!(
                reason.ends_with("; runs that failed and have no value: 1"),
                "{reason}"
            );
        }
        assert_eq!(judge("p99@30 > 1.5 * p99@0", &sweep).0, Outcome::Failed);
        assert_eq!(judge("p99@0 > 20", &sweep).0, Outcome::Passed);
        // The block has a value of a run that was made again.
        let hanging = sweep.runs.iter().rfind(|run| run.condition == 1).cloned();
        let mut again = hanging.unwrap();
        again.timed_out = false;
        (again.exit_code, again.verdict) = (Some(0), Verdict::Kept);
        again.values.insert("p99".to_owned(), 24.0);
        sweep.runs.push(again);
        assert_eq!(judge(text, &sweep).0, Outcome::Passed);
    }

    #[test]
    fn a_number_of_failures_that_no_share_reaches_is_refused() {
        let sweep = fixture::sweep(&[[&[10.0], &[10.0]]]);
        let parse = |text: &str| Threshold::parse(text, &sweep);
        for text in [
            "failed@30 > 2",
            "1 < failed@30",
            "failed@30 < -1",
            "failed@30 >= 1.5",
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains("share of the blocks"), "{text}: {why}");
        }
        for text in [
            "failed@30 > 0",
            "failed@30 >= 1",
            "failed@30 < 1",
            "0 < failed@30",
        ] {
            parse(text).unwrap();
        }
    }

    #[test]
    fn failures_are_counted() {
        for (blocks, reason) in [
            (5, "0.2000 against 0, counted in 5 blocks"),
            (1, "1.000 against 0, counted in 1 block"),
        ] {
            let values: Vec<f64> = vec![10.0; blocks];
            let mut sweep = fixture::sweep(&[[&values, &values]]);
            let run = sweep.runs.iter_mut().find(|run| run.condition == 1);
            run.unwrap().values.insert(FAILED.to_owned(), 1.0);
            let found = judge("failed@30 > 0", &sweep);
            assert_eq!(found, (Outcome::Failed, reason.to_owned()));
            for (text, outcome) in [
                ("failed@0 > 0", Outcome::Passed),
                ("2 * failed@30 > 2", Outcome::Passed),
                ("failed@30 <= 1", Outcome::Failed),
                // Of two programs or conditions it is an estimate.
                ("failed@30 > failed@0", Outcome::Unsure),
            ] {
                let (found, reason) = judge(text, &sweep);
                assert_eq!(found, outcome, "{text}: {reason}");
            }
        }
    }

    #[test]
    fn a_failure_counts_whatever_came_of_its_condition() {
        let mut sweep = fixture::sweep(&[[&[10.0, 11.0], &[20.0, 21.0]]]);
        // The first run at 30 was spoilt, crashed, and was made again.
        sweep.runs.push(sweep.runs[2].clone());
        let run = &mut sweep.runs[2];
        run.verdict = Verdict::Missed;
        (run.exit_code, run.signal) = (None, Some(11));
        run.values = [(FAILED.to_owned(), 1.0)].into();
        let (outcome, reason) = judge("failed@30 > 0", &sweep);
        assert_eq!(outcome, Outcome::Failed);
        assert_eq!(reason, "0.5000 against 0, counted in 2 blocks");
        // A spoilt run that did not fail says nothing.
        sweep.runs[2].exit_code = Some(0);
        assert_eq!(judge("failed@30 > 0", &sweep).0, Outcome::Passed);
        assert_eq!(sweep.values(0, 1, "p99"), [(1, 20.0), (2, 21.0)].into());
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        let sweep = fixture::sweep(&[[&[1.0], &[2.0]]]);
        for (text, said) in [
            ("", "is missing"),
            ("p99@30", "expected >"),
            ("p99@30 >", "is missing"),
            ("p99 > 1", "`p99` is neither"),
            (
                "p9@30 > 1",
                "there is no metric `p9`; there are p99, failed",
            ),
            ("p99@31 > 1", "there is no condition `31`; there are 0, 30"),
            ("B.p99@30 > 1", "there is no program `B`; there are A"),
            ("p99@30 > 1 1", "`1` is left over"),
            ("(p99@30 > 1", "a ) is missing"),
            ("nan > 1", "`nan` is neither"),
            ("p99@30 == 1", "expected >"),
        ] {
            let error = Threshold::parse(text, &sweep).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(Threshold::parse(&deep, &sweep).is_err());
    }

    /// Of two equal programs on a machine whose speed drifts, 1000 sweeps of 5 runs.
    #[test]
    fn no_difference_of_equal_programs_is_claimed_in_95_of_100_sweeps() {
        let mut chance = Chance::new(3, "equal");
        let (mut failed, mut found) = (0, 0);
        for _ in 0..1000 {
            let mut rows = [const { Vec::new() }; 3];
            for _ in 0..5 {
                let drift = 1.0 + 0.2 * chance.normal();
                for (row, factor) in rows.iter_mut().zip([1.0, 1.0, 1.5]) {
                    row.push(drift.max(0.2) * factor * (1.0 + 0.05 * chance.normal()));
                }
            }
            let equal = fixture::sweep(&[[&rows[0], &rows[1]]]);
            let (outcome, _) = judge("p99@30 > p99@0", &equal);
            failed += usize::from(outcome == Outcome::Failed);
            let slower = fixture::sweep(&[[&rows[0], &rows[2]]]);
            found += usize::from(judge("p99@30 > 1.1 * p99@0", &slower).0 == Outcome::Failed);
        }
        // One side of an interval of 95 %.
        assert!(failed <= 50, "{failed} of 1000");
        assert!(found >= 900, "{found} of 1000");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[p9@A.30 ()*/<>=+-]{0,40}") {
            let sweep = fixture::sweep(&[[&[1.0, 2.0], &[2.0, 3.0]]]);
            if let Ok(threshold) = Threshold::parse(&text, &sweep) {
                prop_assert!(!threshold.judge(&sweep).reason.is_empty());
            }
        }
    }
}
