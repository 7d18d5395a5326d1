// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against brute force: every rank, phase and message replayed.

use anyhow::Result;
use sandbag_jitter::{CpuTrace, JitterTrace};
use sandbag_linux::interrupt;
use sandbag_scale::predict::replay::{Rank, anywhere, run};
use sandbag_scale::predict::{
    BarrierModel, Drift, LogGp, PredictOptions, Spread, Starts, Sync, TraceSource, predict,
};
use sandbag_stats::{Chance, range};
use serde_json::json;

use super::traces::{LONG, NOISY, TraceFile};
use super::{Section, Stand};
use crate::table::{spread, yes};

/// Of the time of a phase, percent.
const TARGET_PCT: f64 = 1.0;
const WORK_NS: u64 = 1_000_000;
const COST: LogGp = LogGp::without_gaps(5_000.0, 2_000.0);

/// Messages for which the gap between two is longer than they take.
const SLOW: LogGp = LogGp {
    g_ns: 12_000.0,
    ..COST
};

/// CPUs of the trace: as many as the largest node has.
const CPUS: u32 = 4;

#[derive(Clone, Copy, PartialEq)]
enum SyncScheme {
    Never(BarrierModel),
    /// With events of many phases.
    NeverLong(BarrierModel),
    /// Nodes of this number of CPUs, whose ranks are at one position.
    Nodes(u32, BarrierModel),
    Once(Drift),
    /// Resynchronised after this number of phases, this far apart then, ns.
    Every(u32, u64),
    Each,
    /// Once, without drift: they go on together.
    Together(BarrierModel),
}

use SyncScheme::{Each, Every, Never, NeverLong, Nodes, Once, Together};

const fn drift(end_ns: u64) -> Drift {
    Drift {
        end_ns,
        spread: Spread::Uniform,
    }
}

/// Dissemination, and the binomial tree, with L 5 us and o 2 us.
const DISSEMINATION: BarrierModel = BarrierModel::Dissemination(COST);
const BINOMIAL: BarrierModel = BarrierModel::Binomial(COST);
const GAPS: &str = "never, dissemination of messages that follow each other by 12 us at least";

const CASES: [(&str, SyncScheme, &[u64]); 12] = [
    ("never", Never(BarrierModel::Ideal), &[1, 2, 8, 64, 256]),
    (
        "never, dissemination (L 5, o 2 us)",
        Never(DISSEMINATION),
        &[8, 64],
    ),
    (GAPS, Never(BarrierModel::Dissemination(SLOW)), &[64]),
    (
        "never, binomial tree (L 5, o 2 us)",
        Never(BINOMIAL),
        &[8, 64],
    ),
    (
        "never, nodes of 4",
        Nodes(4, BarrierModel::Ideal),
        &[4, 64, 256],
    ),
    (
        "never, nodes of 4, dissemination",
        Nodes(4, DISSEMINATION),
        &[64],
    ),
    (
        "never, events of 20 ms, 2 % of the time",
        NeverLong(BarrierModel::Ideal),
        &[16, 64],
    ),
    ("once, drift 4 ms", Once(drift(4_000_000)), &[16, 65, 256]),
    ("once, drift 4 ms, many", Once(drift(4_000_000)), &[4096]),
    (
        "every ten, 2 ms apart then",
        Every(10, 2_000_000),
        &[16, 128],
    ),
    ("at each phase", Each, &[16]),
    (
        "once, no drift, dissemination",
        Together(DISSEMINATION),
        &[64],
    ),
];

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let noisy = NOISY.trace(1)?;
    let nodes = TraceFile {
        cpus: CPUS,
        ..NOISY
    }
    .trace(1)?;
    let long = LONG.trace(1)?;
    let (rounds, work) = stand.form((3u64, 1_000_000u64), (7, 8_000_000));
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (name, how, counts) in CASES {
        for ranks in counts {
            // Ranks take time by themselves, so there are fewer phases of many.
            let phases = (work / ranks).clamp(1_000, 100_000);
            let trace = match how {
                Nodes(..) => &nodes,
                NeverLong(..) => &long,
                _ => &noisy,
            };
            let predicted = predicted(trace, how, *ranks, phases)?;
            let mut found = Vec::new();
            for round in 0..rounds {
                found.push(brute(trace, how, *ranks, phases, round));
                interrupt::check()?;
            }
            let apart: Vec<f64> = found
                .iter()
                .map(|found| (predicted - found) / (1.0 + found / 100.0))
                .collect();
            let mean = apart.iter().sum::<f64>() / apart.len() as f64;
            let met = mean.abs() <= TARGET_PCT;
            eprintln!(
                "{name}, {ranks} ranks: {predicted:.2} and {}",
                spread(&found, 2)
            );
            rows.push(vec![
                name.to_owned(),
                ranks.to_string(),
                format!("{predicted:.2}"),
                spread(&found, 2),
                spread(&apart, 2),
                yes(met),
            ]);
            figures.push(json!({
                "what": name, "ranks": ranks, "phases": phases,
                "predicted_pct": predicted, "brute_pct": found, "apart_pct": apart,
            }));
        }
    }
    Ok(Section {
        title: "Against brute force",
        note: format!(
            "A synthetic trace: 0.6 events a millisecond, a tenth of them 50 to 450 us, 400 s; quantum \
             1 ms. Slowdown in percent, predicted and by a replay of every rank, phase and message \
             (median of {rounds} runs from other positions, least and greatest in brackets). Apart: \
             percent of the time of a phase. Target: their mean within {TARGET_PCT} %."
        ),
        heads: "synchronised | ranks | predicted | brute force | apart, % | target met",
        rows,
        figures: figures.into(),
    })
}

