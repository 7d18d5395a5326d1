// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snapshots of `/proc/stat`, each after a line that says when it was taken.
//!
//! ```text
//! # epoch 1795223452.414226
//! cpu  60467 15633 11055 298472 1288 0 336 2643 0 0
//! cpu0 30761 7988 5360 148544 826 0 141 1353 0 0
//! ```
//!
//! What becomes of the counters: [`super::counters`].

use crate::error::shown;
use crate::head::words;
use crate::lines::Lines;
use crate::number::{cpu_number, decimal_seconds, whole};
use crate::reader::Reader;
use crate::{Error, Fault, Format, Result};

use super::counters::{Counters, Differences, STATES, State};
use super::cursor::Cursor;
use super::stamp::Days;
use super::{About, Pass, Sample, Samples, sampled};

/// The kernel counts in hundredths of a second (USER_HZ), in the order of
/// [`State`].
const TICKS_PER_S: u64 = 100;

pub(super) const READER: Reader = Reader {
    format: Format::ProcStat,
    looks_like: |head| head.lines().any(is_cpu_line),
    open: |input| {
        sampled(Format::ProcStat, input, |lines, pass| {
            Box::new(ProcStat::new(lines, pass))
        })
    },
};

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
    differences: Differences,
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
            differences: Differences::new(TICKS_PER_S),
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

/// `cpu` or `cpu0` and at least four numbers.
fn is_cpu_line(line: &[u8]) -> bool {
    let mut fields = words(line);
    fields.next().is_some_and(|name| {
        name.strip_prefix(b"cpu")
            .is_some_and(|n| n.is_empty() || whole(n).is_some())
    }) && fields.clone().count() >= 4
        && fields.all(|n| whole(n).is_some())
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
    if found <= State::Idle as usize {
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
                let cell = before.and_then(|before| self.differences.cell(&before, &after));
                sample.cells.push((cpu, cell));
            }
            return Ok(true);
        }
    }

    fn about(&self) -> About {
        About {
            host: None,
            local: false,
            undated: !self.dated,
            warnings: self.differences.warnings(),
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
