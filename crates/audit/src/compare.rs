// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two audits of the same machine: what became slower, on which CPU, by how
//! much. Quiet and loaded (the paper's dedicated and production runs), before
//! and after.
//!
//! Each CPU is compared with itself, in each quantity of each test: figures of
//! the same length with each other, on logarithms, all lengths together
//! (`shift`). Probabilities are corrected for all comparisons after Holm,
//! intervals after Bonferroni. What two audits of the same state would differ by
//! is more than their own scatter says: memory lies elsewhere, the machine is
//! warmer. That is not in the intervals.

mod pairs;
mod shift;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::effects::{self, median};
use crate::model::{Audit, AuditVerdict, Cpu, Quantity, Test, unique};
use crate::ranks::holm;
use crate::verdict::WEIGHT;
use pairs::pairs;
use shift::{NullCache, Pair, Shift};

/// The format's version, in each file.
pub const VERSION: u32 = 1;

/// Facts of a machine that differ each time.
const PASSING: [&str; 1] = [sandbag_linux::machine::LOAD];

/// The fact that says how much memory there is, `16314204 kB`.
const MEMORY: &str = "memory";
/// The kernel keeps another part of the same memory after each start; this much is the same.
const SAME_MEMORY: f64 = 0.01;

/// Lengths that differ by no more than this factor count as the same.
const SAME_LENGTH: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// By which verdicts are given, after correction: .99.
    pub confidence: f64,
    /// Changes up to this do not count, percent (of noise: points).
    pub tolerance_pct: f64,
    /// Compare different machines, tests or settings, too.
    pub anyway: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`VERSION`] of the sandbag that wrote it.
    pub version: u32,
    pub sandbag: String,
    pub a_begun: String,
    pub b_begun: String,
    /// Differences of machine, tests and settings, where they were compared anyway.
    pub differences: Vec<String>,
    /// CPUs that one of them lost on the way, in words: nothing is known of those after that.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Of all verdicts, after correction.
    pub confidence: f64,
    /// Changes up to this do not count, percent (of noise: points).
    pub tolerance_pct: f64,
    /// Comparisons that were made, for all of which the correction is.
    pub comparisons: u32,
    /// By test, in the order of the first audit.
    pub tests: Vec<TestChange>,
    pub verdict: AuditVerdict,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestChange {
    pub name: String,
    pub changes: Vec<Change>,
    /// The middle of all CPUs' changes, by quantity: what the whole machine did.
    pub common: Vec<(Quantity, f64)>,
    pub verdict: AuditVerdict,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub quantity: Quantity,
    pub cpu: u32,
    /// By how much the second is above the first: percent of the first; of
    /// noise points.
    pub pct: f64,
    /// Where that lies, for this change alone; `None` where there are too few
    /// runs for such confidence.
    pub interval_pct: Option<(f64, f64)>,
    /// The same for all comparisons at once.
    pub together_pct: Option<(f64, f64)>,
    /// Probability of such a change where there is none, alone.
    pub p: f64,
    /// The same, corrected for all comparisons.
    pub p_together: f64,
    /// Runs of the first and of the second.
    pub runs: (u32, u32),
    /// Middle of the figures at the greatest length: ns, of noise percent.
    pub middle: (f64, f64),
    /// [`AuditVerdict::Unequal`]: it changed.
    pub verdict: AuditVerdict,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum CompareError {
    /// They are not of the same machine, tests or settings.
    #[error(
        "the two audits are not alike: {}; --anyway compares what they have in common",
        .0.join("; ")
    )]
    NotAlike(Vec<String>),
    /// No CPU has figures of the same test in both.
    #[error("the two audits have no test of the same name on the same CPU in common")]
    NothingInCommon,
}

