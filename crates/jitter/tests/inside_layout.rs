// SPDX-License-Identifier: Apache-2.0 OR MIT
//! c/plan.h and src/inside/layout.rs describe the same bytes; c/jitter_walk.inc
//! and base/stats draw the same random numbers.

use std::io::Write as _;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use sandbag_jitter::inside::layout::{self, PlanHeader, PlanPortion, PlanShared, PlanSlot, flag};
use sandbag_jitter::replay::PlannedEvent;
use sandbag_stats::chance;

fn size_of_field<S, T>(_: impl Fn(&S) -> &T) -> usize {
    size_of::<T>()
}

/// Static assertions in C of the offset and size of each field; the fields are all
/// bytes of the structure, so that C has no other.
macro_rules! fields {
    ($rust:ident, $c:literal, $($field:ident)*) => {{
        let mut bytes = 0;
        let mut text = String::new();
        $(
            let (name, offset) = (stringify!($field), offset_of!($rust, $field));
            let size = size_of_field(|of: &$rust| &of.$field);
            bytes += size;
            text += &format!(
                "_Static_assert(offsetof(struct {0}, {name}) == {offset} && \
                 sizeof ((struct {0} *)0)->{name} == {size}, \"{0}.{name}\");\n", $c
            );
        )*
        assert_eq!(bytes, size_of::<$rust>(), $c);
        text + &format!("_Static_assert(sizeof(struct {0}) == {bytes}, \"{0}\");\n", $c)
    }};
}

#[test]
fn both_sides_of_the_plan_file_are_the_same() {
    let mut text = String::from("#include <stddef.h>\n#include \"plan.h\"\n");
    text += &fields!(PlanHeader, "plan_header",
        magic version header_size size begin_ns seed overhead_ns least_gap_ns late_ns longest_ns
        flags supervisor portions ranked slots signal phase_every portions_at events_at events
        shared_at filters exit_ns lead_ns on_time_ns away_ns columns group cpus
        pid_namespace only_names only_ranks reserved check);
    text += &fields!(PlanPortion, "plan_portion", first count axis_ns offset_ns length_ns);
    text += &fields!(PlannedEvent, "plan_event", due_ns length_ns);
    text += &fields!(PlanSlot, "plan_slot",
        pid tid rank portion ended signal name base_ns cpu_ns counters booked_ns due_ns
        process_ns threads reserved1 start length reserved2);
    text += &fields!(PlanShared, "plan_shared",
        stop sequence recycled early refused stopped_ns paused_ns pause_ns reserved1 owners
        gone);
    let flags = [
        ("PLAN_PER_THREAD", flag::PER_THREAD),
        ("PLAN_LOOP", flag::LOOP),
        ("PLAN_POLLED", flag::POLLED),
        ("PLAN_NO_FORK", flag::NO_FORK),
        ("PLAN_FROM_START", flag::FROM_START),
        ("PLAN_ONLY_RANKS", flag::ONLY_RANKS),
    ];
    let numbers = [
        ("PLAN_KNOWN", flags.iter().map(|(_, bit)| bit).sum()),
        ("PLAN_VERSION", layout::VERSION),
        ("PLAN_HEADER", layout::HEADER as u32),
        ("PLAN_ALIGN", layout::ALIGN as u32),
        ("PLAN_ONLY", layout::ONLY as u32),
        ("PLAN_SLOTS", layout::SLOTS),
        ("PLAN_BUCKETS", layout::BUCKETS as u32),
        ("OWNER_GONE", layout::OWNER_GONE),
        ("COUNTERS", layout::COUNTERS as u32),
        ("REFUSED", layout::REFUSED as u32),
        // As src/inside/outcome.rs reads them.
        ("ENDED_TIMER", 6),
        ("ENDED_SHORT", 7),
        ("PASSED", 7),
        ("PHASES", 11),
        ("AWAY", 13),
        ("REFUSED_NO_STATE", 5),
    ];
    for (name, number) in flags.iter().chain(&numbers) {
        text += &format!("_Static_assert({name} == {number}u, \"{name}\");\n");
    }
    let magic = String::from_utf8(layout::MAGIC.to_vec()).unwrap();
    text += &format!("_Static_assert(!__builtin_strcmp(PLAN_MAGIC, \"{magic}\"), \"magic\");\n");
    let mut compiler = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c"))
        .args(["-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut source = compiler.stdin.take().unwrap();
    source.write_all(text.as_bytes()).unwrap();
    drop(source);
    assert!(compiler.wait().unwrap().success(), "{text}");
}

unsafe extern "C" {
    /// Of c/jitter_walk.inc.
    safe fn sbj_mix(value: u64) -> u64;
    safe fn sbj_draw(seed: u64, stream: u64, n: u64, axis: u64) -> u64;
}

#[test]
fn both_sides_mix_as_published() {
    for (state, output) in [
        (0, 0xe220_a839_7b1d_cdaf),
        (chance::GOLDEN, 0x6e78_9e6a_a1b9_65f4),
        (chance::GOLDEN.wrapping_mul(2), 0x06c4_5d18_8009_454f),
        (chance::GOLDEN.wrapping_mul(3), 0xf88b_b8a8_724c_81ec),
    ] {
        assert_eq!((sbj_mix(state), chance::mix(state)), (output, output));
    }
}

proptest! {
    #[test]
    fn both_sides_draw_the_same(value: u64, seed: u64, stream: u64, n: u64, axis: u64) {
        prop_assert_eq!(sbj_mix(value), chance::mix(value));
        prop_assert_eq!(sbj_draw(seed, stream, n, axis), chance::draw(seed, stream, n, axis));
    }
}
