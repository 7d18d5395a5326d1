// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seconds of `sandbag scale predict`: 1 to 10^6 ranks, 10^5 phases, two threads.

use anyhow::Result;
use sandbag_linux::interrupt;
use serde_json::json;

use super::traces::TraceFile;
use super::{Section, Stand};
use crate::program::{self, RunCost, run_cost};
use crate::table::{spread, yes};

/// What each is to take at most, seconds.
const TARGET_S: f64 = 10.0;
const COST: &str = "5us,1us,0.5us,0.1ns";

/// What is predicted, and its options beside those of all.
const KINDS: [(&str, &str); 12] = [
    ("never synchronised", ""),
    ("once, drift 5300 us", "--sync once --drift 5300us"),
    ("at each phase", "--sync phase"),
    ("every 100 phases", "--sync every:100 --drift 5300us"),
    ("never, nodes of 32", "--group 32"),
    (
        "once, drift, nodes of 32",
        "--group 32 --sync once --drift 5300us",
    ),
    ("never, dissemination barrier", "--barrier dissemination"),
    (
        "never, nodes of 32, dissemination",
        "--group 32 --barrier dissemination",
    ),
    ("never, binomial tree", "--barrier binomial"),
    (
        "once, drift, dissemination",
        "--sync once --drift 5300us --barrier dissemination",
    ),
    (
        "once, drift, nodes of 32, dissemination",
        "--group 32 --sync once --drift 5300us --barrier dissemination",
    ),
    (CLASSES, ""),
];
/// The default: the cost of each class of events is predicted, too.
const CLASSES: &str = "never, and what each class of events costs";

/// As published of Linux: 0.6 events a millisecond, one in fifty long.
const TRACE: TraceFile = TraceFile {
    cpus: 32,
    seconds: 60,
    per_ms: 0.6,
    long_share: 0.02,
    long_ns: (14e3, 600e3),
};

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let trace = TRACE.write(stand.dir, "speed.sbj")?;
    let rounds = stand.form(1, 5);
    let mut took: Vec<Vec<RunCost>> = vec![Vec::new(); KINDS.len()];
    for _ in 0..rounds {
        for ((name, options), took) in KINDS.iter().zip(&mut took) {
            let words = "-q scale predict --ranks 1..1e6 --phases 1e5 --threads 2 -o - ";
            let mut command = program::command(stand.sandbag, &(words.to_owned() + options));
            command.arg(&trace);
            if *name != CLASSES {
                command.arg("--no-classes");
            }
            if options.contains("--barrier") {
                command.args(["--loggp", COST]);
            }
            let one = run_cost(&mut command)?;
            eprintln!("{name}: {:.2} s", one.wall_s);
            took.push(one);
            interrupt::check()?;
        }
    }
    let all =
        |took: &[RunCost], of: fn(&RunCost) -> f64| -> Vec<f64> { took.iter().map(of).collect() };
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for ((name, options), took) in KINDS.iter().zip(&took) {
        let wall = all(took, |t| t.wall_s);
        let cpu = all(took, |t| t.cpu_s);
        let mib = all(took, |t| t.most_mib);
        rows.push(vec![
            (*name).to_owned(),
            spread(&wall, 2),
            spread(&cpu, 2),
            spread(&mib, 0),
            yes(wall.iter().all(|s| *s <= TARGET_S)),
        ]);
        figures.push(json!({
            "what": name, "options": options, "wall_s": wall, "cpu_s": cpu, "most_mib": mib,
        }));
    }
    Ok(Section {
        title: "Speed",
        note: format!(
            "`sandbag scale predict` of 21 numbers of ranks from 1 to 10^6, 10^5 phases, with \
             intervals and the distribution over phases; a synthetic trace of 32 CPUs with 36 000 \
             events each, two threads. Median of {rounds}, least and greatest in brackets. Target: \
             {TARGET_S} s."
        ),
        heads: "synchronised | s | CPU, s | memory, MiB | target met",
        rows,
        figures: figures.into(),
    })
}
