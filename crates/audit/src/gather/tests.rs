// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::accounting::Accounting;
use crate::fixture::Maker;
use crate::model::Nature;
use crate::verdict::Rule;

fn gather(of: impl Fn(u32) -> Maker, hosts: u32) -> Cluster {
    gather_audits((0..hosts).map(|host| of(host).cpus(4).make()))
}

fn gather_audits(audits: impl Iterator<Item = Audit>) -> Cluster {
    let mut gatherer = Gatherer::default();
    for (host, audit) in audits.enumerate() {
        gatherer.add(&format!("n{host}"), &audit).unwrap();
    }
    gatherer.finish(Vec::new())
}

/// Two nodes of four CPUs. In the test of memory those of the second take 20 % more, and
/// CPU 1 `more` times what the others of the first take.
fn two_nodes(seed: u32, more: f64) -> Audit {
    let maker = Maker::eight().odd(None).seed(u64::from(seed));
    let mut audit = maker.make();
    for cpu in &mut audit.cpus {
        cpu.node = Some(cpu.cpu / 4);
    }
    let test = &mut audit.tests[0];
    test.name = "memory".to_owned();
    for sample in &mut test.samples {
        let factor = match sample.cpu {
            1 => more,
            4.. => 1.2,
            _ => 1.0,
        };
        for ns in [
            &mut sample.elapsed_ns,
            &mut sample.user_ns,
            &mut sample.system_ns,
        ] {
            *ns = (*ns as f64 * factor) as u64;
        }
    }
    let cpus: Vec<u32> = (0..8).collect();
    let level = TestLevel {
        confidence: 0.99,
        comparisons: effects::comparisons(&[false], cpus.len()),
    };
    test.effects = effects::of_test(&test.samples, &cpus, test.lengths.len(), false, level);
    effects::correct(std::slice::from_mut(test), level.comparisons);
    let rule = Rule {
        level,
        tolerance_pct: 0.5,
        accounting: &Accounting::find("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y", false, None),
        contention_fails: true,
        beside_pct: &BTreeMap::new(),
    };
    verdict::judge(test, &audit.cpus, &rule);
    audit
}

#[test]
fn a_slower_host_and_a_slower_cpu_are_named() {
    // n2 takes 5 % more everywhere, CPU 0 of n4 has an odd CPU.
    let found = gather(
        |host| {
            let maker = Maker::eight()
                .seed(u64::from(host))
                .odd((host == 4).then_some(0));
            maker.slower(if host == 2 { 1.05 } else { 1.0 })
        },
        6,
    );
    assert_eq!(found.verdict, AuditVerdict::Unequal);
    let unequal = found
        .differences
        .iter()
        .filter(|one| one.verdict == AuditVerdict::Unequal);
    let of_n2 = unequal.clone().filter(|one| one.host == "n2");
    assert!(
        of_n2
            .clone()
            .any(|one| one.quantity == Quantity::Elapsed && (one.pct - 5.0).abs() < 0.5)
    );
    let cpus: Vec<(&str, u32)> = found
        .cpus
        .iter()
        .map(|one| (one.host.as_str(), one.cpu))
        .collect();
    assert!(
        !cpus.is_empty() && cpus.iter().all(|one| *one == ("n4", 0)),
        "{cpus:?}"
    );
    insta::assert_snapshot!(report::terminal(&found));
    assert!(report::page(&found).contains("n2"));
    assert_eq!(
        report::csv(&found).unwrap().lines().count(),
        1 + found.differences.len()
    );
}

#[test]
fn a_host_whose_audit_is_not_complete_is_not_known_to_be_equal() {
    let audits = |change: fn(&mut Audit), slower: f64| {
        gather_audits((0..6u32).map(|host| {
            let maker = Maker::eight().odd(None).cpus(4).seed(u64::from(host));
            let maker = maker.slower(if host == 2 { slower } else { 1.0 });
            let mut audit = maker.make();
            if host == 4 {
                change(&mut audit);
            }
            audit
        }))
    };
    let before = audits(|_| {}, 1.0);
    assert!(before.incomplete.is_empty());
    let lost = |audit: &mut Audit| audit.incomplete = true;
    let failed = |audit: &mut Audit| audit.tests[0].failure = Some("no space".to_owned());
    for (change, said) in [
        (lost as fn(&mut Audit), "not all of its CPUs"),
        (failed, "failed: no space"),
    ] {
        let found = audits(change, 1.0);
        assert_eq!(found.verdict, before.verdict.max(AuditVerdict::Undecided));
        assert_eq!(found.incomplete.len(), 1);
        let (host, why) = &found.incomplete[0];
        assert!(host == "n4" && why.contains(said), "{why}");
        assert!(report::terminal(&found).contains(said));
        assert!(found.left_out.is_empty());
        // A slower host stays one.
        assert_eq!(audits(change, 1.05).verdict, AuditVerdict::Unequal);
    }
}

