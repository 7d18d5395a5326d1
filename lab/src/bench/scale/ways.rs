// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same jitter made in other ways: the benchmark asks for it itself, a real-time task
//! beside each rank makes it, or timers within each rank (MPI's, because a library has to
//! be loaded into it).
//!
//! The benchmark does not know of the last two: it is run without and with them in turn.
//! Its work is calibrated anew each time, so times are per step of it.

use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_linux::interrupt;
use serde_json::json;

use super::traces::FOR_TIMERS;
use super::{INSIDE, Section, Stand, more_pct, mpirun, predicted};
use crate::table::spread;

const RANKS: u32 = 2;

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
    let (times, seconds) = stand.form((3, "5s"), (8, "10s"));
    let all = [
        PredictionPath::Asks,
        PredictionPath::Beside,
        PredictionPath::Timers,
    ];
    let mut more = all.map(|_| Vec::new());
    let mut foreseen = None;
    // In turn, because they are compared.
    for seed in 1..=times {
        for (way, more) in all.into_iter().zip(&mut more) {
            match way {
                _ if way.missing(stand).is_some() => {}
                PredictionPath::Asks => {
                    let words = format!("--ranks={RANKS} --seed={seed} -d {seconds}");
                    let mut command = stand.bench(&words);
                    command.arg("--jitter").arg(&trace);
                    let found = stand.figures(command)?;
                    more.extend(found["slowdown"]["over_run_pct"].as_f64());
                    let point = predicted(&found["predicted"][0]);
                    foreseen = foreseen.or(point.map(|(pct, _)| pct));
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
    let foreseen = foreseen.map_or_else(String::new, |pct: f64| format!("{pct:.1}"));
    rows.push(vec!["predicted".to_owned(), foreseen]);
    Ok(Section {
        title: "The same jitter by other ways",
        note: format!(
            "`scale bench` on two ranks, quantum 1 ms, runs of {seconds}, under {of} (events that \
             all ways can make). Percent that a phase takes more than without; median, least and \
             greatest."
        ),
        heads: "who makes it | with to without jitter, % more | runs",
        rows,
        figures: figures.into(),
    })
}

/// Time of a phase per step of its work, ns.
fn one(
    stand: &Stand<'_>,
    way: PredictionPath,
    trace: Option<&Path>,
    seconds: &str,
    seed: u32,
) -> Result<f64> {
    let (inner, options) = match way {
        PredictionPath::Timers => {
            let mpi = stand.mpi().context("sandbag-mpi is gone")?;
            let mut command = mpirun(RANKS, mpi);
            command.arg("bench");
            (command, INSIDE)
        }
        _ => (stand.bench(&format!("--ranks={RANKS}")), ""),
    };
    let mut command = match trace {
        None => inner,
        Some(trace) => stand.replay(trace, &format!("--seed={seed} {options}"), &inner),
    };
    command.args(["-d", seconds]);
    let found = stand.figures(command)?;
    let phase_ns = found["slowdown"]["quiet_ns"].as_f64();
    let steps = found["iterations"].as_f64().filter(|steps| *steps > 0.0);
    let each = phase_ns.zip(steps).map(|(ns, steps)| ns / steps);
    each.context("no figures of the benchmark")
}
