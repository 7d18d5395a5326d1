// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-if`: a comparison of metrics at conditions, judged with its interval.
//!
//! `p99@30 > 1.5 * p99@0`; `B.p99@30 > A.p99@30`; `failed@30 > 0`. A side is made of
//! numbers, `METRIC@CONDITION`, `+ - * /` and parentheses. A value is the mean over the
//! blocks; the difference of both sides has the interval of the jackknife over blocks
//! (Tukey; Student's t), which for sums is that of the paired differences. One value of
//! `failed`, compared with a number, is a count and has no interval. Whether a program that did
//! not fail beside a condition that was not kept would have failed under it is not known: both
//! shares are judged, that of the blocks with a value and that of all blocks.

use std::collections::BTreeSet;

use sandbag_stats::error_of_mean;
use serde::{Deserialize, Serialize};

use crate::figures::significant;
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
        // `more`: blocks in which every value is 0.
        let sides = |left_out: Option<usize>, more: usize| -> Option<(f64, f64)> {
            let mean = |place: &Place| {
                let (_, values) = rows.iter().find(|(of, _)| *of == place)?;
                let kept = blocks.iter().filter(|block| Some(**block) != left_out);
                let kept: Vec<f64> = kept
                    .filter_map(|block| values.get(block).copied())
                    .collect();
                let count = kept.len() + more;
                (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / count as f64)
            };
            Some((self.left.value(&mean)?, self.right.value(&mean)?))
        };
        let Some((left, right)) = sides(None, 0) else {
            let why = match blocks.len() {
                0 => "there is no block in which all of its values are known",
                _ => "it cannot be computed (a division by 0?)",
            };
            return judged(Outcome::Unsure, why.to_owned());
        };
        let difference = left - right;
        let shown = against(left, right);
        let count = blocks.len() as f64;
        let pseudo: Option<Vec<f64>> = blocks
            .iter()
            .map(|block| {
                let (left, right) = sides(Some(*block), 0)?;
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
        let outcome = self.outcome(low, high);
        let counted = places.first().filter(|_| is_count);
        let unknown = counted.map_or(0, |place| without_failure(place, sweep, &blocks));
        if unknown > 0 {
            let noun = if unknown == 1 { "block" } else { "blocks" };
            let reason =
                format!("{reason}; {unknown} {noun} whose condition was not kept did not fail");
            let of_all = sides(None, unknown).map(|(left, right)| left - right);
            let is_same = of_all.is_some_and(|all| self.outcome(all, all) == outcome);
            return judged(if is_same { outcome } else { Outcome::Unsure }, reason);
        }
        // Those that failed may be those that would have been over it.
        let lost = without_value(&places, sweep);
        if outcome == Outcome::Passed && lost > 0 {
            let why = format!("{reason}; runs that failed and have no value: {lost}");
            return judged(Outcome::Unsure, why);
        }
        judged(outcome, reason)
    }

    /// What a difference of the left side and the right that is within these limits says.
    fn outcome(&self, low: f64, high: f64) -> Outcome {
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
        match (is_sure(true), is_sure(false)) {
            (true, _) => Outcome::Failed,
            (_, true) => Outcome::Passed,
            _ => Outcome::Unsure,
        }
    }
}

/// The blocks other than `known` in which a program ran under a condition.
fn without_failure(place: &Place, sweep: &Sweep, known: &BTreeSet<usize>) -> usize {
    let runs = sweep.runs.iter();
    let of_cell = runs
        .filter(|run| (run.program, run.condition) == (place.program, place.condition))
        .map(|run| run.block);
    let blocks: BTreeSet<usize> = of_cell.collect();
    blocks.difference(known).count()
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
    significant(value, 4)
}

/// Both with as many digits as tell them apart.
fn against(left: f64, right: f64) -> String {
    /// No number needs more.
    const MOST_DIGITS: i32 = 17;
    let texts = |digits: i32| [left, right].map(|value| significant(value, digits));
    let differ = |[left, right]: &[String; 2]| left != right;
    let [left, right] = (4..MOST_DIGITS)
        .map(texts)
        .find(differ)
        .unwrap_or_else(|| texts(4));
    format!("{left} against {right}")
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

/// The number that a word is, or that stands before a sign in it (`4` of `4-1`, but `4e-1`
/// whole), and its length.
fn number(word: &str) -> Option<(f64, usize)> {
    let signs = word.match_indices(['+', '-']).map(|(at, _)| at);
    let ends = std::iter::once(word.len()).chain(signs.rev());
    let number = |end: usize| Some((word[..end].parse::<f64>().ok()?, end));
    ends.filter_map(number)
        .find(|(number, _)| number.is_finite())
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
        if let Some((number, length)) = number(word) {
            self.rest = &self.rest[length..];
            return Ok(Expression::Number(number));
        }
        self.rest = rest;
        let word = &*word.replace('"', "");
        if word.is_empty() {
            return Err("a number or METRIC@CONDITION is missing".to_owned());
        }
        self.place(word).map(Expression::Value)
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
mod tests;
