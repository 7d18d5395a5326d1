// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written comes back, whatever happens to the file on the way.

use proptest::prelude::*;

use super::block::*;
use super::*;
use crate::causes::{
    Attribution, AttributionMethod, AttributionSummary, Cause, CpuCauses, NoiseOrigin, ProcessInfo,
    SourceKind,
};
use crate::{
    CpuNotes, CpuTrace, Fault, JitterTrace, LoopClock, Notes, Span, TraceEvent, TraceHeader,
};

fn header(cpus: Vec<u32>) -> TraceHeader {
    TraceHeader {
        recorder: "test".to_owned(),
        host: Some("vm".to_owned()),
        kernel: None,
        began_s: Some(1.5),
        clock: LoopClock::Tsc,
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
                all.events.push(TraceEvent::new(now + wait, length_ns));
                now += wait + length_ns;
            }
            now += rest;
            all.known.push(Span::new(from_ns, now));
        }
        all
    })
}

/// A part of the known time with causes in it, of up to `sources`.
fn any_causes(cpu: u32, sources: u32) -> impl Strategy<Value = CpuCauses> {
    let cause = (0u64..10_000, 0u64..5_000, 0..sources);
    let span = (
        1u64..1_000,
        prop::collection::vec(cause, 0..20),
        0u64..1_000,
    );
    prop::collection::vec(span, 1..4).prop_map(move |spans| {
        let mut all = CpuCauses {
            cpu,
            ..CpuCauses::default()
        };
        let mut now = 0;
        for (gap, causes, rest) in spans {
            now += gap;
            let from_ns = now;
            for (wait, length_ns, source) in causes {
                now += wait;
                all.causes.push(Cause::new(now, length_ns, source));
            }
            now += rest;
            all.known.push(Span::new(from_ns, now));
        }
        all
    })
}

fn any_attribution() -> impl Strategy<Value = Attribution> {
    let source = (
        0..SourceKind::ALL.len(),
        any::<String>(),
        any::<Option<u32>>(),
    );
    let sources = prop::collection::vec(source, 1..6).prop_map(|all| {
        let sources = all.into_iter().map(|(kind, name, number)| {
            NoiseOrigin::new(
                SourceKind::ALL[kind],
                name.chars().take(50).collect::<String>(),
                number.filter(|number| *number < u32::MAX),
            )
        });
        sources.collect::<Vec<_>>()
    });
    sources.prop_flat_map(|sources| {
        let count = sources.len() as u32;
        (any_causes(0, count), any_causes(3, count)).prop_map(move |(a, b)| Attribution {
            about: AttributionSummary {
                method: AttributionMethod::Tracefs,
                lost: 7,
                processes: vec![ProcessInfo {
                    pid: 7,
                    name: "exe".to_owned(),
                    command: "/opt/exe --all".to_owned(),
                    group: "build.service".to_owned(),
                }],
                ..AttributionSummary::default()
            },
            sources: sources.clone(),
            cpus: vec![a, b],
        })
    })
}

fn any_trace() -> impl Strategy<Value = JitterTrace> {
    let attribution = prop::option::of(any_attribution());
    let parts = (any_cpu(0), any_cpu(3), any::<bool>(), attribution);
    parts.prop_map(|(a, b, ended, attribution)| JitterTrace {
        header: header(vec![0, 3]),
        cpus: vec![a, b],
        notes: ended.then(|| Notes {
            cpus: vec![CpuNotes::default(); 2],
        }),
        attribution: attribution.map(Box::new),
        warnings: Vec::new(),
    })
}

fn bytes(trace: &JitterTrace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).unwrap();
    bytes
}

fn fault(bytes: &[u8]) -> Fault {
    *read(bytes).unwrap_err().fault
}

#[test]
fn lengths_of_the_first_version_become_the_time_lost() {
    let event = |length_ns| TraceEvent::new(1_000, length_ns);
    let trace = |length_ns| {
        JitterTrace::new(
            header(vec![1]),
            vec![CpuTrace::new(
                1,
                vec![Span::new(0, 5_000)],
                vec![event(length_ns)],
            )],
            Some(Notes {
                cpus: vec![CpuNotes {
                    cpu: 1,
                    least_ns: 9.6,
                    ..CpuNotes::default()
                }],
            }),
        )
    };
    let mut bytes = bytes(&trace(500));
    assert_eq!(read(&bytes[..]).unwrap(), trace(500));
    bytes[MAGIC.len()] = 1;
    assert_eq!(read(&bytes[..]).unwrap(), trace(490));
}

#[test]
fn more_events_than_a_block_holds() {
    let events: Vec<TraceEvent> = (0..EVENTS_PER_BLOCK as u64 * 2 + 7)
        .map(|i| TraceEvent::new(i * 1000, 100 + i % 7))
        .collect();
    let until_ns = events.last().unwrap().end_ns() + 500;
    let trace = JitterTrace::new(
        header(vec![1]),
        vec![CpuTrace::new(1, vec![Span::new(0, until_ns)], events)],
        Some(Notes::default()),
    );
    let bytes = bytes(&trace);
    // Some bits per event, for these.
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    assert_eq!(read(&bytes[..]).unwrap(), trace);
}

