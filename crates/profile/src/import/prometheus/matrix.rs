// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON of Prometheus's HTTP API, `resultType` matrix.
//!
//! ```text
//! {"status":"success","data":{"resultType":"matrix","result":[
//!   {"metric":{"__name__":"node_cpu_seconds_total","cpu":"0","mode":"idle"},
//!    "values":[[1698674400,"654.78"],[1698674460,"654.78"]]}]}}
//! ```
//!
//! `data` alone is read too, the list of series alone (`promtool query range
//! -o json`), and several documents one after the other, in the order of
//! their times: what was asked for in parts.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::number::decimal;
use crate::reader::{ImportReader, Input};
use crate::{BoxSteps, Fault, Format, Result};
use sandbag_input::Head;

use super::labels::Labels;
use super::samples;
use super::store::{MetricPoint, PointKey, Store};

/// Nothing without a value in it is so long.
const MAX_SILENCE: usize = 16 << 20;
const CHUNK: usize = 128 << 10;
/// The most warnings of a server that are passed on.
const MOST_SAID: usize = 10;

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::Prometheus,
    looks_like,
    open: read,
};

fn looks_like(head: &Head<'_>) -> bool {
    let is_answer = head.holds(b"\"resultType\"") || head.holds(b"\"errorType\"");
    head.opens_with(b'{') && is_answer
        || head.opens_with(b'[') && head.holds(b"\"metric\"") && head.holds(b"\"values\"")
}

fn read(input: &Input<'_>) -> Result<BoxSteps> {
    let (from, file) = (input.lines)()?.into_parts();
    let patience = Rc::new(Cell::new(MAX_SILENCE));
    let mut text = BufReader::with_capacity(
        CHUNK,
        Patient {
            from,
            left: Rc::clone(&patience),
        },
    );
    let mut error = None;
    skip_mark(&mut text).map_err(|e| Fault::Io(e).at(&file, None))?;
    let mut json = serde_json::Deserializer::from_reader(text);
    let mut reading = MatrixReading {
        store: Store::new(input.options.machine.as_deref()),
        patience,
        said: BTreeSet::new(),
        fault: None,
    };
    loop {
        if let Err(e) = MatrixDocument(&mut reading).deserialize(&mut json) {
            error = Some(e);
            break;
        }
        match json.end() {
            Ok(()) => break,
            // Another document begins.
            Err(e) if e.is_syntax() => {}
            Err(e) => {
                error = Some(e);
                break;
            }
        }
    }
    if let Some(e) = error {
        let line = e.line() as u64;
        let fault = reading.fault.unwrap_or_else(|| of_json(e));
        // A server's message is of no line.
        let line = (!matches!(fault, Fault::Server(_) | Fault::Io(_))).then_some(line);
        return Err(fault.at(&file, line));
    }
    let kept = reading.store.finish(Format::Prometheus);
    let mut kept = kept.map_err(|fault| fault.at(&file, None))?;
    kept.warnings.extend(reading.said);
    samples::steps(kept, Format::Prometheus, &file)
}

fn of_json(e: serde_json::Error) -> Fault {
    if e.is_io() {
        return Fault::Io(e.into());
    }
    if e.is_eof() {
        return Fault::Json("the document ends in the middle; the file was cut short".into());
    }
    Fault::json(&e)
}

/// A byte order mark.
fn skip_mark(text: &mut impl io::BufRead) -> io::Result<()> {
    if text.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    Ok(())
}

/// Gives up where nothing comes of what is read, so that no string or
/// nesting takes memory without bound.
struct Patient<R> {
    from: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        match self.left.get().checked_sub(read) {
            Some(left) => self.left.set(left),
            None => {
                return Err(io::Error::other(format!(
                    "there is no value in {MAX_SILENCE} bytes of JSON"
                )));
            }
        }
        Ok(read)
    }
}

struct MatrixReading {
    store: Store,
    patience: Rc<Cell<usize>>,
    /// Warnings of the server, each once.
    said: BTreeSet<String>,
    /// What a visitor found; JSON's own errors hold only text.
    fault: Option<Fault>,
}

impl MatrixReading {
    fn keep<E: serde::de::Error>(&mut self, fault: Fault) -> E {
        let text = fault.to_string();
        self.fault = Some(fault);
        E::custom(text)
    }

    fn wrong<E: serde::de::Error>(&mut self, why: impl Into<String>) -> E {
        self.keep(Fault::wrong_format(Format::Prometheus, why))
    }

    /// An answer of the server, but not to what should have been asked.
    fn lacks<E: serde::de::Error>(&mut self, why: impl Into<String>) -> E {
        self.keep(Fault::lacks(Format::Prometheus, why))
    }
}

/// A part of the document that is read into a [`MatrixReading`].
macro_rules! matrix_part {
    ($type:ident, $deserialize:ident, $expecting:literal, $($visits:item)*) => {
        impl<'de> DeserializeSeed<'de> for $type<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.$deserialize(self)
            }
        }

        impl<'de> Visitor<'de> for $type<'_> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }

            $($visits)*
        }
    };
}

/// An answer, its `data`, or a list of series.
struct MatrixDocument<'a>(&'a mut MatrixReading);

