// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_profile::Format;

fuzz_target!(|data: &[u8]| sandbag_fuzz::read(data, Some(Format::OpenMetrics)));
