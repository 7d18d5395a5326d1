// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::model::{Cpu, CpuVerdict, Effect, Evidence};
use crate::tasks::{TaskClass, TaskTime};

/// A test in which CPU 1 differs by so much.
fn test_of(elapsed_pct: f64, cpu_pct: f64) -> Test {
    let effect = |quantity, pct| Effect {
        quantity,
        cpu: 1,
        pct,
        ..Effect::default()
    };
    Test {
        effects: vec![
            effect(Quantity::Elapsed, elapsed_pct),
            effect(Quantity::Cpu, cpu_pct),
        ],
        verdicts: vec![CpuVerdict {
            cpu: 1,
            quantity: Quantity::Elapsed,
            verdict: AuditVerdict::Unequal,
            ..CpuVerdict::default()
        }],
        verdict: AuditVerdict::Unequal,
        ..Test::empty("compute")
    }
}

const SECOND: u64 = 1_000_000_000;

/// Two CPUs that were watched for 10 s each, with their ticks.
fn quiet() -> Observations {
    let cpu = |cpu| Cpu {
        cpu,
        ..Cpu::default()
    };
    let of = OfCpu {
        evidence: Evidence {
            interrupts: vec![("LOC Local timer interrupts".into(), 2500)],
            ..Evidence::default()
        },
        lasted_ns: 10 * SECOND,
        frequency_khz: Some(3e6),
    };
    let mut seen = Observations {
        cpus: vec![cpu(0), cpu(1)],
        of: [(0, of.clone()), (1, of)].into(),
        ..Observations::default()
    };
    seen.others.add(0, &[], 10 * SECOND);
    seen.others.add(1, &[], 10 * SECOND);
    seen
}

fn ran(pid: u32, parent: u32, class: TaskClass, pct: u64) -> TaskTime {
    TaskTime {
        cpu: 1,
        tid: pid,
        pid,
        parent,
        name: "burn".into(),
        class,
        priority: u32::from(class == TaskClass::RealTime),
        ns: pct * SECOND / 10,
    }
}

fn first(test: &Test, seen: &Observations) -> (String, f64) {
    let all = find(std::slice::from_ref(test), seen);
    let first = all
        .first()
        .unwrap_or_else(|| panic!("nobody is suspected in {seen:?}"));
    assert_eq!(
        (first.cpu, &first.tests[..]),
        (1, &["compute".to_owned()][..])
    );
    (first.kind.clone(), first.explains_pct.unwrap_or(0.0))
}

#[test]
fn nobody_is_suspected_where_nothing_is_to_be_seen() {
    assert!(find(&[test_of(1.0, 0.0)], &quiet()).is_empty());
    let mut equal = test_of(1.0, 0.0);
    equal.verdicts[0].verdict = AuditVerdict::Equal;
    let mut seen = quiet();
    seen.others.add(1, &[ran(50, 1, TaskClass::RealTime, 1)], 0);
    assert!(find(&[equal], &seen).is_empty());
}

#[test]
fn tasks_are_told_by_what_they_are() {
    for (class, kind) in [
        (TaskClass::RealTime, "realtime"),
        (TaskClass::Kernel, "kthread"),
        (TaskClass::Ordinary, "task"),
    ] {
        let mut seen = quiet();
        seen.others.add(1, &[ran(50, 1, class, 1)], 0);
        let (found, pct) = first(&test_of(1.0, 0.0), &seen);
        assert_eq!(found, kind);
        assert!((pct - 1.0).abs() < 1e-9, "{pct}");
    }
}

#[test]
fn burners_of_sandbag_are_known_by_their_supervisor() {
    for (load, kind) in [("constant 1 %", "load"), ("node a, speed 0.9", "slow_node")] {
        let mut seen = quiet();
        seen.holders.push(Holder {
            pid: 40,
            cpus: "1".parse().unwrap(),
            method: "pace".into(),
            load: load.into(),
        });
        // Known by its journal alone.
        assert_eq!(first(&test_of(1.0, 0.0), &seen).0, kind);
        seen.others
            .add(1, &[ran(50, 40, TaskClass::RealTime, 1)], 0);
        assert_eq!(first(&test_of(1.0, 0.0), &seen).0, kind);
        assert_eq!(find(&[test_of(1.0, 0.0)], &seen).len(), 1);
    }
}

