// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every target does: read the bytes as a profile, to the end, and hold
//! what comes out against what a profile promises.

use sandbag_profile::{Format, ReadOptions, InputSource, Steps};

/// Reads at most this many steps: a packed file may hold far more than its
/// size suggests.
const STEPS: usize = 10_000;

/// Panics when the reader does, or when a step breaks the rules of `Steps`.
pub fn read(data: &[u8], format: Option<Format>) {
    let Ok(source) = InputSource::spool(&mut &*data, "input".into()) else {
        return;
    };
    let Ok(mut steps) = source.open(format, &ReadOptions::default()) else {
        return;
    };
    let cpus = steps.header().cpus.len();
    let mut last_ns = 0;
    for _ in 0..STEPS {
        let Ok(Some(step)) = steps.next_step() else {
            break;
        };
        assert_eq!(step.start_ns, last_ns);
        assert!(step.end_ns > step.start_ns);
        assert_eq!(step.cells.len(), cpus);
        for cell in step.cells.iter().flatten() {
            assert!((0.0..=100.0).contains(&cell.load_pct));
            assert!((0.0..=100.0).contains(&cell.steal_pct));
        }
        last_ns = step.end_ns;
    }
    drop(steps.warnings());
}
