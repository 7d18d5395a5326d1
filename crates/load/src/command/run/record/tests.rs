// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::board::BOUNDARY_NS;
use crate::supervisor::outcome::{CommandOutcome, NodeOutcome};
use crate::supervisor::{Cost, CpuOutcome, ForeignProcess, Windows as _};
use sandbag_run::command::CommandExit;
use sandbag_run::machine::MachineFacts;
use sandbag_stats::Window;
use sandbag_ui::messages::Messages;

const S: u64 = 1_000_000_000;

fn facts(node: bool) -> Facts {
    Facts {
        machine: MachineFacts::default(),
        method: MethodUsed::default(),
        profile: String::new(),
        started_at: String::new(),
        cpus: vec![0],
        command: Vec::new(),
        tolerance: Tolerance::default(),
        node: node.then(|| "small".to_owned()),
        length_ns: None,
        burns: true,
    }
}

/// A run of 5 s whose program used 2 s, `used_s` of it by its own clock.
fn outcome(node: bool, used_s: f64) -> RunOutcome {
    RunOutcome {
        run_ns: 5 * S,
        loaded_ns: 5 * S,
        load_is_over: false,
        lost_beside: Vec::new(),
        paused_ns: 0,
        end: RunEnd::CommandOver,
        load_start: LoadStart::WithCommand,
        began_at: None,
        cpus: vec![CpuOutcome {
            cpu: 0,
            lost_ns: 0,
            least_headroom: None,
            weight_changes: 0,
            command_ns: Some(2 * S),
            beside_ns: None,
        }],
        command: Some(CommandOutcome {
            wall_ns: 5 * S,
            how: CommandExit {
                exit_code: Some(0),
                signal: None,
                user_s: used_s,
                system_s: 0.0,
                switches: (0, 0),
                max_rss_kib: 0,
            },
            asked_to_end: false,
            migrations: None,
        }),
        node: node.then(|| NodeOutcome {
            entered: 1,
            used_ns: Some(2 * S),
            ..NodeOutcome::default()
        }),
        foreign: vec![ForeignProcess {
            pid: 77,
            name: "spinner".to_owned(),
            used_ns: S,
        }],
        cost: Cost::default(),
    }
}

/// A window of a second from `second` on, in which the load of 50 % was held exactly.
fn held(second: u64, busy_ns: Option<u64>, command_ns: Option<u64>) -> Window {
    Window {
        cpu: 0,
        start_ns: second * S,
        length_ns: S,
        asked_pct: 50.0,
        burner_ns: S / 2,
        steal_ns: 0,
        busy_ns,
        command_ns,
        hole: false,
    }
}

/// The record of windows in which the load of 50 % was held exactly and
/// the CPU was busy for `busy_ms` of 1 s, 400 ms of them by the program.
fn record_of(facts: Facts, outcome: &RunOutcome, busy_ms: u64) -> Run {
    let messages = Messages::new(true, 0);
    let mut collector = Collector::new(&[0], true, None, None, false, &messages);
    if !facts.burns {
        collector.takes_without_burning();
    }
    for second in 0..5 {
        let busy_ns = Some(busy_ms * 1_000_000);
        collector.whole(&held(second, busy_ns, Some(2 * S / 5)));
    }
    record(facts, outcome, &collector, Vec::new())
}

#[test]
fn foreign_load_makes_a_node_undecided_and_a_load_warn() {
    for (is_node, busy_ms, verdict, foreign) in [
        (true, 915, Verdict::Kept, None),
        (true, 950, Verdict::Undecided, Some("5.0 % of CPU 0")),
        (false, 1000, Verdict::Kept, Some("10.0 % of CPU 0")),
    ] {
        let run = record_of(facts(is_node), &outcome(is_node, 2.0), busy_ms);
        assert_eq!(run.verdict, verdict, "{}", run.reason);
        let Some(foreign) = foreign else {
            assert!(run.warnings.is_empty(), "{:?}", run.warnings);
            continue;
        };
        assert_eq!(run.reason.contains(foreign), is_node, "{}", run.reason);
        for part in [foreign, "spinner (process 77) 1.00 s"] {
            assert!(run.warnings[0].contains(part), "{:?}", run.warnings);
        }
    }
}

#[test]
fn foreign_is_what_neither_burners_nor_program_took_beside_a_program() {
    let mut empty = outcome(true, 2.0);
    empty.node = Some(NodeOutcome::default());
    empty.command = None;
    let throttled = Facts {
        burns: false,
        ..facts(true)
    };
    for (facts, outcome, busy_ms, foreign_pct) in [
        (facts(true), outcome(true, 2.0), 950, Some(5.0)),
        // What a method without burners takes is no CPU time.
        (throttled, outcome(true, 2.0), 600, Some(20.0)),
        // No program entered the node.
        (facts(true), empty, 1000, None),
    ] {
        let run = record_of(facts, &outcome, busy_ms);
        assert!(run.noisy_share > 0.9, "{}", run.noisy_share);
        let rounded = run.cpus[0].foreign_pct.map(|pct| (pct * 1e6).round() / 1e6);
        assert_eq!(rounded, foreign_pct);
    }
}

