// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing, block by block.

use std::io::Write;

use super::block::{ABOUT, CAUSES, EVENTS, EVENTS_PER_BLOCK, HEADER, MAGIC, NOTES, VERSION};
use super::{causes, varint};
use crate::causes::{AttributionSummary, Cause, CpuCauses, NoiseOrigin};
use crate::{Fault, JitterTrace, Notes, Result, Span, TraceEvent, TraceHeader};

/// Of zstd: fast, for the recorder writes while others measure.
const LEVEL: i32 = 3;

/// Writes a trace as it becomes known.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    row: Vec<u8>,
    /// Sources that have been written.
    named: usize,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(out: W, header: &TraceHeader) -> Result<Self> {
        let mut this = Self {
            out,
            row: Vec::new(),
            named: 0,
        };
        this.out.write_all(MAGIC).map_err(Fault::Io)?;
        this.out
            .write_all(&VERSION.to_le_bytes())
            .map_err(Fault::Io)?;
        this.json(HEADER, "the header", header)?;
        Ok(this)
    }

    /// Writes what was found on one CPU in a stretch of time. Stretches of a
    /// CPU ascend, and so do events; they may be long.
    ///
    /// # Errors
    /// Those of `out`, or events that do not lie within the stretch.
    pub fn events(&mut self, cpu: u32, span: Span, events: &[TraceEvent]) -> Result<()> {
        let mut from_ns = span.from_ns;
        let mut chunks = events.chunks(EVENTS_PER_BLOCK).peekable();
        if events.is_empty() {
            return self.block(cpu, span, &[]);
        }
        while let Some(chunk) = chunks.next() {
            let until_ns = match chunks.peek() {
                None => span.until_ns,
                Some(_) => chunk.last().map_or(from_ns, TraceEvent::end_ns),
            };
            self.block(cpu, Span { from_ns, until_ns }, chunk)?;
            from_ns = until_ns;
        }
        Ok(())
    }

    fn block(&mut self, cpu: u32, span: Span, events: &[TraceEvent]) -> Result<()> {
        self.row.clear();
        varint::push_head(&mut self.row, cpu, span, events.len());
        let mut last_ns = span.from_ns;
        for event in events {
            let gap = event.start_ns.checked_sub(last_ns);
            let gap = gap.ok_or(Fault::Impossible("events overlap or do not ascend"))?;
            varint::push(&mut self.row, gap);
            varint::push(&mut self.row, event.length_ns);
            last_ns = event.end_ns();
        }
        if last_ns > span.until_ns {
            return Err(Fault::Impossible("an event ends after its stretch of time").into());
        }
        let packed = zstd::bulk::compress(&self.row, LEVEL).map_err(Fault::Io)?;
        self.put(EVENTS, &packed)
    }

    /// Writes what caused events of one CPU in a stretch of time in which the
    /// kernel was watched. Stretches of a CPU ascend; causes are in order and
    /// begin within it. Of `sources`, all so far, those are written that have
    /// not been.
    ///
    /// # Errors
    /// Those of `out`, or causes that do not ascend or name no source.
    pub fn causes(
        &mut self,
        cpu: u32,
        span: Span,
        all: &[Cause],
        sources: &[NoiseOrigin],
    ) -> Result<()> {
        let mut rest = all;
        let mut from_ns = span.from_ns;
        loop {
            let part = causes::part(rest, sources.len().saturating_sub(self.named));
            let (here, later) = rest.split_at(part.causes);
            let until_ns = if part.is_last {
                span.until_ns
            } else {
                later.first().map_or(from_ns, |cause| cause.start_ns)
            };
            let new = sources.get(self.named..self.named + part.sources);
            let span = Span { from_ns, until_ns };
            self.row.clear();
            causes::push(&mut self.row, cpu, span, new.unwrap_or_default(), here)?;
            self.named += part.sources;
            if here.iter().any(|cause| cause.source as usize >= self.named) {
                return Err(Fault::Impossible("a cause without a source").into());
            }
            let packed = zstd::bulk::compress(&self.row, LEVEL).map_err(Fault::Io)?;
            self.put(CAUSES, &packed)?;
            if part.is_last {
                return Ok(());
            }
            rest = later;
            from_ns = until_ns;
        }
    }

    /// Writes all that is known of the causes on one CPU; see
    /// [`Self::causes`].
    ///
    /// # Errors
    /// As of it, or a cause that begins where the kernel was not watched.
    pub fn causes_of(&mut self, of: &CpuCauses, sources: &[NoiseOrigin]) -> Result<()> {
        let mut rest = &of.causes[..];
        for (n, span) in of.known.iter().enumerate() {
            let inside = match of.known.get(n + 1) {
                Some(next) => rest.partition_point(|cause| cause.start_ns < next.from_ns),
                None => rest.len(),
            };
            let (here, later) = rest.split_at(inside);
            self.causes(of.cpu, *span, here, sources)?;
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Fault::Impossible("a cause of a time that is not known").into())
        }
    }

    /// Writes how causes were found.
    pub fn about(&mut self, about: &AttributionSummary) -> Result<()> {
        self.json(ABOUT, "what is said of the causes", about)
    }

    /// Writes the notes; without them a trace counts as cut off.
    pub fn finish(mut self, notes: &Notes) -> Result<W> {
        self.json(NOTES, "the notes", notes)?;
        self.out.flush().map_err(Fault::Io)?;
        Ok(self.out)
    }

    /// Hands what is buffered below on.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush().map_err(Fault::Io)?)
    }

    fn json(&mut self, kind: u8, what: &'static str, value: &impl serde::Serialize) -> Result<()> {
        let json = serde_json::to_vec(value).map_err(|cause| Fault::Json { what, cause })?;
        self.put(kind, &json)
    }

    /// One `write` per block.
    fn put(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let length = u32::try_from(payload.len())
            .map_err(|_| Fault::Impossible("a block of more than 4 GiB"))?;
        let mut block = vec![kind];
        block.extend_from_slice(&length.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&block);
        crc.update(payload);
        block.extend_from_slice(&crc.finalize().to_le_bytes());
        block.extend_from_slice(payload);
        Ok(self.out.write_all(&block).map_err(Fault::Io)?)
    }
}

/// Writes a whole trace.
pub fn write(trace: &JitterTrace, out: impl Write) -> Result<()> {
    let mut writer = Writer::new(out, &trace.header)?;
    for cpu in &trace.cpus {
        let mut rest = &cpu.events[..];
        for span in &cpu.known {
            // One of no length may stand at the very end.
            let inside = rest.partition_point(|event| {
                event.start_ns < span.until_ns || event.end_ns() <= span.until_ns
            });
            let (here, later) = rest.split_at(inside);
            writer.events(cpu.cpu, *span, here)?;
            rest = later;
        }
        if !rest.is_empty() {
            return Err(Fault::Impossible("an event lies outside the known time").into());
        }
    }
    if let Some(attribution) = &trace.attribution {
        for causes in &attribution.cpus {
            writer.causes_of(causes, &attribution.sources)?;
        }
        writer.about(&attribution.about)?;
    }
    match &trace.notes {
        Some(notes) => writer.finish(notes).map(drop),
        None => writer.flush(),
    }
}
