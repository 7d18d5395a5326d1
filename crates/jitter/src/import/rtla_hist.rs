// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtla osnoise hist` (lengths of the tracer's samples) and `rtla timerlat
//! hist` (latencies of a timer's interrupt, of a kernel thread, and with `-u`
//! of a program).
//!
//! Buckets that are empty on all CPUs are left out of the table, and its header
//! does not name their width. It divides every index; so the greatest common
//! divisor of all is taken for it, which may be too wide but never too narrow.

use super::{FormatReader, Head, Input, JitterRecording, MAX_NS, number};
use crate::import::lines::LinePlace;
use crate::{Bin, CpuCounts, Distribution, Error, Fault, Quantity, Result, TailCount};

const OSNOISE: &str = "RTLA osnoise histogram";
const TIMERLAT: &str = "RTLA timerlat histogram";

pub(super) const READER: FormatReader = FormatReader {
    name: "rtla osnoise hist and rtla timerlat hist",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment(OSNOISE) || head.has_comment(TIMERLAT)
}

/// `IRQ-003`: what is counted, and where.
fn column(name: &str) -> Option<CpuCounts> {
    let (what, cpu) = name.split_once('-')?;
    let quantity = match what {
        "CPU" => Quantity::Length,
        "IRQ" => Quantity::InterruptLatency,
        "Thr" => Quantity::ThreadLatency,
        "Usr" => Quantity::ProgramLatency,
        _ => return None,
    };
    Some(CpuCounts::new(number::cpu(cpu)?, quantity))
}

/// `0 00:01:00`: days and time.
fn duration_ns(text: &str) -> Option<u64> {
    let (days, time) = text.trim().split_once(char::is_whitespace)?;
    let mut seconds = number::whole(days)?;
    let mut parts = time.trim().split(':');
    for scale in [24, 60, 60] {
        let part = number::whole(parts.next()?)?;
        seconds = seconds.checked_mul(scale)?.checked_add(part)?;
    }
    let ns = seconds.checked_mul(1_000_000_000)?;
    (parts.next().is_none() && ns < MAX_NS).then_some(ns)
}

