// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::Path;

use super::*;
use crate::command::Experiment;
use crate::exchange::PlannedMember;

fn run_json(verdict: &str, got: f64, began: &str) -> String {
    format!(
        r#"{{"format":1,"verdict":"{verdict}","reason":"within","length_s":4,"began_at":"{began}",
        "cpus":[{{"cpu":0,"asked_pct":50,"got_pct":{got},"steal_pct":0.5}}],
        "error_1s":{{"mean_abs_points":{0},"worst_points":{0}}},
        "tolerance":{{"mean_points":1,"window_points":3}}}}"#,
        got - 50.0
    )
}

const HEAD: &str = "time_s,length_s,cpu,asked_pct,got_pct,error_points,burner_s,steal_pct,busy_pct,command_pct,hole\n";

fn host(dir: &Path, name: &str, verdict: &str, got: f64, began: &str) {
    let dir = dir.join(name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("run.json"), run_json(verdict, got, began)).unwrap();
    let row = |t: usize| format!("{t}.0,1.0,0,50,{got},{},0.5,0,,,0\n", got - 50.0);
    let rows: String = (0..4).map(row).collect();
    fs::write(dir.join("achieved.csv"), format!("{HEAD}{rows}5.0,1.")).unwrap();
}

fn member(rank: u32, host: &str, offset_ms: f64) -> PlannedMember {
    PlannedMember {
        rank,
        host: host.to_owned(),
        nonce: String::new(),
        offset: Offset {
            ms: offset_ms,
            within_ms: 1.0,
        },
        clock: ClockState::default(),
    }
}

fn experiment(members: Vec<PlannedMember>) -> Experiment {
    Experiment {
        format: crate::command::FORMAT,
        sandbag: "0.1.0".to_owned(),
        arguments: Vec::new(),
        start: None,
        members,
        ends: vec![(
            2,
            MemberEnd {
                code: 137,
                at: "2026-03-01T12:00:05Z".to_owned(),
                failure: Some("sandbag was ended by signal 9".to_owned()),
            },
        )],
        early_end: Some(EarlyEnd {
            rank: 2,
            host: "n3".to_owned(),
            at: "2026-03-01T12:00:05Z".to_owned(),
            why: "sandbag was ended by signal 9".to_owned(),
        }),
    }
}

fn put(dir: &Path, all: &Experiment) {
    fs::write(dir.join("hosts.json"), serde_json::to_vec(all).unwrap()).unwrap();
}

#[test]
fn who_needs_a_look_comes_first_and_who_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    host(dir.path(), "n1", "kept", 50.1, "2026-03-01T12:00:00.1Z");
    // Its clock is 5 s ahead: it began with the first.
    host(
        dir.path(),
        "n2",
        "missed",
        58.0,
        "2026-03-01T12:00:05.1004Z",
    );
    let all = experiment(vec![
        member(0, "n1", 0.0),
        member(1, "n2", 5000.0),
        member(2, "n3", 0.2),
    ]);
    put(dir.path(), &all);
    assert!(is_experiment(dir.path()));
    let gathered = read::experiment(dir.path()).unwrap();
    let names: Vec<&str> = gathered.hosts.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(names, ["n3", "n2", "n1"]);
    assert_eq!(
        (gathered.verdict, gathered.exit_code()),
        (Verdict::Missed, exit::FAILED)
    );
    let skew = gathered.start_skew_ms.unwrap();
    assert!((skew - 0.4).abs() < 1e-6, "{skew}");
    let course = &gathered.hosts[1].course;
    assert_eq!(course.len(), COLUMNS);
    assert!(
        course
            .iter()
            .all(|piece| piece.is_some_and(|piece| piece.is_off))
    );
    assert!(gathered.hosts[0].course.is_empty());
    insta::assert_snapshot!(table::terminal(&gathered));
    let page = page::page(&gathered);
    assert!(page.contains("data:image/bmp;base64,") && page.contains("signal 9"));
    let csv = table::csv(&gathered).unwrap();
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.contains("n2,1,missed,50.00,58.00,8.00,8.00"), "{csv}");
}

#[test]
fn a_lost_host_has_no_result_of_an_earlier_experiment() {
    let dir = tempfile::tempdir().unwrap();
    host(dir.path(), "n1", "kept", 50.0, "2026-03-01T12:00:00Z");
    host(dir.path(), "n2", "kept", 50.0, "2026-03-01T11:59:00Z");
    // Its clock is 5 s behind: it began with the first.
    host(dir.path(), "n3", "kept", 50.0, "2026-03-01T11:59:55Z");
    let mut all = experiment(vec![
        member(0, "n1", 0.0),
        member(1, "n2", 0.0),
        member(2, "n3", -5000.0),
    ]);
    all.start = Some("2026-03-01T12:00:00Z".to_owned());
    all.ends.clear();
    // Two were killed without a record, one of them in an earlier experiment.
    let start = std::time::SystemTime::from(
        all.start
            .as_ref()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap(),
    );
    let second = std::time::Duration::from_secs(1);
    for (rank, name, written) in [
        (3, "n4", start - second * 30),
        (4, "n5", start + second * 2),
    ] {
        host(dir.path(), name, "kept", 50.0, "2026-03-01T11:59:00Z");
        let own = dir.path().join(name);
        fs::remove_file(own.join("run.json")).unwrap();
        let csv = fs::File::options()
            .append(true)
            .open(own.join("achieved.csv"))
            .unwrap();
        csv.set_modified(written).unwrap();
        all.members.push(member(rank, name, 0.0));
    }
    put(dir.path(), &all);
    let mut gathered = read::experiment(dir.path()).unwrap();
    gathered.hosts.sort_by_key(|one| one.rank);
    let drawn = |one: &GatheredHost| !one.course.is_empty();
    let killed: Vec<bool> = gathered.hosts.drain(3..).map(|one| drawn(&one)).collect();
    assert_eq!(killed, [false, true]);
    gathered.hosts.sort_by_key(|one| one.verdict.is_some());
    let with_result = |one: &GatheredHost| one.verdict.is_some() && !one.course.is_empty();
    let results: Vec<bool> = gathered.hosts.iter().map(with_result).collect();
    let lost = &gathered.hosts[0];
    assert_eq!((lost.host.as_str(), lost.rank), ("n2", Some(1)));
    assert!(lost.course.is_empty() && lost.reason.contains("earlier experiment"));
    assert_eq!(results, [false, true, true]);
}

