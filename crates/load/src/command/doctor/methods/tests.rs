// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each method is said to do.

use super::super::judge::Reserving;
use super::*;

const GROUND: Ground<'_> = Ground {
    no_groups: None,
    by_systemd: false,
    cpus: 2,
    virtual_machine: true,
    real_time_limit: Some(0.95),
    frequencies: &FrequencySetting::NoDriver,
};

fn all_well() -> ProbeFindings {
    let yes = Some(Judgement::Yes);
    ProbeFindings {
        weights: yes,
        caps: yes,
        slice: yes,
        timers: yes,
        run_delay: yes,
        real_time: yes,
        reserving: Some(Reserving::Admitted),
        freezer: yes,
        stopping: yes,
        node_cap: yes,
        ..ProbeFindings::default()
    }
}

fn of(name: &str, found: &ProbeFindings, ground: Ground<'_>) -> Check {
    let all = all(found, ground);
    let verdict = all.into_iter().find(|verdict| verdict.check.name == name);
    verdict.unwrap().check
}

fn states(names: &[&str], found: &ProbeFindings, ground: Ground<'_>) -> Vec<CheckState> {
    let each = names.iter().map(|name| of(name, found, ground).state);
    each.collect()
}

const PUBLISHED: [&str; 3] = ["pace", "quota", "shares"];
const REAL_TIME: [&str; 4] = ["hogs", "rt", "lim", "gov"];

#[test]
fn every_method_is_there_once_with_what_it_is_for() {
    let all = all(&all_well(), GROUND);
    let names: Vec<&str> = all.iter().map(|verdict| verdict.check.name).collect();
    for name in NAMES.iter().chain(&SLOWING) {
        let times = names.iter().filter(|known| *known == name).count();
        assert_eq!(times, 1, "{name}");
    }
    let of = |name| all.iter().find(|v| v.check.name == name).unwrap();
    assert_eq!(of("pace").default_for, ["loads"]);
    assert_eq!(of("hogs").default_for, ["nodes"]);
    assert_eq!(of("hogs").used_for, ["loads", "nodes"]);
    assert_eq!(of("gov").used_for, ["nodes"]);
    let unknown = |v: &MethodVerdict| v.check.why.contains("no probe");
    assert!(!all.iter().any(unknown));
}

#[test]
fn where_everything_works_shares_still_is_wrong_by_design() {
    let well = all_well();
    assert_eq!(
        states(&PUBLISHED, &well, GROUND),
        [CheckState::Ok, CheckState::Ok, CheckState::Warn]
    );
    assert!(of("shares", &well, GROUND).why.contains("67 % for 50 on 2"));
    let others = ["hogs", "rt", "deadline", "lim", "gov", "cap"];
    assert_eq!(states(&others, &well, GROUND), [CheckState::Ok; 6]);
}

#[test]
fn without_weights_real_time_still_works() {
    let found = ProbeFindings {
        weights: Some(Judgement::No),
        ..all_well()
    };
    assert_eq!(states(&PUBLISHED, &found, GROUND), [CheckState::No; 3]);
    assert_eq!(states(&REAL_TIME, &found, GROUND), [CheckState::Ok; 4]);
}

#[test]
fn without_groups_the_reason_is_theirs() {
    let ground = Ground {
        no_groups: Some(("not allowed", "be root")),
        ..GROUND
    };
    let checks = all(&ProbeFindings::default(), ground);
    assert!(
        checks
            .iter()
            .all(|v| v.check.state == CheckState::No && v.check.why == "not allowed")
    );
}

#[test]
fn what_was_not_tried_is_not_judged() {
    let found = ProbeFindings::default();
    let others: Vec<&str> = SLOWING.into_iter().filter(|name| *name != "freq").collect();
    for name in others {
        assert_eq!(
            of(name, &found, GROUND).state,
            CheckState::Untried,
            "{name}"
        );
    }
}

#[test]
fn a_busy_machine_is_no_reason_to_say_no() {
    let unclear = Some(Judgement::Unclear);
    let found = ProbeFindings {
        weights: unclear,
        caps: unclear,
        real_time: unclear,
        freezer: unclear,
        stopping: unclear,
        node_cap: unclear,
        ..all_well()
    };
    assert_eq!(states(&PUBLISHED, &found, GROUND), [CheckState::Warn; 3]);
    assert_eq!(states(&REAL_TIME, &found, GROUND), [CheckState::Warn; 4]);
    assert_eq!(of("cap", &found, GROUND).state, CheckState::Warn);
}

