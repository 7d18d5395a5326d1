// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading what other tools recorded.
//!
//! Tools that write down every event give a [`JitterTrace`]. Those that write down
//! only a histogram, totals, or how much work was done in each stretch of time
//! give a [`Distribution`], of which no event can be made. The format is told
//! from the beginning of the file.

mod args;
mod counts;
mod csv;
mod cyclictest;
mod event_set;
mod ftq;
mod ftrace;
mod fwq;
mod injector;
mod lines;
mod loggopsim;
mod netgauge_quanta;
mod noises;
mod number;
mod osjitter;
mod osnoise;
mod osnoise_periods;
mod rt_json;
mod rtla_hist;
mod rtla_top;
mod selfish;
mod sysjitter;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

pub use args::ImportArgs;
use lines::{LinePlace, TextLines};
use sandbag_input::Head;

use crate::{Distribution, Fault, JitterTrace, Result, format};

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum JitterRecording {
    /// Events.
    Trace(JitterTrace),
    /// Only how they are distributed.
    Distribution(Distribution),
}

impl JitterRecording {
    /// What the user should hear.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Trace(trace) => &trace.warnings,
            Self::Distribution(distribution) => &distribution.warnings,
        }
    }

    /// The events.
    ///
    /// # Errors
    /// There are none, only a distribution.
    pub fn into_trace(self) -> Result<JitterTrace> {
        match self {
            Self::Trace(trace) => Ok(trace),
            Self::Distribution(distribution) => Err(Fault::NotEvents(distribution.recorder).into()),
        }
    }
}

/// The unit of times that a file does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Unit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Picoseconds
    Ps,
}

impl Unit {
    fn in_ns(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ps => 1e-3,
        }
    }
}

/// What a file may leave open.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// The unit of its times.
    pub unit: Option<Unit>,
    /// The CPU on which it was recorded; by default the number at the end of
    /// the file's name, else 0.
    pub cpu: Option<u32>,
    /// What caused the events is not needed: it is left out of the memory.
    pub without_causes: bool,
}

/// How one format is told from the others, and read.
struct FormatReader {
    name: &'static str,
    /// Whether this is the beginning of such a file.
    looks_like: fn(&Head<'_>) -> bool,
    read: fn(Input<'_>) -> Result<JitterRecording>,
}

/// What a reader is given.
struct Input<'a> {
    lines: TextLines<'a>,
    options: &'a ImportOptions,
    name: &'a str,
}

impl Input<'_> {
    /// The CPU of a file that holds one and does not say which. Tools that
    /// write a file per CPU put its number at the end of the name.
    fn only_cpu(&self) -> u32 {
        let ending = self
            .name
            .rsplit(['.', '_', '/'])
            .find(|part| !matches!(*part, "dat" | "txt" | "out" | "raw"));
        let of_name = ending.and_then(number::cpu);
        self.options.cpu.or(of_name).unwrap_or(0)
    }
}

/// All that can be read. The first that recognises a file has it: those with a
/// mark of their own come first, those that take much for theirs last.
const READERS: &[FormatReader] = &[
    csv::READER,
    rtla_hist::READER,
    rtla_top::READER,
    selfish::READER,
    netgauge_quanta::READER,
    sysjitter::READER,
    cyclictest::READER,
    rt_json::READER,
    injector::READER,
    fwq::READER,
    ftq::READER,
    osjitter::READER,
    osnoise::READER,
    osnoise_periods::READER,
    loggopsim::READER,
];

/// Times beyond this are not believed; sums of two stay within 64 bits.
const MAX_NS: u64 = 1 << 62;
/// How much of a file is looked at to tell its format.
const HEAD: u64 = 16 << 10;

/// The byte order mark that some editors put before UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// It cannot be read, is nothing that is known here, or is damaged.
pub fn open(path: &Path, options: &ImportOptions) -> Result<JitterRecording> {
    if path.as_os_str() == "-" {
        return read(io::stdin(), "standard input", options);
    }
    let name = path.to_string_lossy();
    let place = LinePlace {
        file: &name,
        line: 0,
    };
    let file = File::open(path).map_err(|cause| place.fault(Fault::Io(cause)))?;
    read(file, &name, options)
}

/// Reads what `from` has, unpacked if it is packed (gzip, xz, zstd); `name` is
/// what messages call it.
///
/// # Errors
/// As of [`open`].
pub fn read(
    from: impl Read + Send,
    name: &str,
    options: &ImportOptions,
) -> Result<JitterRecording> {
    let whole = LinePlace {
        file: name,
        line: 0,
    };
    let mut from =
        sandbag_input::unpack::unpack(from).map_err(|cause| whole.fault(Fault::Io(cause)))?;
    let mut head = Vec::new();
    let read = from.by_ref().take(HEAD).read_to_end(&mut head);
    read.map_err(|cause| whole.fault(Fault::Io(cause)))?;
    if head.starts_with(MARK) {
        head.drain(..MARK.len());
    }
    if head.trim_ascii().is_empty() {
        return Err(whole.fault(Fault::Empty));
    }
    let all = |head: Vec<u8>| BufReader::with_capacity(1 << 20, Cursor::new(head).chain(from));
    if format::is_trace(&head) {
        let trace = if options.without_causes {
            format::read_without_causes(all(head))
        } else {
            format::read(all(head))
        };
        let trace = trace.map_err(|error| error.in_file(name))?;
        return Ok(JitterRecording::Trace(trace));
    }
    let reader = reader_of(&head).ok_or_else(|| whole.fault(Fault::UnknownFormat(names())))?;
    (reader.read)(Input {
        lines: TextLines::new(Box::new(all(head)), name),
        options,
        name,
    })
}

fn reader_of(head: &[u8]) -> Option<&'static FormatReader> {
    // A line that is cut off may look like another.
    let newline = head.iter().rposition(|b| *b == b'\n');
    let end = newline.filter(|_| head.len() + MARK.len() >= HEAD as usize);
    let end = end.map_or(head.len(), |at| at + 1);
    let text = String::from_utf8_lossy(&head[..end]);
    let head = Head::new(text.as_bytes());
    READERS.iter().find(|reader| (reader.looks_like)(&head))
}

/// The name of the format that a file begins like; `None` where it looks like
/// nothing known. `head` is without byte order mark; some kilobytes are enough.
#[must_use]
pub fn detect(head: &[u8]) -> Option<&'static str> {
    if format::is_trace(head) {
        Some("a trace of sandbag")
    } else {
        reader_of(head).map(|reader| reader.name)
    }
}

/// The formats of other tools, by the names that [`detect`] has for them.
pub fn formats() -> impl ExactSizeIterator<Item = &'static str> {
    READERS.iter().map(|reader| reader.name)
}

/// Reads what is not packed as the format of this name (see [`formats`]),
/// whatever it looks like.
///
/// # Errors
/// There is no such format, or the text is damaged.
pub fn read_as(
    format: &str,
    from: impl Read + Send,
    name: &str,
    options: &ImportOptions,
) -> Result<JitterRecording> {
    let reader = READERS.iter().find(|reader| reader.name == format);
    let whole = LinePlace {
        file: name,
        line: 0,
    };
    let reader = reader.ok_or_else(|| whole.fault(Fault::UnknownFormat(names())))?;
    (reader.read)(Input {
        lines: TextLines::new(Box::new(from), name),
        options,
        name,
    })
}

fn names() -> String {
    let names: Vec<_> = READERS.iter().map(|reader| reader.name).collect();
    names.join("; ")
}