/// The values of a row, one for each column; `-` is none.
fn values(words: &[&str], columns: usize, place: LinePlace<'_>) -> Result<Vec<u64>, Error> {
    let all: Option<Vec<u64>> = words
        .iter()
        .map(|word| match *word {
            "-" => Some(0),
            word => number::whole(word),
        })
        .collect();
    all.filter(|all| all.len() == columns)
        .ok_or_else(|| place.expected(format!("{columns} counts"), &words.join(" ")))
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut unit_ns = 1000;
    let (mut known_ns, mut is_timerlat) = (None, false);
    let mut series: Option<Vec<CpuCounts>> = None;
    let (mut width, mut last) = (0, None);
    let (mut over, mut count, mut most) = (None, None, None);
    while let Some((place, line)) = input.lines.next_line()? {
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            is_timerlat |= comment.starts_with(TIMERLAT);
            if comment.starts_with("Time unit is nanoseconds") {
                unit_ns = 1;
            } else if let Some(value) = comment.strip_prefix("Duration:") {
                let ns = duration_ns(value);
                known_ns = Some(ns.ok_or_else(|| place.expected("days and HH:MM:SS", value))?);
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, rest)) = words.split_first() else {
            continue;
        };
        let Some(all) = &mut series else {
            if *name != "Index" {
                return Err(place.expected("the header of the table, `Index CPU-000 ...`", line));
            }
            let columns: Option<Vec<CpuCounts>> = rest.iter().map(|name| column(name)).collect();
            series = Some(columns.ok_or_else(|| {
                place.expected("columns named CPU-, IRQ-, Thr- or Usr- and a number", line)
            })?);
            continue;
        };
        let columns = all.len();
        let row = |words: &[&str]| values(words, columns, place);
        match *name {
            "over:" => over = row(rest).ok(),
            "count:" => count = Some(row(rest)?),
            "max:" => most = Some(row(rest)?),
            "min:" | "avg:" => {}
            // Sums of all CPUs, and what rtla itself says at its end.
            "ALL:" => break,
            index => {
                let index = number::whole(index).and_then(|n| n.checked_mul(unit_ns));
                let index = index.filter(|ns| *ns < MAX_NS && last.is_none_or(|last| *ns > last));
                let from_ns = index
                    .ok_or_else(|| place.expected("the index of a bucket, ascending", name))?;
                width = divisor(width, from_ns);
                last = Some(from_ns);
                for (series, count) in all.iter_mut().zip(row(rest)?) {
                    if count > 0 {
                        // Its end is known when all indexes are.
                        let until_ns = from_ns;
                        series.bins.push(Bin {
                            from_ns,
                            until_ns,
                            count,
                        });
                    }
                }
            }
        }
    }
    let whole = input.lines.whole();
    let mut warnings = Vec::new();
    let series = series.filter(|series| !series.is_empty());
    let mut series = series.ok_or_else(|| whole.fault(Fault::NothingKnown))?;
    if width == 0 {
        width = unit_ns;
        if last.is_some() {
            warnings.push(
                "all is in the first bucket, whose width is not in the file: rtla's default of 1 \
                 is taken for it"
                    .to_owned(),
            );
        }
    }
    let end_ns = last.map_or(0, |last| last + width);
    let mut missing = 0u64;
    for (i, series) in series.iter_mut().enumerate() {
        let of = |row: &Option<Vec<u64>>| row.as_ref().and_then(|row| row.get(i).copied());
        for bin in &mut series.bins {
            bin.until_ns = bin.from_ns + width;
        }
        series.known_ns = known_ns;
        series.beyond = of(&over).filter(|count| *count > 0).map(|count| TailCount {
            from_ns: end_ns,
            count,
        });
        // That of osnoise is the begin of a bucket.
        if is_timerlat {
            series.longest_ns = of(&most).and_then(|most| most.checked_mul(unit_ns));
        }
        let more = of(&count).map_or(0, |count| count.saturating_sub(series.count()));
        missing = missing.saturating_add(more);
    }
    if over.is_none() || count.is_none() {
        warnings
            .push("the table lacks its summary (`over:`, `count:`): it may be cut off".to_owned());
    } else if missing > 0 {
        warnings.push(format!(
            "`count:` tells of {missing} more than the buckets hold: rows are missing"
        ));
    }
    Ok(JitterRecording::Distribution(Distribution {
        recorder: if is_timerlat {
            "rtla timerlat hist".to_owned()
        } else {
            "rtla osnoise hist".to_owned()
        },
        series,
        warnings,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{distribution, message};

    const OSNOISE: &str = "\
# RTLA osnoise histogram
# Time unit is microseconds (us)
# Duration:   0 00:01:00
Index   CPU-000   CPU-002
0           100        50
10            7         0
30            1         0
over:         2         0
count:      110        50
min:          0         0
avg:          0         0
max:         60         0
";

    #[test]
    fn the_width_of_a_bucket_divides_all() {
        let d = distribution(OSNOISE);
        assert_eq!(d.warnings, Vec::<String>::new());
        let [a, b] = &d.series[..] else { panic!() };
        assert_eq!((a.cpu, b.cpu), (0, 2));
        assert_eq!(a.known_ns, Some(60_000_000_000));
        let bins: Vec<_> = a
            .bins
            .iter()
            .map(|b| (b.from_ns, b.until_ns, b.count))
            .collect();
        assert_eq!(
            bins,
            [(0, 10_000, 100), (10_000, 20_000, 7), (30_000, 40_000, 1)]
        );
        let beyond = TailCount {
            from_ns: 40_000,
            count: 2,
        };
        assert_eq!((a.beyond, b.beyond), (Some(beyond), None));
        assert_eq!(a.longest_ns, None);
    }

    #[test]
    fn latencies_of_a_timer_are_something_else() {
        let d = distribution(
            "# RTLA timerlat histogram\n# Time unit is nanoseconds (ns)\n# Duration:   1 01:00:01\n\
             Index   IRQ-000   Thr-000   Usr-000\n1 5 0 0\n2 0 5 4\nover: 0 0 0\ncount: 5 5 4\n\
             min: 1 2 2\navg: 1 2 2\nmax: 1 2 -\nALL: IRQ Thr Usr\ncount: 5 5 4\nover: 9 9 9\n",
        );
        let quantities: Vec<_> = d.series.iter().map(|series| series.quantity).collect();
        assert_eq!(
            quantities,
            [
                Quantity::InterruptLatency,
                Quantity::ThreadLatency,
                Quantity::ProgramLatency
            ]
        );
        assert_eq!(d.series[0].known_ns, Some(90_001_000_000_000));
        assert_eq!(d.series[1].longest_ns, Some(2));
        assert_eq!(d.series[1].bins[0].from_ns, 2);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, said) in [
            (
                "10            7         0",
                "10  7",
                "in:6: expected 2 counts, found `7`",
            ),
            (
                "30  ",
                "5  ",
                "in:7: expected the index of a bucket, ascending",
            ),
            ("CPU-002", "XPU-002", "in:4: expected columns named"),
            ("0 00:01:00", "soon", "in:3: expected days"),
            (
                "Index   CPU-000   CPU-002",
                "Index",
                "in:5: expected 0 counts",
            ),
        ] {
            let got = message(&OSNOISE.replace(from, to));
            assert!(got.starts_with(said), "{got}");
        }
        let cut = &OSNOISE[..OSNOISE.find("over").unwrap()];
        assert!(distribution(cut).warnings[0].contains("cut off"));
        let d = distribution(&OSNOISE.replace("30            1         0\n", ""));
        assert!(d.warnings[0].contains("1 more than"), "{:?}", d.warnings);
        let got = message("# RTLA osnoise histogram\nIndex\nover: 0\ncount:\n");
        assert!(got.contains("no time"), "{got}");
    }
}