fn predicted(trace: &JitterTrace, how: SyncScheme, ranks: u64, phases: u64) -> Result<f64> {
    let mut options = PredictOptions {
        quantum_ns: WORK_NS,
        ranks: vec![ranks],
        intervals: false,
        threads: 2,
        ..PredictOptions::default()
    };
    if matches!(how, Once(..) | Every(..) | Together(..)) {
        options.phases = phases;
    }
    match how {
        Never(barrier) | NeverLong(barrier) => options.barrier = barrier,
        Nodes(group, barrier) => (options.barrier, options.group) = (barrier, group),
        Once(drift) => (options.sync, options.drift) = (Sync::Once, Some(drift)),
        Every(every, apart_ns) => {
            options.sync = Sync::Phases(every);
            options.drift = Some(drift(apart_ns * phases / u64::from(every)));
            options.starts = Starts::Any;
        }
        Together(barrier) => {
            (options.sync, options.drift) = (Sync::Once, Some(drift(0)));
            options.barrier = barrier;
        }
        Each => (options.sync, options.starts) = (Sync::Phases(1), Starts::Any),
    }
    let found = predict(&[TraceSource { trace, share: 1 }], &options)?;
    Ok(found.points[0].mean.slowdown_pct)
}

fn brute(trace: &JitterTrace, how: SyncScheme, ranks: u64, phases: u64, seed: u64) -> f64 {
    let cpu = &trace.cpus[0];
    let half_ns = NOISY.seconds * 1_000_000_000 / 2;
    let mut chance = Chance::new(seed << 32 | ranks, "ranks");
    match how {
        Never(barrier) | NeverLong(barrier) => {
            let mut all = anywhere(cpu, ranks as usize, seed);
            messages(&mut all, phases, &barrier)
        }
        Nodes(group, barrier) => {
            let at: Vec<u64> = (0..ranks.div_ceil(group.into()))
                .map(|_| chance.below(half_ns))
                .collect();
            let rank = |rank: u64| {
                let (node, place) = (rank / u64::from(group), rank % u64::from(group));
                Rank::new(&trace.cpus[place as usize], at[node as usize])
            };
            let mut all: Vec<Rank<'_>> = (0..ranks).map(rank).collect();
            messages(&mut all, phases, &barrier)
        }
        Together(barrier) => {
            let at = chance.below(half_ns);
            let mut all: Vec<Rank<'_>> = (0..ranks).map(|_| Rank::new(cpu, at)).collect();
            messages(&mut all, phases, &barrier)
        }
        Once(drift) => {
            let phases = phases.min(half_ns / (2 * WORK_NS));
            drifting(cpu, ranks, phases, (phases, drift.end_ns), &mut chance)
        }
        Every(every, apart_ns) => {
            drifting(cpu, ranks, phases, (every.into(), apart_ns), &mut chance)
        }
        Each => {
            let noise: u64 = (0..phases)
                .map(|_| {
                    let at = chance.below(half_ns);
                    Rank::new(cpu, at).works(0, WORK_NS) - WORK_NS
                })
                .sum();
            noise as f64 / (phases * WORK_NS) as f64 * 100.0
        }
    }
}

/// Ranks that wait for messages; they begin in the first half of the trace, so the second
/// is the longest run.
fn messages(all: &mut [Rank<'_>], phases: u64, barrier: &BarrierModel) -> f64 {
    let longest = NOISY.seconds * 1_000_000_000 / 2 / (3 * WORK_NS);
    let phases = phases.min(longest);
    let quiet = WORK_NS as f64 + barrier.quiet_ns(all.len() as u64);
    let took = run(all, WORK_NS, phases, barrier);
    (took as f64 / (phases as f64 * quiet) - 1.0) * 100.0
}

/// Ranks that are set to a common position after each `every` phases, in the first half of
/// the trace, and drift by `apart_ns` until they are set back.
fn drifting(
    cpu: &CpuTrace,
    ranks: u64,
    phases: u64,
    (every, apart_ns): (u64, u64),
    chance: &mut Chance,
) -> f64 {
    let half_ns = NOISY.seconds * 1_000_000_000 / 2;
    let places: Vec<f64> = (0..ranks).map(|_| chance.uniform()).collect();
    let (first, last) = range(&places).unwrap_or((0.0, 1.0));
    let distance = last - first;
    let places: Vec<f64> = places.iter().map(|at| (at - first) / distance).collect();
    let mut ranks = Vec::new();
    let (mut now, mut noise) = (0, 0);
    for phase in 0..phases {
        let passed = phase % every;
        if passed == 0 {
            let at = chance.below(half_ns);
            ranks = places.iter().map(|_| Rank::new(cpu, at)).collect();
            now = 0;
        }
        let reach = apart_ns as f64 * passed as f64 / every as f64;
        let most = ranks.iter_mut().zip(&places).map(|(rank, place)| {
            let begin = now + (place * reach) as u64;
            rank.works(begin, WORK_NS) - begin - WORK_NS
        });
        let most = most.max().unwrap_or(0);
        noise += most;
        now += WORK_NS + most;
    }
    noise as f64 / (phases * WORK_NS) as f64 * 100.0
}
