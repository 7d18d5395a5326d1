// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

#[test]
fn both_sides_see_the_same() {
    let ours = Board::create(3).unwrap();
    let fd = ours.file.try_clone().unwrap();
    let theirs = Board::open(fd).unwrap();
    let events = [7, 9].map(|due_ns| PlannedEvent::new(due_ns, due_ns * 2));
    let orders = Orders {
        begin_ns: 5,
        length_ns: 100,
        repeat: true,
        overhead_ns: 3,
        lead_ns: 2,
        early_ns: -4,
        events: 2,
    };
    ours.order(orders, &events);
    assert_eq!(theirs.orders(), orders);
    assert_eq!(theirs.event(1), events[1]);
    theirs.note(
        1,
        EventRecord {
            start_ns: 10,
            end_ns: 28,
            from_ns: 9,
            what: EventFate::Behind,
        },
    );
    assert_eq!(ours.record(1).what, EventFate::Behind);
    assert_eq!(ours.record(0).what, EventFate::NotReached);
    theirs.count_suffered(EventFate::Injected, (Sizes::Start, 0), 10, 14);
    assert_eq!(ours.later(EventFate::Injected), 1);
    assert_eq!(ours.sizes(Sizes::Length)[4], 1);
    let measured = InjectorNoise {
        overhead_ns: 1,
        seen: 9,
        began_late_ns: -7,
        wake_p99_ns: 6,
        ..InjectorNoise::default()
    };
    theirs.set_measured(measured);
    assert_eq!(ours.measured(), measured);
    for state in [
        InjectorState::Ready,
        InjectorState::Failed(13),
        InjectorState::Displaced,
    ] {
        theirs.set_state(state);
        assert_eq!(ours.state(), state);
    }
}

#[test]
fn what_is_no_board_is_refused() {
    let file = tempfile();
    assert!(Board::open(file).is_err());
    assert!(Board::create(usize::MAX).is_err());
}

/// A file that is long enough and holds zeros.
fn tempfile() -> OwnedFd {
    memory_file(c"x", 1 << 20).unwrap()
}
