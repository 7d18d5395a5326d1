// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An instance that is a tree of files, with pages as the kernel writes them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sandbag_linux::tracefs::ring::Record;

use super::*;
use crate::attribution::MarkKind;
use crate::causes::Cause;

const COMMON: &str = "\
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;
";

/// Of each event its number and its own fields.
const EVENTS: [(&str, u16, &str); 7] = [
    (
        "irq/irq_handler_entry",
        1,
        "	field:int irq;	offset:8;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:12;	size:4;	signed:0;
",
    ),
    (
        "irq/irq_handler_exit",
        2,
        "	field:int irq;	offset:8;	size:4;	signed:1;\n",
    ),
    (
        "irq/softirq_entry",
        3,
        "	field:unsigned int vec;	offset:8;	size:4;	signed:0;\n",
    ),
    (
        "irq/softirq_exit",
        4,
        "	field:unsigned int vec;	offset:8;	size:4;	signed:0;\n",
    ),
    ("irq_vectors/local_timer_entry", 5, ""),
    ("irq_vectors/local_timer_exit", 6, ""),
    (
        "sched/sched_switch",
        7,
        "	field:char next_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t next_pid;	offset:24;	size:4;	signed:1;
",
    ),
];

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn entry(id: u16, rest: &[u8]) -> Vec<u8> {
    let mut entry = id.to_le_bytes().to_vec();
    entry.extend([0; 6]);
    entry.extend(rest);
    entry
}

fn switch(pid: u32, comm: &str) -> Vec<u8> {
    let mut rest = comm.as_bytes().to_vec();
    rest.resize(16, 0);
    rest.extend(pid.to_le_bytes());
    entry(7, &rest)
}

/// A page of entries with their stamps.
fn page(begin: u64, flags: u64, entries: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut last = begin;
    for (at, bytes) in entries {
        let word = (bytes.len() / 4) as u32 | ((at - last) as u32) << 5;
        data.extend(word.to_le_bytes());
        data.extend(bytes);
        last = *at;
    }
    let mut page = begin.to_le_bytes().to_vec();
    page.extend((data.len() as u64 | flags).to_le_bytes());
    page.extend(data);
    page.resize(4096, 0);
    page
}

/// An instance as a tree of files.
fn instance(dir: &Path) -> Instance {
    for name in [
        "tracing_on",
        "tracing_cpumask",
        "per_cpu/cpu0/buffer_size_kb",
    ] {
        write(dir, name, "0");
    }
    write(dir, "trace_clock", "[local] global x86-tsc mono_raw\n");
    write(dir, "buffer_total_size_kb", "640\n");
    write(
        dir,
        "events/header_page",
        "	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
",
    );
    for (name, id, fields) in EVENTS {
        let text = format!("name: x\nID: {id}\nformat:\n{COMMON}\n{fields}\n");
        write(dir, &format!("events/{name}/format"), text);
        write(dir, &format!("events/{name}/enable"), "0");
    }
    Instance::at(dir)
}

fn stats(dir: &Path, overrun: u64) {
    let text = format!("entries: 1\noverrun: {overrun}\ndropped events: 0\n");
    write(dir, "per_cpu/cpu0/stats", text);
}

/// A count is a nanosecond.
const SCALE: Scale = Scale {
    begin: 1000,
    rate: 1e9,
};
const SPAN: Span = Span::new(0, 100_000);

