// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words and numbers that tables, pages and files have in common, and sentences about
//! an audit as a whole.

mod detection;

use std::collections::BTreeMap;

use crate::compare::Comparison;
use crate::model::{Audit, AuditVerdict, CpuVerdict, Nature, Quantity, Test, unique};
use crate::verdict::{alarms, is_faster};
pub(crate) use detection::{detection, detection_of, limits};

pub(crate) fn verdict(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::Equal => "equal",
        AuditVerdict::NotResolvable => "not resolvable",
        AuditVerdict::Undecided => "undecided",
        AuditVerdict::Unequal => "unequal",
    }
}

/// The mark of a figure whose verdict is not that all is well.
pub(crate) fn mark(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::Equal => "",
        AuditVerdict::NotResolvable => "~",
        AuditVerdict::Undecided => "?",
        AuditVerdict::Unequal => "*",
    }
}

/// A difference as it is read: with its sign, five characters as a rule.
pub(crate) fn signed(value: f64) -> String {
    let text = match value.abs() {
        size if !size.is_finite() => return "-".to_owned(),
        size if size < 9.995 => format!("{value:+.2}"),
        size if size < 99.95 => format!("{value:+.1}"),
        size if size < 1e5 => format!("{value:+.0}"),
        _ => format!("{value:+.0e}"),
    };
    // Nothing is less than nothing.
    match text.as_str() {
        "-0.00" | "+0.00" => " 0.00".to_owned(),
        _ => text,
    }
}

/// The same of a quantity: where the search for it ended it is a bound, `> +900`.
pub(crate) fn difference(of: Quantity, pct: f64) -> String {
    let text = signed(pct);
    if !of.is_end_of_search(pct) {
        return text;
    }
    let sign = if pct > 0.0 { '>' } else { '<' };
    format!("{sign} {text}")
}

/// A size, which has no sign; never nothing.
pub(crate) fn size(value: f64) -> String {
    let text = signed(value.abs().max(0.01));
    text.trim_start_matches(['+', ' ']).to_owned()
}

pub(crate) fn probability(p: f64) -> String {
    match p {
        p if p >= 0.0995 => format!("{p:.2}"),
        p if p >= 0.000_95 => format!("{p:.4}"),
        p if p > 0.0 => format!("{p:.0e}"),
        _ => "0".to_owned(),
    }
}

/// A confidence: `99 %`.
pub(crate) fn confidence(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The quantities of a test in the order of tables.
pub(crate) fn quantities(test: &Test) -> Vec<Quantity> {
    unique(test.effects.iter().map(|effect| effect.quantity))
}

/// The CPUs of a test with figures.
pub(crate) fn cpus(test: &Test) -> Vec<u32> {
    let of_effects = test.effects.iter().map(|effect| effect.cpu);
    let of_samples = test.samples.iter().map(|sample| sample.cpu);
    unique(of_effects.chain(of_samples))
}

/// The verdict on each figure of a test.
pub(crate) fn verdicts(test: &Test) -> BTreeMap<(u32, Quantity), &CpuVerdict> {
    let all = test.verdicts.iter();
    all.map(|one| ((one.cpu, one.quantity), one)).collect()
}

/// The verdict on a CPU in a test, all quantities together. What cannot be resolved
/// decides only where there is nothing else; a difference by design is no alarm.
pub(crate) fn of_cpu(test: &Test, cpu: u32) -> (AuditVerdict, Option<Nature>) {
    let all = test.verdicts.iter().filter(|one| one.cpu == cpu);
    let worst = all.max_by_key(|one| {
        let rank = match (one.verdict, one.nature) {
            (AuditVerdict::NotResolvable, _) => 0,
            (AuditVerdict::Equal, _) => 1,
            (AuditVerdict::Unequal, Some(Nature::Designed)) => 2,
            (AuditVerdict::Undecided, _) => 3,
            (AuditVerdict::Unequal, Some(Nature::Contention)) => 4,
            (AuditVerdict::Unequal, _) => 5,
        };
        // Of the same rank the first, as in tables.
        (rank, std::cmp::Reverse(one.quantity))
    });
    worst.map_or((AuditVerdict::Undecided, None), |one| {
        (one.verdict, one.nature)
    })
}

pub(crate) fn verdict_words(found: (AuditVerdict, Option<Nature>)) -> &'static str {
    match found {
        (AuditVerdict::Unequal, Some(Nature::Contention)) => "contention",
        (AuditVerdict::Unequal, Some(Nature::Designed)) => "by design",
        (AuditVerdict::NotResolvable, _) => "no verdict",
        (other, _) => verdict(other),
    }
}

