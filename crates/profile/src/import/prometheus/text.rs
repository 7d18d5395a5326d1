// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Series as text, a value to the line: OpenMetrics with time stamps, as
//! `promtool tsdb dump-openmetrics` and our own exporter write it, and what
//! `promtool tsdb dump` writes.
//!
//! ```text
//! node_cpu_seconds_total{cpu="0",mode="idle"} 241475.56 1760310895.658
//! {__name__="node_cpu_seconds_total", cpu="0", mode="idle"} 241475.56 1760310895658
//! ```
//!
//! Seconds in the first, milliseconds in the second and in Prometheus's own
//! older text format, which looks like the first.

use crate::error::printable;
use crate::number::{NS_PER_S, decimal};
use crate::reader::{ImportReader, Input};
use crate::{BoxSteps, Fault, Format, Result};
use sandbag_input::head::{Head, words};

use super::labels::{Labels, NAME, is_counter};
use super::samples;
use super::store::{MetricPoint, PointKey, Store};

/// As seconds this is the year 5138, as milliseconds 1973.
const MILLISECONDS: f64 = 1e11;

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::OpenMetrics,
    looks_like,
    open: read,
};

/// Comments of the format, or a value with labels. A scrape without stamps is
/// told what it lacks.
fn looks_like(head: &Head<'_>) -> bool {
    let comment = |line: &[u8]| {
        line == b"# EOF" || line.starts_with(b"# HELP ") || line.starts_with(b"# TYPE ")
    };
    head.lines().take(1).any(comment)
        || head.data().take(1).any(|line| {
            TextSeries::parse(line).is_ok_and(|(series, rest)| {
                let labels = series.labels;
                let named = labels.name.is_some();
                named && line.contains(&b'{') && words(rest).take(2).all(|n| decimal(n).is_some())
            })
        })
}

fn read(input: &Input<'_>) -> Result<BoxSteps> {
    let mut lines = (input.lines)()?;
    let mut store = Store::new(input.options.machine.as_deref());
    let mut last = Last::default();
    let (mut ended, mut in_seconds) = (false, false);
    while let Some(line) = lines.next_line()? {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            ended |= line == b"# EOF";
            continue;
        }
        match last.line(line, &mut store) {
            Ok(seconds) => in_seconds |= seconds,
            Err(fault) => {
                let found = printable(line);
                // What was cut off is the last there is.
                return Err(lines.here(if lines.is_whole() {
                    fault
                } else {
                    Fault::unexpected(
                        "a whole line",
                        format!("{found}; the file may be cut short"),
                    )
                }));
            }
        }
    }
    let mut kept = store
        .finish(Format::OpenMetrics)
        .map_err(|fault| lines.nowhere(fault))?;
    if in_seconds && !ended {
        kept.warnings
            .push("the text does not end with # EOF; it may be cut short".into());
    }
    samples::steps(kept, Format::OpenMetrics, lines.file())
}

/// The series of the line before, of which most lines are, too.
#[derive(Default)]
struct Last {
    text: Vec<u8>,
    at: Option<PointKey>,
    milliseconds: bool,
}

impl Last {
    /// Takes a line in; true if its stamp is in seconds.
    fn line(&mut self, line: &[u8], store: &mut Store) -> Result<bool, Fault> {
        let rest = match line.strip_prefix(&self.text[..]) {
            Some(rest) if !self.text.is_empty() && rest.first() == Some(&b' ') => rest,
            _ => self.series(line, store)?,
        };
        let Some(at) = self.at else { return Ok(false) };
        let mut fields = words(rest);
        let value = fields.next().unwrap_or_default();
        let value = decimal(value).ok_or_else(|| syntax("a value after the series", value))?;
        let Some(stamp) = fields.next().filter(|field| *field != b"#") else {
            return Err(Fault::lacks(
                Format::OpenMetrics,
                "its values have no time stamps: a scrape of /metrics is of one moment; \
                      take `promtool tsdb dump-openmetrics`",
            ));
        };
        // An exemplar may follow.
        if let Some(more) = fields.next().filter(|field| *field != b"#") {
            return Err(syntax("nothing behind the time stamp", more));
        }
        let time = decimal(stamp).ok_or_else(|| syntax("a time stamp", stamp))?;
        let milliseconds = self.milliseconds || time.abs() >= MILLISECONDS;
        let ns = nanoseconds(time, milliseconds).ok_or_else(|| syntax("a time stamp", stamp))?;
        store.point(at, MetricPoint { ns, value })?;
        Ok(!milliseconds)
    }