#[test]
fn what_ended_early_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    host(dir.path(), "n1", "kept", 50.0, "2026-03-01T12:00:00Z");
    host(dir.path(), "n3", "kept", 50.0, "2026-03-01T12:00:00Z");
    let all = experiment(vec![member(0, "n1", 0.0), member(2, "n3", 0.0)]);
    put(dir.path(), &all);
    let gathered = read::experiment(dir.path()).unwrap();
    assert_eq!(
        (gathered.verdict, gathered.exit_code()),
        (Verdict::Missed, exit::MISSED)
    );
    assert_eq!(gathered.reason, "n3 ended it early");
    // A load without a length has no other end than a signal.
    let mut asked = all;
    asked.early_end.as_mut().unwrap().why = crate::exchange::INTERRUPTED.to_owned();
    put(dir.path(), &asked);
    let gathered = read::experiment(dir.path()).unwrap();
    assert_eq!(gathered.exit_code(), exit::KEPT);
}

#[test]
fn directories_of_an_earlier_experiment_are_none_of_this_one() {
    let dir = tempfile::tempdir().unwrap();
    host(dir.path(), "n1", "kept", 50.0, "2026-03-01T12:00:00Z");
    host(dir.path(), "old", "missed", 70.0, "2026-02-01T12:00:00Z");
    let mut all = experiment(vec![member(0, "n1", 0.0)]);
    all.early_end = None;
    put(dir.path(), &all);
    let gathered = read::experiment(dir.path()).unwrap();
    assert_eq!(
        (gathered.hosts.len(), gathered.exit_code()),
        (1, exit::KEPT)
    );
}

#[test]
fn runs_that_are_half_written_are_hosts_without_a_result() {
    let dir = tempfile::tempdir().unwrap();
    host(dir.path(), "n1", "kept", 50.0, "2026-03-01T12:00:00Z");
    for (name, text) in [
        ("n2", "{\"format\":1,\"verdict\":\"ke"),
        ("n3", "{\"format\":99}"),
        (
            "n4",
            "{\"format\":1,\"failed_at\":\"x\",\"error\":{\"message\":\"no v2\"}}",
        ),
        ("n5", "\u{0}"),
    ] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("run.json"), text).unwrap();
    }
    fs::create_dir(dir.path().join("n6")).unwrap();
    fs::write(dir.path().join("n6/achieved.csv"), "what,is,this\n1,2,3\n").unwrap();
    // Not a run.
    fs::create_dir(dir.path().join("meeting")).unwrap();
    let gathered = read::experiment(dir.path()).unwrap();
    assert_eq!(gathered.hosts.len(), 6);
    let without = gathered.hosts.iter().filter(|one| one.verdict.is_none());
    let reasons: Vec<&str> = without.map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons.len(), 5);
    assert!(reasons.contains(&"no v2"), "{reasons:?}");
    assert!(reasons.contains(&"it left no run.json"), "{reasons:?}");
    assert!(
        gathered
            .reason
            .starts_with("5 of 6 hosts have no result (n2, n3, n4, n5, n6)")
    );
}

#[test]
fn a_directory_without_runs_is_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let error = read::experiment(dir.path()).unwrap_err();
    assert!(error.line().contains("no run of a host is in it"));
    assert_eq!(error.exit_code(false), exit::USAGE);
    fs::write(dir.path().join("n1.json"), "{}").unwrap();
    assert!(
        read::experiment(dir.path())
            .unwrap_err()
            .line()
            .contains("audit gather")
    );
    fs::write(dir.path().join("hosts.json"), "[1]").unwrap();
    assert!(
        read::experiment(dir.path())
            .unwrap_err()
            .line()
            .contains("hosts.json")
    );
}

#[test]
fn files_of_measurements_are_given_to_their_command() {
    let dir = tempfile::tempdir().unwrap();
    let all = experiment(vec![member(0, "n1", 0.0), member(1, "n2", 0.0)]);
    put(dir.path(), &all);
    for (name, remedy) in [
        ("n2.csv", "sandbag show "),
        ("n2.sbj", "sandbag jitter gather "),
        ("n2.json", "sandbag audit gather "),
    ] {
        fs::write(dir.path().join(name), "").unwrap();
        let error = read::experiment(dir.path()).unwrap_err();
        assert!(error.line().contains(remedy), "{}", error.line());
        assert_eq!(error.exit_code(false), exit::USAGE);
    }
    // A run is one, whatever stands beside it.
    host(dir.path(), "n1", "kept", 50.0, "2026-03-01T12:00:00Z");
    assert_eq!(read::experiment(dir.path()).unwrap().hosts.len(), 2);
}