/// From the least to the greatest of some differences.
pub(crate) fn span(of: Quantity, values: impl Iterator<Item = f64>) -> String {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    let ends = [low, high].map(|pct| difference(of, pct));
    format!("{}..{}", ends[0].trim(), ends[1].trim())
}

/// The most that a sentence names.
const MOST_NAMED: usize = 6;

/// A time stamp without its fraction of a second.
pub(crate) fn to_second(text: &str) -> String {
    match text.split_once('.') {
        Some((second, rest)) if rest.ends_with('Z') => format!("{second}Z"),
        _ => text.to_owned(),
    }
}

/// `CPU 3`, `all 8 CPUs`, `2 of 8 CPUs`.
fn cpus_words(cpus: &[u32], all: usize) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        cpus if cpus.len() == all => format!("all {all} CPUs"),
        cpus => format!("{} of {all} CPUs", cpus.len()),
    }
}

fn undecided_text(audit: &Audit) -> String {
    let undecided = |test: &Test| {
        let all = cpus(test);
        // More time helps no CPU that is gone.
        let is_lost = |cpu: u32| audit.left_out.iter().any(|out| out.cpu == cpu);
        let is_open = |cpu: &u32| of_cpu(test, *cpu).0 == AuditVerdict::Undecided;
        let left = all.iter().copied().filter(|cpu| !is_lost(*cpu));
        let mut open: Vec<u32> = left.collect();
        if audit.left_out.is_empty() || open.len() > 1 {
            open.retain(is_open);
        } else {
            // One that is left has nothing to be compared with.
            open.clear();
        }
        let text = format!("{} on {}", test.name, cpus_words(&open, all.len()));
        (!open.is_empty()).then_some(text)
    };
    let tests: Vec<String> = audit.tests.iter().filter_map(undecided).collect();
    let missing = audit.left_out.iter();
    let missing = missing.map(|out| {
        let mut tests = audit.tests.iter();
        let has_figures = tests.any(|test| cpus(test).contains(&out.cpu));
        let after = if has_figures { "after it was " } else { "" };
        format!("CPU {} ({after}{})", out.cpu, out.why)
    });
    let failed = audit.tests.iter().filter(|test| test.has_failed());
    let failed = failed.filter_map(|test| {
        let why = test.failure.as_ref()?;
        Some(format!("test {} (failed: {why})", test.name))
    });
    let missing: Vec<String> = missing.chain(failed).collect();
    if audit.cpus.len() == 1 {
        return "one CPU: there is nothing to compare it with".to_owned();
    }
    match (tests.is_empty(), missing.is_empty()) {
        (true, true) => "too little was measured to say".to_owned(),
        (true, false) => format!(
            "nothing is known of what was not tested: {}",
            missing.join(", ")
        ),
        (false, _) => format!(
            "still open: {}; longer (--limit, --rounds) or on a quieter machine it could be \
             said{}",
            tests.join(", "),
            match disturbance_text(audit) {
                all if all.is_empty() => all,
                all => format!("; others disturb {all}"),
            }
        ),
    }
}

/// The CPUs with a figure of this nature.
fn of_nature(audit: &Audit, nature: Nature) -> Vec<u32> {
    let verdicts = audit.tests.iter().flat_map(|test| &test.verdicts);
    let found = verdicts.filter(|one| one.nature == Some(nature));
    unique(found.map(|one| one.cpu))
}

/// The CPUs that others disturb, where that is no alarm.
fn disturbance_text(audit: &Audit) -> String {
    let all = of_nature(audit, Nature::Contention);
    let all: Vec<String> = all.iter().map(|cpu| format!("CPU {cpu}")).collect();
    all.join(", ")
}

/// The CPUs that are equal because they are faster than the middle one; empty without any.
fn faster_text(audit: &Audit) -> String {
    let is_faster = |test: &Test, one: &CpuVerdict| {
        let effect = test.effect(one.cpu, one.quantity);
        one.verdict == AuditVerdict::Equal
            && effect.is_some_and(|effect| is_faster(effect, test, audit.design.tolerance_pct))
    };
    cpus_in_tests(audit, is_faster).join("; ")
}

/// `CPU 3 in compute (elapsed +2.98 %)`: the CPUs with figures for whose verdicts `of` holds, the
/// first ones by name.
fn cpus_in_tests(audit: &Audit, of: impl Fn(&Test, &CpuVerdict) -> bool) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for test in &audit.tests {
        for cpu in cpus(test) {
            let here = test.verdicts.iter().filter(|one| one.cpu == cpu);
            let figures: Vec<String> = here
                .filter(|one| of(test, one))
                .map(|one| match test.effect(cpu, one.quantity) {
                    Some(effect) => figure_words(one.quantity, effect.pct),
                    None => one.quantity.word().to_owned(),
                })
                .collect();
            if !figures.is_empty() {
                let figures = figures.join(", ");
                named.push(format!("CPU {cpu} in {} ({figures})", test.name));
            }
        }
    }
    let rest = named.len().saturating_sub(MOST_NAMED);
    named.truncate(MOST_NAMED);
    if rest > 0 {
        named.push(format!("and {rest} more"));
    }
    named
}

