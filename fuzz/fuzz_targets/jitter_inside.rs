// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries of processes in a plan file; any process may have written them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::inside::outcome;

fuzz_target!(|data: &[u8]| {
    let outcome = outcome::read(data, u64::MAX);
    let total = outcome.total();
    assert!(total.start.quantile(50.0) <= total.start.quantile(100.0));
});