pub fn compare(a: &Audit, b: &Audit, options: &CompareOptions) -> Result<Comparison, CompareError> {
    let differences = differences(a, b);
    if !differences.is_empty() && !options.anyway {
        return Err(CompareError::NotAlike(differences));
    }
    let of_b = |one: &&Test| b.tests.iter().find(|other| other.name == one.name);
    let tests: Vec<(&Test, &Test)> = a
        .tests
        .iter()
        .filter_map(|one| Some((one, of_b(&one)?)))
        .collect();
    // Their number is needed first. A shift may hold millions of differences, so there is one at
    // a time.
    let made: usize = tests.iter().map(|(one, other)| count(one, other)).sum();
    let alone = options.confidence;
    // Each misses the truth so rarely that all together miss it as rarely as asked.
    let together = 1.0 - (1.0 - alone) / made.max(1) as f64;
    let mut known = NullCache::default();
    let mut found: Vec<(&str, Vec<SharedChange>)> = Vec::new();
    for (one, other) in tests {
        let changes = changes(one, other, [alone, together], &mut known);
        found.push((&one.name, changes));
    }
    found.retain(|(_, changes)| !changes.is_empty());
    if found.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    let all = found.iter_mut().flat_map(|(_, changes)| changes);
    let all = all.filter_map(|one| Some((&mut one.change, one.share?)));
    let all: Vec<(&mut Change, f64)> = all.collect();
    debug_assert_eq!(all.len(), made);
    let p: Vec<f64> = all.iter().map(|(change, _)| change.p).collect();
    for ((change, share), p) in all.into_iter().zip(holm(&p, made)) {
        change.p_together = p;
        change.verdict = judge(change, share, options);
    }
    let tests = found.into_iter().map(|(name, changes)| {
        let changes: Vec<Change> = changes.into_iter().map(|one| one.change).collect();
        TestChange {
            name: name.to_owned(),
            common: common(&changes),
            verdict: worst(changes.iter().map(|change| change.verdict)),
            changes,
        }
    });
    let tests: Vec<TestChange> = tests.collect();
    let lost: Vec<String> = [("first", a), ("second", b)]
        .into_iter()
        .flat_map(|(which, audit)| missing(which, audit))
        .collect();
    let of_tests = worst(tests.iter().map(|test| test.verdict));
    Ok(Comparison {
        version: VERSION,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        a_begun: a.begun.clone(),
        b_begun: b.begun.clone(),
        differences,
        confidence: options.confidence,
        tolerance_pct: options.tolerance_pct,
        comparisons: u32::try_from(made).unwrap_or(u32::MAX),
        verdict: if lost.is_empty() {
            of_tests
        } else {
            of_tests.max(AuditVerdict::Undecided)
        },
        lost,
        tests,
    })
}

/// The CPUs that an audit began with and lost, and the tests that it did not end, in words.
fn missing(which: &str, audit: &Audit) -> Vec<String> {
    let began = |cpu: u32| audit.cpus.iter().any(|one| one.cpu == cpu);
    let cpus = audit.left_out.iter().filter(|out| began(out.cpu));
    let cpus = cpus.map(|out| format!("CPU {} in the {which}: {}", out.cpu, out.why));
    let tests = audit.tests.iter();
    let tests = tests.filter(|test| test.has_failed() || test.samples.is_empty());
    let tests = tests.map(|test| {
        let why = test.failure.as_deref().unwrap_or("nothing was measured");
        format!("test {} in the {which}: {why}", test.name)
    });
    cpus.chain(tests).collect()
}