/// The summary of an audit that found all CPUs equal, but for differences by design
/// and what the kernel cannot resolve.
fn equal(audit: &Audit, count: &str, sure: &str) -> String {
    let mut verdicts = audit.tests.iter().flat_map(|test| &test.verdicts);
    let measured = if verdicts.any(|one| one.verdict == AuditVerdict::NotResolvable) {
        "in all that this kernel tells"
    } else {
        "in all that was measured"
    };
    let tolerance = audit.design.tolerance_pct;
    let disturbed = disturbance_text(audit);
    if !disturbed.is_empty() {
        return format!(
            "no CPU charges more than the middle one, {measured}, with {sure} confidence; but \
             others disturb {disturbed}"
        );
    }
    let faster = faster_text(audit);
    match of_nature(audit, Nature::Designed).len() {
        0 if !faster.is_empty() => format!(
            "no CPU of {} is slower than the middle one by more than {tolerance} %, {measured}, \
             with {sure} confidence; faster: {faster}",
            audit.cpus.len()
        ),
        0 => format!(
            "{count} are within {tolerance} % of each other {measured}, with {sure} confidence"
        ),
        slower => format!(
            "no CPU of {} is slower than the middle one of those built as it is by more than \
             {tolerance} %, {measured}, with {sure} confidence; {slower} of them are slower than \
             others by design",
            audit.cpus.len()
        ),
    }
}

/// `system +2.98 %`.
pub(crate) fn figure_words(of: Quantity, pct: f64) -> String {
    format!("{} {} {}", of.word(), difference(of, pct).trim(), of.unit())
}

/// An audit's verdict, in a sentence without the verdict itself.
pub(crate) fn summary(audit: &Audit) -> String {
    let wanted = audit.verdict;
    if wanted == AuditVerdict::Undecided {
        return undecided_text(audit);
    }
    let fails = audit.design.contention_fails;
    let alarms = |_: &Test, one: &CpuVerdict| alarms(one.verdict, one.nature, fails);
    let named = cpus_in_tests(audit, alarms);
    let count = count_cpus(audit.cpus.len());
    let sure = confidence(audit.design.confidence);
    match wanted {
        AuditVerdict::Equal => equal(audit, &count, &sure),
        AuditVerdict::NotResolvable => {
            "what was measured cannot be told apart by this kernel's accounting".to_owned()
        }
        AuditVerdict::Undecided | AuditVerdict::Unequal => {
            format!("{}; with {sure} confidence", named.join("; "))
        }
    }
}

/// `1 CPU`, `8 CPUs`.
pub(crate) fn count_cpus(count: usize) -> String {
    match count {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    }
}

/// A comparison's verdict as a word: nothing is equal or not here, it changed or
/// did not.
pub(crate) fn change_words(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::Equal => "unchanged",
        AuditVerdict::NotResolvable => "not resolvable",
        AuditVerdict::Undecided => "undecided",
        AuditVerdict::Unequal => "changed",
    }
}

