// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing the native format, row by row.

use std::io::{self, Write};

use crate::number::plain_seconds;
use crate::{Cell, Header, Step};

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
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(
        mut out: W,
        header: &Header,
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
    ///
    /// # Errors
    /// Those of `out`.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        self.row.clear();
        self.row
            .extend_from_slice(plain_seconds(step.start_ns).as_bytes());
        for cell in &step.cells {
            self.row.push(b',');
            if let Some(Cell { load_pct, .. }) = cell {
                push_percent(&mut self.row, *load_pct);
            }
        }
        if self.with_steal {
            for cell in &step.cells {
                self.row.push(b',');
                if let Some(Cell { steal_pct, .. }) = cell {
                    push_percent(&mut self.row, *steal_pct);
                }
            }
        }
        self.row.push(b'\n');
        self.end_ns = step.end_ns;
        self.out.write_all(&self.row)
    }

    /// Hands what is buffered below on to where it goes.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the end row.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        writeln!(self.out, "{},end", plain_seconds(self.end_ns))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// At most [`DECIMALS`] decimals, no trailing zeros.
fn push_percent(row: &mut Vec<u8>, value: f64) {
    let scale = 10f64.powi(DECIMALS);
    let rounded = (value * scale).round() / scale;
    // Writing to a vector cannot fail; the shortest form of a number rounded
    // to four decimals has at most four.
    let _ = write!(row, "{rounded}");
}
