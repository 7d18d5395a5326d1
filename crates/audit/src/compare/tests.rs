// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::fixture::{Maker, alone, eight};
use crate::model::LeftOut;
use proptest::prelude::*;
use sandbag_linux::Root;
use sandbag_linux::process::Process;

const USUAL: CompareOptions = CompareOptions {
    confidence: 0.99,
    tolerance_pct: 0.5,
    anyway: false,
};

fn of_test<'a>(found: &'a Comparison, name: &str) -> &'a TestChange {
    found.tests.iter().find(|one| one.name == name).unwrap()
}

fn verdicts(found: &Comparison, test: &str, quantity: Quantity) -> Vec<AuditVerdict> {
    let here = of_test(found, test)
        .changes
        .iter()
        .filter(|one| one.quantity == quantity);
    here.map(|one| one.verdict).collect()
}

#[test]
fn an_audit_is_equal_to_another_of_the_same_state() {
    let found = compare(&eight(), &Maker::eight().seed(2).make(), &USUAL).unwrap();
    assert_eq!(found.differences, Vec::<String>::new());
    assert_ne!(found.verdict, AuditVerdict::Unequal);
    assert_eq!(
        verdicts(&found, "syscall", Quantity::Elapsed),
        [AuditVerdict::Equal; 8]
    );
}

#[test]
fn of_a_cpu_that_was_lost_nothing_is_known() {
    let quiet = Maker::eight().odd(None).make();
    let mut loaded = Maker::eight().odd(None).seed(2).make();
    for test in &mut loaded.tests {
        test.samples.retain(|sample| sample.cpu != 3);
    }
    loaded.left_out.push(LeftOut {
        cpu: 3,
        why: "lost on the way".to_owned(),
    });
    let found = compare(&quiet, &loaded, &USUAL).unwrap();
    assert_eq!(found.lost, ["CPU 3 in the second: lost on the way"]);
    assert!(found.verdict >= AuditVerdict::Undecided);
    // One that was offline from the beginning is another machine.
    loaded.cpus.retain(|cpu| cpu.cpu != 3);
    let refused = compare(&quiet, &loaded, &USUAL);
    assert!(matches!(refused, Err(CompareError::NotAlike(_))));
}

#[test]
fn of_a_test_that_failed_nothing_is_known() {
    let quiet = Maker::eight().odd(None).make();
    let mut loaded = Maker::eight().odd(None).seed(2).make();
    let test = loaded.tests.last_mut().unwrap();
    test.samples.clear();
    test.failure = Some("./bench: no such file".to_owned());
    let expected = format!("test {} in the second: ./bench: no such file", test.name);
    let found = compare(&quiet, &loaded, &USUAL).unwrap();
    assert_eq!(found.lost, [expected]);
    assert!(found.verdict >= AuditVerdict::Undecided);
}

#[test]
fn what_one_cpu_does_more_is_found_there() {
    let quiet = Maker::eight().odd(None).make();
    let found = compare(&quiet, &Maker::eight().seed(3).make(), &USUAL).unwrap();
    assert_eq!(found.verdict, AuditVerdict::Unequal);
    let system = verdicts(&found, "syscall", Quantity::System);
    assert_eq!(system[0], AuditVerdict::Unequal, "{system:?}");
    assert!(!system[1..].contains(&AuditVerdict::Unequal), "{system:?}");
    let test = of_test(&found, "syscall");
    let mut changes = test.changes.iter();
    let change = changes.find(|one| (one.cpu, one.quantity) == (0, Quantity::System));
    let change = change.unwrap();
    assert!((change.pct - 3.0).abs() < 0.3, "{change:?}");
    let (low, high) = change.together_pct.unwrap();
    let alone = change.interval_pct.unwrap();
    assert!(low <= alone.0 && alone.1 <= high && low < 3.0 && high > 3.0);
    assert!(test.common.iter().all(|(_, pct)| pct.abs() < 0.2));
}

#[test]
fn a_time_of_which_there_is_little_has_not_changed() {
    let found = compare(&eight(), &Maker::eight().seed(3).make(), &USUAL).unwrap();
    let changes = &of_test(&found, "syscall").changes;
    let of = |quantity| Change {
        pct: 80.0,
        together_pct: Some((60.0, 100.0)),
        p_together: 0.0,
        ..changes
            .iter()
            .find(|one| one.quantity == quantity)
            .unwrap()
            .clone()
    };
    let verdict = |quantity, share| judge(&of(quantity), share, &USUAL);
    assert_eq!(verdict(Quantity::System, 0.0005), AuditVerdict::Equal);
    assert_eq!(verdict(Quantity::System, 0.1), AuditVerdict::Unequal);
    assert_eq!(verdict(Quantity::Elapsed, 0.0005), AuditVerdict::Unequal);
    let unsure = Change {
        p_together: 0.5,
        ..of(Quantity::User)
    };
    assert_eq!(judge(&unsure, 0.0004, &USUAL), AuditVerdict::Equal);
    assert_eq!(judge(&unsure, 0.1, &USUAL), AuditVerdict::Undecided);
}

