// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences about an effect, with its figures.

use super::{Rule, in_time, of_all_pct, resolvable};
use crate::model::{Effect, Nature, Quantity, Test};

fn interval(effect: &Effect) -> String {
    let (low, high) = effect.together_pct;
    let (of, unit) = (effect.quantity, effect.quantity.unit());
    match (of.is_open(low), of.is_open(high)) {
        (false, false) => format!("{low:+.2} to {high:+.2} {unit}"),
        (false, true) => format!("{low:+.2} {unit} to an unknown bound"),
        (true, false) => format!("an unknown bound to {high:+.2} {unit}"),
        (true, true) => "an unknown bound to an unknown bound".to_owned(),
    }
}

pub(super) fn within_words(effect: &Effect, rule: &Rule<'_>) -> String {
    format!(
        "the difference is surely from {}, within the tolerance of {} {}",
        interval(effect),
        rule.tolerance_pct,
        effect.quantity.unit()
    )
}

pub(super) fn not_slower(effect: &Effect) -> String {
    format!(
        "not slower: the difference is surely from {}",
        interval(effect)
    )
}

pub(super) fn little(effect: &Effect, test: &Test) -> String {
    format!(
        "it differs by {:+.1} %, but that is {:.3} % of the CPU's time only",
        effect.pct,
        of_all_pct(effect, effect.pct, test).abs()
    )
}

/// Of one that is slower.
pub(super) fn beyond_words(effect: &Effect) -> String {
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
    let parts: Vec<String> = parts.iter().map(|part| format!("{part:+.2}")).collect();
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
    let detection = match effect.detectable_pct {
        Some(pct) => format!("differences above {pct:.2} {unit} would have been seen"),
        None => "this run could not have detected a difference".to_owned(),
    };
    format!(
        "the difference is from {}: neither within the tolerance of {} {unit} nor beyond chance \
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
