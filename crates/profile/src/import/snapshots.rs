// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snapshots of the cpu lines of `/proc/stat`, as several programs write them.
//!
//! ```text
//! cpu  60467 15633 11055 298472 1288 0 336 2643 0 0
//! cpu0 30761 7988 5360 148544 826 0 141 1353 0 0
//! ```
//!
//! What stands around them, and above all how they say when they were taken,
//! is a [`SnapshotFormat`]. What becomes of the counters: [`super::counters`].

use crate::number::{cpu_number, whole};
use crate::reader::Lines;
use crate::{Error, Fault, Format, Result};

use super::counters::{CpuState, Differences, STATES, StateTimes, USER_HZ};
use super::sample::{ImportSample, ImportSummary, Samples};

/// How a program writes snapshots.
pub(super) trait SnapshotFormat: Default + Send {
    const FORMAT: Format;
    /// What to do where a snapshot has no time.
    const NO_TIME: &'static str;

    /// Looks at a line that is none of a CPU; its time, if it says when the
    /// snapshot after it was taken.
    fn other_line(&mut self, line: &[u8]) -> Result<Option<SnapshotStamp>, Fault>;

    /// Ticks per second, known after the first snapshot.
    fn hertz(&self) -> u64 {
        USER_HZ
    }

    fn host(&self) -> Option<String> {
        None
    }
}

/// When a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SnapshotStamp {
    pub(super) ns: i64,
    /// Whether it counts from 1970, not from an unknown moment.
    pub(super) dated: bool,
    /// Whether it is local time; it is UTC otherwise.
    pub(super) local: bool,
}

/// Reads the snapshots of one dialect.
#[derive(Default)]
pub(super) struct Snapshots<D> {
    dialect: D,
    lines: Lines,
    /// Time line of the next snapshot, already read.
    held: Option<SnapshotStamp>,
    /// The snapshot before, and when.
    last: Snapshot,
    now: Snapshot,
    last_ns: Option<i64>,
    undated: bool,
    local: bool,
    has_steal: bool,
    snapshots: u64,
    differences: Differences,
}

/// CPUs in ascending order.
type Snapshot = Vec<(u32, StateTimes)>;

/// Where a CPU is or belongs.
fn find(snapshot: &Snapshot, cpu: u32) -> Result<usize, usize> {
    snapshot.binary_search_by_key(&cpu, |(there, _)| *there)
}

impl<D: SnapshotFormat> Snapshots<D> {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    /// Reads one snapshot into `now`; its time, or `None` at the end.
    fn snapshot(&mut self) -> Result<Option<SnapshotStamp>> {
        self.now.clear();
        let mut stamp = self.held.take();
        loop {
            let Some(line) = self.lines.next_whole_line()? else {
                return Ok(stamp.filter(|_| !self.now.is_empty()));
            };
            if let Some(rest) = line.strip_prefix(b"cpu") {
                if rest.first().is_none_or(|b| !b.is_ascii_digit()) {
                    continue;
                }
                let parsed = counters(rest);
                let (cpu, counters, found) = parsed.map_err(|fault| self.lines.here(fault))?;
                self.has_steal |= found > CpuState::Steal as usize;
                if stamp.is_none() {
                    return Err(self.lines.here(Fault::lacks(
                        D::FORMAT,
                        format!(
                            "no line before the snapshot says when it was taken; {}",
                            D::NO_TIME
                        ),
                    )));
                }
                self.add(cpu, counters)?;
                continue;
            }
            let found = self.dialect.other_line(line);
            if let Some(found) = found.map_err(|fault| self.lines.here(fault))? {
                if self.now.is_empty() {
                    stamp = Some(found);
                } else {
                    self.held = Some(found);
                    return Ok(stamp);
                }
            }
        }
    }

    fn add(&mut self, cpu: u32, counters: StateTimes) -> Result<()> {
        match find(&self.now, cpu) {
            Ok(_) => Err(self.lines.here(Fault::Duplicate(format!("cpu{cpu}")))),
            Err(at) => {
                self.now.insert(at, (cpu, counters));
                Ok(())
            }
        }
    }
}

/// `0 30761 7988 ...`, after `cpu`; and how many of the states stand there.
fn counters(rest: &[u8]) -> Result<(u32, StateTimes, usize), Fault> {
    let mut fields = rest
        .split(u8::is_ascii_whitespace)
        .filter(|f| !f.is_empty());
    let bad = |what: &str, found: &[u8]| Fault::syntax(what, found);
    let name = fields.next().unwrap_or_default();
    let cpu = cpu_number(name).ok_or_else(|| bad("the number of a CPU", name))?;
    let mut counters = [0; STATES];
    let mut found = 0;
    // Guest columns follow; kernels before 2.6.11 have no steal.
    for (counter, field) in counters.iter_mut().zip(fields) {
        *counter = whole(field).ok_or_else(|| bad("a counter", field))?;
        found += 1;
    }
    if found <= CpuState::Idle as usize {
        return Err(bad("at least four counters (user nice system idle)", rest));
    }
    Ok((cpu, counters, found))
}

impl<D: SnapshotFormat> Samples for Snapshots<D> {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        loop {
            let Some(stamp) = self.snapshot()? else {
                if self.snapshots == 0 {
                    return Err(self.lines.nowhere(Fault::wrong_format(
                        D::FORMAT,
                        "it has no lines `cpu<N> ...`",
                    )));
                }
                if self.snapshots == 1 {
                    return Err(self.lines.nowhere(Fault::OneSnapshot));
                }
                return Ok(false);
            };
            self.snapshots += 1;
            self.undated |= !stamp.dated;
            self.local |= stamp.local;
            let begin_ns = self.last_ns.replace(stamp.ns);
            std::mem::swap(&mut self.last, &mut self.now);
            let Some(begin_ns) = begin_ns else {
                self.differences = Differences::new(self.dialect.hertz());
                continue;
            };
            sample.start_ns = Some(begin_ns);
            sample.end_ns = stamp.ns;
            sample.slack_ns = 0;
            for (cpu, after) in &self.last {
                let before = find(&self.now, *cpu).ok().map(|at| self.now[at].1);
                let cell = before.and_then(|before| self.differences.cell(&before, after));
                sample.cells.push((*cpu, cell));
            }
            return Ok(true);
        }
    }

    fn about(&self) -> ImportSummary {
        let mut warnings = self.differences.warnings();
        warnings.extend(self.lines.cut_warning());
        ImportSummary {
            host: self.dialect.host(),
            local: self.local,
            undated: self.undated,
            has_steal: self.has_steal,
            warnings,
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }
}
