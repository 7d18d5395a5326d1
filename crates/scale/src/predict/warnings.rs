// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Warnings about a trace.

use sandbag_jitter::replay::Sync;
use sandbag_jitter::{CpuTrace, JitterTrace};

use super::barrier::BarrierModel;
use super::classes::{Cost, EventClass};
use super::options::{PredictOptions, TraceSource};
use super::prediction::{RankPrediction, SATURATED_PCT};

/// The CPU with the most noise, and its share of the time, percent.
pub(super) fn most_noise(trace: &JitterTrace) -> (u32, f64) {
    let of = |cpu: &CpuTrace| {
        let known_ns = cpu.known_ns().max(1);
        (cpu.cpu, cpu.noise_ns() as f64 / known_ns as f64 * 100.0)
    };
    let all = trace.cpus.iter().map(of);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

pub(super) fn warn(trace: &JitterTrace, options: &PredictOptions, warnings: &mut Vec<String>) {
    let known = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).count();
    let empty = trace.cpus.len() - known;
    if empty > 0 {
        warnings.push(format!(
            "{empty} CPUs on which nothing was looked for are left out"
        ));
    }
    let over = known % options.group.max(1) as usize;
    if over > 0 {
        warnings.push(format!(
            "{over} of {known} CPUs are left out: they do not fill a node of {}",
            options.group
        ));
    }
    if options
        .ranks
        .iter()
        .any(|n| n % u64::from(options.group) != 0)
    {
        warnings.push(format!(
            "nodes of {} ranks are whole: a number of ranks in between counts as the next",
            options.group
        ));
    }
    if options.tail && !matches!(options.barrier, BarrierModel::Ideal) {
        warnings.push(
            "the figures with a tail are of the work alone: what the barrier's messages meet is in \
             those without, which may be more"
                .to_owned(),
        );
    }
    let (cpu, noise_pct) = most_noise(trace);
    if noise_pct >= SATURATED_PCT {
        warnings.push(format!(
            "saturated: noise takes {noise_pct:.1} % of the time of CPU {cpu} of the trace, so the \
             slowdown is decided by how the little that is left lies; a benchmark or a program \
             that replays the trace will be slower still, for each event costs it something beside \
             its length"
        ));
    }
    let dropped: u64 = trace
        .notes
        .iter()
        .flat_map(|notes| &notes.cpus)
        .map(|cpu| cpu.dropped)
        .sum();
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} events were dropped when the trace was recorded: the prediction is too low"
        ));
    }
}

/// Share of the noise from which a period matters, percent.
const PERIODIC_PCT: f64 = 10.0;
/// And slowdown that it must cost, points.
const COSTLY_POINTS: f64 = 1.0;
/// A phase of more periods meets nearly the same noise wherever it begins.
const MOST_PERIODS: f64 = 10.0;

/// A warning if much of the noise is periodic and ranks keep their distance to it: phases of a
/// rank are taken as independent of each other, and are not. `None` where ranks have a common
/// position, because then each phase is simulated where the one before ended.
pub fn warning_of_period(
    trace: &JitterTrace,
    classes: &[EventClass],
    costs: &[Cost],
    options: &PredictOptions,
) -> Option<String> {
    let several = |ranks: &u64| *ranks > u64::from(options.group);
    if options.sync != Sync::None || !options.ranks.iter().any(several) {
        return None;
    }
    // Ticks are most of the noise of a quiet machine, and cost next to nothing.
    let matters = |class: &&EventClass| {
        let mut own = costs.iter().filter(|cost| cost.class == class.name);
        own.any(|cost| {
            cost.saves_points
                .iter()
                .any(|points| *points >= COSTLY_POINTS)
        })
    };
    let found = classes.iter().filter(matters).filter_map(|class| {
        let (period_ns, share_pct) = class.period(trace)?;
        let matters =
            share_pct >= PERIODIC_PCT && options.quantum_ns as f64 <= period_ns * MOST_PERIODS;
        matters.then_some((class, share_pct))
    });
    let (class, share_pct) = found.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "{share_pct:.0} % of the noise comes {}, but the phases of a rank are taken as independent \
         of each other; ranks keep their distance within the period, so the figures hold only \
         roughly, on average over these distances, and not at all where phases with their noise \
         last as long as the period or a multiple of it",
        class.name
    ))
}

/// Share of the noise that no phase shows from which figures are too low, percent. Less is chance:
/// the weights of phases are estimates.
pub(super) const UNSEEN_PCT: f64 = 2.0;

pub(super) fn warn_of_unseen(unseen_pct: f64, warnings: &mut Vec<String>) {
    if unseen_pct >= UNSEEN_PCT {
        warnings.push(format!(
            "the figures are too low, of many ranks most: {unseen_pct:.1} % of the noise lies in \
             phases about as long as the stretches of known time, whose lengths are not known; \
             record for longer without a pause"
        ));
    }
}

