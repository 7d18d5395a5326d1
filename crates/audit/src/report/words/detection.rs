// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an audit would have seen.

use std::collections::BTreeMap;

use super::{quantities, size, verdicts};
use crate::model::{Audit, AuditVerdict, Quantity, Test};

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

/// [`limits`] without those that a difference was found in and that have no figure: what was
/// found could be detected, by however much more it may be.
fn limits_to_tell(test: &Test) -> Vec<(Quantity, Option<f64>)> {
    let is_found = |quantity: Quantity| {
        let mut effects = test.effects.iter().filter(|one| one.quantity == quantity);
        let mut verdicts = test.verdicts.iter().filter(|one| one.quantity == quantity);
        let excludes_nothing = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
        effects.any(|one| excludes_nothing(one.together_pct))
            || verdicts.any(|one| one.verdict == AuditVerdict::Unequal)
    };
    let mut all = limits(test);
    all.retain(|(quantity, pct)| pct.is_some() || !is_found(*quantity));
    all
}

/// The quantities in which no difference could have been detected.
fn undetected<'a>(limits: impl IntoIterator<Item = (&'a Quantity, &'a Option<f64>)>) -> String {
    let open = limits.into_iter().filter(|(_, pct)| pct.is_none());
    let open: Vec<&str> = open.map(|(q, _)| q.word()).collect();
    open.join(", ")
}

/// The detection limits of a test in words.
pub(crate) fn detection_of(test: &Test) -> Vec<String> {
    let limits = limits_to_tell(test);
    let seen = limits.iter().filter_map(|(q, pct)| {
        let pct = (*pct)?;
        Some(format!("{} {} {}", q.word(), size(pct), q.unit()))
    });
    let seen: Vec<String> = seen.collect();
    let open = undetected(limits.iter().map(|(q, pct)| (q, pct)));
    let mut all = Vec::new();
    if !seen.is_empty() {
        let seen = seen.join(", ");
        all.push(format!("would have been seen: more than {seen}"));
    }
    if !open.is_empty() {
        all.push(format!(
            "this run could not have detected a difference in {open}"
        ));
    }
    all
}

/// The detection limits of an audit in a sentence: for each quantity that of the test
/// with the highest.
pub(crate) fn detection(audit: &Audit) -> String {
    let mut worst: BTreeMap<Quantity, Option<f64>> = BTreeMap::new();
    let all = audit.tests.iter().flat_map(limits);
    for (quantity, pct) in all.filter(|(q, _)| !matches!(q, Quantity::User | Quantity::System)) {
        let known = worst.entry(quantity).or_insert(pct);
        *known = known.zip(pct).map(|(known, pct)| known.max(pct));
    }
    let seen = worst.iter().filter_map(|(q, pct)| {
        let pct = (*pct)?;
        Some(format!("{} {} ({})", size(pct), q.unit(), q.word()))
    });
    let seen = seen.collect::<Vec<String>>().join(", ");
    let open = match undetected(&worst) {
        open if open.is_empty() => open,
        open => format!(
            "This run could not have detected a difference in {open}: too few runs, or too noisy \
             a machine."
        ),
    };
    match (seen.is_empty(), audit.cpus.len()) {
        (true, 1) => "One CPU: no difference could be seen.".to_owned(),
        (true, _) if open.is_empty() => {
            "Nothing was measured, so no difference could be seen.".to_owned()
        }
        (true, _) => open,
        (false, _) => {
            let sentence = format!(
                "Differences above {seen} would have been seen in every test, with 90 % \
                 probability. {open}"
            );
            sentence.trim_end().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::eight;

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
    fn what_was_found_could_be_detected() {
        let mut audit = eight();
        let test = &mut audit.tests[1];
        let system = |one: &&mut crate::model::Effect| one.quantity == Quantity::System;
        for effect in test.effects.iter_mut().filter(system) {
            effect.detectable_pct = None;
        }
        let says = |test: &Test| {
            let said = detection_of(test);
            said.iter()
                .any(|one| one.contains("could not have detected"))
        };
        // CPU 0 is slower there.
        assert!(!says(test));
        test.verdicts.clear();
        for effect in test.effects.iter_mut().filter(system) {
            effect.together_pct = (-1.0, 1.0);
        }
        assert!(says(test));
    }
}
