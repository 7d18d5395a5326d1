// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LLNL's FWQ (serial, threads, MPI): how many ticks a fixed work took, sample
//! by sample, process after process. The first sample of each is left out: it
//! warms up what the others find warm.

use std::collections::BTreeMap;

use super::counts::ValueCounts;
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Distribution, Fault, Result};

pub(super) const READER: FormatReader = FormatReader {
    name: "LLNL FWQ",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines()
        .any(|line| speed(line).is_some() || begins(line).is_some())
}

/// `Speed: process 3, cycles 100, seconds 0.5, GHz 2.0`: who, and how fast its
/// ticks are.
fn speed(line: &str) -> Option<(u64, f64)> {
    let said = line.strip_prefix("Speed: ")?;
    let (who, rest) = said.split_once(',')?;
    let (_, ghz) = rest.split_once("GHz ")?;
    let ghz = number::decimal(ghz.trim()).filter(|ghz| (1e-6..1e6).contains(ghz))?;
    Some((number::whole(who.split_whitespace().nth(1)?)?, ghz))
}

/// `FwqProcess 3 running on CPUs 7-8`: who, and the first of its CPUs.
fn begins(line: &str) -> Option<(u64, u32)> {
    let rest = line
        .strip_prefix("Process ")
        .or_else(|| line.strip_prefix("Thread "))?;
    let (who, cpus) = rest.split_once(" running on CPUs ")?;
    let first = cpus.trim().split(['-', ',', ' ']).next()?;
    Some((number::whole(who.trim())?, number::cpu(first)?))
}

struct FwqProcess {
    who: u64,
    cpu: u32,
    ticks: ValueCounts,
    first: bool,
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut speeds = BTreeMap::new();
    let mut processes: Vec<FwqProcess> = Vec::new();
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some((who, ghz)) = speed(line) {
            speeds.insert(who, ghz);
        } else if let Some((who, cpu)) = begins(line) {
            processes.push(FwqProcess {
                who,
                cpu,
                ticks: ValueCounts::default(),
                first: true,
            });
        } else {
            let ticks = number::whole(line);
            let (Some(process), Some(ticks)) = (processes.last_mut(), ticks) else {
                return Err(place.expected(
                    "`Speed: process N, ... GHz G`, `Process N running on CPUs LIST` or, after \
                     that, a number of ticks",
                    line,
                ));
            };
            if !std::mem::replace(&mut process.first, false) {
                process.ticks.add(ticks);
            }
        }
    }
    let whole = input.lines.whole();
    let mut series = Vec::new();
    for process in &processes {
        let ghz = speeds.get(&process.who).ok_or_else(|| {
            whole.expected(format!("`Speed: process {}, ... GHz G`", process.who), "")
        })?;
        series.extend(process.ticks.of_fixed_work(process.cpu, 1.0 / ghz));
    }
    if series.is_empty() {
        return Err(whole.fault(Fault::NothingKnown));
    }
    Ok(JitterRecording::Distribution(Distribution {
        recorder: "FWQ".to_owned(),
        series,
        warnings: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{distribution, message};

    const TEXT: &str = "\
Speed: process 0, cycles 2000000000, seconds 1.000000, GHz 2.000000
Speed: process 1, cycles 1000000000, seconds 1.000000, GHz 1.000000
Process 0 running on CPUs 3
9999
1000
1100
Process 1 running on CPUs 8-9
9999
1000
1000
";

    #[test]
    fn each_process_has_its_own_clock() {
        let d = distribution(TEXT);
        let [a, b] = &d.series[..] else { panic!() };
        assert_eq!((a.cpu, b.cpu), (3, 8));
        assert_eq!(
            (a.noise_ns, a.known_ns, a.count()),
            (Some(50), Some(1050), 2)
        );
        assert_eq!(b.noise_ns, Some(0));
    }

    #[test]
    fn without_its_speed_ticks_mean_nothing() {
        let got = message(TEXT.split_once('\n').unwrap().1);
        assert!(
            got.contains("expected `Speed: process 0, ... GHz G`"),
            "{got}"
        );
        let got = message(&TEXT.replace("1100", "many"));
        assert!(got.starts_with("in:6: expected"), "{got}");
    }
}