/// A node in whose windows of 1 s, on one CPU, half was taken exactly: busy time, time of its
/// programs on that CPU and on all, ms.
fn node_of(rows: &[(u64, Option<u64>, Option<u64>)], outcome: &RunOutcome) -> Run {
    const MS: u64 = 1_000_000;
    let messages = Messages::new(true, 0);
    let mut collector = Collector::new(&[0], true, None, None, false, &messages);
    for (second, (busy_ms, command_ms, program_ms)) in rows.iter().enumerate() {
        collector.programs(program_ms.map(|ms| ms * MS));
        let command_ns = command_ms.map(|ms| ms * MS);
        collector.whole(&held(second as u64, Some(busy_ms * MS), command_ns));
    }
    record(facts(true), outcome, &collector, Vec::new())
}

#[test]
fn foreign_load_counts_while_the_node_s_programs_run() {
    let waits = (500, Some(0), None);
    let beside = |busy_ms| (busy_ms, Some(400), None);
    // It waited for an hour, and then half of the rest was taken from its program.
    let rows = [vec![waits; 3600], vec![beside(950); 60]].concat();
    let run = node_of(&rows, &outcome(true, 2.0));
    assert_eq!(run.verdict, Verdict::Undecided, "{}", run.reason);
    assert!(run.reason.contains("5.0 % of CPU 0"), "{}", run.reason);
    // Other work was over before its program began.
    let rows = [vec![(1000, Some(0), None); 30], vec![beside(905); 30]].concat();
    let run = node_of(&rows, &outcome(true, 2.0));
    assert_eq!(run.verdict, Verdict::Kept, "{}", run.reason);
    let rounded = run.cpus[0].foreign_pct.map(|pct| (pct * 1e6).round() / 1e6);
    assert_eq!(rounded, Some(0.5));
}

#[test]
fn a_node_whose_programs_had_no_cpu_at_all_is_undecided() {
    // Half of the time a real-time task had all that the load left.
    let rows = [
        vec![(905, Some(400), None); 10],
        vec![(1000, Some(0), None); 10],
    ]
    .concat();
    for (waited_s, expected) in [
        (None, Verdict::Kept),
        (Some(11), Verdict::Kept),
        (Some(19), Verdict::Undecided),
    ] {
        let mut outcome = outcome(true, 2.0);
        if let Some(node) = &mut outcome.node {
            node.waited_ns = waited_s.map(|s| s * S);
        }
        let run = node_of(&rows, &outcome);
        assert_eq!(run.verdict, expected, "{}", run.reason);
        let words = "for 9.0 s the node's programs waited for a CPU and had none";
        assert_eq!(
            run.reason.contains(words),
            expected == Verdict::Undecided,
            "{}",
            run.reason
        );
    }
}

#[test]
fn a_node_whose_foreign_load_is_not_known_is_undecided() {
    let (known, unknown) = ((900, Some(400), None), (900, None, None));
    let mut empty = outcome(true, 2.0);
    empty.node = Some(NodeOutcome::default());
    empty.command = None;
    for (rows, outcome, expected) in [
        (vec![unknown; 5], outcome(true, 2.0), Verdict::Undecided),
        // No program entered it.
        (vec![unknown; 5], empty, Verdict::Kept),
        // A unit that was started again once.
        (
            [vec![known; 18], vec![unknown; 2]].concat(),
            outcome(true, 2.0),
            Verdict::Kept,
        ),
        (
            [vec![known; 16], vec![unknown; 4]].concat(),
            outcome(true, 2.0),
            Verdict::Undecided,
        ),
    ] {
        let run = node_of(&rows, &outcome);
        assert_eq!(run.verdict, expected, "{}", run.reason);
        let says = run.reason.starts_with("foreign load is not known: ");
        assert_eq!(says, expected == Verdict::Undecided, "{}", run.reason);
    }
}

#[test]
fn foreign_load_follows_from_the_time_of_the_programs_on_all_cpus() {
    for (busy_ms, foreign) in [(915, None), (950, Some("5.0 % of a CPU, on all CPUs"))] {
        let rows = vec![(busy_ms, None, Some(400)); 5];
        let run = node_of(&rows, &outcome(true, 2.0));
        assert_eq!(run.cpus[0].foreign_pct, None);
        match foreign {
            None => assert_eq!(run.verdict, Verdict::Kept, "{}", run.reason),
            Some(words) => {
                assert_eq!(run.verdict, Verdict::Undecided, "{}", run.reason);
                assert!(run.reason.contains(words), "{}", run.reason);
                assert!(run.warnings[0].contains(words), "{:?}", run.warnings);
            }
        }
    }
}