matrix_part! {
    MatrixDocument, deserialize_any, "an answer of Prometheus, or a list of series",

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut failed, mut kind, mut said) = (false, None, None);
        let mut has_result = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "status" => failed = map.next_value::<Cow<'de, str>>()? == "error",
                "errorType" => kind = Some(map.next_value::<String>()?),
                "error" => said = Some(map.next_value::<String>()?),
                "resultType" => {
                    let kind = map.next_value::<Cow<'de, str>>()?;
                    if kind != "matrix" {
                        return Err(self.0.lacks(format!(
                            "its resultType is {kind}, not matrix: ask /api/v1/query_range with \
                             a step, or /api/v1/query for a range, \
                             node_cpu_seconds_total{{...}}[1h]"
                        )));
                    }
                }
                "warnings" | "infos" => {
                    let said = map.next_value::<Option<Vec<String>>>()?.unwrap_or_default();
                    for text in said {
                        let words: Vec<&str> = text.split_whitespace().collect();
                        self.0.said.insert(format!("Prometheus: {}", words.join(" ")));
                        if self.0.said.len() > MOST_SAID {
                            self.0.said.pop_last();
                        }
                    }
                }
                // A failed answer has none, or null.
                "data" => {
                    let data = map.next_value_seed(Optional(MatrixDocument(self.0)))?;
                    has_result |= data.is_some();
                }
                "result" => {
                    has_result = true;
                    map.next_value_seed(Optional(AllSeries(self.0)))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if failed {
            let words: Vec<String> = [kind, said].into_iter().flatten().collect();
            return Err(self.0.keep(Fault::Server(format!(
                "Prometheus answers with an error: {}",
                words.join(": ")
            ))));
        }
        if !has_result {
            return Err(self.0.wrong("it has no data.result"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        AllSeries(self.0).visit_seq(seq)
    }
}

/// Something, or null.
struct Optional<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Optional<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Optional<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the result")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(from).map(Some)
    }
}

struct AllSeries<'a>(&'a mut MatrixReading);

matrix_part! {
    AllSeries, deserialize_seq, "a list of series",

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(MatrixSeries(self.0))?.is_some() {}
        Ok(())
    }
}

struct MatrixSeries<'a>(&'a mut MatrixReading);

matrix_part! {
    MatrixSeries, deserialize_map, "a series, {\"metric\": {...}, \"values\": [...]}",

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(reading) = self;
        let mut labelled = None;
        reading.patience.set(MAX_SILENCE);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match (&*key, labelled) {
                ("metric", _) => {
                    let labels = map.next_value::<MatrixLabels>()?.0;
                    let at = reading.store.series(labels);
                    labelled = Some(at.map_err(|fault| reading.keep(fault))?);
                }
                ("values", Some(at)) => map.next_value_seed(SeriesValues { reading, at })?,
                ("values", None) => {
                    return Err(reading.wrong("the values of a series stand before its labels"));
                }
                ("value", _) => {
                    return Err(reading.lacks(
                        "it is of one moment (a vector); ask /api/v1/query_range with a step, or \
                         /api/v1/query for a range, node_cpu_seconds_total{...}[1h]",
                    ));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match labelled {
            Some(_) => Ok(()),
            None => Err(reading.wrong("a series has no `metric`")),
        }
    }
}

struct MatrixLabels(Labels);

impl<'de> serde::Deserialize<'de> for MatrixLabels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Labels::default();
                while let Some((key, value)) = map.next_entry::<Cow<'de, str>, String>()? {
                    labels.set(&key, value);
                }
                Ok(labels)
            }
        }
        from.deserialize_map(Pairs).map(Self)
    }
}

/// The values of a series, which are read to their end also where they are
/// not wanted.
struct SeriesValues<'a> {
    reading: &'a mut MatrixReading,
    at: Option<PointKey>,
}

matrix_part! {
    SeriesValues, deserialize_seq, "values, [[1698674400, \"654.78\"], ...]",

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { reading, at } = self;
        while let Some((Time(ns), Value(value))) = seq.next_element()? {
            reading.patience.set(MAX_SILENCE);
            let Some(at) = at else { continue };
            let taken = reading.store.point(at, MetricPoint { ns, value });
            taken.map_err(|fault| reading.keep::<A::Error>(fault))?;
        }
        Ok(())
    }
}

/// Seconds since 1970 as ns. Prometheus keeps milliseconds.
struct Time(i64);

impl<'de> serde::Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(from)?;
        let ms = (seconds * 1e3).round();
        // The year 2262, where nanoseconds end.
        if !(0.0..=9e12).contains(&ms) {
            return Err(D::Error::custom(format!(
                "{seconds} is no time in seconds since 1970"
            )));
        }
        Ok(Self(ms as i64 * 1_000_000))
    }
}

/// A number, in quotes. NaN and infinities are numbers.
struct Value(f64);

impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = f64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value in quotes such as \"654.78\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
                decimal(text.as_bytes())
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
                Ok(value)
            }

            fn visit_u64<E>(self, value: u64) -> Result<f64, E> {
                Ok(value as f64)
            }
        }
        from.deserialize_any(Number).map(Self)
    }
}
