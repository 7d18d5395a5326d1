// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the meeting.

use super::*;

fn member(rank: u32, ranks: u32, host: &str) -> Member {
    Member {
        host: host.to_owned(),
        ..Member::here(rank, ranks).unwrap()
    }
}

/// Rank 0 and the others, each in a thread.
fn meet(
    dir: &std::path::Path,
    members: &[Member],
    patience: Duration,
) -> Vec<Result<LeaderNote, String>> {
    let place = MeetingPlace::in_dir(dir).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|one| {
                let place = place.clone();
                scope.spawn(move || {
                    let met = match one.rank {
                        0 => lead(one, &place, patience),
                        _ => follow(one, &place, patience),
                    };
                    met.map_err(|error| error.line())
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn all_agree_on_a_start_also_after_an_earlier_experiment() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let members: Vec<Member> = ["a", "b", "c"]
            .into_iter()
            .zip(0..)
            .map(|(host, rank)| member(rank, 3, host))
            .collect();
        let met = meet(dir.path(), &members, Duration::from_secs(30));
        let plans: Vec<StartPlan> = met
            .into_iter()
            .map(|one| one.unwrap().plan.unwrap())
            .collect();
        assert!(plans.iter().all(|plan| *plan == plans[0]));
        assert!(plans[0].start_ns > wall_ns());
        for (one, member) in plans[0].members.iter().zip(&members) {
            assert_eq!((&one.nonce, &one.host), (&member.nonce, &member.host));
            // One clock.
            assert!(
                one.offset.ms.abs() <= one.offset.within_ms,
                "{:?}",
                one.offset
            );
        }
    }
}

#[test]
fn who_does_not_come_is_named_and_the_others_are_released() {
    let members = [member(0, 3, "a"), member(2, 3, "c")];
    let mut told = String::new();
    // Repeated where rank 2 did not run in time.
    for seconds in [0.6, 6.0, 60.0] {
        let dir = tempfile::tempdir().unwrap();
        let met = meet(dir.path(), &members, Duration::from_secs_f64(seconds));
        assert!(met[1].is_err());
        told.clone_from(met[0].as_ref().unwrap_err());
        if told.contains("2 of 3 hosts") {
            break;
        }
    }
    assert!(
        told.contains("2 of 3 hosts") && told.contains("ranks 1 ("),
        "{told}"
    );
    let alone = [member(1, 2, "b")];
    let empty = tempfile::tempdir().unwrap();
    let met = meet(empty.path(), &alone, Duration::from_millis(50));
    let told = met[0].as_ref().unwrap_err();
    assert!(told.contains("waited 0 s for rank 0"), "{told}");
}

#[test]
fn hosts_that_are_counted_otherwise_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let members = [member(0, 2, "a"), member(1, 3, "b")];
    let told = meet(dir.path(), &members, Duration::from_secs(60));
    for one in told {
        let told = one.unwrap_err();
        assert!(told.contains("b counts 3 hosts, and a 2"), "{told}");
    }
    // One that rank 0 does not look for.
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let leader = member(0, 2, "a").leader_note();
    place.write_leader(&leader).unwrap();
    let refused = follow(&member(2, 3, "c"), &place, Duration::ZERO).unwrap_err();
    assert!(
        refused.line().contains("rank 0 counts 2 hosts, and c 3"),
        "{}",
        refused.line()
    );
}

#[test]
fn who_hears_nothing_of_rank_0_writes_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let (first, other) = (member(0, 2, "a"), member(1, 2, "b"));
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&other, &place, Duration::from_secs(60)));
        let written_after = |before: i64| {
            let until = Instant::now() + Duration::from_secs(30);
            while Instant::now() < until {
                if let Some(note) = place.member(1).filter(|note| note.written_ns > before) {
                    return note;
                }
                std::thread::sleep(LOOK);
            }
            panic!("nothing was written");
        };
        let one = written_after(0);
        let two = written_after(one.written_ns);
        assert_eq!((one.leader.as_str(), two.leader.as_str()), ("", ""));
        assert_eq!(two.nonce, other.nonce);
        let led = lead(&first, &place, Duration::from_secs(60)).unwrap();
        assert_eq!(led, follower.join().unwrap().unwrap());
    });
}

