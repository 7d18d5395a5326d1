// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All phases of all ranks, as a compressed CSV file.

use std::io::{self, Write};
use std::path::Path;

use sandbag_profile::NewFile;
use sandbag_scale::bench::Measured;

/// A phase of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
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
pub fn rows_of(measured: &Measured) -> impl Iterator<Item = Row> + '_ {
    let ranks = (measured.ranks as usize).max(1);
    let segments = measured.segments.iter().enumerate();
    segments.flat_map(move |(number, segment)| {
        let both = segment.qt_ns.iter().zip(&segment.bt_ns).enumerate();
        both.map(move |(at, (qt_ns, bt_ns))| Row {
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
pub struct RowsFile(NewFile);

impl RowsFile {
    /// Before anything is measured: what cannot be written is said at once.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        NewFile::create(path).map(Self)
    }

    /// Writes them all.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(self, rows: impl Iterator<Item = Row>) -> io::Result<()> {
        write(self.0, rows)
    }
}

fn write(mut file: NewFile, rows: impl Iterator<Item = Row>) -> io::Result<()> {
    let mut out = zstd::Encoder::new(io::BufWriter::new(&mut file), 3)?;
    writeln!(out, "segment,jitter,phase,rank,qt_ns,bt_ns")?;
    for row in rows {
        let Row {
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
    out.finish()?.flush()?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use sandbag_scale::bench::Segment;

    use super::*;

    #[test]
    fn a_row_for_each_phase_of_each_rank() {
        let segment = Segment::of_phases;
        let measured = Measured {
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
        let path = dir.path().join("rows.csv.zst");
        let file = RowsFile::create(&path).unwrap();
        file.write(rows_of(&measured)).unwrap();
        let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "segment,jitter,phase,rank,qt_ns,bt_ns\n0,0,0,0,1,5\n0,0,0,1,2,6\n0,0,1,0,3,7\n\
             0,0,1,1,4,8\n1,1,0,0,9,11\n1,1,0,1,10,12\n"
        );
    }
}
