// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histogram of `cyclictest -h` or `-H`: wake-up latencies per thread, in us.
//!
//! There is a column for each thread, and with `-H` one more for all of them, which is
//! left out; the rows with a figure for each thread tell the two apart. Threads are not
//! CPUs; with `-S` or `-a` they are bound to the CPU of their number, so that is assumed.
//! With `-N` the figures are ns, but the file does not say so.

use sandbag_input::Head;

use super::input::{Input, JitterRecording};
use super::number;
use super::rows::Row;
use crate::{CpuCounts, Quantity, Result, TailCount};

const NS_PER_US: u64 = 1000;
/// More than `-h` accepts.
const MOST_US: u64 = 1 << 32;
/// Of a row: a latency and a count per thread.
const MOST_COLUMNS: usize = 8193;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    // Without -q its progress comes first, for longer than the head.
    let is_progress = |line: &str| line.starts_with("policy: ") && line.contains("loadavg:");
    head.text_lines()
        .any(|line| line == "# Histogram" || is_progress(line))
}

fn wholes(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(number::whole).collect()
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut in_table = false;
    let mut series: Vec<CpuCounts> = Vec::new();
    let mut last = None;
    let (mut threads, mut longest, mut over) = (None, Vec::new(), Vec::new());
    while let Some((place, row)) = input.lines.next_row()? {
        let line = match row {
            Row::Data(line) if in_table => line,
            Row::Data(_) => continue,
            Row::Comment(comment) => {
                in_table |= comment == "Histogram";
                let (name, values) = comment.split_once(':').unwrap_or((comment, ""));
                let numbers =
                    || wholes(values).ok_or_else(|| place.expected("a number per thread", values));
                match name {
                    "Min Latencies" => threads = Some(numbers()?.len()),
                    "Max Latencies" => longest = numbers()?,
                    "Histogram Overflows" => over = numbers()?,
                    _ => {}
                }
                continue;
            }
        };
        let row = wholes(line).filter(|row| (2..=MOST_COLUMNS).contains(&row.len()));
        let row = row.ok_or_else(|| place.expected("a latency and a count per thread", line))?;
        let (us, counts) = (row[0], &row[1..]);
        if us >= MOST_US || last.is_some_and(|last| us <= last) {
            return Err(place.expected("a latency in us, ascending", line));
        }
        last = Some(us);
        if series.is_empty() {
            let new = |thread| CpuCounts::new(thread as u32, Quantity::ProgramLatency);
            series = (0..counts.len()).map(new).collect();
        }
        if counts.len() != series.len() {
            return Err(place.expected(format!("{} counts", series.len()), line));
        }
        for (series, count) in series.iter_mut().zip(counts) {
            series.add_bin(us * NS_PER_US, (us + 1) * NS_PER_US, *count);
        }
    }
    let whole = input.whole();
    if series.is_empty() {
        return Err(whole.expected("rows of a latency and a count per thread", ""));
    }
    let mut warnings = Vec::new();
    match threads {
        Some(threads) if series.len() == threads + 1 => {
            series.pop();
        }
        Some(threads) if series.len() != threads => {
            let expected = format!("{threads} columns, or one more, as `# Min Latencies` has");
            return Err(whole.expected(expected, &format!("{} columns", series.len())));
        }
        Some(_) => {}
        None => warnings.push(
            "the lines after the histogram are missing: it may be cut off, and with -H its last \
             column is not a thread"
                .to_owned(),
        ),
    }
    if series.len() > 1 {
        warnings.push("thread N is assumed to have run on CPU N".to_owned());
    }
    let end_ns = last.map_or(0, |last| (last + 1) * NS_PER_US);
    for (i, series) in series.iter_mut().enumerate() {
        series.longest_ns = longest.get(i).and_then(|us| us.checked_mul(NS_PER_US));
        series.beyond = TailCount::above(end_ns, over.get(i).copied());
    }
    JitterRecording::distribution("cyclictest", series, warnings, whole)
}