#[test]
fn hosts_are_not_equal_if_the_own_audit_of_one_is_undecided_or_unequal() {
    let gather = |change: fn(&mut Audit)| {
        gather_audits((0..6).map(|host| {
            let mut audit = Maker::eight().odd(None).seed(host).make();
            if host == 4 {
                change(&mut audit);
            }
            audit
        }))
    };
    fn judge_cpu_5(audit: &mut Audit, verdict: AuditVerdict, nature: Option<Nature>) {
        let mut verdicts = audit.tests[0].verdicts.iter_mut();
        let own = verdicts.find(|one| (one.cpu, one.quantity) == (5, Quantity::Elapsed));
        let own = own.unwrap();
        (own.verdict, own.nature) = (verdict, nature);
        verdict::again(audit, true);
    }
    let found = gather(|_| {});
    assert_eq!(
        (found.verdict, found.own_audits.len()),
        (AuditVerdict::Equal, 0)
    );
    let undecided = |audit: &mut Audit| judge_cpu_5(audit, AuditVerdict::Undecided, None);
    // By its own audit alone; the correction for all hosts leaves it out.
    let unequal = |audit: &mut Audit| {
        judge_cpu_5(audit, AuditVerdict::Unequal, Some(Nature::Inequality));
    };
    for (change, expected) in [
        (
            undecided as fn(&mut Audit),
            "undecided: still open: compute on CPU 5;",
        ),
        (unequal, "unequal: CPU 5 in compute (elapsed "),
    ] {
        let found = gather(change);
        assert_eq!(found.verdict, AuditVerdict::Undecided, "{expected}");
        assert!(found.cpus.is_empty() && found.incomplete.is_empty());
        let [(host, said)] = &found.own_audits[..] else {
            panic!("{:?}", found.own_audits);
        };
        assert!(host == "n4" && said.starts_with(expected), "{said}");
        let text = report::terminal(&found);
        assert!(text.contains("1 host is undecided or unequal by its own audit"));
        assert!(
            text.contains(&format!("\nown audit: n4: {expected}")),
            "{text}"
        );
        assert!(report::page(&found).contains("Own audits"));
    }
    // What is by design, or of others where that does not count, is no doubt.
    let designed = |audit: &mut Audit| {
        judge_cpu_5(audit, AuditVerdict::Unequal, Some(Nature::Designed));
    };
    assert_eq!(gather(designed).verdict, AuditVerdict::Equal);
}

#[test]
fn hosts_of_one_cpu_have_no_own_verdict() {
    let found = gather_audits((0..6).map(|host| {
        let mut audit = Maker::eight().cpus(1).odd(None).seed(host).make();
        audit.verdict = AuditVerdict::Undecided;
        audit
    }));
    assert!(found.own_audits.is_empty());
    assert_eq!(found.verdict, AuditVerdict::Equal);
}

#[test]
fn a_host_that_is_many_times_slower_has_its_difference_in_the_table() {
    let found = gather_audits((0..6).map(|host| {
        let maker = Maker::eight().cpus(4).odd(None).seed(host);
        let mut audit = maker.slower(if host == 2 { 12.0 } else { 1.0 }).make();
        audit.design.confidence = 0.9999;
        audit
    }));
    let mut all = found.differences.iter();
    let one = all.find(|one| one.host == "n2" && one.quantity == Quantity::Elapsed);
    let one = one.unwrap();
    assert!(one.quantity.is_open(one.pct), "{one:?}");
    let (text, page) = (report::terminal(&found), report::page(&found));
    let difference = format!("{:+.0} %", one.pct);
    assert!(
        text.contains(&difference) && page.contains(&difference),
        "{text}"
    );
    // Not rounded to certainty.
    for report in [text, page] {
        assert!(report.contains("At 99.99 % confidence"), "{report}");
    }
}

