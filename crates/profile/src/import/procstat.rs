// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snapshots of `/proc/stat`, each after a line that says when it was taken.
//!
//! ```text
//! # epoch 1795223452.414226
//! cpu  60467 15633 11055 298472 1288 0 336 2643 0 0
//! cpu0 30761 7988 5360 148544 826 0 141 1353 0 0
//! ```
//!
//! busy = 1 - (idle + iowait + steal) / (sum of all - steal), over the
//! differences of the counters. Never over wall time: the sum of the states
//! strays from it by several percent, and by more on a laptop that slept.
//! guest is inside user and guest_nice inside nice; they are not added again.

use crate::error::shown;
use crate::lines::Lines;
use crate::number::{cpu_number, decimal_seconds, whole};
use crate::{Cell, Error, Fault, Format, Result};

use super::cursor::Cursor;
use super::stamp::Days;
use super::{About, Pass, Sample, Samples};

/// user nice system idle iowait irq softirq steal.
const STATES: usize = 8;
const IDLE: usize = 3;
const IOWAIT: usize = 4;
const STEAL: usize = 7;
/// A counter that falls by this many ticks (3 s of 10 ms) began anew; a
/// smaller fall is the kernel's (iowait may decrease, idle is corrected).
const RESET_TICKS: u64 = 300;

type Counters = [u64; STATES];

pub(super) struct ProcStat {
    lines: Lines,
    pass: Pass,
    /// Time line of the next snapshot, already read.
    held: Option<Stamp>,
    /// The snapshot before, and when.
    last: Snapshot,
    now: Snapshot,
    last_ns: Option<i64>,
    dated: bool,
    snapshots: u64,
    resets: u64,
    small_falls: u64,
    still: u64,
}

/// CPUs in ascending order.
type Snapshot = Vec<(u32, Counters)>;

