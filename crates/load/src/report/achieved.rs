// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `achieved.csv`: one row per CPU and window, written while the run goes on.
//!
//! Plain CSV without comments, so that any tool opens it. Times are seconds on
//! the run's own clock, exact to the nanosecond, loads percent of one CPU to
//! four decimals. Of a virtual node they are the loads that slow it: its CPU
//! had the speed `100 - got_pct` percent where `100 - asked_pct` was asked, and
//! `error_points` above zero says that it was slower than asked.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use sandbag_stats::Window;
use sandbag_stats::window::share_pct;
use serde::{Deserialize, Serialize};

use crate::report::Error;

/// Appends windows to `achieved.csv`; each call leaves whole rows behind, so
/// a killed run keeps everything up to its last window.
///
/// A run must not end because its disk is full: the first failure is returned
/// once, and from then on rows are only counted (see [`Self::lost`]).
#[derive(Debug)]
pub struct AchievedWriter<W: Write = File> {
    sink: W,
    path: PathBuf,
    failed: bool,
    lost: u64,
}

impl AchievedWriter<File> {
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = sandbag_run::directory::create(path);
        Self::new(file.map_err(|cause| Error::write(path, cause))?, path)
    }
}

impl<W: Write> AchievedWriter<W> {
    /// Writes the header to `sink`; `path` only names it in errors.
    pub fn new(mut sink: W, path: &Path) -> Result<Self, Error> {
        let header = names().join(",") + "\n";
        sink.write_all(header.as_bytes())
            .and_then(|()| sink.flush())
            .map_err(|cause| Error::write(path, cause))?;
        Ok(Self {
            sink,
            path: path.to_owned(),
            failed: false,
            lost: 0,
        })
    }

    /// Appends the windows of one instant (one per CPU, as a rule) by a single
    /// write, and flushes. [`Error::Write`] comes once: report it and go on.
    /// Later calls return `Ok` and write nothing, because a row after a torn one
    /// would be unreadable.
    pub fn append(&mut self, windows: &[Window]) -> Result<(), Error> {
        if self.failed {
            self.lost += windows.len() as u64;
            return Ok(());
        }
        let row = |window| {
            let row: Vec<String> = COLUMNS.iter().map(|(_, text)| text(window)).collect();
            row.join(",") + "\n"
        };
        let rows: String = windows.iter().map(row).collect();
        let written = self.sink.write_all(rows.as_bytes());
        written.and_then(|()| self.sink.flush()).map_err(|cause| {
            self.failed = true;
            self.lost += windows.len() as u64;
            Error::write(&self.path, cause)
        })
    }

    /// Windows that did not reach the file, or only in part.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

type AchievedColumn = (&'static str, fn(&Window) -> String);

/// The columns in order. [`AchievedRow`] reads them.
static COLUMNS: [AchievedColumn; 11] = [
    ("time_s", |w| seconds(w.start_ns)),
    ("length_s", |w| seconds(w.length_ns)),
    ("cpu", |w| w.cpu.to_string()),
    ("asked_pct", |w| decimals(w.asked_pct)),
    ("got_pct", |w| decimals(w.got_pct())),
    ("error_points", |w| decimals(w.error_points())),
    ("burner_s", |w| seconds(w.burner_ns)),
    ("steal_pct", |w| decimals(w.steal_pct())),
    ("busy_pct", |w| {
        let share = |ns| decimals(share_pct(ns, w.delivered_ns()));
        w.busy_ns.map_or_else(String::new, share)
    }),
    ("command_pct", |w| {
        w.command_pct().map_or_else(String::new, decimals)
    }),
    ("hole", |w| u8::from(w.hole).to_string()),
];

fn names() -> Vec<&'static str> {
    COLUMNS.iter().map(|(name, _)| *name).collect()
}

fn decimals(value: f64) -> String {
    format!("{value:.4}")
}

/// Nanoseconds as seconds, exact, without the float's rounding.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// One row of `achieved.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AchievedRow {
    /// Start of the window on the run's clock, seconds.
    pub time_s: f64,
    pub length_s: f64,
    pub cpu: u32,
    pub asked_pct: f64,
    /// Load that the burner took, percent of the delivered time.
    pub got_pct: f64,
    /// Not a number without delivered time.
    pub error_points: f64,
    pub burner_s: f64,
    pub steal_pct: f64,
    /// Busy time by `/proc/stat`, percent of the delivered time.
    pub busy_pct: Option<f64>,
    /// The command's time on this CPU, percent of the delivered time.
    pub command_pct: Option<f64>,
    /// 1 where the load was absent for a reason outside the method.
    pub hole: u8,
}

