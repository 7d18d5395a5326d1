// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same jitter made in other ways: the benchmark asks for it itself, a real-time
//! task beside each rank makes it, or timers within each rank (MPI's, for a library
//! has to be loaded into it).
//!
//! Of the two last the benchmark knows nothing: it is run without and with them in
//! turn. Its work is calibrated anew each time, so times are told for each step of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use sandbag_linux::interrupt;
use serde_json::json;

use super::traces::FOR_TIMERS;
use super::{Section, Stand, more_pct, mpirun, spread};

const RANKS: u32 = 2;

/// Who makes the jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PredictionPath {
    Asks,
    Beside,
    Timers,
}

impl PredictionPath {
    fn name(self) -> &'static str {
        match self {
            Self::Asks => "each rank asks (`scale bench --jitter`)",
            Self::Beside => "a real-time task on each CPU (`jitter replay`)",
            Self::Timers => "timers in each rank (`jitter replay --inside`, MPI)",
        }
    }

    fn missing(self, stand: &Stand<'_>) -> Option<&'static str> {
        match self {
            Self::Beside if !nix::unistd::geteuid().is_root() => Some("root"),
            Self::Timers if stand.mpi().is_none() => Some("MPI, or sandbag-mpi (`make mpi`)"),
            _ => None,
        }
    }
}

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let (trace, of) = stand.trace_or(&FOR_TIMERS)?;
    let (times, seconds) = if stand.quick { (3, "5s") } else { (8, "10s") };
    let all = [
        PredictionPath::Asks,
        PredictionPath::Beside,
        PredictionPath::Timers,
    ];
    let mut more = all.map(|_| Vec::new());
    let mut predicted = None;
    // In turn, as everything that is to be compared.
    for seed in 1..=times {
        for (way, more) in all.into_iter().zip(&mut more) {
            match way {
                _ if way.missing(stand).is_some() => {}
                PredictionPath::Asks => {
                    let mut command = Command::new(stand.sandbag);
                    command.args(["-q", "scale", "bench", &format!("--ranks={RANKS}")]);
                    command.arg(format!("--seed={seed}"));
                    command.arg("--jitter").arg(&trace);
                    command.args(["-d", seconds]);
                    let found = stand.figures(command)?;
                    more.extend(found["slowdown"]["over_run_pct"].as_f64());
                    let point = &found["predicted"][0]["mean"]["slowdown_pct"];
                    predicted = predicted.or(point.as_f64());
                }
                PredictionPath::Beside | PredictionPath::Timers => {
                    let plain = one(stand, way, None, seconds, seed)?;
                    let jitter = one(stand, way, Some(&trace), seconds, seed)?;
                    more.push(more_pct(jitter, plain));
                }
            }
            interrupt::check()?;
        }
        eprintln!("{seed} of {times}: {more:.1?}");
    }
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (way, more) in all.into_iter().zip(more) {
        let said = match way.missing(stand) {
            Some(missing) => format!("not measured: needs {missing}"),
            None => spread(&more, 1),
        };
        rows.push(vec![way.name().to_owned(), said, more.len().to_string()]);
        figures.push(json!({"way": way.name(), "more_pct": more}));
    }
    let predicted = predicted.map_or_else(String::new, |pct| format!("{pct:.1}"));
    rows.push(vec!["predicted".to_owned(), predicted, String::new()]);
    Ok(Section {
        title: "The same jitter by other ways",
        note: format!(
            "`scale bench` on two ranks, quantum 1 ms, runs of {seconds}, under {of} (events that \
             all ways can make). Percent that a phase takes more than without; median, least and \
             greatest."
        ),
        heads: vec!["who makes it", "with to without jitter, % more", "runs"],
        rows,
        figures: figures.into(),
    })
}

/// What a phase takes for each step of its work, ns.
fn one(
    stand: &Stand<'_>,
    way: PredictionPath,
    trace: Option<&Path>,
    seconds: &str,
    seed: u32,
) -> Result<f64> {
    let inner = match way {
        PredictionPath::Timers => {
            let mut command = mpirun(RANKS);
            command.arg(stand.mpi().context("sandbag-mpi is gone")?);
            command.arg("bench");
            command
        }
        _ => {
            let mut command = Command::new(stand.sandbag);
            command.args(["scale", "bench", &format!("--ranks={RANKS}")]);
            command
        }
    };
    let mut command = match trace {
        None => inner,
        Some(trace) => {
            let mut command = Command::new(stand.sandbag);
            command.args(["-q", "jitter", "replay"]).arg(trace);
            command.args(["--loop", "--no-out"]);
            command.arg(format!("--seed={seed}"));
            if way == PredictionPath::Timers {
                command.args(["--inside", "--only", "rank"]);
                if nix::unistd::geteuid().is_root() {
                    command.arg("--as-root");
                }
            }
            command.arg("--").arg(inner.get_program());
            command.args(inner.get_args());
            command
        }
    };
    command.args(["-d", seconds]);
    let found = stand.figures(command)?;
    let phase_ns = found["slowdown"]["quiet_ns"].as_f64();
    let steps = found["iterations"].as_f64().filter(|steps| *steps > 0.0);
    let each = phase_ns.zip(steps).map(|(ns, steps)| ns / steps);
    each.context("no figures of the benchmark")
}
