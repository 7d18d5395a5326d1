// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TOML table with the places of its keys.

use std::sync::Arc;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use crate::node::spec::SpecError;

/// The text of a file, and where its lines begin.
#[derive(Debug)]
pub(super) struct TomlText<'t> {
    text: &'t str,
    name: Arc<str>,
    /// Byte offset of each line but the first.
    lines: Vec<usize>,
}

impl<'t> TomlText<'t> {
    pub(super) fn new(text: &'t str, name: &str) -> Self {
        Self {
            text,
            name: name.into(),
            lines: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
        }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn line(&self, at: usize) -> u64 {
        self.lines.partition_point(|begin| *begin <= at) as u64 + 1
    }

    pub(super) fn fault(
        &self,
        at: impl Into<Option<usize>>,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> SpecError {
        SpecError {
            file: Some(Arc::clone(&self.name)),
            line: at.into().map(|at| self.line(at)),
            key: key.escape_debug().take(60).collect(),
            what: what.into(),
            remedy: remedy.into(),
            not_possible: false,
        }
    }

    /// A key that means nothing, with the nearest that does.
    pub(super) fn unknown(&self, at: usize, key: &str, known: &[&str]) -> SpecError {
        self.fault(at, key, "it is not a known key", nearest(key, known))
    }
}

/// `did you mean cpus`, or all there are.
pub(super) fn nearest(word: &str, known: &[&str]) -> String {
    /// Below this two words have little to do with each other.
    const ALIKE: f64 = 0.75;
    let likeness = |other: &str| strsim::jaro_winkler(&word.to_lowercase(), other);
    let best = known
        .iter()
        .map(|other| (likeness(other), *other))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness >= ALIKE);
    match best {
        Some((_, other)) => format!("did you mean {other}?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// One key of a table and its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'t> {
    pub(super) text: &'t TomlText<'t>,
    pub(super) key: &'t str,
    /// Byte at which the key stands.
    pub(super) at: usize,
    pub(super) value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Field<'t> {
    pub(super) fn fault(&self, what: impl Into<String>, remedy: impl Into<String>) -> SpecError {
        self.text.fault(self.at, self.key, what, remedy)
    }

    pub(super) fn wrong(&self, expected: &str, remedy: &str) -> SpecError {
        let found = self.value.get_ref().type_str();
        self.fault(format!("expected {expected}, found {found}"), remedy)
    }

    pub(super) fn string(&self) -> Result<&'t str, SpecError> {
        let example = format!("write it in quotes: {} = \"...\"", self.key);
        let text = self.value.get_ref().as_str();
        let text = text.ok_or_else(|| self.wrong("a text", &example))?;
        self.printable(text)
    }

    /// No text here may hold a NUL: it could not be handed to a program.
    pub(super) fn printable<'s>(&self, text: &'s str) -> Result<&'s str, SpecError> {
        if text.contains('\0') {
            Err(self.fault("there is a NUL character in it", "leave it out"))
        } else {
            Ok(text)
        }
    }

    /// A text, number or truth value, as on the command line.
    pub(super) fn word(&self) -> Result<String, SpecError> {
        let word = scalar(self.value.get_ref())
            .ok_or_else(|| self.wrong("a text, a number, true or false", "write one value"))?;
        self.printable(&word)?;
        Ok(word)
    }
}

pub(super) fn scalar(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(_) => integer(value)?.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        _ => return None,
    })
}

/// An integer, in whatever radix it is written.
pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A table, its keys in the order of the file.
#[derive(Debug)]
pub(super) struct Fields<'t> {
    pub(super) text: &'t TomlText<'t>,
    fields: Vec<Field<'t>>,
}

impl<'t> Fields<'t> {
    pub(super) fn of(text: &'t TomlText<'t>, table: &'t DeTable<'t>) -> Self {
        let mut fields: Vec<Field<'t>> = table
            .iter()
            .map(|(key, value)| Field {
                text,
                key: key.get_ref(),
                at: key.span().start,
                value,
            })
            .collect();
        fields.sort_by_key(|field| field.at);
        Self { text, fields }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Field<'t>> + '_ {
        self.fields.iter().copied()
    }

    pub(super) fn get(&self, key: &str) -> Option<Field<'t>> {
        self.iter().find(|field| field.key == key)
    }
}
