// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces with the statistics that De, Kothari and Mann (2008) print, and what
//! is predicted of them, beside what they measured: 16 to 2048 processes, 1 ms.
//!
//!     cargo run --release -p sandbag-scale --example published

use std::time::Instant;

use sandbag_jitter::{Clock, CpuTrace, Event, Header, Span, Trace};
use sandbag_scale::predict::{
    Barrier, Drift, LogGp, Options, Source, Spread, Starts, Sync, predict,
};

const MS: f64 = 1e6;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// What the paper prints of a machine, and what it does not: how long the rare
/// events are.
struct Published {
    name: &'static str,
    per_ms: f64,
    /// Share of the events that are short, and their lengths, ns.
    short: (f64, f64, f64),
    long: fn(&mut Chance) -> f64,
    drift_ns: u64,
    /// Never synchronised, once, at each phase; percent at 2048.
    measured_pct: [f64; 3],
}

const PUBLISHED: [Published; 2] = [
    Published {
        name: "Linux",
        per_ms: 0.6,
        // 98 % below 14 us. A generalised Pareto tail above.
        short: (0.98, 4_000.0, 14_000.0),
        long: |chance| 14e3 + 85e3 * (chance.uniform().powf(-0.4) - 1.0) / 0.4,
        drift_ns: 5_300_000,
        measured_pct: [99.0, 13.0, 0.7],
    },
    Published {
        name: "Blue Gene I/O",
        per_ms: 1.04,
        // 99.5 % below 5 us; the rest of one kind.
        short: (0.995, 4_600.0, 5_000.0),
        long: |chance| 170e3 + 60e3 * chance.uniform(),
        drift_ns: 3_820_000,
        measured_pct: [20.0, 6.0, 0.9],
    },
];

fn trace(of: &Published, seconds: f64, cpus: u32) -> Trace {
    let cpu = |cpu: u32| {
        let mut chance = Chance(u64::from(cpu) << 32 | 7);
        let until = seconds * 1e9;
        let (mut at, mut events) = (0.0, Vec::new());
        loop {
            at += -chance.uniform().ln() * MS / of.per_ms;
            let (share, from, to) = of.short;
            let length = if chance.uniform() < share {
                from + (to - from) * chance.uniform()
            } else {
                (of.long)(&mut chance)
            };
            if at + length > until {
                break;
            }
            events.push(Event {
                start_ns: at as u64,
                length_ns: length as u64,
            });
            at += length + 1.0;
        }
        CpuTrace {
            cpu,
            known: vec![Span {
                from_ns: 0,
                until_ns: until as u64,
            }],
            events,
        }
    };
    Trace {
        header: Header {
            recorder: "published".to_owned(),
            host: None,
            kernel: None,
            began_s: None,
            clock: Clock::Imported,
            cpus: (0..cpus).collect(),
            real_time: None,
        },
        cpus: (0..cpus).map(cpu).collect(),
        notes: None,
        attribution: None,
        warnings: Vec::new(),
    }
}

fn main() -> Result<(), sandbag_scale::Error> {
    let usual = Options {
        ranks: (4..=11).map(|power| 1 << power).collect(),
        starts: Starts::Running,
        threads: 2,
        intervals: false,
        ..Options::default()
    };
    for of in &PUBLISHED {
        let trace = trace(of, 600.0, 1);
        let source = Source {
            trace: &trace,
            share: 1,
        };
        println!("{}: percent, 16 to 2048 ranks", of.name);
        let show = |name: &str, options: &Options, measured: f64| {
            let found = predict(&[source], options)?;
            let points: Vec<f64> = found.points.iter().map(|p| p.mean.slowdown_pct).collect();
            let last = points.last().copied().unwrap_or(0.0);
            let all: Vec<String> = points.iter().map(|pct| format!("{pct:.2}")).collect();
            println!(
                "  {name:<34} {:<56} measured {measured} (x {:.2})",
                all.join(" "),
                last / measured
            );
            Ok::<(), sandbag_scale::Error>(())
        };
        show("none", &usual, of.measured_pct[0])?;
        let phase = Options {
            sync: Sync::Phases(1),
            ..usual.clone()
        };
        show("phase", &phase, of.measured_pct[2])?;
        for (name, factor, spread) in [
            ("once, drift from first to last", 1, Spread::Uniform),
            ("once, drift a standard deviation", 1, Spread::Normal),
            ("once, drift 16 times as far", 16, Spread::Uniform),
        ] {
            let once = Options {
                sync: Sync::Once,
                drift: Some(Drift {
                    end_ns: of.drift_ns * factor,
                    spread,
                }),
                ..usual.clone()
            };
            show(name, &once, of.measured_pct[1])?;
        }
    }
    speed()
}

/// 10^6 ranks, 10^5 phases.
fn speed() -> Result<(), sandbag_scale::Error> {
    let trace = trace(&PUBLISHED[0], 60.0, 32);
    let source = Source {
        trace: &trace,
        share: 1,
    };
    let cost = LogGp {
        l_ns: 5e3,
        o_ns: 1e3,
        g_ns: 500.0,
        g_byte_ns: 0.1,
        bytes: 1,
    };
    let usual = Options {
        threads: 2,
        ..Options::default()
    };
    let drift = Some(Drift {
        end_ns: 5_300_000,
        spread: Spread::Uniform,
    });
    let once = Options {
        sync: Sync::Once,
        drift,
        ..usual.clone()
    };
    let barrier = Barrier::Dissemination(cost);
    for (name, options) in [
        ("none", usual.clone()),
        ("once, drift 5300 us", once.clone()),
        (
            "phase",
            Options {
                sync: Sync::Phases(1),
                ..usual.clone()
            },
        ),
        (
            "none, groups of 32",
            Options {
                group: 32,
                ..usual.clone()
            },
        ),
        (
            "once, drift, groups of 32",
            Options {
                group: 32,
                ..once.clone()
            },
        ),
        (
            "none, dissemination",
            Options {
                barrier,
                ..usual.clone()
            },
        ),
        (
            "none, groups of 32, dissemination",
            Options {
                group: 32,
                barrier,
                ..usual.clone()
            },
        ),
    ] {
        let (begin, cpu_s) = (Instant::now(), cpu_s());
        let found = predict(&[source], &options)?;
        let took = (begin.elapsed().as_secs_f64(), self::cpu_s() - cpu_s);
        let last = found
            .points
            .last()
            .map_or(0.0, |point| point.mean.slowdown_pct);
        println!(
            "1 to 2^20 ranks (21 numbers), 10^5 phases, {name}: {:.2} s, {:.2} s of CPU, {last:.1} %",
            took.0, took.1
        );
    }
    Ok(())
}

/// CPU time of this process so far, all threads; ticks of 10 ms.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}
