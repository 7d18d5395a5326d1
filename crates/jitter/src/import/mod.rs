// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading what other tools recorded.
//!
//! Tools that write every event give a [`JitterTrace`]. Those that write a histogram,
//! totals, or the work done in each stretch of time give a [`Distribution`], which has no
//! single events. The format is recognised from the beginning of the file.

mod counts;
mod csv;
mod cyclictest;
mod event_set;
mod ftq;
mod ftrace;
mod fwq;
mod injector;
mod input;
mod loggopsim;
mod netgauge_quanta;
mod noises;
mod number;
mod osjitter;
mod osnoise;
mod osnoise_periods;
mod rows;
mod rt_json;
mod rtla_hist;
mod rtla_top;
mod selfish;
mod sysjitter;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use input::Input;
pub use input::{ImportOptions, JitterRecording, Unit};
use rows::LinePlace;
use sandbag_input::unpack::{is_cut_off, unpack};
use sandbag_input::{Head, open_input};

use crate::{Fault, Result, format};

struct FormatReader {
    name: &'static str,
    /// Whether this is the beginning of such a file.
    looks_like: fn(&Head<'_>) -> bool,
    read: fn(Input<'_>) -> Result<JitterRecording>,
}

macro_rules! readers {
    ($($name:literal $module:ident,)*) => {
        &[$(FormatReader {
            name: $name,
            looks_like: $module::looks_like,
            read: $module::read,
        },)*]
    };
}

/// All formats. The first that recognises a file reads it: formats with a mark of their own
/// come first, those that accept almost any numbers last.
const READERS: &[FormatReader] = readers![
    "CSV of sandbag" csv,
    "rtla osnoise hist and rtla timerlat hist" rtla_hist,
    "rtla osnoise top" rtla_top,
    "netgauge selfish" selfish,
    "netgauge fwq and ftq" netgauge_quanta,
    "sysjitter --raw" sysjitter,
    "histogram of cyclictest" cyclictest,
    "JSON of oslat and cyclictest" rt_json,
    "JSON of a noise injector" injector,
    "LLNL FWQ" fwq,
    "FTQ" ftq,
    "tables of osjitter and sysjitter (refused)" osjitter,
    "events of osnoise (ftrace)" osnoise,
    "periods of osnoise (ftrace)" osnoise_periods,
    "noise trace of LogGOPSim" loggopsim,
];

/// Bytes of a file that are looked at to recognise its format.
const HEAD: u64 = 16 << 10;

/// The byte order mark that some editors put before UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// It cannot be read, its format is unknown, or it is damaged.
pub fn open(path: &Path, options: &ImportOptions) -> Result<JitterRecording> {
    if path.as_os_str() == "-" {
        return read(io::stdin(), "standard input", options);
    }
    let name = path.to_string_lossy();
    let io_fault = |cause| LinePlace::file(&name).fault(Fault::Io(cause));
    read(open_input(path).map_err(io_fault)?, &name, options)
}

/// Reads a byte stream, which may be compressed (gzip, xz, zstd); messages call it `name`.
pub fn read(
    from: impl Read + Send,
    name: &str,
    options: &ImportOptions,
) -> Result<JitterRecording> {
    let whole = LinePlace::file(name);
    let io_fault = |cause| whole.fault(Fault::Io(cause));
    let mut from = unpack(from).map_err(io_fault)?;
    let mut head = Vec::new();
    let read = from.by_ref().take(HEAD).read_to_end(&mut head);
    match read {
        // What reads on finds a missing end again.
        Err(cause) if head.is_empty() || !is_cut_off(&cause) => return Err(io_fault(cause)),
        _ => {}
    }
    if head.starts_with(MARK) {
        head.drain(..MARK.len());
    }
    if head.trim_ascii().is_empty() {
        return Err(whole.fault(Fault::Empty));
    }
    let reader = reader_of(&head);
    let is_trace = format::is_trace(&head);
    let all = BufReader::with_capacity(1 << 20, Cursor::new(head).chain(from));
    if is_trace {
        let trace = format::read_parts(all, !options.without_causes);
        let trace = trace.map_err(|error| error.in_file(name))?;
        return Ok(JitterRecording::Trace(trace));
    }
    let reader = reader.ok_or_else(|| unknown_format(name))?;
    reader.read_from(all, name, options)
}

impl FormatReader {
    fn read_from(
        &self,
        from: impl Read + Send,
        name: &str,
        options: &ImportOptions,
    ) -> Result<JitterRecording> {
        let cut = Cell::default();
        let mut recording = (self.read)(Input::new(from, name, options, &cut))?;
        recording.warn(cut.take());
        Ok(recording)
    }
}

fn unknown_format(name: &str) -> crate::Error {
    let names: Vec<_> = formats().collect();
    LinePlace::file(name).fault(Fault::UnknownFormat(names.join("; ")))
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

/// The name of the format that a file begins like. `head` is without byte order mark; some
/// kilobytes are enough.
pub fn detect(head: &[u8]) -> Option<&'static str> {
    if format::is_trace(head) {
        Some("a trace of sandbag")
    } else {
        reader_of(head).map(|reader| reader.name)
    }
}

/// Names of the formats of other tools, as [`detect`] gives them.
pub fn formats() -> impl ExactSizeIterator<Item = &'static str> {
    READERS.iter().map(|reader| reader.name)
}

/// Reads uncompressed text as the format of this name (see [`formats`]).
pub fn read_as(
    format: &str,
    from: impl Read + Send,
    name: &str,
    options: &ImportOptions,
) -> Result<JitterRecording> {
    let reader = READERS.iter().find(|reader| reader.name == format);
    let reader = reader.ok_or_else(|| unknown_format(name))?;
    reader.read_from(from, name, options)
}