#[test]
fn a_loaded_machine_takes_longer_everywhere() {
    let found = compare(&eight(), &Maker::eight().slower(1.08).make(), &USUAL).unwrap();
    assert_eq!(
        verdicts(&found, "syscall", Quantity::Elapsed),
        [AuditVerdict::Unequal; 8]
    );
    let test = of_test(&found, "syscall");
    let (_, pct) = test
        .common
        .iter()
        .find(|(q, _)| *q == Quantity::Elapsed)
        .unwrap();
    assert!((pct - 8.0).abs() < 0.3, "{pct}");
}

#[test]
fn what_is_not_alike_is_refused_and_named() {
    let (a, mut b) = (eight(), Maker::eight().make());
    b.machine[0].1 = "Other CPU".to_owned();
    b.tests[1].lengths[2] *= 4;
    b.tests.pop();
    b.cpus[3].settings = vec!["isolcpus".to_owned()];
    b.design.rounds.0 += 1;
    let error = compare(&a, &b, &USUAL).unwrap_err().to_string();
    for part in [
        "Other CPU",
        "asked for with other options",
        "lengths of test",
        "only in the first",
        "settings of CPU 3",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(error.contains("--anyway"));
    let anyway = CompareOptions {
        anyway: true,
        ..USUAL
    };
    let found = compare(&a, &b, &anyway).unwrap();
    assert_eq!(found.differences.len(), 5);
    b.tests.clear();
    assert_eq!(compare(&a, &b, &anyway), Err(CompareError::NothingInCommon));
}

#[test]
fn memory_that_the_kernel_keeps_for_itself_makes_no_other_machine() {
    let (a, mut b) = (Maker::eight().make(), Maker::eight().make());
    b.machine[2].1 = "16383992 kB".to_owned();
    assert!(differences(&a, &b).is_empty());
    b.machine[2].1 = "12288000 kB".to_owned();
    assert_eq!(differences(&a, &b), ["memory: 16384000 kB and 12288000 kB"]);
}

#[test]
fn lengths_that_were_found_anew_are_the_same() {
    let (a, mut b) = (eight(), Maker::eight().seed(2).make());
    // A tenth longer, and what was run took as much longer.
    let test = &mut b.tests[1];
    test.lengths
        .iter_mut()
        .for_each(|length| *length += *length / 10);
    for sample in &mut test.samples {
        sample.elapsed_ns += sample.elapsed_ns / 10;
    }
    let found = compare(&a, &b, &USUAL).unwrap();
    assert_eq!(
        verdicts(&found, "syscall", Quantity::Elapsed),
        [AuditVerdict::Equal; 8]
    );
}

#[test]
fn too_few_runs_decide_nothing() {
    let few = |seed| Maker::eight().rounds(2).seed(seed).make();
    let found = compare(&few(1), &few(2), &USUAL).unwrap();
    assert_eq!(found.verdict, AuditVerdict::Undecided);
    let all = || found.tests.iter().flat_map(|test| &test.changes);
    assert!(all().all(|change| change.together_pct.is_none()));
}

#[test]
fn what_is_not_there_cannot_be_resolved() {
    let mut a = eight();
    for sample in &mut a.tests[0].samples {
        sample.system_ns = 0;
    }
    let found = compare(&a, &a.clone(), &USUAL).unwrap();
    assert_eq!(
        verdicts(&found, &a.tests[0].name, Quantity::System),
        [AuditVerdict::NotResolvable; 8]
    );
}

#[test]
fn long_audits_are_compared_in_little_memory() {
    let name = "compare::tests::long_audits_are_compared_in_little_memory";
    if let Some(mut alone) = alone(name) {
        let out = alone.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        // A name that no test has is a success as well.
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let make = |seed| Maker::eight().cpus(4).rounds(200).seed(seed).make();
    let (a, b) = (make(1), make(2));
    let peak_kib = || {
        Process::current(&Root::default())
            .memory()
            .unwrap()
            .peak_kib
    };
    let before = peak_kib();
    let found = compare(&a, &b, &USUAL).unwrap();
    // All differences of a figure are 1 MB.
    assert!(found.comparisons > 40, "{}", found.comparisons);
    let more = peak_kib() - before;
    assert!(more < 24 << 10, "{more} KiB");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn whatever_the_figures_are_there_is_no_panic(
        values in prop::collection::vec(any::<u64>(), 1..200),
        length in any::<usize>(),
    ) {
        let mut a = eight();
        let b = a.clone();
        for (sample, value) in a.tests[0].samples.iter_mut().zip(&values) {
            sample.elapsed_ns = *value;
            sample.user_ns = value.rotate_left(7);
            sample.length = length;
        }
        a.tests[0].lengths = vec![u64::MAX, 0];
        let options = CompareOptions { anyway: true, ..USUAL };
        prop_assert!(compare(&a, &b, &options).is_ok());
    }
}
