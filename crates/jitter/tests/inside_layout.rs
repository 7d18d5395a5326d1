// SPDX-License-Identifier: Apache-2.0 OR MIT
//! c/plan.h and src/plan/layout.rs are the same file; c/jitter_walk.inc and
//! crates/jitter/src/chance.rs the same chance.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::process::Command;

use proptest::prelude::*;
use sandbag_jitter::inside::plan::layout::{self, PlanHeader, flag, shared, slot};
use sandbag_stats::chance;

/// What a C program says of c/plan.h, by name.
fn of_c() -> BTreeMap<String, Vec<u64>> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("layout");
    let built = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/programs/layout.c"
        ))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.unwrap().success());
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_owned();
            (name, words.map(|word| word.parse().unwrap()).collect())
        })
        .collect()
}

/// Offset and size of each field of the header.
macro_rules! header {
    ($($field:ident),* $(,)?) => {
        [$((stringify!($field), offset_of!(PlanHeader, $field), size_of_field(|h: &PlanHeader| &h.$field))),*]
    };
}

fn size_of_field<T>(_: impl Fn(&PlanHeader) -> &T) -> usize {
    size_of::<T>()
}

#[test]
fn both_sides_of_the_plan_file_are_the_same() {
    let mut c = of_c();
    let mut is = |name: String, rust: &[usize]| {
        let found = c
            .remove(&name)
            .unwrap_or_else(|| panic!("{name} is not C's"));
        let rust: Vec<u64> = rust.iter().map(|n| *n as u64).collect();
        assert_eq!(found, rust, "{name}");
    };
    let header = header!(
        magic,
        version,
        header_size,
        size,
        begin_ns,
        seed,
        overhead_ns,
        least_gap_ns,
        late_ns,
        longest_ns,
        flags,
        supervisor,
        portions,
        ranked,
        slots,
        signal,
        phase_every,
        portions_at,
        events_at,
        events,
        shared_at,
        filters,
        exit_ns,
        lead_ns,
        on_time_ns,
        pid_namespace,
        only_names,
        only_ranks,
        reserved,
        check,
    );
    for (name, offset, size) in header {
        is(format!("header.{name}"), &[offset, size]);
    }
    // As `write` puts them, one after another.
    for (place, name) in ["first", "count", "axis_ns", "offset_ns", "length_ns"]
        .iter()
        .enumerate()
    {
        is(format!("portion.{name}"), &[8 * place, 8]);
    }
    is("event.due_ns".to_owned(), &[0, 8]);
    is("event.length_ns".to_owned(), &[8, 8]);
    let buckets = 4 * layout::BUCKETS;
    for (name, offset, size) in [
        ("pid", slot::PID, 4),
        ("tid", slot::TID, 4),
        ("rank", slot::RANK, 4),
        ("portion", slot::PORTION, 4),
        ("ended", slot::ENDED, 4),
        ("signal", slot::SIGNAL, 4),
        ("name", slot::NAME, 16),
        ("counters", slot::COUNTERS, 8 * layout::COUNTERS),
        ("start", slot::START, buckets),
        ("length", slot::LENGTH, buckets),
    ] {
        is(format!("slot.{name}"), &[offset, size]);
    }
    for (name, offset, size) in [
        ("stop", shared::STOP, 4),
        ("recycled", shared::RECYCLED, 4),
        ("refused", shared::REFUSED, 8 * layout::REFUSED),
        ("owners", shared::OWNERS, 4 * layout::SLOTS as usize),
        ("gone", shared::GONE, layout::SLOT),
    ] {
        is(format!("shared.{name}"), &[offset, size]);
    }
    for (name, number) in [
        ("portion", layout::PORTION),
        ("event", layout::EVENT),
        ("slot", layout::SLOT),
        ("shared", layout::SHARED),
        ("PLAN_VERSION", layout::VERSION as usize),
        ("PLAN_HEADER", layout::HEADER),
        ("PLAN_ALIGN", layout::ALIGN as usize),
        ("PLAN_ONLY", layout::ONLY),
        ("PLAN_SLOTS", layout::SLOTS as usize),
        ("PLAN_BUCKETS", layout::BUCKETS),
        ("PLAN_PER_THREAD", flag::PER_THREAD as usize),
        ("PLAN_LOOP", flag::LOOP as usize),
        ("PLAN_POLLED", flag::POLLED as usize),
        ("PLAN_NO_FORK", flag::NO_FORK as usize),
        ("PLAN_FROM_START", flag::FROM_START as usize),
        ("PLAN_ONLY_RANKS", flag::ONLY_RANKS as usize),
        ("OWNER_GONE", layout::OWNER_GONE as usize),
        ("COUNTERS", layout::COUNTERS),
        ("REFUSED", layout::REFUSED),
    ] {
        is(name.to_owned(), &[number]);
    }
    is(String::from_utf8(layout::MAGIC.to_vec()).unwrap(), &[]);
    assert!(c.is_empty(), "Rust does not know {:?}", c.keys());
}

unsafe extern "C" {
    /// Of c/jitter_walk.inc.
    safe fn sbj_mix(value: u64) -> u64;
    safe fn sbj_position(seed: u64, n: u64, axis: u64) -> u64;
}

/// The stream of positions of phases (sandbag_inject's portions).
const PHASES: u64 = 1;

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
    fn both_sides_come_to_the_same(value: u64, seed: u64, n: u64, axis: u64) {
        prop_assert_eq!(sbj_mix(value), chance::mix(value));
        prop_assert_eq!(sbj_position(seed, n, axis), chance::draw(seed, PHASES, n, axis));
    }
}
