// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is one CPU slower than the others, and by how much: aligned ranks. Pure.
//!
//! # Problem
//! The speed of the whole machine drifts by a quarter within minutes, single
//! runs are off by any amount to the slow side, and the lengths of a test have
//! nothing in common but the CPUs that ran them. Means of such figures say
//! little, and their standard deviations less.
//!
//! # Approach
//! A *block* holds the figures of all CPUs that were measured one right after
//! the other, in random order, doing the same. From each figure its block's
//! middle is subtracted; what is left of all blocks is ranked together (Hodges
//! and Lehmann, "Rank methods for combination of independent experiments in
//! analysis of variance", 1962). If the CPUs are equal, then within a block
//! each of its ranks was as likely to fall to this CPU as to any other, whatever
//! the machine did meanwhile: mean and variance of the sum of a CPU's ranks
//! follow from the blocks themselves. With two CPUs this is Wilcoxon's signed
//! rank test.
//!
//! The estimate is the shift of the CPU's figures at which the sum is what it
//! would be of an equal CPU (of three CPUs the difference from the middle one), the interval all
//! shifts that are not refused.
//!
//! What disturbs one CPU for several rounds falls on no CPU at random in each block:
//! neighbouring rounds are correlated, and the variance is greater than blocks alone
//! say. It is multiplied by what the rounds say ([`ShiftEstimate::inflation`]).
//!
//! Where figures can be 0 (time sampled at the tick) their sums are compared in
//! place of ranks of logarithms, in the same way. Where most are 0 and some are
//! large (time without the CPU) it is their means: with two CPUs the statistic is
//! the sum of the differences over the root of the sum of their squares, whose
//! tails are those of a normal variable at most, whatever the figures are, as long
//! as their signs are by chance (Efron, "Student's t-test under symmetry
//! conditions", 1969).

mod blocks;
mod chance;
mod statistic;
#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::thread;

pub use blocks::{Blocks, Scale};
use chance::{exact_p, tail};
pub use chance::{holm, quantile};
use statistic::ShiftedBlocks;
pub(crate) use statistic::inflation;

/// What was found of one CPU against the others; shifts as logarithms or points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShiftEstimate {
    /// The estimate; above 0: slower.
    pub shift: f64,
    /// Interval that misses the truth with the probability `alone`.
    pub alone: (f64, f64),
    /// With the probability `together`.
    pub together: (f64, f64),
    /// Standard error, from the second interval.
    pub error: f64,
    /// Probability of such a sum of ranks if the CPUs are equal, to both sides.
    pub p: f64,
    /// By how much rounds vary more than blocks alone explain; at least 1.
    pub inflation: f64,
}

/// Widths alone are found to this part of their standard error or so.
const COARSE: f64 = 3e-2;
/// Most blocks for an enumeration.
const EXACT_BLOCKS: usize = 24;
/// Most CPUs for an enumeration.
const EXACT_CPUS: usize = 8;

/// Compares a CPU (by its place in the blocks) with the others. `None` without
/// another CPU or without blocks.
pub fn compare(
    blocks: &Blocks,
    scale: Scale,
    cpu: usize,
    alone: f64,
    together: f64,
) -> Option<ShiftEstimate> {
    if blocks.cpus < 2 || cpu >= blocks.cpus || blocks.is_empty() {
        return None;
    }
    let looked = ShiftedBlocks::new(blocks, scale, cpu);
    let shift = looked.estimate();
    let inflation = inflation(&looked.at(shift).rounds);
    let far = |p: f64| quantile(1.0 - p / 2.0) * inflation.sqrt();
    let interval = |p: f64| {
        let z = far(p);
        let ends = (looked.root(z), looked.root(-z));
        (ends.0.min(shift), ends.1.max(shift))
    };
    let ends = interval(together);
    let within = interval(alone);
    let here = looked.at(0.0);
    let z = here.z() / inflation.sqrt();
    let mut p = 2.0 * tail(z.abs());
    if matches!(scale, Scale::Ratio | Scale::Points)
        && blocks.len() <= EXACT_BLOCKS
        && blocks.cpus <= EXACT_CPUS
    {
        let exact = exact_p(&looked.ranks(0.0), blocks.cpus, cpu);
        // The enumeration does not account for correlated rounds.
        p = if inflation > 1.0 { p.max(exact) } else { exact };
    }
    Some(ShiftEstimate {
        shift,
        alone: within,
        together: ends,
        error: (ends.1 - ends.0) / 2.0 / quantile(1.0 - together / 2.0).max(1e-9),
        p: p.clamp(0.0, 1.0),
        inflation,
    })
}

