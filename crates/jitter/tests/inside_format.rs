// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library takes each plan that is written, and no other file.

use std::ffi::c_int;

use proptest::prelude::*;
use sandbag_jitter::inside::layout::{HEADER, Plain as _, PlanHeader};
use sandbag_jitter::inside::plan::{InsideOptions, PlanFile, Portion};
use sandbag_jitter::replay::{PlanColumn, PlannedEvent};

unsafe extern "C" {
    /// Of c/jitter.c: whether a file of that size that begins so can be used.
    fn sbj_valid(header: *const PlanHeader, size: u64) -> c_int;
}

fn valid(bytes: &[u8], size: u64) -> bool {
    let header = PlanHeader::of_bytes(bytes);
    // SAFETY: reads no more than the header.
    unsafe { sbj_valid(&raw const header, size) != 0 }
}

fn write(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan");
    let mut plan = PlanFile::create(&path, columns, portions, options).ok()?;
    let unfinished = std::fs::read(&path).unwrap();
    assert!(!valid(&unfinished, unfinished.len() as u64));
    plan.begin(1).unwrap();
    assert_eq!(plan.outcome().unwrap(), Default::default());
    Some(std::fs::read(&path).unwrap())
}

prop_compose! {
    fn column()(
        parts in prop::collection::vec((0u64..1000, 0u64..1000), 0..50),
        more in 1u64..1000,
    ) -> PlanColumn {
        let mut at = 0;
        let events = parts.iter().map(|(gap, length_ns)| {
            at += gap;
            let event = PlannedEvent { due_ns: at, length_ns: *length_ns };
            at += length_ns;
            event
        });
        let events: Vec<PlannedEvent> = events.collect();
        PlanColumn { known_ns: at + more, events }
    }
}

prop_compose! {
    fn options()(
        seed: u64,
        per_thread: bool,
        repeat: bool,
        polled: bool,
        no_forks: bool,
        phase_every in prop::option::of(0u64..5),
        slots in (1u32..5).prop_map(Some),
        overhead_ns: u64,
    ) -> InsideOptions {
        InsideOptions {
            seed, per_thread, repeat, polled, no_forks, phase_every, slots, overhead_ns,
            supervisor: Some(1),
            ..InsideOptions::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_taken(
        columns in prop::collection::vec(column(), 1..4),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0.0..1.0, 0.0..1.0), 1..5),
        options in options(),
        flip in (any::<prop::sample::Index>(), 0u32..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let portions: Vec<Portion> = picks
            .iter()
            .map(|(index, offset, length): &(prop::sample::Index, f64, f64)| {
                let column = index.index(columns.len());
                let known_ns = columns[column].known_ns;
                Portion {
                    column,
                    offset_ns: (known_ns as f64 * offset) as u64 % known_ns,
                    length_ns: ((known_ns as f64 * length) as u64).clamp(1, known_ns),
                }
            })
            .collect();
        let bytes = write(&columns, &portions, &options).expect("a plan");
        let size = bytes.len() as u64;
        prop_assert!(valid(&bytes, size));
        prop_assert!(!valid(&bytes, size - 1) && !valid(&bytes, size + 1));
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(!valid(cut, cut.len() as u64));
        let mut flipped = bytes.clone();
        flipped[flip.0.index(HEADER)] ^= 1 << flip.1;
        prop_assert!(!valid(&flipped, size));
    }

    #[test]
    fn noise_is_not_taken(bytes in prop::collection::vec(any::<u8>(), 0..HEADER), size: u64) {
        prop_assert!(!valid(&bytes, size));
    }
}

#[test]
fn a_plan_out_of_range_is_not_written() {
    let event = PlannedEvent::new;
    let column = |known_ns, events: &[PlannedEvent]| PlanColumn {
        known_ns,
        events: events.to_vec(),
    };
    let good = column(10, &[event(1, 2), event(5, 1)]);
    let whole = Portion::whole(0, 10);
    let at_the_end = Portion {
        offset_ns: 10,
        ..whole
    };
    let options = InsideOptions::default();
    let is_written =
        |columns: &[PlanColumn], portions: &[Portion]| write(columns, portions, &options).is_some();
    assert!(is_written(std::slice::from_ref(&good), &[whole]));
    assert!(!is_written(&[], &[whole]) && !is_written(std::slice::from_ref(&good), &[]));
    for portion in [
        Portion::whole(1, 10),
        at_the_end,
        Portion::whole(0, 11),
        Portion::whole(0, 0),
    ] {
        assert!(
            !is_written(std::slice::from_ref(&good), &[portion]),
            "{portion:?}"
        );
    }
    for column in [
        column(0, &[]),
        column(10, &[event(10, 1)]),
        column(10, &[event(5, 1), event(1, 1)]),
        column(10, &[event(5, u64::MAX)]),
    ] {
        assert!(
            !is_written(std::slice::from_ref(&column), &[whole]),
            "{column:?}"
        );
    }
    let no_slots = InsideOptions {
        slots: Some(0),
        ..InsideOptions::default()
    };
    assert!(write(&[good], &[whole], &no_slots).is_none());
}