#[test]
fn a_timer_is_known_by_its_interrupts() {
    let mut seen = quiet();
    seen.of.get_mut(&1).unwrap().evidence.interrupts[0].1 = 102_500;
    let (kind, pct) = first(&test_of(3.0, 3.0), &seen);
    assert_eq!(kind, "timer");
    assert!((2.0..=3.0).contains(&pct), "{pct}");
    // A task that takes less does not come before it.
    seen.others.add(1, &[ran(50, 1, TaskClass::Ordinary, 1)], 0);
    assert_eq!(first(&test_of(3.0, 3.0), &seen).0, "timer");
}

#[test]
fn timers_of_hypervisors_are_timers() {
    for row in [
        "HVS Hyper-V stimer0 interrupts",
        "70 xen-percpu-virq timer1",
        "70 xen-percpu -virq timer1",
    ] {
        let mut seen = quiet();
        let interrupts = &mut seen.of.get_mut(&1).unwrap().evidence.interrupts;
        interrupts.push((row.into(), 100_000));
        let found = find(&[test_of(3.0, 3.0)], &seen);
        let kinds: Vec<&str> = found.iter().map(|found| found.kind.as_str()).collect();
        assert_eq!(kinds, ["timer"], "{row}");
    }
    // Each CPU has its own.
    let mut seen = quiet();
    for (cpu, of) in &mut seen.of {
        let row = format!("{} xen-percpu-virq timer{cpu}", 64 + cpu);
        of.evidence.interrupts = vec![(row, 2500)];
    }
    let found = find(&[test_of(3.0, 3.0)], &seen);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_faster_kind_is_no_suspect() {
    let mut seen = quiet();
    seen.cpus[0].kind = Some("efficiency core".into());
    seen.cpus[1].kind = Some("performance core".into());
    assert!(find(&[test_of(5.0, 5.0)], &seen).is_empty());
}

#[test]
fn devices_steal_frequency_and_heat() {
    let change = |change: fn(&mut OfCpu)| {
        let mut seen = quiet();
        change(seen.of.get_mut(&1).unwrap());
        seen.affinity = vec![("36".into(), "1".parse().unwrap())];
        let found = find(&[test_of(5.0, 5.0)], &seen);
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].kind.clone(), found[0].evidence.clone())
    };
    let (kind, evidence) = change(|of| {
        of.evidence
            .interrupts
            .push(("36 edge virtio1-req.0".into(), 50_000))
    });
    assert!(
        kind == "interrupts" && evidence.contains("may go to CPUs 1"),
        "{evidence}"
    );
    assert_eq!(change(|of| of.evidence.softirq_ns = SECOND).0, "softirq");
    assert_eq!(change(|of| of.evidence.steal_ns = SECOND).0, "steal");
    assert_eq!(change(|of| of.frequency_khz = Some(2.5e6)).0, "frequency");
    assert_eq!(change(|of| of.evidence.throttled = Some(3)).0, "throttling");
}

#[test]
fn what_the_kernel_s_trace_names_counts() {
    let mut seen = quiet();
    seen.blamed.push(NoiseSource {
        cpu: 1,
        kind: "irq".into(),
        name: "local_timer".into(),
        pct: 3.0,
        per_s: 10_250.0,
    });
    assert_eq!(first(&test_of(3.0, 3.0), &seen).0, "timer");
}

#[test]
fn settings_and_design_come_without_figures() {
    let mut seen = quiet();
    seen.cpus[0].settings = vec!["nohz_full".into()];
    seen.cpus[1].kind = Some("efficiency core".into());
    seen.cpus[0].kind = Some("performance core".into());
    seen.cpus[1].siblings = vec![5];
    let found = find(&[test_of(5.0, 5.0)], &seen);
    let kinds: Vec<&str> = found.iter().map(|found| found.kind.as_str()).collect();
    assert_eq!(kinds, ["cpuset", "hybrid", "smt"]);
    assert!(found.iter().all(|found| found.explains_pct.is_none()));
}
