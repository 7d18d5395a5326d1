// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Warnings about a trace.

use sandbag_jitter::{CpuTrace, JitterTrace};

use super::barrier::BarrierModel;
use super::options::PredictOptions;
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
