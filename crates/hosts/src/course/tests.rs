// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Read as _;
use std::process::Stdio;

use nix::sys::signal::raise;
use sandbag_linux::child::ended_within;

use super::*;
use crate::clocks::Offset;
use crate::exchange::PlannedMember;
use crate::meeting::{fail, follow};

#[test]
fn a_command_s_own_code_ends_nobody_else() {
    let failed = |code: i32, has_command| {
        outcome(ExitStatus::from_raw(code << 8), has_command)
            .failure
            .is_some()
    };
    for (code, with, without) in [
        (0, false, false),
        (3, false, false),
        (4, false, false),
        (124, false, false),
        (1, false, true),
        (5, false, true),
        (125, true, true),
        (127, true, true),
        (130, false, true),
    ] {
        assert_eq!(
            (failed(code, true), failed(code, false)),
            (with, without),
            "{code}"
        );
    }
    let killed = outcome(ExitStatus::from_raw(9), true);
    assert_eq!(killed.code, 137);
    assert!(killed.failure.unwrap().contains("signal 9"));
}

#[test]
fn who_stood_still_does_not_take_that_for_the_silence_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let member = Member::here(0, 2).unwrap();
    let minute = Duration::from_secs(60);
    let mut course = Course::new(&member, &place, member.leader_note(), minute);
    let long_ago = Instant::now().checked_sub(2 * minute).unwrap();
    for seen in course.others.iter_mut().chain([&mut course.leader]) {
        seen.at = long_ago;
    }
    let lost = |course: &Course<'_>| course.others[1].is_lost(minute);
    course.excuse_own_absence(LOOK + LATE);
    assert!(lost(&course) && course.leader.is_lost(minute));
    course.excuse_own_absence(2 * minute);
    assert!(!lost(&course) && !course.leader.is_lost(minute));
}

#[test]
fn a_program_has_time_to_end_until_the_user_asks_twice_or_another_host_fails() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let member = Member::here(0, 2).unwrap();
    let by = |why: &str| Some(early_end(&member, why.to_owned()));
    let long_ago = || Instant::now().checked_sub(2 * GRACE);
    for (has_command, early, has_limit) in [
        (true, None, false),
        (true, by(INTERRUPTED), false),
        (true, by("it failed"), true),
        (false, None, true),
    ] {
        let mut course = Course::new(&member, &place, member.leader_note(), GRACE);
        course.early = early;
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It does not heed the signal from here on.
        let ready = child.stdout.as_mut().unwrap().read_exact(&mut [0]);
        ready.unwrap();
        course.end_if_asked(&mut child, has_command, true).unwrap();
        assert_eq!(course.grace_since.is_some(), has_limit);
        if !has_limit {
            course.asked_at = long_ago();
            course.end_if_asked(&mut child, true, true).unwrap();
            assert!(!ended_within(&mut child, Duration::from_millis(200)));
            // To this thread, which blocks it.
            raise(Signal::SIGTERM).unwrap();
            course.answer_later(Some(&child));
            assert!(course.is_asked_again && course.is_signalled);
            course.end_if_asked(&mut child, true, true).unwrap();
        }
        course.grace_since = long_ago();
        course.end_if_asked(&mut child, has_command, true).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}

#[test]
fn a_code_is_that_of_programs_only_where_their_record_is() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let member = Member::here(0, 1).unwrap();
    let record = dir.path().join("nodes.json");
    let task = Task {
        // This program is that of the tests, which refuses it.
        words: vec!["--no-such-option".into()],
        start_ns: 0,
        has_command: true,
        record: Some(TaskRecord::Nodes(record.clone())),
        lost_after: Duration::from_secs(60),
    };
    let run = || {
        let messages = Messages::new(true, 0);
        run(&member, &place, member.leader_note(), &task, &messages).unwrap()
    };
    let end = run();
    assert!(end.code != 0 && end.early.is_some(), "{:?}", end.ends);
    std::fs::write(&record, "").unwrap();
    let end = run();
    assert!(end.code != 0 && end.early.is_none(), "{:?}", end.ends);
}