#[test]
fn steal_at_an_unknown_time_is_undecided_and_an_absent_load_missed() {
    let window = |second, hole| Window {
        hole,
        ..held(second, None, None)
    };
    let judged = |hiding: u64, holes: u64| {
        let messages = Messages::new(true, 0);
        let mut collector = Collector::new(&[0], false, None, None, false, &messages);
        (0..60).for_each(|second| collector.whole(&window(second, false)));
        (0..hiding).for_each(|second| collector.hiding_steal(&window(60 + second, true)));
        (0..holes).for_each(|second| collector.whole(&window(70 + second, true)));
        record(facts(false), &outcome(false, 2.0), &collector, Vec::new())
    };
    let run = judged(2, 0);
    assert_eq!((run.verdict, run.cpus[0].holes), (Verdict::Undecided, 0));
    let said = "in 2 windows the host withheld time at an unknown moment";
    assert!(run.reason.contains(said), "{}", run.reason);
    let run = judged(2, 1);
    assert_eq!((run.verdict, run.cpus[0].holes), (Verdict::Missed, 1));
    assert!(run.reason.contains("absent in 1 windows"), "{}", run.reason);
}

#[test]
fn a_guardian_that_was_replaced_takes_nothing_from_the_cost() {
    let mut replaced = outcome(false, 2.0);
    replaced.cost.cpu_ns = 9 * S / 10;
    replaced.cost.start_cpu_ns = S;
    let run = record_of(facts(false), &replaced, 900);
    assert_eq!(run.supervisor.pct_per_cpu, 0.0);
}

#[test]
fn the_cost_is_of_the_time_with_a_load() {
    let mut long = outcome(false, 2.0);
    (long.run_ns, long.loaded_ns) = (1000 * S, 10 * S);
    long.cost = Cost {
        cpu_ns: 3 * S,
        start_cpu_ns: S,
        load_end_cpu_ns: Some(S + S / 50),
        ..Cost::default()
    };
    let run = record_of(facts(false), &long, 900);
    assert!((run.supervisor.pct_per_cpu - 0.2).abs() < 1e-9);
    long.loaded_ns = 1000 * S;
    long.cost.load_end_cpu_ns = None;
    let run = record_of(facts(false), &long, 900);
    assert!((run.supervisor.pct_per_cpu - 0.2).abs() < 1e-9);
}

#[test]
fn what_was_held_exactly_has_the_mean_that_was_asked_whatever_was_stolen() {
    let messages = Messages::new(true, 0);
    let mut collector = Collector::new(&[0], false, None, None, false, &messages);
    for (second, asked_pct, steal_ns) in [(0, 10.0, 0), (1, 90.0, S / 2)] {
        collector.whole(&Window {
            cpu: 0,
            start_ns: second * S,
            length_ns: S,
            asked_pct,
            burner_ns: ((S - steal_ns) as f64 * asked_pct / 100.0) as u64,
            steal_ns,
            busy_ns: None,
            command_ns: None,
            hole: false,
        });
    }
    let run = record(facts(false), &outcome(false, 2.0), &collector, Vec::new());
    let [cpu] = &run.cpus[..] else { panic!() };
    assert!(
        (cpu.asked_pct - 110.0 / 3.0).abs() < 1e-6,
        "{}",
        cpu.asked_pct
    );
    assert!(
        (cpu.got_pct - cpu.asked_pct).abs() < 1e-6,
        "{}",
        cpu.got_pct
    );
}

#[test]
fn a_node_whose_program_left_its_groups_is_missed() {
    let mut left = outcome(true, 2.0);
    left.node.as_mut().unwrap().left = vec![(12, "sh".to_owned())];
    for (outcome, part) in [
        (left, "sh (process 12) left"),
        // One that ended before it was seen: 3 s, of which the node has 2.
        (outcome(true, 3.0), "1.00 s of CPU time outside"),
    ] {
        let run = record_of(facts(true), &outcome, 900);
        assert_eq!(run.verdict, Verdict::Missed);
        assert!(run.reason.contains(part), "{}", run.reason);
        assert!(run.warnings[0].contains(part), "{:?}", run.warnings);
    }
}

#[test]
fn a_node_that_could_use_other_cpus_is_missed() {
    let mut freed = outcome(true, 2.0);
    freed.node.as_mut().unwrap().other_cpus = Some("0-7".to_owned());
    let run = record_of(facts(true), &freed, 900);
    assert_eq!(run.verdict, Verdict::Missed);
    assert!(run.reason.contains("CPUs 0-7"), "{}", run.reason);
}