#[test]
fn what_the_kernel_wrote_becomes_causes() {
    let dir = tempfile::tempdir().unwrap();
    let mut tracer = Tracer::new(instance(dir.path()), &CpuList::from_iter([0]), 320).unwrap();
    // Mono_raw would do as well, but for the test's clock.
    tracer.is_raw = false;
    for (name, ..) in EVENTS {
        let path = dir.path().join("events").join(name).join("enable");
        assert_eq!(fs::read_to_string(path).unwrap(), "1", "{name}");
    }
    let mut irq = 36u32.to_le_bytes().to_vec();
    irq.extend((16 | 5u32 << 16).to_le_bytes());
    irq.extend(b"eth0\0\0\0\0");
    let vec = |n: u32| n.to_le_bytes();
    let mut bytes = page(
        1000,
        0,
        &[
            (2100, entry(5, &[])),
            (2200, entry(6, &[])),
            (2300, entry(3, &vec(7))),
            (2310, entry(1, &irq)),
            (2320, entry(2, &36u32.to_le_bytes())),
            (2350, entry(4, &vec(7))),
            // Of an event that is not traced.
            (2360, entry(99, &vec(7))),
        ],
    );
    bytes.extend(page(
        3000,
        0,
        &[
            (3100, switch(77, "cc1")),
            (3200, switch(0, "swapper/0")),
            (3300, switch(9, "jitter-0")),
            (9000, switch(5, "late")),
        ],
    ));
    write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", bytes);
    stats(dir.path(), 0);
    let events = [(1050, 400), (2050, 300), (5000, 10)]
        .map(|(start_ns, length_ns)| TraceEvent::new(start_ns, length_ns));
    let got = tracer.causes(0, 9, SPAN, &events, SCALE).unwrap();
    let name = |cause: &Cause| {
        let source = &tracer.sources()[cause.source as usize];
        (
            cause.start_ns,
            cause.length_ns,
            source.name.clone(),
            source.number,
        )
    };
    let named: Vec<_> = got.causes.iter().map(name).collect();
    let row = |start, length, name: &str, number| (start, length, name.to_owned(), number);
    assert_eq!(
        named,
        [
            row(1100, 100, "local_timer", None),
            row(1300, 50, "SCHED", Some(7)),
            row(1310, 10, "eth0", Some(36)),
            row(2100, 100, "cc1", Some(77)),
            row(2200, 100, "swapper/0", Some(0)),
        ]
    );
    assert_eq!(got.known, [SPAN]);
    let about = tracer.about();
    assert_eq!((about.entries, about.lost, about.outside), (11, 0, 1));
    assert_eq!(about.buffer_kib, 640);
}

#[test]
fn what_was_overwritten_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut tracer = Tracer::new(instance(dir.path()), &CpuList::from_iter([0]), 320).unwrap();
    tracer.is_raw = false;
    let bytes = page(
        5000,
        1 << 31,
        &[(5100, entry(6, &[])), (8000, entry(5, &[]))],
    );
    write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", bytes);
    stats(dir.path(), 17);
    let known = Span::new;
    let got = tracer.causes(0, 9, SPAN, &[], SCALE).unwrap();
    assert_eq!(got.known, [known(4000, 100_000)]);
    assert_eq!(tracer.about().lost, 17);
    // Nothing more in the next round; then all of it is lost.
    write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", "");
    assert_eq!(tracer.causes(0, 9, SPAN, &[], SCALE).unwrap().known, [SPAN]);
    stats(dir.path(), 18);
    assert_eq!(tracer.causes(0, 9, SPAN, &[], SCALE).unwrap().known, []);
}

#[test]
fn stamps_of_the_other_clock_become_counts() {
    let at = |counts, raw_ns| Moment { counts, raw_ns };
    let round = Round {
        from: at(1_000_000, 500),
        until: at(1_000_000 + 2_600_000_000, 1_000_000_500),
    };
    assert_eq!(round.counts(500), 1_000_000);
    assert_eq!(round.counts(1500), 1_002_600);
    assert_eq!(round.counts(0), 1_000_000 - 1300);
}

#[test]
fn a_kernel_without_the_events_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let instance = instance(dir.path());
    fs::remove_dir_all(dir.path().join("events/sched")).unwrap();
    let error = Tracer::new(instance, &CpuList::from_iter([0]), 320).unwrap_err();
    assert!(error.to_string().contains("sched_switch"), "{error}");
}

proptest! {
    // Each makes a tree of files.
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Entries that no kernel writes.
    #[test]
    fn anything_may_stand_in_an_entry(
        all in prop::collection::vec((0u16..9, prop::collection::vec(any::<u8>(), 0..40)), 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut entries = Entries::enable(&instance(dir.path())).unwrap();
        for (id, rest) in all {
            let data = entry(id, &rest);
            let record = Record { at: 0, data: &data };
            if let Some(MarkKind::Enter { source, .. } | MarkKind::Task { source }) =
                entries.mark_kind(9, record)
            {
                prop_assert!((source as usize) < entries.sources().len());
            }
            let short = Record { at: 0, data: &data[..1] };
            prop_assert_eq!(entries.mark_kind(9, short), None);
        }
    }
}
