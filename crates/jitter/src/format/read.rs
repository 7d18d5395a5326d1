// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading, block by block.

use std::io::{ErrorKind, Read};

use super::block::{
    ABOUT, CAUSES, CauseBlock, EVENTS, EVENTS_PER_BLOCK, EventBlock, FormatBlock, HEADER, MAGIC,
    MAX_BLOCK, NOTES, VERSION, WITH_LEAST,
};
use sandbag_input::number::MAX_CPU;

use super::causes;
use super::varint::RowReader;
use crate::causes::{Attribution, AttributionSummary, CpuCauses, NoiseOrigin};
use crate::{CpuTrace, Error, Fault, JitterTrace, Notes, Result, Span, TraceEvent, TraceHeader};

/// Of an event, at most: two numbers of ten bytes; and what stands before.
const MAX_ROW: usize = EVENTS_PER_BLOCK * 20 + 100;

/// Reads a trace as a stream of blocks, in memory that does not grow with its
/// length.
pub struct TraceReader<R> {
    from: R,
    version: u16,
    /// Bytes that were read.
    offset: u64,
    header: TraceHeader,
    notes: Option<Notes>,
    about: Option<AttributionSummary>,
    sources: Vec<NoiseOrigin>,
    cut_off: bool,
    /// How far each CPU has come, in the order of the header.
    reached_ns: Vec<u64>,
    /// How far its causes have.
    explained_ns: Vec<u64>,
}

/// What was read of something of a known length.
enum ReadState {
    All,
    Nothing,
    Some,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// This is no trace, or its header is damaged.
    pub fn new(mut from: R) -> Result<Self> {
        let mut begin = [0; MAGIC.len() + 2];
        match fill(&mut from, &mut begin)? {
            ReadState::All => {}
            ReadState::Nothing => return Err(Fault::Empty.into()),
            ReadState::Some => return Err(Fault::NoTrace.into()),
        }
        let (magic, version) = begin.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Fault::NoTrace.into());
        }
        let version = u16::from_le_bytes([version[0], version[1]]);
        if version > VERSION {
            return Err(Fault::NewerVersion(version).into());
        }
        let mut offset = begin.len() as u64;
        let header: TraceHeader = match next(&mut from, &mut offset)? {
            Some((HEADER, payload)) => json("the header", &payload)?,
            Some(_) => return Err(at(begin.len() as u64, Fault::Impossible("no header"))),
            None => {
                return Err(at(
                    offset,
                    Fault::Impossible("cut off before its header ends"),
                ));
            }
        };
        if !header.cpus.is_sorted_by(|a, b| a < b) {
            return Err(Fault::Impossible("the CPUs of the header do not ascend").into());
        }
        if header.cpus.last().is_some_and(|cpu| *cpu > MAX_CPU) {
            return Err(Fault::Impossible("a CPU above 65535").into());
        }
        Ok(Self {
            from,
            version,
            offset,
            reached_ns: vec![0; header.cpus.len()],
            explained_ns: vec![0; header.cpus.len()],
            header,
            notes: None,
            about: None,
            sources: Vec::new(),
            cut_off: false,
        })
    }

    /// What stands before the first event.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// What stands after the last; `None` before the end, and if there is none.
    pub fn notes(&self) -> Option<&Notes> {
        self.notes.as_ref()
    }

    /// The sources of the causes so far.
    pub fn sources(&self) -> &[NoiseOrigin] {
        &self.sources
    }

    /// Whether the file ended in the middle of a block, or without notes.
    /// Complete at the end.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Result<FormatBlock, Fault> {
        if kind == EVENTS {
            let block = events(payload)?;
            advance(&self.header, &mut self.reached_ns, block.cpu, block.span)?;
            return Ok(FormatBlock::Events(block));
        }
        let block = causes::read(payload, &mut self.sources)?;
        advance(&self.header, &mut self.explained_ns, block.cpu, block.span)?;
        Ok(FormatBlock::Causes(block))
    }

    /// The next block of events; `None` after the last whole one.
    ///
    /// # Errors
    /// A block that is damaged, or that says what cannot be.
    pub fn next_block(&mut self) -> Result<Option<EventBlock>> {
        while let Some(part) = self.next_part()? {
            if let FormatBlock::Events(block) = part {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// The next block of events or causes; `None` after the last whole one.
    pub fn next_part(&mut self) -> Result<Option<FormatBlock>> {
        loop {
            let begin = self.offset;
            let Some((kind, payload)) = next(&mut self.from, &mut self.offset)? else {
                self.cut_off |= self.notes.is_none();
                return Ok(None);
            };
            match kind {
                EVENTS | CAUSES => {
                    let block = self.block(kind, &payload);
                    return block.map(Some).map_err(|fault| at(begin, fault));
                }
                ABOUT => self.about = Some(json("what is said of the causes", &payload)?),
                NOTES => self.notes = Some(json("the notes", &payload)?),
                HEADER => return Err(at(begin, Fault::Impossible("a second header"))),
                _ => {}
            }
        }
    }
}

/// Checks that the spans of a CPU ascend.
fn advance(header: &TraceHeader, reached: &mut [u64], cpu: u32, span: Span) -> Result<(), Fault> {
    let place = header.cpus.binary_search(&cpu);
    let place = place.map_err(|_| Fault::Impossible("a CPU that is not in the header"))?;
    let reached = &mut reached[place];
    if span.from_ns < *reached {
        return Err(Fault::Impossible(
            "it begins before the one before it ended",
        ));
    }
    *reached = span.until_ns;
    Ok(())
}

fn at(offset: u64, fault: Fault) -> Error {
    Error {
        file: None,
        offset: Some(offset),
        line: None,
        fault: Box::new(fault),
    }
}

fn json<T: serde::de::DeserializeOwned>(what: &'static str, payload: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(payload).map_err(|cause| Fault::Json { what, cause })
}

/// Kind and payload of the next block; `None` at the end, also in the middle
/// of a block.
fn next(from: &mut impl Read, offset: &mut u64) -> Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 9];
    let ReadState::All = fill(from, &mut head)? else {
        return Ok(None);
    };
    let [kind, l0, l1, l2, l3, c0, c1, c2, c3] = head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_BLOCK {
        return Err(at(*offset, Fault::Damaged));
    }
    // What the file holds, not what it claims, is what is allocated.
    let mut payload = Vec::new();
    let read = from.by_ref().take(length as u64).read_to_end(&mut payload);
    read.map_err(Fault::Io)?;
    if payload.len() < length {
        return Ok(None);
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..5]);
    crc.update(&payload);
    if crc.finalize() != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(at(*offset, Fault::Damaged));
    }
    *offset += (head.len() + length) as u64;
    Ok(Some((kind, payload)))
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<ReadState> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(ReadState::Nothing),
            Ok(0) => return Ok(ReadState::Some),
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Io(error).into()),
        }
    }
    Ok(ReadState::All)
}

