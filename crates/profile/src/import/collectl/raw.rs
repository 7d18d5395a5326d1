// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw files of collectl: a line with the time, then lines of `/proc` as
//! they are.
//!
//! ```text
//! >>> 1795283934.001 <<<
//! cpu  4197887 6459 393936 2847255 11151 0 5099 4656 0 0
//! cpu0 2122138 3251 205120 1390562 7213 0 2447 2333 0 0
//! intr 32449797
//! load 0.41 0.97 1.41 2/107 5019
//! ```
//!
//! How the lines of the CPUs are read: [`super::super::snapshots`].

use crate::import::frame::import_samples;
use crate::import::snapshots::{SnapshotFormat, SnapshotStamp, Snapshots};
use crate::reader::ImportReader;
use crate::{Fault, Format, Result};

use super::block::{Block, is_collectl, is_table_header, marker};

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::CollectlRaw,
    // The comments may be longer than what is looked at.
    looks_like: |head| {
        is_collectl(head) && !head.lines().any(is_table_header)
            || head.data().next().is_some_and(|line| marker(line).is_ok())
    },
    open: |input| import_samples(Format::CollectlRaw, input, Snapshots::<CollectlRaw>::new),
};

#[derive(Default)]
struct CollectlRaw {
    block: Block,
}

impl SnapshotFormat for CollectlRaw {
    const FORMAT: Format = Format::CollectlRaw;
    const NO_TIME: &'static str = "collectl writes `>>> <epoch seconds> <<<`, and the beginning of the file may be lost; \
         write such a line with its time, or leave the snapshot out";

    fn other_line(&mut self, line: &[u8]) -> Result<Option<SnapshotStamp>, Fault> {
        if line.starts_with(b">>>") {
            return Ok(Some(SnapshotStamp {
                ns: marker(line)?,
                dated: true,
                local: false,
            }));
        }
        if line.starts_with(b"#") {
            self.block.take(Self::FORMAT, line)?;
        }
        Ok(None)
    }

    fn hertz(&self) -> u64 {
        self.block.hertz
    }

    fn host(&self) -> Option<String> {
        self.block.host.name()
    }
}