#[test]
fn quota_is_not_for_systemds_tree_but_cap_is() {
    let ground = Ground {
        by_systemd: true,
        ..GROUND
    };
    let found = ProbeFindings {
        caps: None,
        ..all_well()
    };
    let states = states(&["quota", "cap"], &found, ground);
    assert_eq!(states, [CheckState::No, CheckState::Ok]);
}

#[test]
fn stolen_time_matters_only_where_it_can_be_stolen() {
    let found = ProbeFindings {
        run_delay: Some(Judgement::No),
        ..all_well()
    };
    assert_eq!(of("pace", &found, GROUND).state, CheckState::Warn);
    let metal = Ground {
        virtual_machine: false,
        ..GROUND
    };
    assert_eq!(of("pace", &found, metal).state, CheckState::Ok);
}

#[test]
fn without_real_time_the_reason_is_the_kernels() {
    let found = ProbeFindings {
        real_time: Some(Judgement::No),
        no_real_time: Some(("no budget".into(), "ask for one".into())),
        ..all_well()
    };
    for name in REAL_TIME.into_iter().chain(["deadline"]) {
        let check = of(name, &found, GROUND);
        assert_eq!(
            (check.state, check.why.as_str()),
            (CheckState::No, "no budget")
        );
        assert_eq!(check.remedy.as_deref(), Some("ask for one"));
    }
    assert_eq!(of("cap", &found, GROUND).state, CheckState::Ok);
}

#[test]
fn a_limit_below_what_hogs_take_is_a_warning() {
    let ground = |limit| Ground {
        real_time_limit: limit,
        ..GROUND
    };
    let well = all_well();
    let check = of("hogs", &well, ground(Some(0.5)));
    assert_eq!(check.state, CheckState::Warn);
    assert!(check.why.contains("50 % of a CPU"), "{}", check.why);
    assert_eq!(of("hogs", &well, ground(None)).state, CheckState::Ok);
}

#[test]
fn deadline_says_what_it_changes_and_whether_it_may() {
    let with = |reserving| ProbeFindings {
        reserving: Some(reserving),
        ..all_well()
    };
    let may = of(
        "deadline",
        &with(Reserving::WithoutLimit { may: true }),
        GROUND,
    );
    assert_eq!(may.state, CheckState::Warn);
    assert!(may.why.contains("puts it back"), "{}", may.why);
    let not = of(
        "deadline",
        &with(Reserving::WithoutLimit { may: false }),
        GROUND,
    );
    assert_eq!(not.state, CheckState::No);
}

#[test]
fn freq_needs_hardware_and_gov_does_not() {
    let well = all_well();
    let no = of("freq", &well, GROUND);
    assert_eq!(no.state, CheckState::No);
    assert!(no.remedy.unwrap().contains("gov"));
    assert!(of("gov", &well, GROUND).why.contains("freezer alone"));
    let can = FrequencySetting::Can("3 steps".to_owned());
    let ground = Ground {
        frequencies: &can,
        ..GROUND
    };
    // Nobody has tried: nothing was set.
    assert_eq!(
        states(&["freq", "gov"], &well, ground),
        [CheckState::Warn; 2]
    );
    let frozen = ProbeFindings {
        freezer: Some(Judgement::No),
        ..all_well()
    };
    assert_eq!(of("gov", &frozen, ground).state, CheckState::No);
}

#[test]
fn without_a_nodes_group_loads_still_work() {
    let found = ProbeFindings {
        no_node: Some(("no cpuset".into(), "mount it".into())),
        ..all_well()
    };
    let states = states(&["pace", "hogs", "lim", "gov", "cap"], &found, GROUND);
    assert_eq!(states[..2], [CheckState::Ok; 2]);
    assert_eq!(states[2..], [CheckState::No; 3]);
}

#[test]
fn the_table_says_what_each_is_for() {
    let text = table(&all(&all_well(), GROUND));
    let line = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name));
    assert!(
        line("pace")
            .unwrap()
            .starts_with("  pace      loads* nodes  ok "),
        "{text}"
    );
    assert!(
        line("hogs")
            .unwrap()
            .starts_with("  hogs      loads nodes*  ok "),
        "{text}"
    );
    assert!(
        line("lim")
            .unwrap()
            .starts_with("  lim       nodes         ok "),
        "{text}"
    );
}

#[test]
fn what_all_need_to_be_done_is_said_once() {
    let ground = Ground {
        no_groups: Some(("not allowed", "be root")),
        ..GROUND
    };
    let text = table(&all(&ProbeFindings::default(), ground));
    assert_eq!(text.matches("-> be root").count(), 1, "{text}");
    assert_eq!(text.matches("not allowed").count(), 10, "{text}");
}
