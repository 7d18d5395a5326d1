// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statistics of the Lublin model beside those of the published program,
//! as a table in Markdown: `cargo run --release -p sandbag-profile --example
//! lublin_table`.
//!
//! 10 seeds of 50 000 jobs on 128 nodes, begun at midnight; the mean over the
//! seeds and the standard deviation between them.

use sandbag_profile::synth::lublin::{Clock, Lublin, Options, Submitted, Types};

const SEEDS: u32 = 10;
const JOBS: usize = 50_000;
const NODES: f64 = 128.0;

/// A figure of one run, and what the published program gave: with one kind of
/// jobs, and with two (empty where there is no such figure).
struct Row {
    name: &'static str,
    decimals: usize,
    of: fn(&Run) -> f64,
    published: [&'static str; 2],
}

/// In the units of the figures.
#[derive(Clone, Copy)]
struct Job {
    arrival_s: f64,
    runtime_s: f64,
    cpus: u32,
    batch: bool,
}

impl From<Submitted> for Job {
    fn from(Submitted { job, batch }: Submitted) -> Self {
        Self {
            arrival_s: job.arrival_ns as f64 / 1e9,
            runtime_s: job.runtime_ns as f64 / 1e9,
            cpus: job.cpus,
            batch,
        }
    }
}

/// Jobs sorted into what the figures are of.
struct Run {
    jobs: Vec<Job>,
    intervals: Vec<f64>,
    runtimes: Vec<f64>,
    nodes: Vec<f64>,
}

impl Run {
    fn new(seed: u32, types: Types, clock: Clock) -> Self {
        let options = Options {
            seed,
            types,
            clock,
            start_hour: 0,
            machine: None,
            rate: 1.0,
            busy_pct: 100.0,
        };
        Self::of(Lublin::new(&options).take(JOBS).map(Job::from).collect())
    }

    fn of(jobs: Vec<Job>) -> Self {
        let column = |of: fn(&Job) -> f64| jobs.iter().map(of).collect::<Vec<f64>>();
        let pairs = jobs.windows(2);
        Self {
            intervals: pairs.map(|p| p[1].arrival_s - p[0].arrival_s).collect(),
            runtimes: column(|job| job.runtime_s),
            nodes: column(|job| f64::from(job.cpus)),
            jobs,
        }
    }

    fn kind(&self, batch: bool) -> Self {
        let jobs = self.jobs.iter().filter(|job| job.batch == batch);
        Self::of(jobs.copied().collect())
    }

    /// Circular mean of the hour of arrival of 5000 jobs.
    fn hour(&self, first: usize) -> f64 {
        let (mut x, mut y) = (0.0, 0.0);
        for job in &self.jobs[first..first + 5000] {
            let angle = job.arrival_s / 86_400.0 * std::f64::consts::TAU;
            x += angle.cos();
            y += angle.sin();
        }
        (y.atan2(x) / std::f64::consts::TAU * 24.0).rem_euclid(24.0)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (squares / values.len() as f64).sqrt()
}

fn cv(values: &[f64]) -> f64 {
    sd(values) / mean(values)
}

/// Between the two values beside it.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * (sorted.len() - 1) as f64;
    let (below, rest) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] * (1.0 - rest) + sorted[above] * rest
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (ma, mb) = (mean(a), mean(b));
    let products = a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb));
    products.sum::<f64>() / a.len() as f64 / (sd(a) * sd(b))
}

fn ln_runtimes(run: &Run) -> Vec<f64> {
    // A run of less than a second has none.
    let longer = run.runtimes.iter().filter(|t| **t >= 1.0);
    longer.map(|t| t.ln()).collect()
}

fn share(run: &Run, of: fn(&Job) -> bool) -> f64 {
    run.jobs.iter().filter(|job| of(job)).count() as f64 / run.jobs.len() as f64
}

