// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The format is detected and packed input is unpacked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sandbag_fuzz::read(data, None));