#[test]
fn what_is_so_by_design_is_no_odd_cpu() {
    let audit = two_nodes(0, 1.0);
    let mut verdicts = audit.tests[0].verdicts.iter();
    assert!(verdicts.any(|one| one.nature == Some(Nature::Designed)));
    let found = gather_audits((0..4).map(|host| two_nodes(host, 1.0)));
    assert!(found.cpus.is_empty(), "{found:?}");
    assert_ne!(found.verdict, AuditVerdict::Unequal, "{found:?}");
    // Slower than its node, and faster than the other.
    let more = |host: u32| if host == 2 { 1.05 } else { 1.0 };
    let found = gather_audits((0..4).map(|host| two_nodes(host, more(host))));
    assert_eq!(found.verdict, AuditVerdict::Unequal);
    assert!(!found.cpus.is_empty());
    for one in &found.cpus {
        assert_eq!((one.host.as_str(), one.cpu), ("n2", 1), "{one:?}");
        assert!((one.pct - 5.0).abs() < 0.5, "{one:?}");
    }
}

#[test]
fn what_is_no_alarm_of_its_audit_is_no_odd_cpu() {
    let gather = |change: fn(&mut Audit)| {
        gather_audits((0..6).map(|host| {
            let odd = (host == 4).then_some(0);
            let maker = Maker::eight().cpus(4).seed(host).odd(odd);
            let mut audit = maker.make();
            change(&mut audit);
            audit
        }))
    };
    let quantities =
        |found: &Cluster| -> Vec<Quantity> { unique(found.cpus.iter().map(|one| one.quantity)) };
    let both = [Quantity::Elapsed, Quantity::Noise];
    assert_eq!(quantities(&gather(|_| {})), both);
    // Only elapsed time is of others there.
    let found = gather(|audit| audit.design.contention_fails = false);
    assert_eq!(quantities(&found), [Quantity::Noise]);
    // As if it had passed by.
    let found = gather(|audit| {
        for one in audit.tests.iter_mut().flat_map(|test| &mut test.verdicts) {
            one.verdict = AuditVerdict::Undecided;
        }
    });
    assert!(found.cpus.is_empty(), "{found:?}");
}

#[test]
fn a_host_without_a_test_is_left_out_of_it_alone() {
    let lacks = |lacking: Option<u64>, slower: Option<u64>| {
        gather_audits((0..6).map(|host| {
            let factor = if slower == Some(host) { 1.05 } else { 1.0 };
            let maker = Maker::eight().cpus(4).odd(None).seed(host);
            let mut audit = maker.slower(factor).make();
            let is_there = lacking != Some(host);
            let tests = &mut audit.tests;
            tests.retain(|test| is_there || test.name != "compute");
            audit
        }))
    };
    let found = lacks(Some(5), Some(2));
    let why = "from the test compute, of which it has no figures";
    assert_eq!(found.left_out, [("n5".to_owned(), why.to_owned())]);
    assert!(report::terminal(&found).contains(&format!("left out: n5: {why}\n")));
    let compute = found.differences.iter().filter(|one| one.test == "compute");
    let hosts = unique(compute.clone().map(|one| one.host.as_str()));
    assert_eq!(hosts, ["n0", "n1", "n2", "n3", "n4"]);
    let mut times = compute.filter(|one| one.quantity == Quantity::Elapsed);
    let slower = |one: &HostDifference| one.verdict == AuditVerdict::Unequal;
    assert!(times.any(|one| one.host == "n2" && slower(one)));
    // Of the others all have all.
    let others = found.differences.iter().filter(|one| one.test == "syscall");
    assert_eq!(unique(others.map(|one| one.host.as_str())).len(), 6);
    // It may be slower there.
    assert_eq!(lacks(None, None).verdict, AuditVerdict::Equal);
    assert_eq!(lacks(Some(5), None).verdict, AuditVerdict::Undecided);
}

#[test]
fn a_host_that_did_other_work_is_left_out_of_that_test_alone() {
    for (about, unit) in [(" of 8 MiB", ""), ("", " of 8 MiB")] {
        let found = gather_audits((0..6).map(|host| {
            let mut audit = Maker::eight().cpus(4).odd(None).seed(host).make();
            if host == 5 {
                let test = &mut audit.tests[0];
                test.about += about;
                test.unit += unit;
                for sample in &mut test.samples {
                    sample.elapsed_ns *= 2;
                    sample.user_ns *= 2;
                }
            }
            audit
        }));
        let [(host, why)] = &found.left_out[..] else {
            panic!("{:?}", found.left_out);
        };
        assert_eq!(host, "n5");
        assert!(why.starts_with("from the test compute, which is other work there"));
        assert!(why.contains(" of 8 MiB\" and \""), "{why}");
        let compute = found.differences.iter().filter(|one| one.test == "compute");
        let hosts = unique(compute.map(|one| one.host.as_str()));
        assert_eq!(hosts, ["n0", "n1", "n2", "n3", "n4"]);
        let others = found.differences.iter().filter(|one| one.test == "syscall");
        assert_eq!(unique(others.map(|one| one.host.as_str())).len(), 6);
        assert_eq!(found.verdict, AuditVerdict::Undecided);
    }
}

