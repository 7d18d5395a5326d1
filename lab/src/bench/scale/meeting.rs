// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against the compute-barrier benchmark with ranks that meet at a
//! barrier: one per CPU, with shared memory and with MPI.
//!
//! Jitter of the machine is in phases with replayed jitter and in those without, which
//! alternate, so the slowdown is over those without. It still matters: where one CPU is
//! slower than the other, the delays of the faster one are hidden. So what the host adds
//! (mostly less than nothing) is added to the prediction, from a replay with the times
//! of the ranks in the phases without. Several runs, each with other positions of the
//! trace, give the standard error of the measurement.

use std::path::Path;

use anyhow::Result;
use sandbag_linux::interrupt;
use sandbag_stats::error_of_mean;
use serde_json::{Value, json};

use super::traces::{MANY_SMALL, TraceFile};
use super::{Section, Stand, around, overlap, predicted};
use crate::table::{interval, yes};

/// A number of ranks for which any machine has CPUs.
const RANKS: u32 = 2;

/// Alternations of phases with and without jitter in a run: a machine's speed changes
/// within seconds, too.
const ROUNDS: u32 = 20;

const HEADS: &str = "ranks meet by | ranks | sync | measured | predicted | host | \
                     with the host's own | apart, % | inside";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    Memory,
    Mpi,
}

impl Meets {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "shared memory",
            Self::Mpi => "MPI",
        }
    }
}

/// A run: percent more than without jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MeetingRun {
    measured: f64,
    predicted: f64,
    /// What the host adds to that.
    host: f64,
    /// 95 % interval of the prediction with it.
    interval: (f64, f64),
}

impl MeetingRun {
    /// From the figures of `scale bench`; `None` if it has no prediction.
    fn of(figures: &Value) -> Option<Self> {
        let (predicted, (low, high)) = predicted(&figures["predicted"][0])?;
        let on_host = &figures["predicted_on_host"];
        let host = on_host["pct"].as_f64()? - on_host["alone_pct"].as_f64()?;
        Some(Self {
            measured: figures["slowdown"]["over_run_pct"].as_f64()?,
            predicted,
            host,
            interval: (low + host, high + host),
        })
    }
}

/// Runs that differ by their positions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MeetingPair {
    /// Mean, with half of its 95 % interval.
    measured: (f64, f64),
    predicted: f64,
    host: f64,
    /// Mean of the runs' intervals: the runs share the trace.
    interval: (f64, f64),
}

impl MeetingPair {
    /// `None` of fewer than two.
    fn of(runs: &[MeetingRun]) -> Option<Self> {
        let count = runs.len() as f64;
        let mean = |of: fn(&MeetingRun) -> f64| runs.iter().map(of).sum::<f64>() / count;
        // What the host does differs from run to run, and is in both.
        let error = error_of_mean(runs.iter().map(|run| run.measured - run.host))?;
        Some(Self {
            measured: (mean(|run| run.measured), error),
            predicted: mean(|run| run.predicted),
            host: mean(|run| run.host),
            interval: (mean(|run| run.interval.0), mean(|run| run.interval.1)),
        })
    }

    fn inside(&self) -> bool {
        overlap(around(self.measured), self.interval)
    }
}

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let made = TraceFile {
        cpus: RANKS,
        ..MANY_SMALL
    };
    let (trace, of) = stand.trace_or(&made)?;
    let (times, seconds) = stand.form((3, "5s"), (6, "20s"));
    let has_mpi = stand.mpi().is_some();
    let missing = if has_mpi {
        ""
    } else {
        " Not measured: MPI, for sandbag-mpi (`make mpi`) or mpirun is not there."
    };
    let cases: Vec<_> = cases(&stand.args.syncs)
        .filter(|(meets, ..)| has_mpi || *meets == Meets::Memory)
        .collect();
    let mut runs = vec![Vec::new(); cases.len()];
    let mut figures = Vec::new();
    // In turn: a machine keeps a speed for minutes, which would be one line's.
    for time in 0..times {
        for (place, (case, runs)) in cases.iter().zip(&mut runs).enumerate() {
            let seed = time * cases.len() + place + 1;
            let (meets, ranks, sync) = *case;
            eprintln!(
                "{}, {ranks} ranks, {sync}, {} of {times}",
                meets.name(),
                time + 1
            );
            let bench = benchmark(stand, &trace, *case, seconds, seed)?;
            // None if ranks wait for CPUs, or noise leaves nothing.
            runs.extend(MeetingRun::of(&bench));
            figures.push(json!({
                "meets": meets.name(), "sync": sync, "seed": seed, "figures": bench,
            }));
            interrupt::check()?;
        }
    }
    let found: Vec<Option<MeetingPair>> = runs.iter().map(|runs| MeetingPair::of(runs)).collect();
    let inside = found.iter().flatten().filter(|one| one.inside()).count();
    let of_several = cases.iter().zip(&runs).filter(|(case, _)| case.1 == RANKS);
    let together: Vec<MeetingRun> = of_several.flat_map(|(_, runs)| runs).copied().collect();
    let rows: Vec<_> = cases
        .iter()
        .zip(&found)
        .map(|(case, one)| line(*case, *one))
        .collect();
    Ok(Section {
        title: "Against ranks that meet",
        note: format!(
            "`sandbag scale bench [--mpi] --ranks N --sync S --rounds {ROUNDS}`, quantum 1 ms, {times} runs of {seconds} \
             for each line, the lines in turn, other positions of the trace in each (--seed); {of}. \
             Percent more than the same run's phases without jitter; in brackets 95 % intervals: of the mean of the \
             runs (by Student's t, from the differences of runs from their prediction), and of the \
             prediction. Host: what jitter of the host adds to the prediction, by a replay with what \
             each rank took in the phases without jitter, less one with the quantum. Apart: percent \
             of the time of a phase. Inside: the intervals overlap. Of {} inside: {inside}.{}{missing}",
            rows.len(),
            said_of_all(&together)
        ),
        heads: HEADS,
        rows,
        figures: figures.into(),
    })
}