#[test]
fn more_causes_and_sources_than_a_block_holds() {
    let sources: Vec<NoiseOrigin> = (0..10_000u32)
        .map(|number| NoiseOrigin::new(SourceKind::Task, format!("worker/{number}"), Some(number)))
        .collect();
    let causes: Vec<Cause> = (0..150_000u64)
        .map(|i| Cause::new(10 + i / 2 * 1000, 500 - i % 2, (i % 10_000) as u32))
        .collect();
    let span = Span::new(0, 100_000_000);
    let trace = JitterTrace {
        header: header(vec![1]),
        cpus: vec![CpuTrace::new(1, vec![span], vec![])],
        notes: Some(Notes::default()),
        attribution: Some(Box::new(Attribution {
            about: AttributionSummary::default(),
            sources,
            cpus: vec![CpuCauses::new(1, vec![span], causes)],
        })),
        warnings: Vec::new(),
    };
    let bytes = bytes(&trace);
    let back = read(&bytes[..]).unwrap();
    assert!(back == trace);
    // Who reads events only passes causes over.
    let events = read_parts(&bytes[..], false).unwrap();
    assert!(events.cpus == trace.cpus && events.attribution.is_none());
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    assert!(reader.next_block().unwrap().is_some());
    assert!(reader.next_block().unwrap().is_none());
    assert!(reader.notes().is_some() && reader.sources().len() == 10_000);
}

#[test]
fn causes_that_cannot_be_are_not_written() {
    let mut writer = Writer::new(Vec::new(), &header(vec![0])).unwrap();
    let span = Span::new(10, 20);
    let cause = |start_ns, source| Cause::new(start_ns, 1, source);
    let sources = [NoiseOrigin::new(SourceKind::Irq, "x", None)];
    for causes in [
        vec![cause(5, 0)],
        vec![cause(21, 0)],
        vec![cause(15, 0), cause(14, 0)],
        vec![cause(15, 1)],
    ] {
        assert!(
            writer.causes(0, span, &causes, &sources).is_err(),
            "{causes:?}"
        );
    }
}

#[test]
fn what_is_no_trace_is_named() {
    assert!(matches!(fault(b""), Fault::Empty));
    assert!(matches!(fault(b"sand"), Fault::NoTrace));
    assert!(matches!(fault(b"time,cpu0\n0,50\n"), Fault::NoTrace));
    assert!(matches!(
        fault(b"sandbagj\x03\x00more"),
        Fault::NewerVersion(3)
    ));
    let mut nothing = Vec::new();
    Writer::new(&mut nothing, &header(vec![0])).unwrap();
    assert!(matches!(fault(&nothing), Fault::CutOffAtOnce));
}

#[test]
fn what_cannot_be_is_not_written() {
    let mut writer = Writer::new(Vec::new(), &header(vec![0])).unwrap();
    let span = Span::new(10, 20);
    let event = TraceEvent::new;
    for events in [
        vec![event(5, 1)],
        vec![event(15, 10)],
        vec![event(15, 2), event(16, 1)],
    ] {
        assert!(writer.events(0, span, &events).is_err(), "{events:?}");
    }
    writer.events(0, span, &[event(10, 10)]).unwrap();
    // Of no length, at the end: there and back.
    let trace = JitterTrace::new(
        header(vec![0]),
        vec![CpuTrace::new(
            0,
            vec![span],
            vec![event(12, 3), event(20, 0)],
        )],
        Some(Notes::default()),
    );
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
            if let Some(back) = back.attribution {
                let whole = trace.attribution.unwrap();
                for back in &back.cpus {
                    let whole = &whole.of(back.cpu).unwrap().causes;
                    prop_assert_eq!(&whole[..back.causes.len()], &back.causes[..]);
                }
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

#[test]
fn numbers_of_cpus_are_those_that_a_kernel_has() {
    let of = |cpus: Vec<u32>| {
        let all = cpus.iter().map(|cpu| CpuTrace {
            cpu: *cpu,
            known: vec![Span::new(0, 10)],
            ..CpuTrace::default()
        });
        bytes(&JitterTrace::new(header(cpus.clone()), all.collect(), None))
    };
    assert!(read(&of(vec![0, 65_535])[..]).is_ok());
    assert!(matches!(fault(&of(vec![0, 70_000])), Fault::Impossible(_)));
}

#[test]
fn a_newer_version_is_named_with_ours() {
    let newer = VERSION + 1;
    let text = fault(&[&MAGIC[..], &newer.to_le_bytes()].concat()).to_string();
    assert!(
        text.contains(&format!("version {newer}")) && text.contains(&format!("version {VERSION}")),
        "{text}"
    );
}