/// After events of more phases many ranks are released inside events, and else none. What the
/// messages of a barrier meet is computed for the mean of all phases, and is too much then.
const MOST_PHASES: u64 = 2;
/// Share of the noise in such events that matters, percent.
const LONG_PCT: f64 = 10.0;
/// Slowdown up to which they make hardly a difference, percent.
const FEW_TOGETHER_PCT: f64 = 50.0;

pub(super) fn warn_of_long_events(
    sources: &[TraceSource<'_>],
    points: &[RankPrediction],
    options: &PredictOptions,
    warnings: &mut Vec<String>,
) {
    let is_high = |point: &RankPrediction| {
        point.ranks > u64::from(options.group) && point.mean.slowdown_pct >= FEW_TOGETHER_PCT
    };
    let has_messages = !matches!(options.barrier, BarrierModel::Ideal);
    if options.sync != Sync::None || !has_messages || !points.iter().any(is_high) {
        return;
    }
    let long_pct = |source: &TraceSource<'_>| {
        let events = source.trace.cpus.iter().flat_map(|cpu| &cpu.events);
        let sum = |least_ns: u64| -> u64 {
            let long = events.clone().filter(|event| event.length_ns > least_ns);
            long.map(|event| event.length_ns).sum()
        };
        let long_ns = sum(options.quantum_ns.saturating_mul(MOST_PHASES));
        long_ns as f64 / sum(0).max(1) as f64 * 100.0
    };
    let long_pct = sources.iter().map(long_pct).fold(0.0, f64::max);
    if long_pct >= LONG_PCT {
        warnings.push(format!(
            "the figures above {FEW_TOGETHER_PCT:.0} % are too high, the intervals with them: \
             {long_pct:.0} % of the noise is in events longer than {MOST_PHASES} phases, for which \
             only an ideal barrier is computed from phase to phase"
        ));
    }
}

/// A fit that lies below what was recorded does not go on as the noise does. Less is the width of
/// its cells and of the fit.
const BELOW: f64 = 0.02;

pub(super) fn warn_of_tail(points: &[RankPrediction], warnings: &mut Vec<String>) {
    let below = |point: &&RankPrediction| {
        let recorded = point.mean.slowdown_pct;
        let tail = point.tail.as_ref();
        tail.is_some_and(|tail| tail.slowdown_pct < recorded * (1.0 - BELOW))
    };
    if let Some(point) = points.iter().find(below) {
        warnings.push(format!(
            "the tail does not fit this noise: from {} ranks on it gives less than the trace itself; \
             take the figures without it, and a longer trace for more ranks",
            point.ranks
        ));
    }
}

/// The interval covers a mean of fewer phases; this says why they are fewer.
pub(super) fn warn_of_left_out(
    points: &[RankPrediction],
    options: &PredictOptions,
    warnings: &mut Vec<String>,
) {
    let fewer = |point: &&RankPrediction| point.gone_through.is_some_and(|n| n < options.phases);
    if let Some(point) = points.iter().filter(fewer).min_by_key(|p| p.gone_through) {
        warnings.push(format!(
            "{} of {} phases were simulated at {} ranks, spread evenly: all of them would take too \
             long in a trace as dense as this, or with as long a drift",
            point.gone_through.unwrap_or(0),
            options.phases,
            point.ranks
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::costs;
    use super::*;
    use crate::fixture::{by_chance, cpu, trace};

    #[test]
    fn periodic_noise_is_named_where_ranks_keep_their_distance() {
        let ticks: Vec<(u64, u64)> = (0..3000).map(|n| (n * 10_000_000, 1_000_000)).collect();
        let periodic = trace(vec![cpu(&[(0, 30_000_000_000)], &ticks)]);
        let short: Vec<(u64, u64)> = (0..3000).map(|n| (n * 10_000_000, 3_000)).collect();
        let tick = trace(vec![cpu(&[(0, 30_000_000_000)], &short)]);
        let random = trace(vec![by_chance(1, 30_000_000_000, 0.1, |_| 1e6)]);
        let warning = |trace: &JitterTrace, sync, ranks, quantum_ns| {
            let options = PredictOptions {
                sync,
                ranks: vec![ranks],
                quantum_ns,
                ..PredictOptions::default()
            };
            let classes = EventClass::periodic(trace, 1, |ns| format!("every {:.0} ms", ns / 1e6));
            let sources = [TraceSource { trace, share: 1 }];
            let costs = costs(&sources, &options, &classes).unwrap();
            warning_of_period(trace, &classes, &costs, &options)
        };
        let found = warning(&periodic, Sync::None, 16, 1_000_000).unwrap();
        assert!(
            found.contains("100 % of the noise comes every 10 ms"),
            "{found}"
        );
        for (trace, sync, ranks, quantum_ns) in [
            (&random, Sync::None, 16, 1_000_000),
            (&tick, Sync::None, 16, 1_000_000),
            (&periodic, Sync::None, 1, 1_000_000),
            (&periodic, Sync::None, 16, 1_000_000_000),
            (&periodic, Sync::Phases(1), 16, 1_000_000),
        ] {
            assert_eq!(warning(trace, sync, ranks, quantum_ns), None);
        }
    }
}
