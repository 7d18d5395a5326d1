// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces, behind their checksums: the input is cut into blocks, which get the
//! lengths and checksums that they need. Else no input would come further than
//! to the first of them. What is read can be written, and comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_jitter::format;

const HEADER: &[u8] = br#"{"recorder":"x","host":null,"kernel":null,"began_s":null,"clock":"tsc","cpus":[0,1,7],"real_time":null}"#;

fn block(kind: u8, payload: &[u8], into: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(&length);
    sum.update(payload);
    into.push(kind);
    into.extend(length);
    into.extend(sum.finalize().to_le_bytes());
    into.extend(payload);
}

/// `sandbagj`, a version, and a block for each piece that ends with 0xff 0xff;
/// the first byte of a piece says of which kind.
fn framed(data: &[u8]) -> Vec<u8> {
    let mut trace = b"sandbagj\x01\x00".to_vec();
    let own_header = data.first().is_some_and(|byte| *byte == b'H');
    if !own_header {
        block(b'H', HEADER, &mut trace);
    }
    let mut rest = data;
    while let Some((kind, after)) = rest.split_first() {
        let end = after.windows(2).position(|pair| pair == [0xff, 0xff]);
        let (payload, next) = match end {
            Some(at) => (&after[..at], &after[at + 2..]),
            None => (after, &[][..]),
        };
        match kind {
            // Compressed, as they are written.
            b'E' | b'C' => {
                let packed = zstd::bulk::compress(payload, 1).unwrap();
                block(*kind, &packed, &mut trace);
            }
            _ => block(*kind, payload, &mut trace),
        }
        rest = next;
    }
    trace
}

fuzz_target!(|data: &[u8]| {
    // As it stands, too.
    let _ = format::read(data);
    let Ok(trace) = format::read(&framed(data)[..]) else {
        return;
    };
    let mut bytes = Vec::new();
    format::write(&trace, &mut bytes).unwrap();
    let back = format::read(&bytes[..]).unwrap();
    assert_eq!(back.cpus, trace.cpus);
    assert_eq!(back.header, trace.header);
});
