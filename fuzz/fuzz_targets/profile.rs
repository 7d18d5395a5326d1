// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load profiles: the input is read to its end, as the format that the
//! environment variable FORMAT names, or as what it looks like without one.
//! Every step is checked against the rules of `Steps`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandbag_profile::{Format, InputSource, ReadOptions, Steps};

/// Steps read at most: a packed file may hold far more than its size suggests.
const STEPS: usize = 10_000;

static FORMAT: LazyLock<Option<Format>> = LazyLock::new(|| {
    let name = std::env::var("FORMAT").ok()?;
    Some(name.parse().expect("FORMAT names a format"))
});

fuzz_target!(|data: &[u8]| {
    let Ok(source) = InputSource::spool(&mut &*data, "input".into()) else {
        return;
    };
    let Ok(mut steps) = source.open(*FORMAT, &ReadOptions::default()) else {
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
});