fn offered_load(run: &Run) -> f64 {
    let work: f64 = run
        .jobs
        .iter()
        .map(|j| f64::from(j.cpus) * j.runtime_s)
        .sum();
    let first = run.jobs.first().map_or(0.0, |job| job.arrival_s);
    let last = run.jobs.last().map_or(0.0, |job| job.arrival_s);
    work / NODES / (last - first)
}

const ROWS: [Row; 32] = [
    Row {
        name: "interval between arrivals: mean, s",
        decimals: 1,
        of: |run| mean(&run.intervals),
        published: ["905.9 ± 18.6", "522.7 ± 27.4"],
    },
    Row {
        name: "interval: coefficient of variation",
        decimals: 2,
        of: |run| cv(&run.intervals),
        published: ["7.12 ± 0.33", "7.01 ± 0.37"],
    },
    Row {
        name: "interval: median, s",
        decimals: 1,
        of: |run| quantile(&run.intervals, 0.5),
        published: ["116.2 ± 1.0", "50.7 ± 1.6"],
    },
    Row {
        name: "interval: p90, s",
        decimals: 0,
        of: |run| quantile(&run.intervals, 0.9),
        published: ["1238 ± 20", "671 ± 26"],
    },
    Row {
        name: "interval: p99, s",
        decimals: 0,
        of: |run| quantile(&run.intervals, 0.99),
        published: ["13131 ± 380", "8350 ± 556"],
    },
    Row {
        name: "run time: mean, s",
        decimals: 0,
        of: |run| mean(&run.runtimes),
        published: ["4351 ± 51", "1614 ± 134"],
    },
    Row {
        name: "run time: coefficient of variation",
        decimals: 2,
        of: |run| cv(&run.runtimes),
        published: ["1.94 ± 0.03", "4.24 ± 0.15"],
    },
    Row {
        name: "run time: median, s",
        decimals: 1,
        of: |run| quantile(&run.runtimes, 0.5),
        published: ["107.1 ± 2.9", "17.7 ± 0.9"],
    },
    Row {
        name: "run time: p90, s",
        decimals: 0,
        of: |run| quantile(&run.runtimes, 0.9),
        published: ["14612 ± 81", "890 ± 197"],
    },
    Row {
        name: "run time: p99, s",
        decimals: 0,
        of: |run| quantile(&run.runtimes, 0.99),
        published: ["33982 ± 591", "32324 ± 1163"],
    },
    Row {
        name: "ln run time: mean",
        decimals: 3,
        of: |run| mean(&ln_runtimes(run)),
        published: ["5.458 ± 0.019", "3.477 ± 0.058"],
    },
    Row {
        name: "ln run time: standard deviation",
        decimals: 3,
        of: |run| sd(&ln_runtimes(run)),
        published: ["2.968 ± 0.005", "2.387 ± 0.047"],
    },
    Row {
        name: "nodes: mean",
        decimals: 2,
        of: |run| mean(&run.nodes),
        published: ["12.15 ± 0.10", "8.93 ± 0.13"],
    },
    Row {
        name: "nodes: coefficient of variation",
        decimals: 3,
        of: |run| cv(&run.nodes),
        published: ["1.765 ± 0.006", "1.378 ± 0.015"],
    },
    Row {
        name: "nodes: median",
        decimals: 1,
        of: |run| quantile(&run.nodes, 0.5),
        published: ["4.0 ± 0.0", "4.0 ± 0.0"],
    },
    Row {
        name: "nodes: p90",
        decimals: 1,
        of: |run| quantile(&run.nodes, 0.9),
        published: ["31.8 ± 0.4", "30.3 ± 1.5"],
    },
    Row {
        name: "share of serial jobs",
        decimals: 4,
        of: |run| share(run, |job| job.cpus == 1),
        published: ["0.2442 ± 0.0015", "0.1744 ± 0.0018"],
    },
    Row {
        name: "share of powers of two (1 included)",
        decimals: 4,
        of: |run| share(run, |job| job.cpus.is_power_of_two()),
        published: ["0.8697 ± 0.0013", "0.8631 ± 0.0026"],
    },
    Row {
        name: "correlation of nodes and run time",
        decimals: 4,
        of: |run| correlation(&run.nodes, &run.runtimes),
        published: ["0.1753 ± 0.0073", "0.1466 ± 0.0053"],
    },
    Row {
        name: "offered load of 128 nodes",
        decimals: 3,
        of: offered_load,
        published: ["0.729 ± 0.021", "0.400 ± 0.033"],
    },
    Row {
        name: "share of batch jobs",
        decimals: 3,
        of: |run| share(run, |job| job.batch),
        published: ["", "0.148 ± 0.014"],
    },
    Row {
        name: "interval of batch jobs: mean, s",
        decimals: 1,
        of: |run| mean(&run.kind(true).intervals),
        published: ["", "3529.0 ± 263.7"],
    },
    Row {
        name: "run time of batch jobs: mean, s",
        decimals: 1,
        of: |run| mean(&run.kind(true).runtimes),
        published: ["", "9478.7 ± 100.7"],
    },
    Row {
        name: "nodes of batch jobs: mean",
        decimals: 2,
        of: |run| mean(&run.kind(true).nodes),
        published: ["", "13.91 ± 0.18"],
    },
    Row {
        name: "share of serial among batch jobs",
        decimals: 4,
        of: |run| share(&run.kind(true), |job| job.cpus == 1),
        published: ["", "0.2943 ± 0.0047"],
    },
    Row {
        name: "interval of interactive jobs: mean, s",
        decimals: 1,
        of: |run| mean(&run.kind(false).intervals),
        published: ["", "613.6 ± 38.6"],
    },
    Row {
        name: "run time of interactive jobs: mean, s",
        decimals: 1,
        of: |run| mean(&run.kind(false).runtimes),
        published: ["", "241.8 ± 8.2"],
    },
    Row {
        name: "nodes of interactive jobs: mean",
        decimals: 2,
        of: |run| mean(&run.kind(false).nodes),
        published: ["", "8.06 ± 0.07"],
    },
    Row {
        name: "share of serial among interactive jobs",
        decimals: 4,
        of: |run| share(&run.kind(false), |job| job.cpus == 1),
        published: ["", "0.1534 ± 0.0016"],
    },
    Row {
        name: "hour of arrival, first 5000 jobs",
        decimals: 2,
        of: |run| run.hour(0),
        published: ["14.45", "14.84"],
    },
    Row {
        name: "hour of arrival, 5000 in the middle",
        decimals: 2,
        of: |run| run.hour(22_500),
        published: ["11.54", "12.26"],
    },
    Row {
        name: "hour of arrival, last 5000",
        decimals: 2,
        of: |run| run.hour(45_000),
        published: ["8.25", "9.88"],
    },
];

