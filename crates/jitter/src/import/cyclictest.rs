// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The histogram of `cyclictest -h` or `-H`: how late each thread ran, in us.
//!
//! There is a column for each thread, and with `-H` one more for all of them,
//! which is left out: only the rows that have a figure for each thread tell it
//! from the others. Threads are not CPUs; with `-S` or `-a` they are bound to
//! the CPU of their number, so that is what is taken. With `-N` the figures are
//! ns, but the file does not say so.

use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Bin, CpuCounts, Distribution, Quantity, Result, TailCount};

const NS_PER_US: u64 = 1000;
/// What `-h` accepts, and more.
const MOST_US: u64 = 1 << 32;
/// Each would be a thread.
const MOST_COLUMNS: usize = 8193;

pub(super) const READER: FormatReader = FormatReader {
    name: "histogram of cyclictest",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines().any(|line| line == "# Histogram")
}

fn wholes(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(number::whole).collect()
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut in_table = false;
    let mut series: Vec<CpuCounts> = Vec::new();
    let mut last = None;
    let (mut threads, mut longest, mut over) = (None, Vec::new(), Vec::new());
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            in_table |= comment == "Histogram";
            let Some((name, values)) = comment.split_once(':') else {
                continue;
            };
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
        if !in_table || line.is_empty() {
            continue;
        }
        let row = wholes(line).filter(|row| row.len() >= 2 && row.len() <= MOST_COLUMNS);
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
        for (series, count) in series
            .iter_mut()
            .zip(counts)
            .filter(|(_, count)| **count > 0)
        {
            series.bins.push(Bin {
                from_ns: us * NS_PER_US,
                until_ns: (us + 1) * NS_PER_US,
                count: *count,
            });
        }
    }
    let whole = input.lines.whole();
    if series.is_empty() {
        return Err(whole.expected("rows of a latency and a count per thread", ""));
    }
    let mut warnings = Vec::new();
    match threads {
        Some(threads) if series.len() == threads + 1 => {
            series.pop();
        }
        Some(threads) if series.len() != threads => {
            return Err(whole.expected(
                format!("{threads} columns, or one more, as `# Min Latencies` has"),
                &format!("{} columns", series.len()),
            ));
        }
        Some(_) => {}
        None => warnings.push(
            "the histogram lacks what follows it: it may be cut off, and with -H its last column \
             is no thread"
                .to_owned(),
        ),
    }
    if series.len() > 1 {
        warnings.push("thread N is taken to have run on CPU N".to_owned());
    }
    let end_ns = last.map_or(0, |last| (last + 1) * NS_PER_US);
    for (i, series) in series.iter_mut().enumerate() {
        series.longest_ns = longest.get(i).and_then(|us| us.checked_mul(NS_PER_US));
        let over = over.get(i).copied().filter(|count| *count > 0);
        series.beyond = over.map(|count| TailCount {
            from_ns: end_ns,
            count,
        });
    }
    Ok(JitterRecording::Distribution(Distribution {
        recorder: "cyclictest".to_owned(),
        series,
        warnings,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{distribution, message};

    const TEXT: &str = "\
# /dev/cpu_dma_latency set to 0us
policy: fifo: loadavg: 0.00 0.01 0.01 1/152 2441
# Histogram
000000 000000\t000000\t000000
000001 000010\t000020\t000030
000002 000000\t000005\t000005
# Total: 000000011 000000025 000000036
# Min Latencies: 00001 00001
# Avg Latencies: 00001 00001
# Max Latencies: 00400 00002 00400
# Histogram Overflows: 00001 00000 00001
# Histogram Overflow at cycle number:
# Thread 0: 00017
# Thread 1:
";

    #[test]
    fn the_column_of_all_is_left_out() {
        let d = distribution(TEXT);
        let [a, b] = &d.series[..] else { panic!() };
        assert_eq!((a.count(), b.count()), (11, 25));
        assert_eq!(
            a.beyond,
            Some(TailCount {
                from_ns: 3_000,
                count: 1
            })
        );
        assert_eq!(a.longest_ns, Some(400_000));
        assert_eq!(b.bins[1].from_ns, 2_000);
        assert_eq!(b.quantity, Quantity::ProgramLatency);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, said) in [
            (
                "000002 ",
                "000001 ",
                "in:6: expected a latency in us, ascending",
            ),
            ("000020\t000030", "000020", "in:5: expected 3 counts"),
            ("000020\t", "x\t", "in:5: expected a latency and a count"),
            (
                "Min Latencies: 00001 00001",
                "Min Latencies: 1",
                "in: expected 1 columns",
            ),
        ] {
            let got = message(&TEXT.replace(from, to));
            assert!(got.starts_with(said), "{got}");
        }
        let cut = &TEXT[..TEXT.find("# Total").unwrap()];
        assert!(distribution(cut).warnings[0].contains("cut off"));
    }
}
