// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The quick way through a sample of a JSON document of sysstat.
//!
//! All rows of a file have the same keys in the same order, and so have all
//! time stamps. What the last one looked like is expected of the next.
//! Anything else, and any error, is `None`: the sample is then parsed the
//! thorough way. See [`Cursor`].

use crate::number::cpu_number;

use super::cursor::Cursor;
use super::sysstat_stamps::{Stamped, Stamps};
use super::{Pass, Sample, percent};

/// What a sample held.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) all_rows: u64,
    pub(super) cpu_rows: u64,
    pub(super) duplicates: u64,
}

#[derive(Default)]
pub(super) struct Quick {
    /// Whether any row had a value of steal.
    pub(super) has_steal: bool,
    row: Shape,
}

impl Quick {
    /// The sample at the beginning of the text into `sample`: how many bytes
    /// it has, its stamp and what it held.
    pub(super) fn element<S: Stamps>(
        &mut self,
        text: &[u8],
        pass: Pass,
        stamps: &mut S,
        sample: &mut Sample,
    ) -> Option<(usize, Stamped, Counts)> {
        let mut at = Cursor::new(text);
        let (mut stamp, mut counts) = (None, None);
        at.byte(b'{')?;
        loop {
            at.space();
            let key = string(&mut at)?;
            colon(&mut at)?;
            match key {
                b"timestamp" if stamp.is_none() => stamp = Some(stamps.quick(&mut at)?),
                b"cpu-load" if counts.is_none() => {
                    counts = Some(self.rows(&mut at, pass, sample)?);
                }
                b"timestamp" | b"cpu-load" => return None,
                _ => other(&mut at)?,
            }
            at.space();
            if at.byte(b',').is_none() {
                at.byte(b'}')?;
                return Some((at.passed(), stamp?, counts.unwrap_or_default()));
            }
        }
    }

    fn rows(&mut self, at: &mut Cursor<'_>, pass: Pass, sample: &mut Sample) -> Option<Counts> {
        let mut counts = Counts::default();
        at.byte(b'[')?;
        at.space();
        if at.byte(b']').is_some() {
            return Some(counts);
        }
        loop {
            at.byte(b'{')?;
            at.space();
            at.text(b"\"cpu\"")?;
            colon(at)?;
            let name = string(at)?;
            let values = match pass {
                // A brace in a text would end the row too early; then the
                // next does not begin as one.
                Pass::Cpus => {
                    let end = memchr::memchr(b'}', at.rest())?;
                    self.has_steal = self.has_steal
                        || memchr::memmem::find(&at.rest()[..end], b"\"steal\"").is_some();
                    at.skip(end + 1)?;
                    None
                }
                Pass::Loads => Some(self.row.values_or_learn(at)?),
            };
            if matches!(name, b"all" | b"-1") {
                counts.all_rows += 1;
            } else {
                counts.cpu_rows += 1;
                let cpu = cpu_number(name)?;
                if sample.has(cpu) {
                    counts.duplicates += 1;
                } else {
                    let cell = match values {
                        None => None,
                        Some(values) => {
                            let [idle, iowait, steal, others, _] = values.map(f64::from);
                            percent::cell(idle / 100.0, iowait / 100.0, steal / 100.0, || others)
                                .ok()?
                        }
                    };
                    sample.cells.push((cpu, cell));
                }
            }
            at.space();
            if at.byte(b',').is_none() {
                return at.byte(b']').map(|()| counts);
            }
            at.space();
        }
    }
}

/// idle, iowait, steal, the sum of all others; and what is no state.
type Values = [u32; 5];
const OTHERS: usize = 3;

/// What stands between the numbers of a row, behind its CPU.
#[derive(Default)]
struct Shape {
    /// Each ends where its number begins; and which of the values it is.
    pieces: Vec<(Box<[u8]>, usize)>,
    end: Box<[u8]>,
}

impl Shape {
    fn values_or_learn(&mut self, at: &mut Cursor<'_>) -> Option<Values> {
        if let Some(values) = self.values(at) {
            return Some(values);
        }
        *self = Self::learn(at)?;
        self.values(at)
    }

    /// Passes over the row; stays where it is if that does not look so.
    fn values(&self, at: &mut Cursor<'_>) -> Option<Values> {
        let mut values = [0; 5];
        let mut row = *at;
        for (piece, which) in &self.pieces {
            row.text(piece)?;
            *values.get_mut(*which)? += row.hundredths()?;
        }
        row.text(&self.end)?;
        if self.end.is_empty() {
            return None;
        }
        *at = row;
        Some(values)
    }

    fn learn(at: &Cursor<'_>) -> Option<Self> {
        let mut shape = Self::default();
        let mut keys = vec![&b"cpu"[..]];
        let mut row = *at;
        loop {
            let mut piece = row;
            row.space();
            if row.byte(b'}').is_some() {
                shape.end = piece.rest()[..row.passed() - piece.passed()].into();
                return keys.contains(&&b"idle"[..]).then_some(shape);
            }
            row.byte(b',')?;
            row.space();
            let key = string(&mut row)?;
            colon(&mut row)?;
            if keys.contains(&key) {
                return None;
            }
            keys.push(key);
            let which = match key {
                b"idle" => 0,
                b"iowait" => 1,
                b"steal" => 2,
                b"user" | b"usr" | b"nice" | b"system" | b"sys" | b"irq" | b"soft" | b"guest"
                | b"gnice" => OTHERS,
                _ => OTHERS + 1,
            };
            let text = &piece.rest()[..row.passed() - piece.passed()];
            piece = row;
            piece.hundredths()?;
            row = piece;
            shape.pieces.push((text.into(), which));
        }
    }
}

/// A text without anything that stands for something else.
pub(super) fn string<'a>(at: &mut Cursor<'a>) -> Option<&'a [u8]> {
    at.byte(b'"')?;
    let rest = at.rest();
    let length = rest.iter().position(|b| *b == b'"')?;
    let text = &rest[..length];
    at.skip(length + 1)?;
    text.iter()
        .all(|b| *b >= b' ' && *b != b'\\')
        .then_some(text)
}

fn colon(at: &mut Cursor<'_>) -> Option<()> {
    at.space();
    at.byte(b':')?;
    at.space();
    Some(())
}

/// Passes over the value of a key that is not wanted.
fn other(at: &mut Cursor<'_>) -> Option<()> {
    let mut nesting = 0usize;
    let mut in_text = false;
    let rest = at.rest();
    for (i, b) in rest.iter().enumerate() {
        match b {
            b'\\' => return None,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => nesting += 1,
            b'}' | b']' | b',' if nesting == 0 => {
                return (i > 0).then(|| at.skip(i))?;
            }
            b'}' | b']' => nesting -= 1,
            _ => {}
        }
    }
    None
}