/// A comparison's verdict, in a sentence without the verdict itself.
pub(crate) fn comparison(found: &Comparison) -> String {
    let mut tests: Vec<String> = Vec::new();
    for test in &found.tests {
        let here = || {
            test.changes
                .iter()
                .filter(|change| change.verdict == found.verdict)
        };
        let cpus = unique(here().map(|change| change.cpu));
        if cpus.is_empty() {
            continue;
        }
        let all = unique(test.changes.iter().map(|change| change.cpu)).len();
        // What is open has no size.
        let worst = here().filter(|change| change.verdict == AuditVerdict::Unequal);
        let worst = worst.max_by(|a, b| a.pct.abs().total_cmp(&b.pct.abs()));
        let most = worst.map_or_else(String::new, |change| {
            let up_to = if cpus.len() > 1 { "up to " } else { "" };
            let (q, pct) = (change.quantity, difference(change.quantity, change.pct));
            format!(" ({} {up_to}{} {})", q.word(), pct.trim(), q.unit())
        });
        let whom = cpus_words(&cpus, all);
        tests.push(format!("in {} on {whom}{most}", test.name));
    }
    let (tests, sure) = (tests.join("; "), confidence(found.confidence));
    match found.verdict {
        AuditVerdict::Equal => format!(
            "no figure by more than {} %, with {sure} confidence for all {} comparisons",
            found.tolerance_pct, found.comparisons
        ),
        AuditVerdict::NotResolvable => "no figure can be compared".to_owned(),
        AuditVerdict::Undecided if tests.is_empty() => {
            format!("nothing is known of {}", found.lost.join("; "))
        }
        AuditVerdict::Undecided => format!("{tests}; more rounds would tell"),
        AuditVerdict::Unequal => format!("{tests}; with {sure} confidence"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};

    #[test]
    fn differences_are_short() {
        for (value, text) in [
            (3.124, "+3.12"),
            (-0.001, " 0.00"),
            (-12.34, "-12.3"),
            (276.4, "+276"),
            (1e308, "+1e308"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(signed(value), text);
        }
        assert_eq!([0.0, 0.4, -3.0].map(size), ["0.01", "0.40", "3.00"]);
        assert_eq!(confidence(0.99), "99 %");
        assert_eq!(confidence(0.9995), "99.95 %");
        assert_eq!(
            [0.5, 0.012, 3e-9, 0.0].map(probability),
            ["0.50", "0.0120", "3e-9", "0"]
        );
    }

    #[test]
    fn a_cpu_is_called_by_its_worst_figure() {
        let audit = eight();
        let syscall = &audit.tests[1];
        assert_eq!(verdict_words(of_cpu(syscall, 0)), "unequal");
        assert_eq!(verdict_words(of_cpu(syscall, 3)), "equal");
        // Of which one quantity cannot be resolved.
        assert_eq!(verdict_words(of_cpu(&audit.tests[0], 3)), "equal");
        assert_eq!(verdict_words(of_cpu(syscall, 99)), "undecided");
    }

    #[test]
    fn a_cpu_that_is_faster_is_not_within_the_tolerance_of_the_others() {
        let faster = |test: usize, only: Option<Quantity>, pct: f64| {
            let mut audit = Maker::eight().odd(None).make();
            assert_eq!(audit.verdict, AuditVerdict::Equal);
            let test = &mut audit.tests[test];
            let own = |cpu, quantity| cpu == 3 && only.is_none_or(|only| only == quantity);
            for effect in &mut test.effects {
                if own(effect.cpu, effect.quantity) {
                    (effect.pct, effect.together_pct) = (pct, (pct - 0.3, pct + 0.3));
                }
            }
            for one in &mut test.verdicts {
                if own(one.cpu, one.quantity) {
                    one.verdict = AuditVerdict::Equal;
                }
            }
            audit
        };
        let audit = faster(1, None, -10.0);
        let text = summary(&audit);
        assert!(
            text.starts_with("no CPU of 8 is slower than the middle one by more than 0.5 %")
                && text.contains("; faster: CPU 3 in syscall (elapsed -10.0 %, "),
            "{text}"
        );
        let page = crate::report::page::audit(&audit);
        assert!(page.contains("no CPU charges more than the middle CPU of its kind"));
        // Of 0.05 % of the CPU's time.
        let text = summary(&faster(0, Some(Quantity::System), -30.0));
        assert!(text.starts_with("8 CPUs are within 0.5 %"), "{text}");
    }

    #[test]
    fn a_comparison_that_only_lost_something_says_what() {
        let options = crate::compare::CompareOptions {
            confidence: 0.99,
            tolerance_pct: 0.5,
            anyway: false,
        };
        let mut found = crate::compare::compare(&eight(), &eight(), &options).unwrap();
        for change in found.tests.iter_mut().flat_map(|test| &mut test.changes) {
            change.verdict = AuditVerdict::Equal;
        }
        found.lost = vec!["CPU 3 in the second: lost on the way".to_owned()];
        found.verdict = AuditVerdict::Undecided;
        let expected = "nothing is known of CPU 3 in the second: lost on the way";
        assert_eq!(comparison(&found), expected);
    }

    #[test]
    fn sentences_say_who_and_how_much() {
        let text = summary(&eight());
        assert!(text.contains("CPU 0 in syscall (elapsed +2."), "{text}");
        assert!(text.contains("points") && text.contains("99 %"), "{text}");
        assert!(summary(&Maker::eight().odd(None).make()).starts_with("8 CPUs are within 0.5 %"));
        let wide = Maker::eight().odd(None).scatter(0.05).make();
        assert!(summary(&wide).contains("8 CPUs") && summary(&wide).contains("--rounds"));
        let mut failed = Maker::eight().odd(None).make();
        failed.tests[1].failure = Some("on CPU 3 it ended with exit code 1".to_owned());
        crate::verdict::again(&mut failed, true);
        let text = summary(&failed);
        assert!(
            text.ends_with("test syscall (failed: on CPU 3 it ended with exit code 1)"),
            "{text}"
        );
        let seen = detection(&eight());
        assert!(
            seen.starts_with("Differences above 0.") && seen.contains("points (noise)"),
            "{seen}"
        );
    }
}