/// Where a CPU is or belongs. Mostly at `guess`.
fn find(snapshot: &Snapshot, cpu: u32, guess: usize) -> Result<usize, usize> {
    match snapshot.get(guess) {
        Some((there, _)) if *there == cpu => Ok(guess),
        _ => snapshot.binary_search_by_key(&cpu, |(there, _)| *there),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stamp {
    ns: i64,
    dated: bool,
}

impl ProcStat {
    pub(super) fn new(lines: Lines, pass: Pass) -> Self {
        Self {
            lines,
            pass,
            held: None,
            last: Vec::new(),
            now: Vec::new(),
            last_ns: None,
            dated: true,
            snapshots: 0,
            resets: 0,
            small_falls: 0,
            still: 0,
        }
    }

    /// Reads one snapshot into `now`; its time, or `None` at the end.
    fn snapshot(&mut self) -> Result<Option<Stamp>> {
        self.now.clear();
        let mut stamp = self.held.take();
        loop {
            // The first one thoroughly: a file of one snapshot is refused for
            // what is wrong in it before it is refused for its length.
            if self.snapshots > 0
                && stamp.is_some()
                && let Some((cpu, counters, bytes)) = quick(self.lines.ahead(), self.pass)
            {
                self.lines.pass(bytes);
                self.add(cpu, counters)?;
                continue;
            }
            let Some(line) = self.lines.next_line()? else {
                return Ok(stamp.filter(|_| !self.now.is_empty()));
            };
            if let Some(rest) = line.strip_prefix(b"cpu") {
                if rest.first().is_none_or(|b| !b.is_ascii_digit()) {
                    continue;
                }
                let parsed = counters(rest);
                let (cpu, counters) = parsed.map_err(|fault| self.lines.here(fault))?;
                if stamp.is_none() {
                    return Err(self.lines.here(Fault::WrongFormat {
                        named: Format::ProcStat,
                        why: "no line before the snapshot says when it was taken; write one, \
                              as in `(echo \"# epoch $(date +%s.%N)\"; cat /proc/stat) >> FILE`"
                            .into(),
                    }));
                }
                self.add(cpu, counters)?;
            } else if let Some(found) = time_line(line) {
                if self.now.is_empty() {
                    stamp = Some(found);
                } else {
                    self.held = Some(found);
                    return Ok(stamp);
                }
            }
        }
    }

    #[inline]
    fn add(&mut self, cpu: u32, counters: Counters) -> Result<()> {
        if self.now.last().is_none_or(|(last, _)| *last < cpu) {
            self.now.push((cpu, counters));
            return Ok(());
        }
        match find(&self.now, cpu, self.now.len()) {
            Ok(_) => Err(self.lines.here(Fault::Duplicate(format!("cpu{cpu}")))),
            Err(at) => {
                self.now.insert(at, (cpu, counters));
                Ok(())
            }
        }
    }

    fn cell(&mut self, before: &Counters, after: &Counters) -> Option<Cell> {
        let mut delta = [0u64; STATES];
        for i in 0..STATES {
            if before[i] > after[i] {
                if before[i] - after[i] >= RESET_TICKS {
                    self.resets += 1;
                    return None;
                }
                self.small_falls += 1;
            }
            delta[i] = after[i].saturating_sub(before[i]);
        }
        let total: u64 = delta.iter().fold(0, |sum, d| sum.saturating_add(*d));
        if total == 0 {
            // A CPU whose tick is switched off is idle.
            self.still += 1;
            return Some(Cell::default());
        }
        let total = total as f64;
        let steal = delta[STEAL] as f64;
        let unused = delta[IDLE] as f64 + delta[IOWAIT] as f64;
        let delivered = total - steal;
        let load_pct = if delivered > 0.0 {
            ((delivered - unused) / delivered * 100.0).clamp(0.0, 100.0)
        } else {
            0.0
        };
        Some(Cell {
            load_pct,
            steal_pct: (steal / total * 100.0).clamp(0.0, 100.0),
        })
    }
}

/// The line of a CPU as every kernel since 2.6.11 writes it, and its length.
/// Which CPU it is is enough for the first pass.
#[inline]
fn quick(text: &[u8], pass: Pass) -> Option<(u32, Counters, usize)> {
    let mut at = Cursor::new(text);
    at.text(b"cpu")?;
    let cpu = at.cpu()?;
    let mut counters = [0; STATES];
    if pass == Pass::Loads {
        for counter in &mut counters {
            at.byte(b' ')?;
            *counter = at.whole()?;
        }
    }
    // Guest columns may follow.
    if at.rest().first() != Some(&b' ') {
        return None;
    }
    at.rest_of_line()?;
    Some((cpu, counters, at.passed()))
}

/// `0 30761 7988 ...`, after `cpu`.
fn counters(rest: &[u8]) -> Result<(u32, Counters), Fault> {
    let mut fields = rest
        .split(u8::is_ascii_whitespace)
        .filter(|f| !f.is_empty());
    let bad = |what: &str, found: &[u8]| Fault::Syntax {
        expected: what.into(),
        found: shown(found),
    };
    let name = fields.next().unwrap_or_default();
    let cpu = cpu_number(name).ok_or_else(|| bad("the number of a CPU", name))?;
    let mut counters = [0; STATES];
    let mut found = 0;
    // Guest columns follow; kernels before 2.6.11 have no steal.
    for (counter, field) in counters.iter_mut().zip(fields) {
        *counter = whole(field).ok_or_else(|| bad("a counter", field))?;
        found += 1;
    }
    if found <= IDLE {
        return Err(bad("at least four counters (user nice system idle)", rest));
    }
    Ok((cpu, counters))
}

/// A line that says when: `# epoch 1795223452.4`, `1795223452.4`, an ISO 8601
/// date and time, or the two numbers of `/proc/uptime`.
fn time_line(line: &[u8]) -> Option<Stamp> {
    let mut text = line.trim_ascii();
    text = text.strip_prefix(b"#").unwrap_or(text).trim_ascii();
    for word in [&b"epoch"[..], b"timestamp", b"time", b"date", b"uptime"] {
        if let Some(rest) = text.strip_prefix(word) {
            text = rest.trim_ascii_start();
            text = text.strip_prefix(b":").unwrap_or(text).trim_ascii_start();
            break;
        }
    }
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let mut numbers = text.split(|b| *b == b' ').map(decimal_seconds);
    if let Some(Some(ns)) = numbers.next() {
        let second = numbers.next();
        // An uptime counts from the boot, not from 1970.
        let dated = second.is_none() && ns > 1_000_000_000 * crate::NS_PER_S / 2;
        return (second.is_none_or(|s| s.is_some()) && numbers.next().is_none()).then_some(Stamp {
            ns: i64::try_from(ns).ok()?,
            dated,
        });
    }
    let text = std::str::from_utf8(text).ok()?;
    let ns = match text.parse::<crate::Begin>().ok()? {
        crate::Begin::Utc(t) => i64::try_from(t.as_nanosecond()).ok()?,
        crate::Begin::Local(t) => {
            let (date, time) = (t.date().to_string(), t.time().to_string());
            Days::default()
                .civil(date.as_bytes(), time.get(..8)?.as_bytes(), b"")?
                .ns
                .checked_add(i64::from(t.subsec_nanosecond()))?
        }
    };
    Some(Stamp { ns, dated: true })
}

impl Samples for ProcStat {
    fn next_sample(&mut self, sample: &mut Sample) -> Result<bool> {
        sample.cells.clear();
        loop {
            let Some(stamp) = self.snapshot()? else {
                if self.snapshots == 0 {
                    return Err(self.lines.nowhere(Fault::WrongFormat {
                        named: Format::ProcStat,
                        why: "it has no lines `cpu<N> ...`".into(),
                    }));
                }
                if self.snapshots == 1 {
                    return Err(self.lines.nowhere(Fault::OneSnapshot));
                }
                return Ok(false);
            };
            self.snapshots += 1;
            self.dated &= stamp.dated;
            let begin_ns = self.last_ns.replace(stamp.ns);
            std::mem::swap(&mut self.last, &mut self.now);
            let Some(begin_ns) = begin_ns else { continue };
            sample.start_ns = Some(begin_ns);
            sample.end_ns = stamp.ns;
            sample.slack_ns = 0;
            for i in 0..self.last.len() {
                let (cpu, after) = self.last[i];
                let before = match self.pass {
                    Pass::Cpus => None,
                    Pass::Loads => find(&self.now, cpu, i).ok().map(|at| self.now[at].1),
                };
                let cell = before.and_then(|before| self.cell(&before, &after));
                sample.cells.push((cpu, cell));
            }
            return Ok(true);
        }
    }

    fn about(&self) -> About {
        let mut warnings = Vec::new();
        if self.resets > 0 {
            warnings.push(format!(
                "in {} samples a CPU's counters began anew (a restart, or the CPU was offline); \
                 its load is unknown there",
                self.resets
            ));
        }
        if self.small_falls > 0 {
            warnings.push(format!(
                "{} counters fell by less than 3 s, as the kernel allows; they count as still",
                self.small_falls
            ));
        }
        if self.still > 0 {
            warnings.push(format!(
                "in {} samples no counter of a CPU moved (its tick was off, or the samples are \
                 too close); its load is taken to be 0",
                self.still
            ));
        }
        About {
            host: None,
            local: false,
            undated: !self.dated,
            warnings,
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("# epoch 1795223452.414226", Some((1_795_223_452_414_226_000, true)))]
    #[case("1795223452", Some((1_795_223_452_000_000_000, true)))]
    #[case("time: 1795223452.5", Some((1_795_223_452_500_000_000, true)))]
    #[case("2026-11-21T01:10:52Z", Some((1_795_223_452_000_000_000, true)))]
    #[case("2026-11-21T01:10:52.5+00:00", Some((1_795_223_452_500_000_000, true)))]
    #[case("# 2026-11-21 01:10:52", Some((1_795_223_452_000_000_000, true)))]
    #[case("350.12 690.50", Some((350_120_000_000, false)))]
    #[case("ctxt 2326834", None)]
    #[case("btime 1795221508", None)]
    #[case("12 monkeys", None)]
    #[case("", None)]
    fn time_lines(#[case] text: &str, #[case] expected: Option<(i64, bool)>) {
        let got = time_line(text.as_bytes()).map(|s| (s.ns, s.dated));
        assert_eq!(got, expected);
    }
}