impl AchievedRow {
    /// Length of the window without steal, seconds.
    pub fn delivered_s(&self) -> f64 {
        self.length_s * (1.0 - self.steal_pct / 100.0).max(0.0)
    }

    pub fn is_hole(&self) -> bool {
        self.hole != 0
    }
}

/// Opens an `achieved.csv` and checks its header.
pub fn read_achieved(path: &Path) -> Result<AchievedRows<BufReader<File>>, Error> {
    // Opening a FIFO would wait for a writer.
    let file = match fs::metadata(path) {
        Ok(meta) if meta.is_file() => File::open(path),
        Ok(_) => Err(io::Error::other("is no ordinary file")),
        Err(cause) => Err(cause),
    };
    let file = file.map_err(|cause| Error::Read {
        path: path.to_owned(),
        cause,
    })?;
    AchievedRows::new(BufReader::new(file), path)
}

/// The rows of an `achieved.csv`, one at a time.
///
/// A torn last row (the disk was full, the machine lost power) is dropped; a
/// bad row with more behind it is an error.
pub struct AchievedRows<R: BufRead> {
    rows: csv::DeserializeRecordsIntoIter<R, AchievedRow>,
    path: PathBuf,
    done: bool,
}

impl<R: BufRead> AchievedRows<R> {
    fn new(source: R, path: &Path) -> Result<Self, Error> {
        let mut reader = csv::Reader::from_reader(source);
        let found = reader.headers().map_err(|cause| Error::Row {
            path: path.to_owned(),
            cause,
        })?;
        if *found != names()[..] {
            return Err(Error::Header {
                path: path.to_owned(),
                found: found.iter().collect::<Vec<_>>().join(","),
            });
        }
        Ok(Self {
            rows: reader.into_deserialize(),
            path: path.to_owned(),
            done: false,
        })
    }
}