#[test]
fn hosts_without_a_common_round_are_no_equals() {
    let found = gather_audits((0..2).map(|host| {
        let mut audit = Maker::eight().cpus(4).odd(None).make();
        for sample in &mut audit.tests[0].samples {
            sample.round += 100 * host;
        }
        audit
    }));
    let why = "the hosts have no round of it in common";
    assert_eq!(found.left_out, [("compute".to_owned(), why.to_owned())]);
}

#[test]
fn one_of_hundreds_is_found() {
    let found = gather(
        |host| {
            let maker = Maker::eight().odd(None).seed(u64::from(host));
            maker.slower(if host == 77 { 1.05 } else { 1.0 })
        },
        300,
    );
    let unequal = found
        .differences
        .iter()
        .filter(|one| one.verdict == AuditVerdict::Unequal);
    let times = unequal.filter(|one| one.quantity == Quantity::Elapsed);
    let found: Vec<(&str, f64)> = times
        .map(|one| (one.host.as_str(), one.pct.round()))
        .collect();
    assert_eq!(found, [("n77", 5.0); 3]);
}

#[test]
fn equal_hosts_are_called_unequal_by_no_chance() {
    for seed in 0..20 {
        let found = gather(
            |host| Maker::eight().odd(None).seed(seed * 100 + u64::from(host)),
            8,
        );
        assert_ne!(found.verdict, AuditVerdict::Unequal, "seed {seed}");
    }
}

#[test]
fn a_host_that_was_slower_for_a_part_of_the_time_is_not_called_unequal() {
    let level = TestLevel {
        confidence: 0.99,
        comparisons: 1,
    };
    let verdict = |slow_rounds: u32| {
        let sample = |round: u32, host: u32| AuditSample {
            cpu: host,
            round,
            elapsed_ns: if host == 0 && round < slow_rounds {
                1100
            } else {
                1000
            },
            ..AuditSample::default()
        };
        let samples = (0..12).flat_map(|round| [0, 1].map(|host| sample(round, host)));
        let mut test = Test {
            samples: samples.collect(),
            ..Test::empty("compute")
        };
        test.effects = effects::of_test(&test.samples, &[0, 1], 1, false, level);
        let effect = Effect {
            p_together: 0.0,
            ..test.effect(0, Quantity::Elapsed).unwrap().clone()
        };
        judge(&effect, &test, 0.01, 0.5)
    };
    let verdicts = [12, 9].map(verdict);
    assert_eq!(verdicts, [AuditVerdict::Unequal, AuditVerdict::Undecided]);
}

#[test]
fn rounds_that_only_one_host_has_are_no_part_of_the_time() {
    let verdict = |slow_rounds: u32| {
        let found = gather_audits((0..4u32).map(|host| {
            let maker = Maker::eight().odd(None).cpus(4).seed(u64::from(host));
            let mut audit = maker.rounds(if host == 1 { 240 } else { 48 }).make();
            audit.tests.truncate(1);
            let samples = audit.tests.iter_mut().flat_map(|test| &mut test.samples);
            for sample in samples.filter(|one| host == 0 && one.round < slow_rounds) {
                sample.elapsed_ns = (sample.elapsed_ns as f64 * 1.1) as u64;
            }
            audit
        }));
        let mut differences = found.differences.iter();
        let of = |one: &&HostDifference| one.host == "n0" && one.quantity == Quantity::Elapsed;
        differences.find(of).unwrap().verdict
    };
    let verdicts = [48, 40].map(verdict);
    assert_eq!(verdicts, [AuditVerdict::Unequal, AuditVerdict::Undecided]);
}

