// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of causes.

use super::{CauseBlock, varint};
use crate::attribution::{Cause, MAX_NAME, NoiseOrigin, SourceKind};
use crate::{Fault, Span};

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
    for value in [
        0,
        u64::from(cpu),
        span.from_ns,
        span.length_ns(),
        new.len() as u64,
    ] {
        varint::push(row, value);
    }
    for source in new {
        let kind = SourceKind::ALL.iter().position(|kind| *kind == source.kind);
        varint::push(row, kind.unwrap_or_default() as u64);
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
    let mut rest = &row[..];
    const SHORT: Fault = Fault::Impossible("it ends too early");
    const BEYOND: Fault = Fault::Impossible("a time beyond 64 bits");
    let number = |rest: &mut &[u8]| varint::take(rest).ok_or(SHORT);
    let small =
        |value: u64| u32::try_from(value).map_err(|_| Fault::Impossible("a number that large"));
    if number(&mut rest)? != 0 {
        return Err(Fault::Impossible("it has columns of a later version"));
    }
    let cpu = small(number(&mut rest)?)?;
    let from_ns = number(&mut rest)?;
    let until_ns = from_ns.checked_add(number(&mut rest)?).ok_or(BEYOND)?;
    let new = number(&mut rest)?;
    if new > NEW_PER_BLOCK as u64 {
        return Err(Fault::Impossible("more sources than a block holds"));
    }
    for _ in 0..new {
        let kind = usize::try_from(number(&mut rest)?).unwrap_or(usize::MAX);
        let kind = SourceKind::ALL.get(kind).copied();
        let of = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).unwrap_or(usize::MAX);
        if length > MAX_NAME || length > rest.len() {
            return Err(SHORT);
        }
        let (name, after) = rest.split_at(length);
        rest = after;
        sources.push(NoiseOrigin::new(
            kind.ok_or(Fault::Impossible("a kind of cause of a later version"))?,
            String::from_utf8_lossy(name).into_owned(),
            match of {
                0 => None,
                of => Some(small(of - 1)?),
            },
        ));
    }
    let count = number(&mut rest)?;
    if count > PER_BLOCK as u64 {
        return Err(Fault::Impossible("more causes than a block holds"));
    }
    let mut causes = Vec::with_capacity(count as usize);
    let mut last_ns = from_ns;
    for _ in 0..count {
        let start_ns = last_ns.checked_add(number(&mut rest)?).ok_or(BEYOND)?;
        let length_ns = number(&mut rest)?;
        start_ns.checked_add(length_ns).ok_or(BEYOND)?;
        let source = small(number(&mut rest)?)?;
        if source as usize >= sources.len() {
            return Err(Fault::Impossible("a cause without a source"));
        }
        causes.push(Cause::new(start_ns, length_ns, source));
        last_ns = start_ns;
    }
    if last_ns > until_ns {
        return Err(Fault::Impossible(
            "a cause begins after its stretch of time",
        ));
    }
    Ok(CauseBlock {
        cpu,
        span: Span { from_ns, until_ns },
        causes,
    })
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
