// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of causes.

use super::block::CauseBlock;
use super::varint::{self, RowReader};
use crate::causes::{Cause, MAX_NAME, NoiseOrigin, SourceKind};
use crate::{Fault, Span};

const LARGE: Fault = Fault::Impossible("a number that large");
/// Causes of a block at most.
const PER_BLOCK: usize = 1 << 16;
/// Sources that a block names at most.
const NEW_PER_BLOCK: usize = 1 << 12;
/// Unpacked, at most: numbers of ten bytes, names, and what stands before.
const MAX_ROW: usize = PER_BLOCK * 30 + NEW_PER_BLOCK * (MAX_NAME + 30) + 100;

/// What the next block holds.
pub(super) struct CauseHead {
    pub(super) causes: usize,
    pub(super) sources: usize,
    pub(super) is_last: bool,
}

/// The next block for these causes and `new` sources: a source precedes its causes.
pub(super) fn part(rest: &[Cause], new: usize) -> CauseHead {
    if new > NEW_PER_BLOCK {
        return CauseHead {
            causes: 0,
            sources: NEW_PER_BLOCK,
            is_last: false,
        };
    }
    CauseHead {
        causes: rest.len().min(PER_BLOCK),
        sources: new,
        is_last: rest.len() <= PER_BLOCK,
    }
}

pub(super) fn push(
    row: &mut Vec<u8>,
    cpu: u32,
    span: Span,
    new: &[NoiseOrigin],
    causes: &[Cause],
) -> Result<(), Fault> {
    varint::push_head(row, cpu, span, new.len());
    for source in new {
        varint::push(row, source.kind as u64);
        varint::push(row, source.number.map_or(0, |number| u64::from(number) + 1));
        let name = source.name.as_bytes();
        if name.len() > MAX_NAME {
            return Err(Fault::Impossible("a name that long"));
        }
        varint::push(row, name.len() as u64);
        row.extend_from_slice(name);
    }
    varint::push(row, causes.len() as u64);
    let mut last_ns = span.from_ns;
    for cause in causes {
        let gap = cause.start_ns.checked_sub(last_ns);
        let gap = gap.filter(|_| cause.start_ns <= span.until_ns);
        let gap = gap.ok_or(Fault::Impossible("causes do not ascend in their stretch"))?;
        for value in [gap, cause.length_ns, u64::from(cause.source)] {
            varint::push(row, value);
        }
        last_ns = cause.start_ns;
    }
    Ok(())
}

/// Reads a block; its new sources are added to those known.
pub(super) fn read(packed: &[u8], sources: &mut Vec<NoiseOrigin>) -> Result<CauseBlock, Fault> {
    let row = zstd::bulk::decompress(packed, MAX_ROW).map_err(|_| Fault::Damaged)?;
    let mut row = RowReader(&row);
    let (cpu, span) = row.head()?;
    for _ in 0..row.count(NEW_PER_BLOCK, "more sources than a block holds")? {
        let kind = usize::try_from(row.number()?).unwrap_or(usize::MAX);
        let kind = SourceKind::ALL.get(kind).copied();
        let number = match row.number()? {
            0 => None,
            number => Some(u32::try_from(number - 1).map_err(|_| LARGE)?),
        };
        let length = row.count(MAX_NAME, "a name that long")?;
        let name = row.text(length)?;
        let kind = kind.ok_or(Fault::Impossible("a kind of cause of a later version"))?;
        sources.push(NoiseOrigin::new(kind, name, number));
    }
    let count = row.count(PER_BLOCK, "more causes than a block holds")?;
    let mut causes = Vec::with_capacity(count);
    let mut last_ns = span.from_ns;
    for _ in 0..count {
        last_ns = row.time_after(last_ns)?;
        let length_ns = row.time_after(last_ns)? - last_ns;
        let source = row.small()?;
        if source as usize >= sources.len() {
            return Err(Fault::Impossible("a cause without a source"));
        }
        causes.push(Cause::new(last_ns, length_ns, source));
    }
    if last_ns > span.until_ns {
        return Err(Fault::Impossible(
            "a cause begins after its stretch of time",
        ));
    }
    Ok(CauseBlock { cpu, span, causes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A block that its checksum fits.
        #[test]
        fn anything_may_stand_there(row in prop::collection::vec(0u8..12, 0..80)) {
            let packed = zstd::bulk::compress(&row, 1).unwrap();
            let mut sources = Vec::new();
            if let Ok(block) = read(&packed, &mut sources) {
                prop_assert!(block.causes.is_sorted_by_key(|cause| cause.start_ns));
                let inside = |cause: &Cause| (cause.source as usize) < sources.len();
                prop_assert!(block.causes.iter().all(inside));
            }
        }
    }
}