#[test]
fn what_was_found_on_a_cpu_before_it_was_lost_changes_no_mean() {
    let gather = |lose: bool| {
        gather_audits((0..4u32).map(|host| {
            let maker = Maker::eight().odd(None).cpus(4).seed(u64::from(host));
            let mut audit = maker.make();
            if host == 2 {
                for test in &mut audit.tests {
                    let keep = |one: &AuditSample| one.cpu != 3 || (!lose && one.round < 5);
                    test.samples.retain(keep);
                    for sample in test.samples.iter_mut().filter(|one| one.cpu == 3) {
                        sample.elapsed_ns *= 2;
                    }
                }
                audit.left_out.push(crate::model::LeftOut {
                    cpu: 3,
                    why: "lost on the way: offline".to_owned(),
                });
            }
            audit
        }))
    };
    assert!(gather(true).differences == gather(false).differences);
}

#[test]
fn a_slow_cpu_that_was_lost_is_named() {
    let found = gather_audits((0..4u32).map(|host| {
        let odd = (host == 2).then_some(3);
        let maker = Maker::eight().odd(odd).cpus(4).seed(u64::from(host));
        let mut audit = maker.make();
        if host == 2 {
            for test in &mut audit.tests {
                test.samples.retain(|one| one.cpu != 3 || one.round < 9);
            }
            audit.left_out.push(crate::model::LeftOut {
                cpu: 3,
                why: "lost on the way: offline".to_owned(),
            });
            audit.incomplete = true;
        }
        audit
    }));
    let named = |one: &CpuDifference| (one.host.as_str(), one.cpu) == ("n2", 3);
    assert!(
        !found.cpus.is_empty() && found.cpus.iter().all(named),
        "{:?}",
        found.cpus
    );
    assert_eq!(found.verdict, AuditVerdict::Unequal);
}

#[test]
fn hosts_that_did_other_amounts_of_work_are_compared_by_the_same() {
    let audit = Maker::eight().odd(None).make();
    let mut twice = audit.clone();
    for test in &mut twice.tests {
        test.lengths.iter_mut().for_each(|length| *length *= 2);
        for sample in &mut test.samples {
            sample.elapsed_ns *= 2;
            sample.user_ns *= 2;
            sample.system_ns *= 2;
        }
    }
    let mut gatherer = Gatherer::default();
    gatherer.add("a", &audit).unwrap();
    gatherer.add("b", &twice).unwrap();
    assert!(
        gatherer
            .add("b", &twice)
            .unwrap_err()
            .contains("another audit of b")
    );
    let found = gatherer.finish(Vec::new());
    let times = found
        .differences
        .iter()
        .filter(|one| !one.quantity.is_share());
    assert!(times.clone().count() > 0);
    assert!(times.clone().all(|one| one.pct.abs() < 1e-3), "{found:?}");
}

/// The hosts are slower by these factors.
#[test]
fn a_host_differs_from_the_middle_of_all() {
    let cases: [(&[f64], &[f64]); 3] = [
        (&[1.0, 1.0, 1.1], &[0.0, 0.0, 10.0]),
        (&[1.0, 1.1, 1.1], &[-9.1, 0.0, 0.0]),
        (&[1.0, 1.0, 1.0, 1.1], &[0.0, 0.0, 0.0, 10.0]),
    ];
    for (slower, expected) in cases {
        let of = |host: u32| {
            let maker = Maker::eight().odd(None).seed(u64::from(host));
            maker.slower(slower[host as usize])
        };
        let found = gather(of, slower.len() as u32);
        let elapsed = found.differences.iter();
        for one in elapsed.filter(|one| one.quantity == Quantity::Elapsed) {
            let host = found.hosts.iter().position(|host| *host == one.host);
            let expected = expected[host.unwrap()];
            assert!((one.pct - expected).abs() < 0.2, "{slower:?}: {one:?}");
            let verdict = one.verdict == AuditVerdict::Unequal;
            assert_eq!(verdict, expected > 1.0, "{slower:?}: {one:?}");
        }
    }
}

#[test]
fn equal_hosts_have_equal_figures() {
    let same = Maker::eight().odd(None);
    let slower = Maker::eight().odd(None).slower(1.1);
    let found = gather_audits([same.make(), same.make(), slower.make()].into_iter());
    let of = |host: &str| -> Vec<(&str, Quantity, f64)> {
        let all = found.differences.iter().filter(|one| one.host == host);
        let mut all: Vec<_> = all
            .map(|one| (one.test.as_str(), one.quantity, one.pct))
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        all
    };
    assert_eq!(of("n0"), of("n1"));
    let times = of("n0");
    for (test, quantity, pct) in times.iter().filter(|(_, of, _)| !of.is_share()) {
        assert!(pct.abs() < 1e-3, "{test} {quantity:?}: {pct}");
    }
}
