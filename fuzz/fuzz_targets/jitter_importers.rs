// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each reader of other tools' jitter, chosen by the first byte of the input,
//! because detection keeps most inputs from most readers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::format;
use sandbag_jitter::import::{ImportOptions, JitterRecording, Unit, formats, read_as};

fuzz_target!(|data: &[u8]| {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let place = usize::from(*which) % formats().len();
    let Some(name) = formats().nth(place) else {
        return;
    };
    let options = ImportOptions {
        unit: [None, Some(Unit::Ns), Some(Unit::Us), Some(Unit::Ps)][usize::from(*which >> 6)],
        ..ImportOptions::default()
    };
    match read_as(name, text, "input.3", &options) {
        Ok(JitterRecording::Trace(trace)) => {
            let mut bytes = Vec::new();
            format::write(&trace, &mut bytes).unwrap();
            assert_eq!(format::read(&bytes[..]).unwrap().cpus, trace.cpus);
        }
        Ok(JitterRecording::Distribution(all)) => {
            for series in &all.series {
                let mut ends = series.bins.windows(2);
                assert!(ends.all(|pair| pair[0].until_ns <= pair[1].from_ns));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
