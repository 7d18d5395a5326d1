// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What other tools recorded, and traces; the format is detected. A trace that
//! was made of another tool's file can be written, and comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::format;
use sandbag_jitter::import::{Options, Recording, Unit, detect, read};

fuzz_target!(|data: &[u8]| {
    let options = Options {
        unit: Some(Unit::Ns),
        cpu: None,
    };
    match read(data, "input", &options) {
        // Of another tool, and not packed.
        Ok(Recording::Trace(trace)) if !format::is_trace(data) && detect(data).is_some() => {
            let mut bytes = Vec::new();
            format::write(&trace, &mut bytes).unwrap();
            assert_eq!(format::read(&bytes[..]).unwrap().cpus, trace.cpus);
        }
        Ok(Recording::Distribution(all)) => {
            for series in &all.series {
                let ends = series.bins.windows(2);
                assert!(ends.clone().all(|pair| pair[0].until_ns <= pair[1].from_ns));
            }
        }
        Ok(Recording::Trace(_)) | Err(_) => {}
    }
});
