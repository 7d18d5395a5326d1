// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written comes back, whatever happens to the file on the way.

use proptest::prelude::*;

use super::*;
use crate::{Clock, CpuNotes, CpuTrace, Fault, Header, Notes, Trace};

fn header(cpus: Vec<u32>) -> Header {
    Header {
        recorder: "test".to_owned(),
        host: Some("vm".to_owned()),
        kernel: None,
        began_s: Some(1.5),
        clock: Clock::Tsc,
        cpus,
        real_time: None,
    }
}

/// Spans of up to 20 events, with gaps between some of them.
fn any_cpu(cpu: u32) -> impl Strategy<Value = CpuTrace> {
    let event = (0u64..5_000_000, 0u64..50_000);
    let span = (
        1u64..1_000,
        prop::collection::vec(event, 0..20),
        1u64..1_000_000,
    );
    prop::collection::vec(span, 1..5).prop_map(move |spans| {
        let mut all = CpuTrace {
            cpu,
            ..CpuTrace::default()
        };
        let mut now = 0;
        for (gap, events, rest) in spans {
            now += gap;
            let from_ns = now;
            for (wait, length_ns) in events {
                all.events.push(Event {
                    start_ns: now + wait,
                    length_ns,
                });
                now += wait + length_ns;
            }
            now += rest;
            all.known.push(Span {
                from_ns,
                until_ns: now,
            });
        }
        all
    })
}

fn any_trace() -> impl Strategy<Value = Trace> {
    (any_cpu(0), any_cpu(3), any::<bool>()).prop_map(|(a, b, ended)| Trace {
        header: header(vec![0, 3]),
        cpus: vec![a, b],
        notes: ended.then(|| Notes {
            cpus: vec![CpuNotes::default(); 2],
        }),
        warnings: Vec::new(),
    })
}

fn bytes(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).unwrap();
    bytes
}

fn fault(bytes: &[u8]) -> Fault {
    *read(bytes).unwrap_err().fault
}

#[test]
fn more_events_than_a_block_holds() {
    let events: Vec<Event> = (0..EVENTS_PER_BLOCK as u64 * 2 + 7)
        .map(|i| Event {
            start_ns: i * 1000,
            length_ns: 100 + i % 7,
        })
        .collect();
    let until_ns = events.last().unwrap().end_ns() + 500;
    let trace = Trace {
        header: header(vec![1]),
        cpus: vec![CpuTrace {
            cpu: 1,
            known: vec![Span {
                from_ns: 0,
                until_ns,
            }],
            events,
        }],
        notes: Some(Notes::default()),
        warnings: Vec::new(),
    };
    let bytes = bytes(&trace);
    // Some bits per event, for these.
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    assert_eq!(read(&bytes[..]).unwrap(), trace);
}

#[test]
fn what_is_no_trace_is_named() {
    assert!(matches!(fault(b""), Fault::Empty));
    assert!(matches!(fault(b"sand"), Fault::NoTrace));
    assert!(matches!(fault(b"time,cpu0\n0,50\n"), Fault::NoTrace));
    assert!(matches!(
        fault(b"sandbagj\x02\x00more"),
        Fault::NewerVersion(2)
    ));
    let mut nothing = Vec::new();
    Writer::new(&mut nothing, &header(vec![0])).unwrap();
    assert!(matches!(fault(&nothing), Fault::NothingKnown));
}

#[test]
fn what_cannot_be_is_not_written() {
    let mut writer = Writer::new(Vec::new(), &header(vec![0])).unwrap();
    let span = Span {
        from_ns: 10,
        until_ns: 20,
    };
    let event = |start_ns, length_ns| Event {
        start_ns,
        length_ns,
    };
    for events in [
        vec![event(5, 1)],
        vec![event(15, 10)],
        vec![event(15, 2), event(16, 1)],
    ] {
        assert!(writer.events(0, span, &events).is_err(), "{events:?}");
    }
    writer.events(0, span, &[event(10, 10)]).unwrap();
    // Of no length, at the end: there and back.
    let trace = Trace {
        header: header(vec![0]),
        cpus: vec![CpuTrace {
            cpu: 0,
            known: vec![span],
            events: vec![event(12, 3), event(20, 0)],
        }],
        notes: Some(Notes::default()),
        warnings: Vec::new(),
    };
    assert_eq!(read(&bytes(&trace)[..]).unwrap(), trace);
}

proptest! {
    #[test]
    fn traces_come_back(trace in any_trace()) {
        let mut back = read(&bytes(&trace)[..]).unwrap();
        prop_assert_eq!(back.warnings.len(), usize::from(trace.notes.is_none()));
        back.warnings.clear();
        prop_assert_eq!(back, trace);
    }

    #[test]
    fn a_file_that_was_cut_off_is_whole_up_to_its_last_block(
        trace in any_trace(), part in 0.0..1.0f64,
    ) {
        let bytes = bytes(&trace);
        let cut = (bytes.len() as f64 * part) as usize;
        if let Ok(back) = read(&bytes[..cut]) {
            prop_assert!(back.notes.is_none() && !back.warnings.is_empty());
            for (back, whole) in back.cpus.iter().zip(&trace.cpus) {
                prop_assert_eq!(&whole.events[..back.events.len()], &back.events[..]);
            }
        }
    }

    #[test]
    fn a_damaged_byte_is_found(trace in any_trace(), at: prop::sample::Index, by in 1u8..) {
        let mut bytes = bytes(&trace);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        // A length that was changed may look like a file that was cut off.
        if let Ok(back) = read(&bytes[..]) {
            prop_assert!(!back.warnings.is_empty() || back == trace);
        }
    }

    #[test]
    fn anything_may_stand_there(mut bytes: Vec<u8>, is_trace: bool) {
        if is_trace {
            bytes.splice(0..0, *b"sandbagj\x01\x00");
        }
        let _ = read(&bytes[..]);
    }
}