fn events(packed: &[u8]) -> Result<EventBlock, Fault> {
    let row = zstd::bulk::decompress(packed, MAX_ROW).map_err(|_| Fault::Damaged)?;
    let mut row = RowReader(&row);
    let (cpu, span) = row.head()?;
    let count = row.count(EVENTS_PER_BLOCK, "more events than a block holds")?;
    let mut events = Vec::with_capacity(count);
    let mut last_ns = span.from_ns;
    for _ in 0..count {
        let start_ns = row.time_after(last_ns)?;
        last_ns = row.time_after(start_ns)?;
        events.push(TraceEvent::new(start_ns, last_ns - start_ns));
    }
    if last_ns > span.until_ns {
        return Err(Fault::Impossible("an event ends after its stretch of time"));
    }
    Ok(EventBlock { cpu, span, events })
}

/// Reads a whole trace. A file that was cut off is read to its last whole
/// block, with a warning.
pub fn read(from: impl Read) -> Result<JitterTrace> {
    read_parts(from, true)
}

/// The same, on demand without what caused the events, which takes more memory than they do.
pub(crate) fn read_parts(from: impl Read, with_causes: bool) -> Result<JitterTrace> {
    let mut reader = TraceReader::new(from)?;
    let mut cpus: Vec<CpuTrace> = reader
        .header()
        .cpus
        .iter()
        .map(|cpu| CpuTrace {
            cpu: *cpu,
            ..CpuTrace::default()
        })
        .collect();
    let mut of_causes: Vec<CpuCauses> = Vec::new();
    while let Some(part) = reader.next_part()? {
        let block = match part {
            FormatBlock::Events(block) => block,
            FormatBlock::Causes(block) => {
                if with_causes {
                    add(&mut of_causes, block);
                }
                continue;
            }
        };
        let place = reader.header().cpus.binary_search(&block.cpu);
        let cpu = &mut cpus[place.map_err(|_| Fault::Impossible("another CPU"))?];
        extend(&mut cpu.known, block.span);
        cpu.events.extend(block.events);
    }
    of_causes.sort_by_key(|causes| causes.cpu);
    let mut warnings = Vec::new();
    if reader.is_cut_off() {
        warnings.push(
            "the trace was cut off: it was read to its last whole block, and how it was recorded \
             is not known"
                .to_owned(),
        );
    }
    if cpus.iter().all(|cpu| cpu.known_ns() == 0) {
        let fault = if reader.is_cut_off() {
            Fault::CutOffAtOnce
        } else {
            Fault::NothingKnown
        };
        return Err(fault.into());
    }
    if reader.version == WITH_LEAST {
        for (cpu, notes) in cpus
            .iter_mut()
            .zip(reader.notes.iter().flat_map(|n| &n.cpus))
        {
            subtract(&mut cpu.events, notes.least_ns.round() as u64);
        }
    }
    let about = reader.about.take().filter(|_| with_causes);
    let attribution = (about.is_some() || !of_causes.is_empty()).then(|| {
        Box::new(Attribution {
            about: about.unwrap_or_default(),
            sources: std::mem::take(&mut reader.sources),
            cpus: of_causes,
        })
    });
    Ok(JitterTrace {
        header: reader.header.clone(),
        cpus,
        notes: reader.notes.take(),
        attribution,
        warnings,
    })
}

/// Makes the time lost of lengths from reading to reading.
fn subtract(events: &mut [TraceEvent], least_ns: u64) {
    for event in events {
        event.length_ns = event.length_ns.saturating_sub(least_ns);
    }
}

/// Stretches that touch are one.
fn extend(known: &mut Vec<Span>, span: Span) {
    match known.last_mut() {
        Some(last) if last.until_ns == span.from_ns => last.until_ns = span.until_ns,
        _ => known.push(span),
    }
}

fn add(all: &mut Vec<CpuCauses>, block: CauseBlock) {
    let place = all.iter().position(|causes| causes.cpu == block.cpu);
    let place = place.unwrap_or_else(|| {
        all.push(CpuCauses {
            cpu: block.cpu,
            ..CpuCauses::default()
        });
        all.len() - 1
    });
    extend(&mut all[place].known, block.span);
    all[place].causes.extend(block.causes);
}
