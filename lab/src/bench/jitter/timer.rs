// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The replay beside a program: when its events begin, compared with when cyclictest
//! wakes up at the same priority on the same CPU: interleaved, each every two
//! milliseconds, and in turn. A program runs beside both, because on an idle CPU there is
//! none to delay, and a CPU that was put to sleep wakes up later, unless cyclictest is
//! there, which forbids sleep states (`/dev/cpu_dma_latency`).

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Bench;
use super::cyclictest::{self, Delays};
use super::figures::{Figures, Target};
use crate::program::{Running, Start, command, is_there};

const TITLE: &str = "By a process beside the program, an event of 60 us every millisecond";
/// Of both: above ordinary real-time tasks of a shared machine.
const PRIORITY: u8 = 2;

/// Measurements of both in a round, one right after the other: the speed at which the
/// hypervisor wakes a CPU changes by more within seconds than the two differ.
const TURNS: u32 = 6;
/// Interleaved, one may be due while the other has the CPU: then all of its wake-ups are
/// later, by up to the length of an event. Above this increase over the measurement in
/// turn, right before, the two overlapped.
const MEET_US: f64 = 20.0;

pub fn measure(bench: &Bench, round: u32, figures: &mut Figures) -> Result<()> {
    let spin = format!("compete spin 1 3600 --cpus {}", bench.cpu);
    let _program = Running::start(command("/proc/self/exe", &spin), Start::default())?;
    let seconds = (bench.seconds / 3).max(1);
    for turn in 0..TURNS {
        let theirs_first = (round + turn).is_multiple_of(2);
        if let Some(alone) = measure_turn(bench, seconds, theirs_first, figures)? {
            interleaved(bench, seconds, alone, figures)?;
        }
    }
    Ok(())
}

/// p50 of both, us.
#[derive(Debug, Clone, Copy)]
struct Late {
    theirs: f64,
    ours: f64,
}

impl Late {
    fn later(self) -> f64 {
        self.ours - self.theirs
    }

    /// Whether one of them was kept waiting by the other.
    fn met(self, alone: Self) -> bool {
        self.ours - alone.ours > MEET_US || self.theirs - alone.theirs > MEET_US
    }
}

/// Both at once, so that a disturbance by the host affects both.
fn interleaved(bench: &Bench, seconds: u32, alone: Late, figures: &mut Figures) -> Result<()> {
    let theirs =
        cyclictest::Running::start(bench.dir.path(), bench.cpu, PRIORITY, 2_000, seconds + 10)?;
    let ours = replay(bench, "apart.sbj", seconds)?;
    let theirs = theirs.stop()?;
    let both = Late {
        theirs: theirs.p50,
        ours: ours.start[0],
    };
    let (name, target) = if both.met(alone) {
        ("interleaved, but they met: the same, us", Target::None)
    } else {
        let name = "interleaved: begins later than cyclictest, p50 of both, us";
        (name, Target::Most(1.0))
    };
    figures.add(TITLE, name, target, both.later());
    Ok(())
}

fn measure_turn(
    bench: &Bench,
    seconds: u32,
    theirs_first: bool,
    figures: &mut Figures,
) -> Result<Option<Late>> {
    let cyclictest = || {
        let run = || cyclictest::run(bench.dir.path(), bench.cpu, PRIORITY, seconds);
        is_there("cyclictest").then(run).transpose()
    };
    let (theirs, ours) = if theirs_first {
        let theirs = cyclictest()?;
        (theirs, replay(bench, "even.sbj", seconds)?)
    } else {
        let ours = replay(bench, "even.sbj", seconds)?;
        (cyclictest()?, ours)
    };
    let alone = theirs.map(|theirs| Late {
        theirs: theirs.p50,
        ours: ours.start[0],
    });
    if let Some(Delays { p50, p99, most }) = theirs {
        let later = ours.start[0] - p50;
        let values = [
            ("cyclictest: wakes up late, p50, us", Target::None, p50),
            ("cyclictest: p99, us", Target::None, p99),
            ("cyclictest: worst, us", Target::None, most),
            (
                "in turn: begins later than cyclictest, p50 of both, us",
                Target::None,
                later,
            ),
        ];
        figures.add_all(TITLE, values);
    }
    let ([start50, start99, start], [length50, length99, length]) = (ours.start, ours.length);
    let values = [
        ("begins late, p50, us", Target::None, start50),
        ("begins late, p99, us", Target::None, start99),
        ("begins late, worst, us", Target::None, start),
        ("longer, p50, us", Target::Most(1.0), length50.abs()),
        ("longer, p99, us", Target::None, length99),
        ("longer, worst, us", Target::None, length),
        (
            "floor: what injecting costs, us (published: 14)",
            Target::None,
            ours.floor,
        ),
        (
            "injected, % of what was asked",
            Target::None,
            ours.injected_pct,
        ),
    ];
    figures.add_all(TITLE, values);
    Ok(alone)
}

/// Errors of p50, p99 and the worst, us.
struct Replay {
    start: [f64; 3],
    length: [f64; 3],
    floor: f64,
    injected_pct: f64,
}

fn replay(bench: &Bench, trace: &str, seconds: u32) -> Result<Replay> {
    let cpu = bench.cpu;
    let words = format!(
        "jitter replay {trace} --cpus {cpu} --method fifo --priority {PRIORITY} -d {seconds}s \
         --share 1 --no-out -q --json=-"
    );
    let run: Value = serde_json::from_str(&bench.run(&words)?)?;
    let one = &run["cpus"][0];
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3);
    let errors = |name: &str| -> Result<[f64; 3]> {
        let of = |which: &str| {
            us(&one[name][which]).with_context(|| format!("no {name} of the replay: {one}"))
        };
        Ok([of("p50_ns")?, of("p99_ns")?, of("most_ns")?])
    };
    let count = |name: &str| one["counts"][name].as_f64().unwrap_or(0.0);
    Ok(Replay {
        start: errors("start_error_undisturbed")?,
        length: errors("length_error")?,
        floor: us(&one["measured"]["overhead_ns"]).context("no floor")?,
        injected_pct: count("injected") * 100.0 / count("asked").max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_is_there_alone_too_is_no_overlap() {
        let late = |theirs, ours| Late { theirs, ours };
        // Ours are always 30 us later: a difference to report.
        assert!(!late(17.0, 47.0).met(late(16.0, 46.0)));
        assert!(late(17.0, 60.0).met(late(16.0, 18.0)));
        assert!(late(60.0, 18.0).met(late(16.0, 18.0)));
        assert!((late(17.0, 47.0).later() - 30.0).abs() < 1e-9);
    }
}
