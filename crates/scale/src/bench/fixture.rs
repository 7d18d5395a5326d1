// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measured times and plans for tests.

use sandbag_jitter::replay::{ReplayOptions, ReplayPlan, Sync};

use super::progress::Virtual;
use super::times::{BenchTimes, Segment};
use crate::fixture::cpu;

/// Two ranks; of each segment whether it had jitter, the works and the waits.
pub(crate) fn bench_times<const N: usize>(
    calibrated_ns: u64,
    segments: [(bool, Vec<u32>, Vec<u32>); N],
) -> BenchTimes {
    let segment = |(jitter, qt_ns, bt_ns)| Segment {
        jitter,
        qt_ns,
        bt_ns,
        courses: Vec::new(),
    };
    BenchTimes {
        ranks: 2,
        iterations: 1,
        calibrated_ns,
        segments: segments.map(segment).into(),
        ..BenchTimes::default()
    }
}

/// Virtual ranks with these works (phase by phase) without jitter and with it.
pub(super) fn virtual_times(
    ranks: u32,
    calibrated_ns: u64,
    quiet_ns: Vec<u32>,
    jitter_ns: Vec<u32>,
) -> Virtual {
    let phases = quiet_ns.len() as u32 / ranks;
    let segments = [(false, quiet_ns, Vec::new()), (true, jitter_ns, Vec::new())];
    Virtual {
        times: BenchTimes {
            ranks,
            ..bench_times(calibrated_ns, segments)
        },
        phases,
        planned_phases: phases,
        piled_ns: vec![0; ranks as usize],
        took_ns: 0,
        planned_pct: 0.0,
    }
}

/// Two phases of three ranks, which end after 250, 220 and 400 ns.
pub(super) fn three() -> Virtual {
    let jitter_ns = vec![150, 100, 300, 100, 120, 100];
    virtual_times(3, 100, vec![100; 6], jitter_ns)
}

/// 50 ns in each 1000 of two CPUs, on the second a quarter later.
pub(super) fn plan(sync: Sync) -> ReplayPlan {
    let late = |late_ns: u64| {
        let events: Vec<(u64, u64)> = (0..1000).map(|i| (i * 1000 + 100 + late_ns, 50)).collect();
        cpu(&[(0, 1_000_000)], &events)
    };
    let options = ReplayOptions {
        sync,
        ..ReplayOptions::default()
    };
    ReplayPlan::new(&[&late(0), &late(250)], &options).unwrap()
}
