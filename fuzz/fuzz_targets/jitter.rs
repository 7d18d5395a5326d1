// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What other tools recorded, and traces; the format is detected. A trace that
//! was made of another tool's file can be written, and comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::attribution::table;
use sandbag_jitter::import::{ImportOptions, JitterRecording, Unit, detect, read};
use sandbag_jitter::{CpuTrace, format};

fuzz_target!(|data: &[u8]| {
    let options = ImportOptions {
        unit: Some(Unit::Ns),
        cpu: None,
        without_causes: false,
    };
    match read(data, "input", &options) {
        // Of another tool, and not packed.
        Ok(JitterRecording::Trace(trace)) if !format::is_trace(data) && detect(data).is_some() => {
            let mut bytes = Vec::new();
            format::write(&trace, &mut bytes).unwrap();
            let back = format::read(&bytes[..]).unwrap();
            assert_eq!(back.cpus, trace.cpus);
            assert_eq!(back.attribution, trace.attribution);
            if let Some(all) = &trace.attribution {
                let add = u64::saturating_add;
                let net = table(&trace, all).iter().map(|row| row.net_ns).fold(0, add);
                assert_eq!(net, trace.cpus.iter().map(CpuTrace::noise_ns).fold(0, add));
            }
        }
        Ok(JitterRecording::Distribution(all)) => {
            for series in &all.series {
                let ends = series.bins.windows(2);
                assert!(ends.clone().all(|pair| pair[0].until_ns <= pair[1].from_ns));
            }
        }
        Ok(JitterRecording::Trace(_)) | Err(_) => {}
    }
});