#[test]
fn a_command_may_end_with_a_code_of_sandbag() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.json");
    let task = Task {
        words: Vec::new(),
        start_ns: 0,
        has_command: true,
        record: Some(TaskRecord::Run(run.clone())),
        lost_after: Duration::from_secs(60),
    };
    let fails = |code: i32| task.end(ExitStatus::from_raw(code << 8)).failure.is_some();
    for code in [125, 126, 127] {
        let _ = std::fs::remove_file(&run);
        assert!(fails(code));
        for (record, is_failure) in [
            (format!(r#"{{"command":{{"exit_code":{code}}}}}"#), false),
            (r#"{"command":{"exit_code":0}}"#.to_owned(), true),
            (r#"{"command":null}"#.to_owned(), true),
            (r#"{"error":{"message":"no v2"}}"#.to_owned(), true),
        ] {
            std::fs::write(&run, &record).unwrap();
            assert_eq!(fails(code), is_failure, "{code}: {record}");
        }
    }
    let killed = task.end(ExitStatus::from_raw(9));
    assert!(killed.failure.is_some());
}

#[test]
fn who_cannot_say_that_it_ended_says_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let leader = Member::here(0, 2).unwrap().leader_note();
    let member = Member::here(1, 2).unwrap();
    let mut course = Course::new(&member, &place, leader, Duration::from_secs(60));
    course.is_released = true;
    course.look().unwrap();
    assert!(!course.is_over());
    course.own = Some(ended(exit::KEPT, None));
    let (meeting, away) = (dir.path().join("meeting"), dir.path().join("away"));
    std::fs::rename(&meeting, &away).unwrap();
    course.look().unwrap();
    assert!(!course.is_over());
    // Not for ever.
    course.lost_after = Duration::ZERO;
    assert!(course.look().is_err());
    std::fs::rename(&away, &meeting).unwrap();
    course.look().unwrap();
    assert!(course.is_over());
    assert_eq!(place.member(1).unwrap().ended, course.own);
}

#[test]
fn who_has_ended_waits_for_rank_0() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let leader = Member::here(0, 2).unwrap().leader_note();
    let member = Member::here(1, 2).unwrap();
    let minute = Duration::from_secs(60);
    let has_ended = || {
        place.write_leader(&leader).unwrap();
        let mut course = Course::new(&member, &place, leader.clone(), minute);
        course.own = Some(ended(exit::FAILED, None));
        course.look().unwrap();
        course.look().unwrap();
        assert!(course.is_told && !course.is_over());
        course
    };
    let end = |why: &str| CourseEnd {
        code: exit::KEPT,
        early: Some(early_end(&member, why.to_owned())),
        by_others: false,
        ends: Vec::new(),
    };
    let mut course = has_ended();
    release(&place, &leader, &end("it failed"));
    course.look().unwrap();
    // How another ended later is none of this host's.
    assert!(course.is_over() && course.early.is_none());
    assert_eq!(place.leader().unwrap().end.unwrap().why, "it failed");
    // Rank 0 is gone.
    let mut course = has_ended();
    course.leader.at = Instant::now().checked_sub(2 * minute).unwrap();
    course.look().unwrap();
    assert!(course.is_over() && course.early.is_none());
    let mut course = has_ended();
    let another = Member::here(0, 2).unwrap().leader_note();
    place.write_leader(&another).unwrap();
    course.look().unwrap();
    assert!(course.is_over() && course.early.is_none());
}

#[test]
fn the_plan_is_said_until_all_have_begun() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let (first, other) = (Member::here(0, 2).unwrap(), Member::here(1, 2).unwrap());
    let mut leader = first.leader_note();
    leader.plan = Some(plan_of(&first));
    let minute = Duration::from_secs(60);
    let mut course = Course::new(&first, &place, leader.clone(), minute);
    let mut follower = Course::new(&other, &place, leader.clone(), minute);
    // Its answers before the plan are no sign that it has it.
    place.write_member(&other.answer(&leader, 0)).unwrap();
    course.look().unwrap();
    course.look().unwrap();
    assert_eq!(place.leader().unwrap().plan, leader.plan);
    follower.look().unwrap();
    course.look().unwrap();
    let members = || place.leader().unwrap().plan.map(|plan| plan.members);
    assert_eq!(members(), Some(Vec::new()));
    follower.look().unwrap();
    assert!(follower.early.is_none() && follower.note.plan == leader.plan);
    // A process of the same rank that comes late takes no word from the one that runs.
    let late = || follow(&Member::here(1, 2).unwrap(), &place, Duration::ZERO).unwrap_err();
    let running = place.member(1);
    assert!(late().line().contains("for rank 0"));
    let end = CourseEnd {
        code: exit::KEPT,
        early: None,
        by_others: false,
        ends: Vec::new(),
    };
    release(&place, &leader, &end);
    assert_eq!(members(), Some(Vec::new()));
    assert!(late().line().contains("for rank 0"));
    assert_eq!(place.member(1), running);
}

#[test]
fn who_cannot_begin_as_rank_0_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let (first, other) = (Member::here(0, 2).unwrap(), Member::here(1, 2).unwrap());
    let mut leader = first.leader_note();
    leader.plan = Some(plan_of(&first));
    let mut follower = Course::new(&other, &place, leader.clone(), Duration::from_secs(60));
    fail(&first, &place, &leader, "it read the plan late").unwrap();
    follower.look().unwrap();
    assert_eq!(
        follower.early.as_ref().unwrap().why,
        "it read the plan late"
    );
    follower.own = Some(ended(exit::INTERRUPTED, None));
    follower.look().unwrap();
    follower.look().unwrap();
    assert!(follower.is_over());
}

fn plan_of(first: &Member) -> StartPlan {
    StartPlan {
        start_ns: 0,
        members: vec![PlannedMember {
            rank: 0,
            host: first.host.clone(),
            nonce: first.nonce.clone(),
            offset: Offset::default(),
            clock: first.clock.clone(),
        }],
    }
}
