// SPDX-License-Identifier: Apache-2.0 OR MIT

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
fn a_sign_behind_a_number_is_an_operation() {
    let sweep = fixture::sweep(&[[&[10.0, 11.0, 10.5, 12.0], &[20.0, 22.5, 21.0, 24.0]]]);
    let read = |text: &str| {
        let mut threshold = Threshold::parse(text, &sweep)?;
        threshold.text.clear();
        Ok::<_, String>(threshold)
    };
    for (text, spaced) in [
        ("p99@30>4-1", "p99@30 > 4 - 1"),
        ("p99@30>4-1+2*3-p99@0", "p99@30 > 4 - 1 + 2 * 3 - p99@0"),
        ("p99@30>1e-3-2e+3", "p99@30 > 0.001 - 2000"),
        ("p99@30>4--1", "p99@30 > 4 - -1"),
    ] {
        assert_eq!(read(text).unwrap(), read(spaced).unwrap(), "{text}");
    }
    assert!(
        read("p99@30 > 4-1x")
            .unwrap_err()
            .contains("`1x` is neither")
    );
}

#[test]
fn equal_sides_in_all_blocks_decide() {
    let sweep = fixture::sweep(&[[&[2.0; 3], &[2.0; 3]]]);
    for (sign, outcome) in [
        (">=", Outcome::Failed),
        ("<=", Outcome::Failed),
        (">", Outcome::Passed),
        ("<", Outcome::Passed),
    ] {
        let (found, reason) = judge(&format!("p99@30 {sign} p99@0"), &sweep);
        assert_eq!(found, outcome, "{sign}: {reason}");
    }
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
fn a_share_of_failures_is_that_of_all_blocks_as_well() {
    let mut sweep = fixture::sweep(&[[&[10.0; 5], &[20.0; 5]]]);
    let at_30 = sweep.runs.iter_mut().filter(|run| run.condition == 1);
    for (n, run) in at_30.enumerate() {
        if n == 0 {
            run.exit_code = Some(1);
            run.values = [(FAILED.to_owned(), 1.0)].into();
        } else {
            run.verdict = Verdict::Undecided;
        }
    }
    for (text, outcome) in [
        ("failed@30 > 0.5", Outcome::Unsure),
        ("failed@30 < 0.5", Outcome::Unsure),
        ("failed@30 > 0", Outcome::Failed),
        ("failed@30 < 0.1", Outcome::Passed),
    ] {
        let (found, reason) = judge(text, &sweep);
        assert_eq!(found, outcome, "{text}: {reason}");
        let said = "counted in 1 block; 4 blocks whose condition was not kept did not fail";
        assert!(reason.ends_with(said), "{reason}");
    }
    assert_eq!(judge("failed@0 > 0.5", &sweep).0, Outcome::Passed);
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