/// All runs of ranks that meet, in a sentence.
fn said_of_all(runs: &[MeetingRun]) -> String {
    let Some(all) = MeetingPair::of(runs) else {
        return String::new();
    };
    let (found, error) = all.measured;
    format!(
        " All {} runs of {RANKS} ranks together: {found:.2} ± {error:.2} measured, {:.2} with the \
         host's own, {:.2} without.",
        runs.len(),
        all.predicted + all.host,
        all.predicted
    )
}

/// One rank is the same whatever the synchronisation.
fn cases(syncs: &[String]) -> impl Iterator<Item = (Meets, u32, &str)> {
    let alone = std::iter::once((Meets::Memory, 1, "none"));
    let all = [Meets::Memory, Meets::Mpi].into_iter();
    alone.chain(all.flat_map(|meets| syncs.iter().map(move |sync| (meets, RANKS, sync.as_str()))))
}

fn benchmark(
    stand: &Stand<'_>,
    trace: &Path,
    (meets, ranks, sync): (Meets, u32, &str),
    seconds: &str,
    seed: usize,
) -> Result<Value> {
    let mpi = if meets == Meets::Mpi { "--mpi" } else { "" };
    let mut command = stand.bench(&format!(
        "{mpi} -d {seconds} --sync {sync} --ranks={ranks} --seed={seed} --rounds={ROUNDS}"
    ));
    command.arg("--jitter").arg(trace);
    stand.figures(command)
}

fn line((meets, ranks, sync): (Meets, u32, &str), one: Option<MeetingPair>) -> Vec<String> {
    let mut row = vec![meets.name().to_owned(), ranks.to_string(), sync.to_owned()];
    let Some(one) = one else {
        row.push("no prediction (more ranks than CPUs, or too much noise)".to_owned());
        return row;
    };
    let found = one.measured.0;
    let with_host = one.predicted + one.host;
    let apart = (with_host - found) / (1.0 + found / 100.0);
    row.extend([
        interval(found, around(one.measured), 2),
        format!("{:.2}", one.predicted),
        format!("{:+.2}", one.host),
        interval(with_host, one.interval, 2),
        format!("{apart:+.2}"),
        yes(one.inside()),
    ]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(measured: f64) -> MeetingRun {
        MeetingRun::of(&json!({
            "slowdown": {"over_run_pct": measured},
            "predicted": [{"mean": {"slowdown_pct": 10.0, "interval_pct": [9.5, 10.5]}}],
            "predicted_on_host": {"pct": 9.0, "alone_pct": 10.0},
        }))
        .unwrap()
    }

    #[test]
    fn few_runs_have_a_wider_interval() {
        // A standard deviation of 1, of three; t of 2 degrees of freedom is 4.303.
        let one = MeetingPair::of(&[run(10.0), run(11.0), run(12.0)]).unwrap();
        assert!((one.measured.0 - 11.0).abs() < 1e-9);
        assert!(
            (one.measured.1 - 4.303 / 3f64.sqrt()).abs() < 1e-3,
            "{one:?}"
        );
        assert!((one.interval.0 - 8.5).abs() < 1e-9 && one.inside());
        let narrow = MeetingPair::of(&[run(11.0), run(11.0)]).unwrap();
        assert!(!narrow.inside());
        assert_eq!(MeetingPair::of(&[run(1.0)]), None);
        assert_eq!(MeetingRun::of(&json!({})), None);
    }

    #[test]
    fn every_way_and_synchronisation_has_its_line() {
        let syncs = ["none".to_owned(), "phase".to_owned()];
        let all: Vec<_> = cases(&syncs).collect();
        assert_eq!(all.len(), 5);
        assert_eq!(all[0], (Meets::Memory, 1, "none"));
        assert_eq!(all[4], (Meets::Mpi, 2, "phase"));
    }
}