#[test]
fn a_cpu_without_its_load_is_named_among_many() {
    let cpus: Vec<u32> = (0..128).collect();
    let messages = Messages::new(true, 0);
    let mut collector = Collector::new(&cpus, false, None, None, false, &messages);
    for second in 0..5 {
        for cpu in &cpus {
            collector.whole(&Window {
                cpu: *cpu,
                start_ns: second * S,
                length_ns: S,
                asked_pct: 50.0,
                burner_ns: if *cpu == 7 { 0 } else { S / 2 },
                steal_ns: 0,
                busy_ns: None,
                command_ns: None,
                hole: false,
            });
        }
    }
    let many = Facts {
        cpus,
        ..facts(false)
    };
    let run = record(many, &outcome(false, 2.0), &collector, Vec::new());
    assert_eq!(run.verdict, Verdict::Missed);
    let named = "too many windows of CPU 7 were off by more than 3 points, 50.0 in the mean; ";
    assert!(run.reason.starts_with(named), "{}", run.reason);
}

/// The record of these windows of 1 s on one CPU: asked, got and stolen, percent.
fn record_of_loads(rows: impl IntoIterator<Item = (f64, f64, f64)>) -> Run {
    let messages = Messages::new(true, 0);
    let mut collector = Collector::new(&[0], false, None, None, false, &messages);
    for (second, (asked_pct, got_pct, steal_pct)) in rows.into_iter().enumerate() {
        let steal_ns = (steal_pct * 1e7) as u64;
        collector.whole(&Window {
            asked_pct,
            burner_ns: ((S - steal_ns) as f64 * got_pct / 100.0) as u64,
            steal_ns,
            ..held(second as u64, None, None)
        });
    }
    record(facts(false), &outcome(false, 2.0), &collector, Vec::new())
}

#[test]
fn a_figure_that_broke_its_limit_is_not_shown_as_the_limit() {
    let run = record_of_loads((0..10).map(|_| (50.0, 51.004, 0.0)));
    assert_eq!(run.verdict, Verdict::Missed);
    let said = "mean absolute error 1.004 points (limit 1), 100.0 % of";
    assert!(run.reason.starts_with(said), "{}", run.reason);
    // 98.96 %.
    let run = record_of_loads((0..481).map(|n| (50.0, if n < 5 { 54.0 } else { 50.0 }, 0.0)));
    assert_eq!(run.verdict, Verdict::Missed);
    let said = " 98.96 % of the windows within 3 (at least 99 %)";
    assert!(run.reason.ends_with(said), "{}", run.reason);
}

#[test]
fn a_short_load_that_never_came_is_named() {
    let with = |steal_pct: f64| {
        record_of_loads((0..600).map(|second| match second {
            0..6 => (100.0, 0.0, steal_pct),
            _ => (0.0, 0.0, 0.0),
        }))
    };
    let run = with(0.0);
    assert_eq!(run.verdict, Verdict::Missed);
    let named = "too much of the load that was asked of CPU 0 lay in windows";
    assert!(run.reason.starts_with(named), "{}", run.reason);
    let run = with(40.0);
    assert_eq!(run.verdict, Verdict::Undecided);
    let said = "but 100 % of its load had more than 3 % steal";
    assert!(run.reason.contains(said), "{}", run.reason);
}

#[test]
fn a_run_that_ends_before_its_profile_says_what_its_verdict_is_about() {
    let planned = |length_ns| Facts {
        length_ns,
        ..facts(false)
    };
    let run = record_of(planned(Some(6 * S)), &outcome(false, 2.0), 900);
    assert_eq!(run.verdict, Verdict::Kept);
    assert!(
        run.reason.starts_with("the first 5.0 of 6.0 s only: "),
        "{}",
        run.reason
    );
    assert_eq!(
        run.warnings,
        [
            "the command ended 1.0 s before the profile: the verdict is about the first 5.0 \
             of 6.0 s only"
        ]
    );
    for length_ns in [None, Some(5 * S), Some(5 * S + BOUNDARY_NS)] {
        let run = record_of(planned(length_ns), &outcome(false, 2.0), 900);
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
    }
}

#[test]
fn efficiency_is_of_the_loaded_time_alone() {
    // 3.2 s in its whole life, 2 of them under the load.
    let run = record_of(facts(false), &outcome(false, 3.2), 900);
    let command = run.command.unwrap();
    assert_eq!(command.used_s, Some(2.0));
    assert_eq!(command.available_s, Some(2.5));
    assert!((command.efficiency.unwrap() - 0.8).abs() < 1e-9);
}