/// Mean and standard deviation between the seeds.
fn told(values: &[f64], decimals: usize) -> String {
    let n = values.len() as f64;
    let between = sd(values) * (n / (n - 1.0)).sqrt();
    format!("{:.decimals$} ± {between:.decimals$}", mean(values))
}

fn main() {
    for (i, (types, title)) in [
        (Types::One, "One kind of jobs (`--one-type`)"),
        (Types::Two, "Batch and interactive jobs"),
    ]
    .into_iter()
    .enumerate()
    {
        let runs = |clock| -> Vec<Run> {
            (1..=SEEDS)
                .map(|seed| Run::new(seed, types, clock))
                .collect()
        };
        let (whole, exact) = (runs(Clock::WholeSeconds), runs(Clock::Exact));
        println!("{title}:\n");
        println!("| | published program | `--drift` | exact clock |");
        println!("|---|---|---|---|");
        for row in &ROWS {
            let published = row.published[i];
            if published.is_empty() {
                continue;
            }
            let ours = [&whole, &exact].map(|runs| {
                let figures: Vec<f64> = runs.iter().map(row.of).collect();
                told(&figures, row.decimals)
            });
            println!("| {} | {published} | {} | {} |", row.name, ours[0], ours[1]);
        }
        println!();
    }
}
