// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests share.

use sandbag_jitter::replay::{ReplayOptions, ReplayPlan, Sync};

use super::progress::Virtual;
use crate::fixture::cpu;

/// Two phases of three ranks.
pub(super) fn three() -> Virtual {
    Virtual {
        ranks: 3,
        phases: 2,
        iterations: 1,
        calibrated_ns: 100,
        jitter_ns: vec![150, 100, 100, 120, 300, 100],
        quiet_ns: vec![100; 6],
        piled_ns: vec![0; 3],
        took_ns: 0,
        planned_pct: 0.0,
    }
}

/// 50 ns in each 1000 of two CPUs, of the second a quarter later.
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
