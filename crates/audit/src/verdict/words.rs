// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences about an effect, with its figures.

use super::{Rule, in_time, is_beyond_chance, of_all_pct, resolvable};
use crate::model::{Effect, Nature, Quantity, Test};

/// `from -0.10 to +0.20 %`.
fn interval(effect: &Effect) -> String {
    let (low, high) = effect.together_pct;
    let (of, unit) = (effect.quantity, effect.quantity.unit());
    match (of.is_open(low), of.is_open(high)) {
        (false, false) => format!("from {low:+.2} to {high:+.2} {unit}"),
        (false, true) => format!("from {low:+.2} {unit} to an unknown bound"),
        (true, false) => format!("from an unknown bound to {high:+.2} {unit}"),
        // The search went as far as that, so it is no less, or no more.
        (true, true) if low > 0.0 => format!("above {low:+.2} {unit}"),
        (true, true) if high < 0.0 => format!("below {high:+.2} {unit}"),
        (true, true) => "from an unknown bound to an unknown bound".to_owned(),
    }
}

pub(super) fn within_words(effect: &Effect, rule: &Rule<'_>) -> String {
    format!(
        "the difference is surely {}, within the tolerance of {} {}",
        interval(effect),
        rule.tolerance_pct,
        effect.quantity.unit()
    )
}

pub(super) fn not_slower(effect: &Effect) -> String {
    format!("not slower: the difference is surely {}", interval(effect))
}

pub(super) fn little(effect: &Effect, test: &Test) -> String {
    format!(
        "it differs by {}, but that is {:.3} % of the CPU's time only",
        match effect.pct {
            pct if effect.quantity.is_end_of_search(pct) => format!("more than {pct:+.0} %"),
            pct => format!("{pct:+.1} %"),
        },
        of_all_pct(effect, effect.pct, test).abs()
    )
}

/// Of one that is slower.
pub(super) fn beyond_words(effect: &Effect) -> String {
    if effect.quantity.is_end_of_search(effect.pct) {
        return format!(
            "slower by more than {:.0} {}: hardly any of this time was counted on the others (p = {:.1e} \
             after correction)",
            effect.pct,
            effect.quantity.unit(),
            effect.p_together
        );
    }
    format!(
        "slower by {:.2} {} ({}; p = {:.1e} after correction)",
        effect.pct.abs(),
        effect.quantity.unit(),
        interval(effect),
        effect.p_together
    )
}

pub(super) fn by_design(effect: &Effect, why: &str) -> String {
    format!("{}; by design: {why}", beyond_words(effect))
}

/// Of one whose build explains up to `excused_pct` only, as the rest of a sentence.
pub(super) fn beyond_design(excused_pct: f64, why: &str) -> String {
    match excused_pct {
        pct if pct > 0.0 => format!("; {why}, which explains up to {pct:.1} %"),
        _ => format!("; {why}, but none of them is faster by design"),
    }
}

pub(super) fn passing(effect: &Effect, test: &Test) -> String {
    let parts = in_time(effect, test);
    let parts = parts.into_iter().map(|part| match effect.quantity {
        of if of.is_end_of_search(part) && part > 0.0 => format!("> {part:+.0}"),
        of if of.is_end_of_search(part) => format!("< {part:+.0}"),
        _ => format!("{part:+.2}"),
    });
    let parts: Vec<String> = parts.collect();
    format!(
        "{}, but not all the time: {} {} in the parts of the test, one after the other; something \
         passed by",
        beyond_words(effect),
        parts.join(", "),
        effect.quantity.unit()
    )
}

pub(super) fn blind(effect: &Effect, test: &Test, rule: &Rule<'_>) -> String {
    let pct = resolvable(effect, test, rule);
    let words = &rule.accounting.words;
    if pct >= 1e5 {
        format!("no tick fell into it ({words}): nothing can be said of it")
    } else {
        format!("{words}: so many runs tell differences above {pct:.1} % only")
    }
}

pub(super) fn open(effect: &Effect, rule: &Rule<'_>) -> String {
    let unit = effect.quantity.unit();
    if is_beyond_chance(effect, rule) {
        // What was found need not be said to be detectable.
        return format!(
            "the difference is {}: beyond chance, but neither surely within the tolerance of {} \
             {unit} nor above it (the estimate is {:+.2} {unit}; p = {:.1e} after correction)",
            interval(effect),
            rule.tolerance_pct,
            effect.pct,
            effect.p_together
        );
    }
    let detection = match effect.detectable_pct {
        Some(pct) => format!("differences above {pct:.2} {unit} would have been seen"),
        None => "this run could not have detected a difference".to_owned(),
    };
    format!(
        "the difference is {}: neither within the tolerance of {} {unit} nor beyond chance \
         ({detection})",
        interval(effect),
        rule.tolerance_pct,
    )
}