/// Compares every CPU with the others, in their order; empty without others or
/// blocks. Of two CPUs each is the mirror image of the other.
pub fn compare_all(blocks: &Blocks, scale: Scale, alone: f64, together: f64) -> Vec<ShiftEstimate> {
    let one = |cpu| compare(blocks, scale, cpu, alone, together);
    match blocks.cpus {
        2 => one(0).map_or_else(Vec::new, |first| vec![first, first.mirror()]),
        _ => each_cpu(blocks, one).into_iter().flatten().collect(),
    }
}

/// Compares every one with the middle of its block. Of many that is what comparing it with
/// all others says, in a time that grows with their number and not with its square.
pub fn compare_with_middle(
    blocks: &Blocks,
    scale: Scale,
    alone: f64,
    together: f64,
) -> Vec<ShiftEstimate> {
    let middles: Vec<f64> = blocks.iter().map(|(_, row)| scale.middle(row)).collect();
    let one = |cpu: usize| {
        let mut pair = Blocks::new(2);
        for ((round, row), middle) in blocks.iter().zip(&middles) {
            pair.push(round, &[row[cpu], *middle]);
        }
        compare(&pair, scale, 0, alone, together)
    };
    each_cpu(blocks, one).into_iter().flatten().collect()
}

/// Where there are more figures than this, CPUs are looked at side by side: each
/// look ranks all of them anew.
const MANY: usize = 1000;

/// Something of every CPU, in their order.
fn each_cpu<T: Send>(blocks: &Blocks, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cpus = blocks.cpus;
    let threads = if blocks.figures.len() > MANY {
        thread::available_parallelism()
            .map_or(1, usize::from)
            .min(cpus)
    } else {
        1
    };
    if threads < 2 {
        return (0..cpus).map(of).collect();
    }
    in_threads(cpus, threads, |_| thread::Builder::new(), of)
}

/// Something of each, in parts side by side. A part for which no thread can be had (a limit of
/// processes) is done here.
fn in_threads<T: Send>(
    cpus: usize,
    threads: usize,
    builder: impl Fn(usize) -> thread::Builder,
    of: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let of = &of;
    thread::scope(|scope| {
        let share = cpus.div_ceil(threads);
        let parts = (0..cpus).step_by(share).enumerate().map(|(number, from)| {
            let part = from..(from + share).min(cpus);
            let own = part.clone();
            let work = move || own.map(of).collect::<Vec<T>>();
            (builder(number).spawn_scoped(scope, work), part)
        });
        // All of them are started first.
        let parts: Vec<_> = parts.collect();
        let found = parts.into_iter().flat_map(|(thread, part)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => part.map(of).collect(),
        });
        found.collect()
    })
}

impl ShiftEstimate {
    fn mirror(self) -> Self {
        let turned = |(low, high): (f64, f64)| (-high, -low);
        Self {
            shift: -self.shift,
            alone: turned(self.alone),
            together: turned(self.together),
            ..self
        }
    }
}

/// The shift at which the sum of a CPU's ranks is that of an equal one; `None` as of [`compare`].
pub fn rank_shift(blocks: &Blocks, scale: Scale, cpu: usize) -> Option<f64> {
    let can = blocks.cpus >= 2 && cpu < blocks.cpus && !blocks.is_empty();
    can.then(|| ShiftedBlocks::new(blocks, scale, cpu).root(0.0))
}

/// Half of the widest of all CPUs' intervals that miss the truth with this
/// probability, as a shift; `None` without others or blocks, or where an interval
/// has no end. Cheaper than all that [`compare_all`] says.
pub fn half_width(blocks: &Blocks, scale: Scale, together: f64) -> Option<f64> {
    if blocks.cpus < 2 || blocks.is_empty() {
        return None;
    }
    let half = |cpu| {
        let mut looked = ShiftedBlocks::new(blocks, scale, cpu);
        looked.fine = COARSE;
        let shift = looked.estimate();
        let z = quantile(1.0 - together / 2.0) * inflation(&looked.at(shift).rounds).sqrt();
        let ends = [looked.root(z), looked.root(-z)];
        let is_open = ends.into_iter().any(|end| scale.is_open(end));
        (!is_open).then(|| (ends[1] - ends[0]) / 2.0)
    };
    match blocks.cpus {
        2 => half(0),
        _ => {
            let all: Option<Vec<f64>> = each_cpu(blocks, half).into_iter().collect();
            all?.into_iter().reduce(f64::max)
        }
    }
}