#[test]
fn a_refusal_is_also_for_who_has_not_answered() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let refused = |why: &str| {
        let mut note = member(0, 2, "a").leader_note();
        note.end = Some(early_end(&member(0, 2, "a"), why.to_owned()));
        note
    };
    place.write_leader(&refused("of an earlier one")).unwrap();
    let other = member(1, 2, "b");
    let follow_for = |seconds| {
        let followed = follow(&other, &place, Duration::from_secs(seconds));
        followed.unwrap_err().line()
    };
    let told = follow_for(0);
    assert!(told.contains("for rank 0"), "{told}");
    std::fs::remove_file(dir.path().join("meeting/leader.json")).unwrap();
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow_for(60));
        let until = Instant::now() + Duration::from_secs(30);
        while place.member(1).is_none() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        place.write_leader(&refused("both are on a")).unwrap();
        let told = follower.join().unwrap();
        assert!(told.contains("both are on a"), "{told}");
    });
}

#[test]
fn a_directory_that_is_away_for_a_moment_ends_no_wait() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let (meeting, away) = (dir.path().join("meeting"), dir.path().join("away"));
    let members = [member(0, 2, "a"), member(1, 2, "b")];
    // Of an earlier experiment.
    let earlier = member(0, 2, "a").leader_note();
    place.write_leader(&earlier).unwrap();
    std::fs::rename(&meeting, &away).unwrap();
    for one in &members {
        let short = Duration::from_millis(10);
        let told = match one.rank {
            0 => lead(one, &place, short),
            _ => follow(one, &place, short),
        };
        let told = told.unwrap_err().line();
        assert!(told.contains("No such file"), "{told}");
    }
    let long = Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            std::fs::rename(&away, &meeting).unwrap();
        });
        let leader = scope.spawn(|| lead(&members[0], &place, long));
        let followed = follow(&members[1], &place, long).unwrap();
        assert_eq!(leader.join().unwrap().unwrap(), followed);
    });
}

#[test]
fn who_may_never_write_does_not_wait() {
    use std::io::{Error, ErrorKind};
    let mut unwritten = Unwritten::default();
    for (kind, lasts) in [
        (ErrorKind::StorageFull, false),
        (ErrorKind::StaleNetworkFileHandle, false),
        (ErrorKind::ReadOnlyFilesystem, true),
        (ErrorKind::PermissionDenied, true),
    ] {
        let told = Failure::from(Error::from(kind)).context("meeting/1.json");
        assert_eq!(unwritten.bear(Err(told)).is_err(), lasts, "{kind}");
        assert!(unwritten.0.is_some());
    }
    assert!(unwritten.bear(Ok(())).unwrap() && unwritten.0.is_none());
}

#[test]
fn one_sandbag_per_host_and_one_name_per_host() {
    let dir = tempfile::tempdir().unwrap();
    let members = [member(0, 2, "a"), member(1, 2, "a")];
    let met = meet(dir.path(), &members, Duration::from_secs(30));
    for one in &met {
        let told = one.as_ref().unwrap_err();
        assert!(told.contains("ranks 0 and 1 are both on a"), "{told}");
    }
    let other = Member {
        boot: "another".to_owned(),
        ..member(1, 2, "a")
    };
    let met = meet(
        dir.path(),
        &[member(0, 2, "a"), other],
        Duration::from_secs(30),
    );
    let told = met[0].as_ref().unwrap_err();
    assert!(told.contains("two hosts of the same name, a"), "{told}");
}

#[test]
fn files_that_are_none_of_ours_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let place = MeetingPlace::in_dir(dir.path()).unwrap();
    let meeting = dir.path().join("meeting");
    for (name, text) in [
        ("leader.json", "{\"nonce\":"),
        ("1.json", "\u{0}\u{1}"),
        ("2.json", "[]"),
    ] {
        std::fs::write(meeting.join(name), text).unwrap();
    }
    assert!(place.leader().is_none() && place.member(1).is_none() && place.member(2).is_none());
    let members = [member(0, 2, "a"), member(1, 2, "b")];
    let met = meet(dir.path(), &members, Duration::from_secs(30));
    assert!(met.iter().all(Result::is_ok));
}
