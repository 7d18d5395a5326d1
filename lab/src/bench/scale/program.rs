// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real MPI program (hpcc: Linpack and the rest of its suite at its smallest)
//! with jitter replayed inside each of its ranks, beside the benchmark under the
//! same trace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::interrupt;
use serde_json::{Value, json};

use super::traces::{FOR_TIMERS, read};
use super::{INSIDE, Section, Stand, more_pct, mpirun, predicted};
use crate::program::{is_there, run_cost};
use crate::table::spread;

const RANKS: u32 = 2;
/// How long a run without jitter is to take about, at least.
const LEAST: Duration = Duration::from_secs(2);

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let heads = "what | with to without jitter, % more | runs";
    let title = "A real program";
    for (program, package) in [("hpcc", "hpcc"), ("mpirun", "openmpi-bin")] {
        if !is_there(program) {
            return Ok(Section {
                title,
                note: format!("Not measured: no {program} here (apt-get install {package})."),
                heads,
                rows: Vec::new(),
                figures: Value::Null,
            });
        }
    }
    let (trace, _) = stand.trace_or(&FOR_TIMERS)?;
    let size = problem(stand.dir)?;
    let pairs = stand.form(3, 10);
    let (mut walls, mut linpacks, mut injected) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let plain = hpcc(stand, None)?;
        let jitter = hpcc(stand, Some(&trace))?;
        walls.push(more_pct(jitter.wall_s, plain.wall_s));
        linpacks.push(more_pct(jitter.linpack_s, plain.linpack_s));
        injected.push(jitter.injected);
        eprintln!("hpcc: {:.2} and {:.2} s", plain.wall_s, jitter.wall_s);
        interrupt::check()?;
    }
    let bench = benchmark(stand, &trace)?;
    let share = {
        let trace = read(&trace)?;
        let known: u64 = trace.cpus.iter().map(|cpu| cpu.known_ns()).sum();
        let noise: u64 = trace.cpus.iter().map(|cpu| cpu.noise_ns()).sum();
        noise as f64 / known.max(1) as f64
    };
    let measured = bench["slowdown"]["over_run_pct"].as_f64().unwrap_or(0.0);
    let predicted = predicted(&bench["predicted"][0]);
    let predicted: Vec<f64> = predicted.into_iter().map(|(pct, _)| pct).collect();
    let row = |what: &str, values: &[f64]| {
        let count = values.len().to_string();
        vec![what.to_owned(), spread(values, 1), count]
    };
    Ok(Section {
        title,
        note: format!(
            "Debian's hpcc on {RANKS} ranks (Linpack of size {size}, the rest of the suite at its \
             smallest) under `jitter replay --inside --loop --only rank`, runs with and without in \
             turn; median, least and greatest. Beside it `scale bench --ranks {RANKS}` under the \
             same trace, of which noise takes {:.1} % of the time. A program that never waited would \
             be slower by {:.1} %.",
            share * 100.0,
            share / (1.0 - share) * 100.0
        ),
        heads,
        rows: vec![
            row("hpcc, its Linpack", &linpacks),
            row("hpcc, from start to end", &walls),
            row("benchmark, quantum 1 ms", &[measured]),
            row("predicted for it", &predicted),
        ],
        figures: json!({
            "linpack_pct": linpacks, "wall_pct": walls, "injected": injected,
            "benchmark": bench,
        }),
    })
}

struct HpccRun {
    wall_s: f64,
    linpack_s: f64,
    /// Events, of each rank.
    injected: Vec<u64>,
}

/// Writes its input, for a size at which Linpack takes long enough here.
fn problem(dir: &Path) -> Result<u32> {
    let mut size = 1000;
    loop {
        let input = crate::workload::hpccinf(size, RANKS);
        fs::write(dir.join("hpccinf.txt"), input).context("write hpccinf.txt")?;
        run_cost(program().current_dir(dir))?;
        let took = outcome(dir)?;
        if took >= LEAST.as_secs_f64() || size >= 8000 {
            return Ok(size);
        }
        // Its work grows with the third power.
        let factor = (LEAST.as_secs_f64() * 1.2 / took.max(0.01)).cbrt();
        size = (f64::from(size) * factor.clamp(1.1, 3.0)) as u32;
        interrupt::check()?;
    }
}

fn program() -> Command {
    mpirun(RANKS, "hpcc")
}

fn hpcc(stand: &Stand<'_>, trace: Option<&Path>) -> Result<HpccRun> {
    let record = stand.dir.join("hpcc.json");
    let json = format!("{INSIDE} --force --json={}", record.display());
    let mut command = match trace {
        None => program(),
        Some(trace) => stand.replay(trace, &json, &program()),
    };
    command.current_dir(stand.dir);
    let took = run_cost(&mut command)?;
    let injected = match trace {
        None => Vec::new(),
        Some(_) => {
            let record: Value = serde_json::from_str(&fs::read_to_string(&record)?)?;
            let all = record["processes"].as_array().cloned().unwrap_or_default();
            let ranks = all.iter().filter(|one| !one["rank"].is_null());
            ranks
                .filter_map(|one| one["suffered"]["injected"].as_u64())
                .collect()
        }
    };
    ensure!(
        trace.is_none() || injected.len() == RANKS as usize && injected.iter().all(|n| *n > 0),
        "jitter was injected in {} of {RANKS} ranks",
        injected.iter().filter(|n| **n > 0).count()
    );
    Ok(HpccRun {
        wall_s: took.wall_s,
        linpack_s: outcome(stand.dir)?,
        injected,
    })
}

/// Seconds of its Linpack, whose residuals were right.
fn outcome(dir: &Path) -> Result<f64> {
    let path = dir.join("hpccoutf.txt");
    let text = fs::read_to_string(&path).context("read hpccoutf.txt")?;
    fs::remove_file(&path).context("remove hpccoutf.txt")?;
    linpack_s(&text).context("hpcc wrote no time of Linpack, or its residuals were wrong")
}

fn linpack_s(text: &str) -> Option<f64> {
    let right = "1 tests completed and passed residual checks";
    if !text.contains(right) {
        return None;
    }
    text.lines()
        .find_map(|l| l.strip_prefix("HPL_time=")?.trim().parse().ok())
}

fn benchmark(stand: &Stand<'_>, trace: &Path) -> Result<Value> {
    let seconds = stand.form(20, 120);
    let mut command = stand.bench(&format!("-d {seconds}s --ranks {RANKS}"));
    command.arg("--jitter").arg(trace);
    stand.figures(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_right_linpack_has_a_time() {
        let text = "x\n   1 tests completed and passed residual checks,\nHPL_time=2.5\n";
        assert_eq!(linpack_s(text), Some(2.5));
        assert_eq!(linpack_s("HPL_time=2.5\n"), None);
        assert!((more_pct(1.1, 1.0) - 10.0).abs() < 1e-9);
    }
}
