// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two programs of the name cpu-load-generator, and the files they take:
//! one of PyPI a JSON document of sequences ([`sequences`]), the older one a
//! list of loads ([`list`]).

mod list;
mod sequences;

use crate::Format;
use crate::reader::ImportReader;

/// The list is a column of numbers, which may be anything; it must be asked
/// for.
pub(super) const READER: ImportReader = ImportReader {
    format: Format::CpuLoadGenerator,
    looks_like: |head| {
        let keys: [&[u8]; 3] = [b"\"cpu_num\"", b"\"sequence\"", b"\"duration_s\""];
        head.opens_with(b'[') && keys.iter().all(|key| head.holds(key))
    },
    open: |input| {
        let mut lines = (input.lines)()?;
        let first = loop {
            match lines.next_line()?.map(<[u8]>::trim_ascii) {
                Some(line) => {
                    if let Some(first) = line.first() {
                        break Some(*first);
                    }
                }
                None => break None,
            }
        };
        match first {
            Some(b'[' | b'{') => sequences::read((input.lines)()?),
            _ => list::read(input),
        }
    },
};
