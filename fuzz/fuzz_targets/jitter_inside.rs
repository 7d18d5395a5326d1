// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What processes booked in a plan file, who may be anybody.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::inside::outcome;

fuzz_target!(|data: &[u8]| {
    let outcome = outcome::read(data);
    let total = outcome.total();
    assert!(total.start.quantile(50.0) <= total.start.quantile(100.0));
});