    /// Another series than before; returns what stands behind it.
    fn series<'a>(&mut self, line: &'a [u8], store: &mut Store) -> Result<&'a [u8], Fault> {
        self.at = None;
        self.text.clear();
        // A dump may be of everything; only our series are looked into.
        let name = name_of(line);
        if !name.is_empty() && !is_ours(name) {
            store.pass(&String::from_utf8_lossy(name));
            return Ok(&[]);
        }
        let (series, rest) = TextSeries::parse(line)?;
        let name = series.labels.name.as_deref().unwrap_or_default();
        if !is_ours(name.as_bytes()) {
            store.pass(name);
            return Ok(&[]);
        }
        self.milliseconds = series.milliseconds;
        self.at = store.series(series.labels)?;
        let text = &line[..line.len() - rest.len()];
        self.text.extend_from_slice(text);
        Ok(rest)
    }
}

/// Counters of CPU time, and those of guests, which a warning counts.
fn is_ours(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(is_counter) || name.starts_with(b"node_cpu_guest")
}

fn syntax(expected: &str, found: &[u8]) -> Fault {
    Fault::syntax(expected, found)
}

/// Rounded to the microsecond: a double holds no more of the seconds since
/// 1970.
fn nanoseconds(time: f64, milliseconds: bool) -> Option<i64> {
    let per_unit = if milliseconds { 1e3 } else { 1e6 };
    let micros = (time * per_unit).round();
    let limit = (i64::MAX as u64 / NS_PER_S * 1_000_000) as f64;
    (micros.abs() < limit).then(|| micros as i64 * 1000)
}

/// The name that a line begins with; empty if it begins with labels.
fn name_of(line: &[u8]) -> &[u8] {
    let end = line
        .iter()
        .position(|b| *b == b'{' || b.is_ascii_whitespace());
    &line[..end.unwrap_or(line.len())]
}

/// A series by its labels.
struct TextSeries {
    labels: Labels,
    /// Written by `promtool tsdb dump`.
    milliseconds: bool,
}

impl TextSeries {
    /// The series at the beginning of a line, and what follows it.
    fn parse(line: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let name = name_of(line);
        let mut this = Self {
            labels: Labels::default(),
            milliseconds: false,
        };
        if !name.is_empty() {
            this.labels
                .set(NAME, String::from_utf8_lossy(name).into_owned());
        }
        let rest = &line[name.len()..];
        let Some(rest) = rest.strip_prefix(b"{") else {
            return Ok((this, rest));
        };
        let mut text = LabelText(rest);
        loop {
            match text.next() {
                Some(b',') => continue,
                Some(b'}') => return Ok((this, text.0)),
                Some(b'"') => {
                    let quoted = text.quoted().ok_or_else(|| syntax("a label", line))?;
                    // Names beyond letters, digits and _ stand in quotes; the
                    // metric's own without a value.
                    match text.peek() {
                        Some(b'=') => this.label(&mut text, &quoted, line)?,
                        _ => this.labels.set(NAME, quoted),
                    }
                }
                Some(first) if first.is_ascii_alphabetic() || first == b'_' => {
                    let key = text.word(first);
                    this.milliseconds |= key == NAME;
                    this.label(&mut text, &key, line)?;
                }
                _ => return Err(syntax("labels such as {cpu=\"0\",mode=\"idle\"}", line)),
            }
        }
    }

    /// `="value"`.
    fn label(&mut self, text: &mut LabelText<'_>, key: &str, line: &[u8]) -> Result<(), Fault> {
        let value = match (text.next(), text.next()) {
            (Some(b'='), Some(b'"')) => text.quoted(),
            _ => None,
        };
        let value = value.ok_or_else(|| Fault::syntax(format!("{key}=\"...\""), line))?;
        self.labels.set(key, value);
        Ok(())
    }
}

struct LabelText<'a>(&'a [u8]);

impl LabelText<'_> {
    fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }

    /// The next byte that is no blank.
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.0 = &self.0[1..];
        Some(byte)
    }

    /// A name of which the first letter is read.
    fn word(&mut self, first: u8) -> String {
        let rest = |b: &u8| !(b.is_ascii_alphanumeric() || *b == b'_');
        let end = self.0.iter().position(rest).unwrap_or(self.0.len());
        let (word, after) = self.0.split_at(end);
        self.0 = after;
        let mut all = String::from(char::from(first));
        all.push_str(&String::from_utf8_lossy(word));
        all
    }

    /// Up to the closing quote, without the escapes.
    fn quoted(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        let mut at = 0;
        loop {
            match self.0.get(at)? {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    bytes.push(match self.0.get(at)? {
                        b'n' => b'\n',
                        other => *other,
                    });
                }
                other => bytes.push(*other),
            }
            at += 1;
        }
        self.0 = &self.0[at + 1..];
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
