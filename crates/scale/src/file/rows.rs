// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All phases of all ranks, as a CSV file, compressed if its name says so (.zst).

use std::io::{self, Write};
use std::path::Path;

use crate::bench::BenchTimes;
use sandbag_input::{Existing, NewFile};

/// A phase of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRow {
    /// Which segment of the run.
    pub segment: usize,
    /// It had jitter.
    pub jitter: bool,
    /// Which phase of the segment.
    pub phase: usize,
    /// Whose.
    pub rank: usize,
    /// The work took, ns.
    pub qt_ns: u32,
    /// The rank then waited, ns.
    pub bt_ns: u32,
}

/// Of ranks that met.
pub fn rows_of(measured: &BenchTimes) -> impl Iterator<Item = PhaseRow> + '_ {
    let ranks = (measured.ranks as usize).max(1);
    let segments = measured.segments.iter().enumerate();
    segments.flat_map(move |(number, segment)| {
        let both = segment.qt_ns.iter().zip(&segment.bt_ns).enumerate();
        both.map(move |(at, (qt_ns, bt_ns))| PhaseRow {
            segment: number,
            jitter: segment.jitter,
            phase: at / ranks,
            rank: at % ranks,
            qt_ns: *qt_ns,
            bt_ns: *bt_ns,
        })
    })
}

/// A file for them, which is there when all is written.
#[derive(Debug)]
pub struct RowsFile {
    file: NewFile,
    packed: bool,
}

impl RowsFile {
    /// Before anything is measured: what cannot be written is said at once.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        Ok(Self {
            file: NewFile::create(path, existing)?,
            packed: path.extension().is_some_and(|ending| ending == "zst"),
        })
    }

    /// Writes them all.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(mut self, rows: impl Iterator<Item = PhaseRow>) -> io::Result<()> {
        let mut out = io::BufWriter::new(&mut self.file);
        if self.packed {
            let mut packed = zstd::Encoder::new(&mut out, 3)?;
            write(&mut packed, rows)?;
            packed.finish()?;
        } else {
            write(&mut out, rows)?
        }
        out.flush()?;
        drop(out);
        self.file.finish()
    }
}

fn write(out: &mut impl Write, rows: impl Iterator<Item = PhaseRow>) -> io::Result<()> {
    writeln!(out, "segment,jitter,phase,rank,qt_ns,bt_ns")?;
    for row in rows {
        let PhaseRow {
            segment,
            phase,
            rank,
            qt_ns,
            bt_ns,
            ..
        } = row;
        let jitter = u8::from(row.jitter);
        writeln!(out, "{segment},{jitter},{phase},{rank},{qt_ns},{bt_ns}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::bench::Segment;

    use super::*;

    #[test]
    fn a_row_for_each_phase_of_each_rank() {
        let segment = Segment::of_phases;
        let measured = BenchTimes {
            ranks: 2,
            oversubscribed: false,
            iterations: 1,
            calibrated_ns: 1,
            segments: vec![
                segment(false, &[1, 2, 3, 4], &[5, 6, 7, 8]),
                segment(true, &[9, 10], &[11, 12]),
            ],
            clocks: [Vec::new(), Vec::new()],
        };
        let dir = tempfile::tempdir().unwrap();
        let written = |name| {
            let path = dir.path().join(name);
            let file = RowsFile::create(&path, Existing::Replace).unwrap();
            file.write(rows_of(&measured)).unwrap();
            std::fs::read(path).unwrap()
        };
        let packed = written("rows.csv.zst");
        assert_eq!(zstd::decode_all(&packed[..]).unwrap(), written("rows.csv"));
        assert_eq!(
            String::from_utf8(written("rows.csv")).unwrap(),
            "segment,jitter,phase,rank,qt_ns,bt_ns\n0,0,0,0,1,5\n0,0,0,1,2,6\n0,0,1,0,3,7\n\
             0,0,1,1,4,8\n1,1,0,0,9,11\n1,1,0,1,10,12\n"
        );
    }
}