impl<R: BufRead> Iterator for AchievedRows<R> {
    type Item = Result<AchievedRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.rows.next();
        self.done = !matches!(next, Some(Ok(_)));
        match next? {
            Ok(row) => Some(Ok(row)),
            Err(cause) => self.rows.next().is_some().then(|| {
                let path = self.path.clone();
                Err(Error::Row { path, cause })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use proptest::prelude::*;

    fn window(start_ns: u64, cpu: u32) -> Window {
        Window {
            cpu,
            start_ns,
            length_ns: 1_000_000_000,
            asked_pct: 12.5,
            burner_ns: 112_500_000,
            steal_ns: 100_000_000,
            busy_ns: Some(450_000_000),
            command_ns: None,
            hole: false,
        }
    }

    fn rows(text: &str) -> Result<Vec<AchievedRow>, Error> {
        AchievedRows::new(text.as_bytes(), Path::new("achieved.csv"))?.collect()
    }

    fn write_windows(windows: &[Window]) -> String {
        let mut out = Vec::new();
        let mut writer = AchievedWriter::new(&mut out, Path::new("x")).unwrap();
        writer.append(windows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_reads_as_a_person_would_write_it() {
        let text = write_windows(&[window(3_000_000_001, 7)]);
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "3.000000001,1.000000000,7,12.5000,12.5000,0.0000,0.112500000,10.0000,50.0000,,0"
        );
    }

    /// Takes `room` bytes, then says that the disk is full.
    struct SmallDisk {
        room: usize,
    }

    impl Write for SmallDisk {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = buf.len().min(self.room);
            self.room -= n;
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_reported_once_and_the_loss_is_counted() {
        let mut writer =
            AchievedWriter::new(SmallDisk { room: 200 }, Path::new("/run/achieved.csv")).unwrap();
        writer.append(&[window(0, 0)]).unwrap();
        // Each call has reached the disk before the next.
        assert_eq!(writer.sink.room, 24);
        let error = writer.append(&[window(1, 0), window(1, 1)]).unwrap_err();
        assert!(error.to_string().contains("/run/achieved.csv"), "{error}");
        writer.append(&[window(2, 0)]).unwrap();
        assert_eq!(writer.lost(), 3);
    }

    #[test]
    fn a_disk_without_room_for_the_header_is_an_error_at_once() {
        let path = Path::new("/dev/full");
        let full = File::options().write(true).open(path).unwrap();
        let error = AchievedWriter::new(full, path).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full"));
    }

    #[test]
    fn a_torn_last_row_is_dropped_wherever_it_is_torn() {
        let text = write_windows(&[window(0, 0), window(1_000_000_000, 0)]);
        let first_two = text.match_indices('\n').nth(1).unwrap().0 + 1;
        // Without its newline the row is whole; one byte less and it is not.
        for end in first_two..text.len() - 1 {
            assert_eq!(rows(&text[..end]).unwrap().len(), 1, "{}", &text[..end]);
        }
        assert_eq!(rows(&text[..text.len() - 1]).unwrap().len(), 2);
    }

    #[test]
    fn a_bad_row_in_the_middle_is_named_by_line_and_column() {
        let mut lines: Vec<String> = write_windows(&[window(0, 0), window(1, 0), window(2, 0)])
            .lines()
            .map(str::to_owned)
            .collect();
        lines[2] = lines[2].replacen("12.5000", "12,5", 1);
        let error = rows(&lines.join("\n")).unwrap_err().to_string();
        assert!(error.starts_with("achieved.csv: "), "{error}");
        assert!(
            error.contains("line: 3") && error.contains("12 fields"),
            "{error}"
        );
        lines[2] = lines[1].replacen("12.5000", "half", 1);
        let error = rows(&lines.join("\n")).unwrap_err().to_string();
        assert!(
            error.contains("line: 3") && error.contains("field 3"),
            "{error}"
        );
    }

    #[test]
    fn another_kind_of_file_is_refused() {
        let error = rows("time,load\n0,50\n").unwrap_err().to_string();
        assert!(error.contains("found 'time,load'"), "{error}");
        assert!(rows("").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            start_ns in 0u64..1 << 50,
            length_ns in 1u64..1 << 40,
            asked in 0.0f64..=100.0,
            burner_ns in 0u64..1 << 40,
            steal_ns in 0u64..1 << 40,
            busy_ns in prop::option::of(0u64..1 << 40),
            hole: bool,
        ) {
            let w = Window {
                cpu: 4096, start_ns, length_ns, asked_pct: asked, burner_ns,
                steal_ns, busy_ns, command_ns: None, hole,
            };
            let read = rows(&write_windows(std::slice::from_ref(&w))).unwrap();
            let row = &read[0];
            prop_assert!((row.time_s * 1e9 - start_ns as f64).abs() < 1.0);
            let (error, written) = (row.error_points, w.error_points());
            prop_assert!((error - written).abs() < 1e-4 || (error.is_nan() && written.is_nan()));
            prop_assert!((row.steal_pct - w.steal_pct()).abs() < 1e-4);
            prop_assert_eq!(row.busy_pct.is_some(), busy_ns.is_some());
            prop_assert_eq!(row.is_hole(), hole);
        }
    }
}