/// The differences of two audits' machines, tests and settings in words; empty if they
/// can be compared.
pub fn differences(a: &Audit, b: &Audit) -> Vec<String> {
    let mut all = Vec::new();
    let mut compare = |what: &str, x: String, y: String| {
        if x != y && !(what == MEMORY && is_same_memory(&x, &y)) {
            all.push(format!("{what}: {x} and {y}"));
        }
    };
    let fact = |audit: &Audit, name: &str| {
        let found = audit.machine.iter().find(|(n, _)| n == name);
        found.map_or_else(|| "not said".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in a.machine.iter().chain(&b.machine) {
        if !names.contains(&name.as_str()) && !PASSING.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        compare(name, fact(a, name), fact(b, name));
    }
    let numbers = |audit: &Audit| {
        let cpus = unique(audit.cpus.iter().map(|cpu| cpu.cpu));
        cpus.iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    compare("CPUs", numbers(a), numbers(b));
    let settings = |cpu: &Cpu| match &cpu.settings[..] {
        [] => "none".to_owned(),
        settings => settings.join(", "),
    };
    for cpu in &a.cpus {
        if let Some(other) = b.cpus.iter().find(|other| other.cpu == cpu.cpu) {
            let what = format!("settings of CPU {}", cpu.cpu);
            compare(&what, settings(cpu), settings(other));
        }
    }
    compare(
        "accounting of user and system time",
        a.design.accounting.clone(),
        b.design.accounting.clone(),
    );
    let of_tests = differences_of_tests(a, b);
    if !of_tests.is_empty() {
        all.extend(asked_otherwise(a, b));
    }
    all.extend(of_tests);
    all
}

fn is_same_memory(x: &str, y: &str) -> bool {
    let kb = |text: &str| text.strip_suffix(" kB")?.trim().parse::<f64>().ok();
    match (kb(x), kb(y)) {
        (Some(x), Some(y)) => (x - y).abs() <= SAME_MEMORY * x.max(y),
        _ => false,
    }
}

/// Other options make other tests; alone they are no difference.
fn asked_otherwise(a: &Audit, b: &Audit) -> Option<String> {
    let asked = |audit: &Audit| {
        let design = &audit.design;
        format!(
            "at least {} rounds and {} s for each test",
            design.rounds.0,
            design.limit_ns as f64 / 1e9
        )
    };
    let (x, y) = (asked(a), asked(b));
    (x != y).then(|| format!("asked for with other options, --quick perhaps: {x}, and {y}"))
}

fn differences_of_tests(a: &Audit, b: &Audit) -> Vec<String> {
    let mut all = Vec::new();
    for one in &a.tests {
        let Some(other) = b.tests.iter().find(|other| other.name == one.name) else {
            all.push(format!("test {}: only in the first", one.name));
            continue;
        };
        if !are_as_long(&one.lengths, &other.lengths) {
            let said = |test: &Test| {
                let lengths: Vec<String> = test.lengths.iter().map(u64::to_string).collect();
                format!("{} {}", lengths.join(", "), test.unit)
            };
            all.push(format!(
                "lengths of test {}: {} and {}",
                one.name,
                said(one),
                said(other)
            ));
        } else if let Some(work) = difference_of_work(one, other) {
            all.push(format!("test {}: {work}", one.name));
        }
    }
    let missing = |test: &&Test| !a.tests.iter().any(|one| one.name == test.name);
    let missing = b.tests.iter().filter(missing);
    all.extend(missing.map(|test| format!("test {}: only in the second", test.name)));
    all
}

/// Lengths are found anew in each audit, by how fast the machine is at that
/// moment: on a loaded one they are shorter. Figures are compared for a unit of
/// length.
fn are_as_long(a: &[u64], b: &[u64]) -> bool {
    let as_long = |(a, b): (&u64, &u64)| {
        let (least, most) = ((*a.min(b)).max(1) as f64, *a.max(b) as f64);
        most <= SAME_LENGTH * least
    };
    a.len() == b.len() && a.iter().zip(b).all(as_long)
}

/// By what a unit of length is other work in the one test than in the other, in words: a plane
/// of a larger array has more elements.
pub(crate) fn difference_of_work(one: &Test, other: &Test) -> Option<String> {
    let (a, b) = if one.about == other.about {
        (&one.unit, &other.unit)
    } else {
        (&one.about, &other.about)
    };
    (a != b).then(|| format!("\"{a}\" and \"{b}\""))
}

#[derive(Debug)]
struct SharedChange {
    change: Change,
    /// Share of its quantity in the CPU time of the first audit, 0 to 1; `None` where the
    /// accounting cannot resolve it.
    share: Option<f64>,
}

/// The quantities and CPUs of a test that both audits have.
fn in_both(a: &Test, b: &Test) -> Vec<(Quantity, u32)> {
    let on = |test: &Test, cpu| test.samples.iter().any(|sample| sample.cpu == cpu);
    let cpus = unique(a.samples.iter().map(|sample| sample.cpu));
    let cpus: Vec<u32> = cpus.into_iter().filter(|cpu| on(b, *cpu)).collect();
    let of = |quantity: &Quantity| cpus.iter().map(|cpu| (*quantity, *cpu)).collect::<Vec<_>>();
    quantities(a, b).iter().flat_map(of).collect()
}

/// What is compared; `None` where the accounting cannot resolve it, or nothing has figures in
/// both.
fn comparable(a: &Test, b: &Test, quantity: Quantity, cpu: u32) -> Option<Vec<Pair>> {
    let is_resolvable = is_resolvable(a, quantity, cpu) && is_resolvable(b, quantity, cpu);
    let pairs = is_resolvable.then(|| pairs(a, b, quantity, cpu))?;
    let is_whole = |pair: &Pair| !pair.a.is_empty() && !pair.b.is_empty();
    pairs.iter().any(is_whole).then_some(pairs)
}

/// Number of the comparisons of a test.
fn count(a: &Test, b: &Test) -> usize {
    let all = in_both(a, b).into_iter();
    all.filter(|(quantity, cpu)| comparable(a, b, *quantity, *cpu).is_some())
        .count()
}

/// All that can be compared of a test, with intervals of these confidences: of each alone, and of
/// all together.
fn changes(
    a: &Test,
    b: &Test,
    [alone, together]: [f64; 2],
    known: &mut NullCache,
) -> Vec<SharedChange> {
    let of = |(quantity, cpu): (Quantity, u32)| {
        let pairs = comparable(a, b, quantity, cpu);
        let shift = pairs.and_then(|pairs| Shift::of(&pairs, known));
        let value = |shift: &Shift| shift_pct(shift.value, quantity);
        let mut interval = |confidence: f64| {
            let (low, high) = shift.as_ref()?.interval(confidence, known)?;
            Some((shift_pct(low, quantity), shift_pct(high, quantity)))
        };
        let change = Change {
            quantity,
            cpu,
            pct: shift.as_ref().map_or(0.0, value),
            interval_pct: interval(alone),
            together_pct: interval(together),
            p: shift.as_ref().map_or(1.0, |shift| shift.p),
            p_together: 1.0,
            runs: (runs(a, cpu), runs(b, cpu)),
            middle: (at_greatest(a, quantity, cpu), at_greatest(b, quantity, cpu)),
            verdict: AuditVerdict::NotResolvable,
        };
        let share = || effects::share(&a.samples, cpu, quantity).0;
        SharedChange {
            change,
            share: shift.is_some().then(share),
        }
    };
    in_both(a, b).into_iter().map(of).collect()
}

/// What both tests measure.
fn quantities(a: &Test, b: &Test) -> &'static [Quantity] {
    match (a.is_noise(), b.is_noise()) {
        (x, y) if x == y => effects::quantities(x),
        _ => &[],
    }
}

/// Whether the audit could tell such differences.
fn is_resolvable(test: &Test, quantity: Quantity, cpu: u32) -> bool {
    !test.verdicts.iter().any(|one| {
        one.quantity == quantity && one.cpu == cpu && one.verdict == AuditVerdict::NotResolvable
    })
}

fn runs(test: &Test, cpu: u32) -> u32 {
    let runs = test.samples.iter().filter(|sample| sample.cpu == cpu);
    u32::try_from(runs.count()).unwrap_or(u32::MAX)
}

/// The middle of the figures at the greatest length that was run.
fn at_greatest(test: &Test, quantity: Quantity, cpu: u32) -> f64 {
    let on = || test.samples.iter().filter(move |sample| sample.cpu == cpu);
    let length = on().map(|sample| sample.length).max();
    let here = on().filter(|sample| Some(sample.length) == length);
    median(here.filter_map(|sample| sample.figure(quantity))).unwrap_or(0.0)
}

/// Percent of a shift of logarithms; points of a share.
fn shift_pct(shift: f64, of: Quantity) -> f64 {
    match of {
        share if share.is_share() => shift,
        // Finite, for JSON.
        _ => (shift.exp_m1() * 100.0).min(f64::MAX),
    }
}

fn judge(change: &Change, share: f64, options: &CompareOptions) -> AuditVerdict {
    let tolerance = options.tolerance_pct;
    // As within an audit: less than a tenth of the tolerance of all CPU time does not count.
    let sampled = matches!(change.quantity, Quantity::User | Quantity::System);
    let is_little = |pct: f64| sampled && share * pct.abs() < WEIGHT * tolerance;
    let beyond_chance = change.p_together <= 1.0 - options.confidence;
    let within = change
        .together_pct
        .is_some_and(|(low, high)| low >= -tolerance && high <= tolerance);
    let ends = change.together_pct;
    let all_little = ends.is_some_and(|(low, high)| is_little(low) && is_little(high));
    match (within, beyond_chance && change.pct.abs() > tolerance) {
        (true, _) => AuditVerdict::Equal,
        (false, true) if is_little(change.pct) => AuditVerdict::Equal,
        (false, true) => AuditVerdict::Unequal,
        (false, false) if all_little => AuditVerdict::Equal,
        (false, false) => AuditVerdict::Undecided,
    }
}

/// The worst that counts: what cannot be resolved decides nothing.
fn worst(verdicts: impl Iterator<Item = AuditVerdict>) -> AuditVerdict {
    let decided = verdicts.filter(|verdict| *verdict != AuditVerdict::NotResolvable);
    decided.max().unwrap_or(AuditVerdict::NotResolvable)
}

fn common(changes: &[Change]) -> Vec<(Quantity, f64)> {
    let of = |quantity: Quantity| {
        let here = changes.iter().filter(|change| change.quantity == quantity);
        let here = here.filter(|change| change.verdict != AuditVerdict::NotResolvable);
        Some((quantity, median(here.map(|change| change.pct))?))
    };
    let quantities = unique(changes.iter().map(|change| change.quantity));
    quantities.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