/// What [`super::is_stolen`] means, as the rest of a sentence.
pub(super) const STOLEN: &str =
    "; the hypervisor took as much more of its time, which this kernel counts as CPU time";

/// What [`super::is_interrupted`] means, as the rest of a sentence.
pub(super) const INTERRUPTED: &str =
    "; interrupts took at least half of that, which this kernel counts in no task's CPU time";

/// What the nature of a difference means, as the rest of a sentence.
pub(super) fn of_nature(effect: &Effect, nature: Nature) -> &'static str {
    match (nature, effect.quantity) {
        (Nature::Contention, Quantity::Waiting) => "; so much of its time it did not have the CPU",
        (Nature::Contention, Quantity::Elapsed) => {
            "; its CPU time is not longer by as much: something else ran there"
        }
        (Nature::Contention, Quantity::Cpu | Quantity::User | Quantity::System) => {
            "; the other thread of its core was busy meanwhile"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::judge;
    use super::*;
    use crate::accounting::Accounting;
    use crate::effects::{self, TestLevel};
    use crate::model::{AuditSample, AuditVerdict};
    use crate::report::words::{detection_of, figure_words};

    const LEVEL: TestLevel = TestLevel {
        confidence: 0.99,
        comparisons: 20,
    };

    fn judged(test: &mut Test, tolerance_pct: f64) {
        let accounting = Accounting::find("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y", false, None);
        let rule = Rule {
            level: LEVEL,
            tolerance_pct,
            accounting: &accounting,
            contention_fails: true,
            beside_pct: &BTreeMap::new(),
        };
        judge(test, &[], &rule);
    }

    #[test]
    fn what_is_beyond_chance_is_called_so() {
        let said = |together_pct: (f64, f64), p_together: f64| {
            let effect = Effect {
                quantity: Quantity::Cpu,
                cpu: 1,
                pct: 4.85,
                together_pct,
                p_together,
                detectable_pct: Some(1.26),
                ..Effect::default()
            };
            let mut test = Test {
                effects: vec![effect],
                ..Test::empty("memory")
            };
            judged(&mut test, 5.0);
            let found = &test.verdicts[0];
            assert_eq!(found.verdict, AuditVerdict::Undecided);
            found.because.clone()
        };
        assert_eq!(
            said((4.0, 5.86), 1e-5),
            "the difference is from +4.00 to +5.86 %: beyond chance, but neither surely within \
             the tolerance of 5 % nor above it (the estimate is +4.85 %; p = 1.0e-5 after \
             correction)"
        );
        assert_eq!(
            said((-0.5, 5.86), 0.02),
            "the difference is from -0.50 to +5.86 %: neither within the tolerance of 5 % nor \
             beyond chance (differences above 1.26 % would have been seen)"
        );
    }

    /// CPU 0 never has system time, CPU 1 some of each run's.
    #[test]
    fn a_time_that_one_cpu_has_none_of_has_a_bound_and_no_ratio() {
        let sample = |round: u32, cpu: u32| {
            let system_ns = u64::from(cpu) * (3_420_000 + 1000 * u64::from(round));
            AuditSample {
                cpu,
                round,
                elapsed_ns: 85_000_000,
                user_ns: 85_000_000 - system_ns,
                system_ns,
                ..AuditSample::default()
            }
        };
        let samples = (0..36).flat_map(|round| [0, 1].map(|cpu| sample(round, cpu)));
        let mut test = Test {
            lengths: vec![1],
            samples: samples.collect(),
            ..Test::empty("mine")
        };
        test.effects = effects::of_test(&test.samples, &[0, 1], 1, false, LEVEL);
        effects::correct(std::slice::from_mut(&mut test), LEVEL.comparisons);
        judged(&mut test, 0.5);
        let because = |cpu: u32| {
            let mut all = test.verdicts.iter();
            let of = |one: &&crate::model::CpuVerdict| {
                (one.cpu, one.quantity) == (cpu, Quantity::System)
            };
            let found = all.find(of).unwrap();
            (found.verdict, found.because.as_str())
        };
        let (verdict, said) = because(1);
        assert_eq!(verdict, AuditVerdict::Unequal);
        assert!(
            said.starts_with(
                "slower by more than 900 %: hardly any of this time was counted on the others (p = "
            ),
            "{said}"
        );
        let expected = "not slower: the difference is surely below -90.00 %";
        assert_eq!(because(0), (AuditVerdict::Equal, expected));
        let of = |cpu| test.effect(cpu, Quantity::System).unwrap().pct;
        let headline = [0, 1].map(|cpu| figure_words(Quantity::System, of(cpu)));
        assert_eq!(headline, ["system < -90.0 %", "system > +900 %"]);
        let seen = detection_of(&test).join("\n");
        assert!(!seen.contains("difference in system"), "{seen}");
        // What is as many times slower for sure is an estimate.
        for pct in [899.99, 900.01, 1100.0] {
            assert!(!Quantity::System.is_end_of_search(pct));
        }
    }
}
