// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing the native format, row by row.

use std::io::{self, Write};

use crate::{ProfileCell, ProfileHeader, Step};
use sandbag_ui::quantity::plain_seconds;

use super::{MAGIC, VERSION};

/// Loads are written to this many decimals.
const DECIMALS: i32 = 4;

/// Writes a profile as its steps become known; a recorder writes through
/// this. Each row leaves in one `write`, so a recording that is killed is
/// whole up to its last row.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    with_steal: bool,
    row: Vec<u8>,
    end_ns: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the head. `with_steal` adds a steal column per CPU.
    /// `interval_ns` is what a recorder gives: a reader that finds no end row
    /// then takes the recording to end one interval after its last row.
    pub fn new(
        mut out: W,
        header: &ProfileHeader,
        with_steal: bool,
        interval_ns: Option<u64>,
    ) -> io::Result<Self> {
        let mut head = format!("# {MAGIC} {VERSION}\n");
        if let Some(host) = &header.host {
            head += &format!("# host: {}\n", host.replace(['\n', '\r'], " "));
        }
        if let Some(begin) = header.begins_at {
            head += &format!("# begins: {begin}\n");
        }
        if let Some(ns) = interval_ns {
            head += &format!("# interval: {}\n", plain_seconds(ns));
        }
        head += "time";
        for cpu in &header.cpus {
            head += &format!(",cpu{cpu}");
        }
        if with_steal {
            for cpu in &header.cpus {
                head += &format!(",steal{cpu}");
            }
        }
        head += "\n";
        out.write_all(head.as_bytes())?;
        Ok(Self {
            out,
            with_steal,
            row: Vec::new(),
            end_ns: 0,
        })
    }

    /// Writes one row. Steps follow each other without a hole; the cells are
    /// those of the header's CPUs.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        self.row.clear();
        self.row
            .extend_from_slice(plain_seconds(step.start_ns).as_bytes());
        for cell in &step.cells {
            self.row.push(b',');
            if let Some(ProfileCell { load_pct, .. }) = cell {
                push_percent(&mut self.row, *load_pct);
            }
        }
        if self.with_steal {
            for cell in &step.cells {
                self.row.push(b',');
                if let Some(ProfileCell { steal_pct, .. }) = cell {
                    push_percent(&mut self.row, *steal_pct);
                }
            }
        }
        self.row.push(b'\n');
        self.end_ns = step.end_ns;
        self.out.write_all(&self.row)
    }

    /// Hands what is buffered below on to where it goes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the end row.
    pub fn finish(mut self) -> io::Result<W> {
        writeln!(self.out, "{},end", plain_seconds(self.end_ns))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// At most [`DECIMALS`] decimals, no trailing zeros.
pub(crate) fn push_percent(row: &mut Vec<u8>, value: f64) {
    let scale = 10f64.powi(DECIMALS);
    let scaled = (value * scale).round();
    if !(0.0..1e15).contains(&scaled) || scaled.is_sign_negative() {
        // No load, but written all the same. Writing to a vector cannot fail.
        let _ = write!(row, "{}", scaled / scale);
        return;
    }
    // Digits by hand: a profile has many values, and the general way to the
    // shortest form of a number takes ten times as long. From the last digit
    // to the first, into what is more than enough for 15 digits and a point.
    let mut left = scaled as u64;
    let mut text = [0u8; 24];
    let mut at = text.len();
    let mut kept = false;
    for _ in 0..DECIMALS {
        let digit = (left % 10) as u8;
        left /= 10;
        kept |= digit != 0;
        if kept {
            at -= 1;
            text[at] = b'0' + digit;
        }
    }
    if kept {
        at -= 1;
        text[at] = b'.';
    }
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    row.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_are_written_as_the_standard_library_does(
            value in prop_oneof![0.0..=100.0f64, (0u32..1_000_000).prop_map(|n| f64::from(n) / 1e4), any::<f64>()],
        ) {
            let mut row = Vec::new();
            push_percent(&mut row, value);
            let rounded = (value * 1e4).round() / 1e4;
            prop_assert_eq!(String::from_utf8(row).unwrap(), rounded.to_string());
        }
    }
}
