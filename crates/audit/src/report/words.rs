// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What table, page and files have in common: words, figures as they are read,
//! what is said of an audit as a whole.

use std::collections::BTreeMap;

use crate::compare::{Comparison, TestChange};
use crate::model::{Audit, AuditVerdict, CpuVerdict, Nature, Quantity, Test};
use crate::verdict::alarms;

/// The word of a verdict.
pub(crate) fn verdict(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::Equal => "equal",
        AuditVerdict::NotResolvable => "not resolvable",
        AuditVerdict::Undecided => "undecided",
        AuditVerdict::Unequal => "unequal",
    }
}

/// The word of a quantity.
pub(crate) fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Elapsed => "elapsed",
        Quantity::User => "user",
        Quantity::System => "system",
        Quantity::Cpu => "cpu time",
        Quantity::Waiting => "waiting",
        Quantity::Noise => "noise",
    }
}

/// What its effects are in.
pub(crate) fn unit(quantity: Quantity) -> &'static str {
    if quantity.is_share() { "points" } else { "%" }
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

/// What a test measured, in the order of tables.
pub(crate) fn quantities(test: &Test) -> Vec<Quantity> {
    let mut all: Vec<Quantity> = test.effects.iter().map(|effect| effect.quantity).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The CPUs of a test with figures, ascending.
pub(crate) fn cpus(test: &Test) -> Vec<u32> {
    let of_effects = test.effects.iter().map(|effect| effect.cpu);
    let of_samples = test.samples.iter().map(|sample| sample.cpu);
    let mut all: Vec<u32> = of_effects.chain(of_samples).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What is said of each figure of a test.
pub(crate) fn verdicts(test: &Test) -> BTreeMap<(u32, Quantity), &CpuVerdict> {
    let all = test.verdicts.iter();
    all.map(|one| ((one.cpu, one.quantity), one)).collect()
}

/// What is said of a CPU in a test, all quantities together. What cannot be
/// resolved decides only where there is nothing else; what the machine's build
/// explains is no alarm.
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

/// The word of a CPU in a test; short, for tables.
pub(crate) fn verdict_words(found: (AuditVerdict, Option<Nature>)) -> &'static str {
    match found {
        (AuditVerdict::Unequal, Some(Nature::Contention)) => "contention",
        (AuditVerdict::Unequal, Some(Nature::Designed)) => "by design",
        (AuditVerdict::NotResolvable, _) => "no verdict",
        (other, _) => verdict(other),
    }
}

/// By quantity: differences above this would have been seen, on whichever CPU;
/// `None` where on one of them none would have been.
pub(crate) fn limits(test: &Test) -> Vec<(Quantity, Option<f64>)> {
    let verdicts = verdicts(test);
    let resolved = |cpu: u32, quantity: Quantity| {
        let one = verdicts.get(&(cpu, quantity));
        one.is_none_or(|one| one.verdict != AuditVerdict::NotResolvable)
    };
    let of = |quantity: Quantity| {
        let here = test
            .effects
            .iter()
            .filter(|effect| effect.quantity == quantity);
        let mut all = here.filter(|effect| resolved(effect.cpu, quantity));
        let first = all.next()?.detectable_pct;
        let worst = all.fold(first, |worst, effect| {
            Some(worst?.max(effect.detectable_pct?))
        });
        Some((quantity, worst))
    };
    quantities(test).into_iter().filter_map(of).collect()
}

/// What a test could see, and what not, in words.
pub(crate) fn detection_of(test: &Test) -> Vec<String> {
    let limits = limits(test);
    let seen = limits
        .iter()
        .filter_map(|(q, pct)| Some(format!("{} {} {}", quantity(*q), size((*pct)?), unit(*q))));
    let seen: Vec<String> = seen.collect();
    let open = limits.iter().filter(|(_, pct)| pct.is_none());
    let open: Vec<&str> = open.map(|(q, _)| quantity(*q)).collect();
    let mut all = Vec::new();
    if !seen.is_empty() {
        all.push(format!(
            "would have been seen: more than {}",
            seen.join(", ")
        ));
    }
    if !open.is_empty() {
        all.push(format!(
            "this run could not have detected a difference in {}",
            open.join(", ")
        ));
    }
    all
}

/// What an audit could see, in a sentence: by quantity, in whichever test it saw
/// worst.
pub(crate) fn detection(audit: &Audit) -> String {
    let mut worst: BTreeMap<Quantity, Option<f64>> = BTreeMap::new();
    let told = |q: &Quantity| !matches!(q, Quantity::User | Quantity::System);
    let all = audit.tests.iter().flat_map(limits);
    for (quantity, pct) in all.filter(|(q, _)| told(q)) {
        let known = worst.entry(quantity).or_insert(pct);
        *known = known.zip(pct).map(|(known, pct)| known.max(pct));
    }
    let seen: Vec<String> = worst
        .iter()
        .filter_map(|(q, pct)| Some(format!("{} {} ({})", size((*pct)?), unit(*q), quantity(*q))))
        .collect();
    let open = worst.iter().filter(|(_, pct)| pct.is_none());
    let open: Vec<&str> = open.map(|(q, _)| quantity(*q)).collect();
    let open = if open.is_empty() {
        String::new()
    } else {
        format!(
            "This run could not have detected a difference in {}: too few runs, or too noisy a \
         machine.",
            open.join(", ")
        )
    };
    match (seen.is_empty(), audit.cpus.len()) {
        (true, 1) => "One CPU: no difference could be seen.".to_owned(),
        (true, _) if open.is_empty() => {
            "Nothing was measured, so no difference could be seen.".to_owned()
        }
        (true, _) => open,
        (false, _) => format!(
            "Differences above {} would have been seen in every test, with 90 % probability.{}{open}",
            seen.join(", "),
            if open.is_empty() { "" } else { " " }
        ),
    }
}

/// From the least to the greatest of some differences.
pub(crate) fn span(values: impl Iterator<Item = f64>) -> String {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    format!("{}..{}", signed(low).trim(), signed(high).trim())
}

/// The most that a sentence names.
const MOST_NAMED: usize = 6;

/// When an audit began, to the second.
pub(crate) fn capitalize(text: &str) -> String {
    match text.split_once('.') {
        Some((second, rest)) if rest.ends_with('Z') => format!("{second}Z"),
        _ => text.to_owned(),
    }
}

/// The tests of which it cannot be said, with how many CPUs that are.
fn open(audit: &Audit) -> Vec<String> {
    let of = |test: &Test| {
        let all = cpus(test);
        let mut here = all
            .iter()
            .filter(|cpu| of_cpu(test, **cpu).0 == AuditVerdict::Undecided);
        let whom = match here.clone().count() {
            0 => return None,
            1 => format!("CPU {}", here.next()?),
            n if n == all.len() => format!("all {n} CPUs"),
            n => format!("{n} of {} CPUs", all.len()),
        };
        Some(format!("{} on {whom}", test.name))
    };
    audit.tests.iter().filter_map(of).collect()
}

fn undecided_text(audit: &Audit) -> String {
    let tests = open(audit);
    let missing = audit.left_out.iter();
    let missing: Vec<String> = missing
        .map(|out| format!("CPU {} ({})", out.cpu, out.why))
        .collect();
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

/// The CPUs that others disturb, where that is no alarm; in words.
fn disturbance_text(audit: &Audit) -> String {
    let contended = |one: &&CpuVerdict| one.nature == Some(Nature::Contention);
    let verdicts = audit.tests.iter().flat_map(|test| &test.verdicts);
    let mut all: Vec<u32> = verdicts.filter(contended).map(|one| one.cpu).collect();
    all.sort_unstable();
    all.dedup();
    let all: Vec<String> = all.iter().map(|cpu| format!("CPU {cpu}")).collect();
    all.join(", ")
}

/// An audit that found all equal; but for what the machine's build explains, and
/// what the kernel cannot tell.
fn equal(audit: &Audit, count: &str, sure: &str) -> String {
    let verdicts = || audit.tests.iter().flat_map(|test| &test.verdicts);
    let measured = if verdicts().any(|one| one.verdict == AuditVerdict::NotResolvable) {
        "in all that this kernel tells"
    } else {
        "in all that was measured"
    };
    let designed = verdicts().filter(|one| one.nature == Some(Nature::Designed));
    let mut slower: Vec<u32> = designed.map(|one| one.cpu).collect();
    slower.sort_unstable();
    slower.dedup();
    let tolerance = audit.design.tolerance_pct;
    if !disturbance_text(audit).is_empty() {
        return format!(
            "no CPU charges more than the others, {measured}, with {sure} confidence; but others \
             disturb {}",
            disturbance_text(audit)
        );
    }
    match slower.as_slice() {
        [] => format!(
            "{count} are within {tolerance} % of each other {measured}, with {sure} confidence"
        ),
        _ => format!(
            "{count} are within {tolerance} % of those that are built as they are, {measured}, \
             with {sure} confidence; {} of them are slower by design",
            slower.len()
        ),
    }
}

/// An audit's verdict, in a sentence without the verdict itself.
pub(crate) fn summary(audit: &Audit) -> String {
    let wanted = audit.verdict;
    if wanted == AuditVerdict::Undecided {
        return undecided_text(audit);
    }
    let mut named: Vec<String> = Vec::new();
    for test in &audit.tests {
        for cpu in cpus(test) {
            let here = test.verdicts.iter().filter(|one| one.cpu == cpu);
            let fails = audit.design.contention_fails;
            let alarm = |one: &&CpuVerdict| alarms(one.verdict, one.nature, fails);
            let here = here.filter(|one| one.verdict == wanted && alarm(one));
            let figures: Vec<String> = here
                .map(|one| {
                    let effect = test
                        .effects
                        .iter()
                        .find(|effect| effect.cpu == cpu && effect.quantity == one.quantity);
                    let word = quantity(one.quantity);
                    effect.map_or_else(
                        || word.to_owned(),
                        |effect| {
                            format!(
                                "{word} {} {}",
                                signed(effect.pct).trim(),
                                unit(one.quantity)
                            )
                        },
                    )
                })
                .collect();
            if !figures.is_empty() {
                named.push(format!(
                    "CPU {cpu} in {} ({})",
                    test.name,
                    figures.join(", ")
                ));
            }
        }
    }
    let rest = named.len().saturating_sub(MOST_NAMED);
    named.truncate(MOST_NAMED);
    if rest > 0 {
        named.push(format!("and {rest} more"));
    }
    let count = match audit.cpus.len() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    };
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

/// The worst of a CPU's changes in a test.
pub(crate) fn change_of_cpu(test: &TestChange, cpu: u32) -> AuditVerdict {
    let here = test.changes.iter().filter(|change| change.cpu == cpu);
    let decided = here.map(|change| change.verdict);
    let decided = decided.filter(|verdict| *verdict != AuditVerdict::NotResolvable);
    decided.max().unwrap_or(AuditVerdict::NotResolvable)
}

/// The CPUs of a comparison's test.
pub(crate) fn change_cpus(test: &TestChange) -> Vec<u32> {
    let mut all: Vec<u32> = test.changes.iter().map(|change| change.cpu).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The quantities of a comparison's test.
pub(crate) fn change_quantities(test: &TestChange) -> Vec<Quantity> {
    let mut all: Vec<Quantity> = test.changes.iter().map(|change| change.quantity).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A comparison's verdict, in a sentence without the verdict itself.
pub(crate) fn comparison(found: &Comparison) -> String {
    let mut tests: Vec<String> = Vec::new();
    for test in &found.tests {
        let here = test
            .changes
            .iter()
            .filter(|change| change.verdict == found.verdict);
        let mut cpus: Vec<u32> = here.clone().map(|change| change.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let all = change_cpus(test).len();
        let whom = match cpus.as_slice() {
            [] => continue,
            [cpu] => format!("CPU {cpu}"),
            cpus if cpus.len() == all => format!("all {all} CPUs"),
            cpus => format!("{} of {all} CPUs", cpus.len()),
        };
        // What is open has no size.
        let here = here.filter(|change| change.verdict == AuditVerdict::Unequal);
        let worst = here.max_by(|a, b| a.pct.abs().total_cmp(&b.pct.abs()));
        let most = worst.map(|change| {
            let word = quantity(change.quantity);
            let up_to = if cpus.len() > 1 { "up to " } else { "" };
            let size = signed(change.pct);
            format!(" ({word} {up_to}{} {})", size.trim(), unit(change.quantity))
        });
        tests.push(format!(
            "in {} on {whom}{}",
            test.name,
            most.unwrap_or_default()
        ));
    }
    let sure = confidence(found.confidence);
    match found.verdict {
        AuditVerdict::Equal => format!(
            "no figure by more than {} %, with {sure} confidence for all {} comparisons",
            found.tolerance_pct, found.comparisons
        ),
        AuditVerdict::NotResolvable => "no figure can be compared".to_owned(),
        AuditVerdict::Undecided => format!("{}; more rounds would tell", tests.join("; ")),
        AuditVerdict::Unequal => format!("{}; with {sure} confidence", tests.join("; ")),
    }
}

/// Of values the middle one.
pub(crate) fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    crate::effects::median(values)
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
    fn where_nothing_could_be_detected_there_is_no_figure() {
        let mut audit = eight();
        for effect in audit.tests.iter_mut().flat_map(|test| &mut test.effects) {
            effect.detectable_pct = None;
        }
        let nothing = "his run could not have detected a difference in ";
        let said = detection(&audit);
        assert!(said.contains(nothing) && !said.contains("seen"), "{said}");
        let of_test = detection_of(&audit.tests[0]);
        assert!(of_test.len() == 1 && of_test[0].contains(nothing));
        // What an earlier sandbag wrote in place of the figure.
        let text = crate::report::file::write(&audit);
        let before = text.replace("\"detectable_pct\":null", "\"detectable_pct\":899.93");
        let read = crate::report::file::read(before.as_bytes()).unwrap();
        let audits = [audit, read];
        let shown = audits.each_ref().map(|audit| {
            let page = crate::report::page::audit(audit);
            assert!(page.contains(nothing));
            [
                page,
                crate::report::csv::csv(audit),
                crate::report::junit::junit(audit),
            ]
            .join("\n")
        });
        assert_eq!(shown[0], shown[1]);
        assert!(!shown[0].contains("900 %"));
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
    fn sentences_say_who_and_how_much() {
        let text = summary(&eight());
        assert!(text.contains("CPU 0 in syscall (elapsed +2."), "{text}");
        assert!(text.contains("points") && text.contains("99 %"), "{text}");
        assert!(summary(&Maker::eight().odd(None).make()).starts_with("8 CPUs are within 0.5 %"));
        let wide = Maker::eight().odd(None).scatter(0.05).make();
        assert!(summary(&wide).contains("8 CPUs") && summary(&wide).contains("--rounds"));
        let seen = detection(&eight());
        assert!(
            seen.starts_with("Differences above 0.") && seen.contains("points (noise)"),
            "{seen}"
        );
    }
}
