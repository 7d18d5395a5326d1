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
//! would be of an equal CPU, the interval all shifts that are not refused.
//!
//! What disturbs one CPU for several rounds falls on no CPU at random in each
//! block: rounds then look alike, and the variance is greater than blocks alone
//! say. It is multiplied by what the rounds say ([`Found::inflation`]).
//!
//! Where figures can be 0 (time sampled at the tick) their sums are compared in
//! place of ranks of logarithms, in the same way.

use std::thread;

use statrs::distribution::{ContinuousCDF as _, Normal};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Ratios: ranks of logarithms. Figures above 0.
    Ratio,
    /// Ratios of sums: counts, which may be 0.
    Sums,
    /// Differences: ranks of the figures.
    Points,
}

impl Scale {
    /// Shifts beyond this are not looked for: with nothing to go by, an interval
    /// reaches so far. As logarithm a factor of 10; points.
    #[must_use]
    pub fn widest(self) -> f64 {
        match self {
            Self::Ratio | Self::Sums => std::f64::consts::LN_10,
            Self::Points => 100.0,
        }
    }

    /// A shift as percent (of points: themselves).
    #[must_use]
    pub fn pct(self, shift: f64) -> f64 {
        match self {
            Self::Ratio | Self::Sums => shift.exp_m1() * 100.0,
            Self::Points => shift,
        }
    }
}

/// Figures by block and CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Blocks {
    cpus: usize,
    /// Block by block.
    figures: Vec<f64>,
    /// Of each block, its round.
    rounds: Vec<u32>,
}

impl Blocks {
    /// None yet, of so many CPUs.
    #[must_use]
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// Adds a block: a figure of each CPU, not below 0. Others are passed over.
    pub fn push(&mut self, round: u32, figures: &[f64]) {
        let sane = |x: &f64| x.is_finite() && *x >= 0.0;
        if figures.len() == self.cpus && figures.iter().all(sane) {
            self.figures.extend(figures);
            self.rounds.push(round);
        }
    }

    /// Blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Some figure is 0.
    #[must_use]
    pub fn has_zeros(&self) -> bool {
        self.figures.contains(&0.0)
    }

    /// Of all figures.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.figures.iter().sum()
    }

    fn each(&self) -> impl Iterator<Item = (u32, &[f64])> {
        let figures = self.figures.chunks_exact(self.cpus.max(1));
        self.rounds.iter().copied().zip(figures)
    }
}

/// What was found of one CPU against the others; shifts as logarithms or points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
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

/// Shifts are found to this part of their standard error or so, and widths alone
/// to this.
const FINE: f64 = 1e-3;
/// See above.
const COARSE: f64 = 3e-2;
/// Beyond so many blocks nothing is enumerated.
const EXACT_BLOCKS: usize = 24;
/// And beyond so many CPUs.
const EXACT_CPUS: usize = 8;

/// Compares a CPU (by its place in the blocks) with the others. `None` without
/// another CPU or without blocks.
#[must_use]
pub fn compare(
    blocks: &Blocks,
    scale: Scale,
    cpu: usize,
    alone: f64,
    together: f64,
) -> Option<Found> {
    if blocks.cpus < 2 || cpu >= blocks.cpus || blocks.is_empty() {
        return None;
    }
    let mut looked = Looked::new(blocks, scale, cpu);
    let shift = looked.root(0.0);
    let inflation = inflation(&looked.at(shift).rounds);
    let far = |p: f64| quantile(1.0 - p / 2.0) * inflation.sqrt();
    let mut interval = |p: f64| {
        let z = far(p);
        let ends = (looked.root(z), looked.root(-z));
        (ends.0.min(shift), ends.1.max(shift))
    };
    let ends = interval(together);
    let within = interval(alone);
    let here = looked.at(0.0);
    let z = here.z() / inflation.sqrt();
    let mut p = 2.0 * tail(z.abs());
    if scale != Scale::Sums && blocks.len() <= EXACT_BLOCKS && blocks.cpus <= EXACT_CPUS {
        let exact = exact_p(&looked.ranks(0.0), blocks.cpus, cpu);
        // The enumeration knows nothing of rounds that are alike.
        p = if inflation > 1.0 { p.max(exact) } else { exact };
    }
    Some(Found {
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
#[must_use]
pub fn compare_all(blocks: &Blocks, scale: Scale, alone: f64, together: f64) -> Vec<Found> {
    let one = |cpu| compare(blocks, scale, cpu, alone, together);
    match blocks.cpus {
        2 => one(0).map_or_else(Vec::new, |first| vec![first, first.mirrored()]),
        _ => each_cpu(blocks, one).into_iter().flatten().collect(),
    }
}

/// Where there are more figures than this, CPUs are looked at side by side: each
/// look ranks all of them anew.
const MANY: usize = 1000;

/// Something of every CPU, in their order.
fn each_cpu<T: Send>(blocks: &Blocks, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cpus = blocks.cpus;
    let threads = match blocks.figures.len() > MANY {
        true => thread::available_parallelism()
            .map_or(1, usize::from)
            .min(cpus),
        false => 1,
    };
    if threads < 2 {
        return (0..cpus).map(of).collect();
    }
    let of = &of;
    thread::scope(|scope| {
        let share = cpus.div_ceil(threads);
        let parts = (0..cpus).step_by(share).map(|from| {
            let part = from..(from + share).min(cpus);
            scope.spawn(move || part.map(of).collect::<Vec<T>>())
        });
        // All of them are started first.
        let parts: Vec<_> = parts.collect();
        let ended = parts.into_iter().map(thread::ScopedJoinHandle::join);
        ended.flat_map(Result::unwrap_or_default).collect()
    })
}

impl Found {
    fn mirrored(self) -> Self {
        let turned = |(low, high): (f64, f64)| (-high, -low);
        Self {
            shift: -self.shift,
            alone: turned(self.alone),
            together: turned(self.together),
            ..self
        }
    }
}

/// The estimate alone, as a shift; `None` as of [`compare`].
#[must_use]
pub fn estimate(blocks: &Blocks, scale: Scale, cpu: usize) -> Option<f64> {
    let can = blocks.cpus >= 2 && cpu < blocks.cpus && !blocks.is_empty();
    can.then(|| Looked::new(blocks, scale, cpu).root(0.0))
}

/// Half of the widest of all CPUs' intervals that miss the truth with this
/// probability, as a shift; `None` without others or blocks. Cheaper than all
/// that [`compare_all`] says.
#[must_use]
pub fn half_width(blocks: &Blocks, scale: Scale, together: f64) -> Option<f64> {
    if blocks.cpus < 2 || blocks.is_empty() {
        return None;
    }
    let half = |cpu| {
        let mut looked = Looked::new(blocks, scale, cpu);
        looked.fine = COARSE;
        let shift = looked.root(0.0);
        let z = quantile(1.0 - together / 2.0) * inflation(&looked.at(shift).rounds).sqrt();
        (looked.root(-z) - looked.root(z)) / 2.0
    };
    match blocks.cpus {
        2 => Some(half(0)),
        _ => each_cpu(blocks, half).into_iter().reduce(f64::max),
    }
}

/// The value below which a standard normal variable is with the probability `p`.
#[must_use]
pub fn quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(1e-300, 1.0 - 1e-16))
}

fn tail(z: f64) -> f64 {
    Normal::standard().sf(z)
}

/// Holm's correction ("A simple sequentially rejective multiple test
/// procedure", 1979): each probability as it is when all of them are looked at,
/// among `comparisons`, of which those not given are none to speak of.
#[must_use]
pub fn holm(probabilities: &[f64], comparisons: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let all = comparisons.max(probabilities.len());
    let mut corrected = vec![1.0; probabilities.len()];
    let mut most = 0.0f64;
    for (rank, at) in order.into_iter().enumerate() {
        most = most.max(probabilities[at] * (all - rank) as f64);
        corrected[at] = most.min(1.0);
    }
    corrected
}

/// The sum of a CPU's scores against what it would be by chance.
struct Statistic {
    /// What it is more, and its variance.
    deviation: f64,
    variance: f64,
    /// The same of each round.
    rounds: Vec<(f64, f64)>,
}

impl Statistic {
    fn z(&self) -> f64 {
        match self.variance > 0.0 {
            true => self.deviation / self.variance.sqrt(),
            false => 0.0,
        }
    }
}

/// The figures of a test, looked at with one CPU's shifted.
struct Looked<'a> {
    blocks: &'a Blocks,
    scale: Scale,
    cpu: usize,
    /// Logarithms where ratios are compared.
    figures: Vec<f64>,
    aligned: Vec<(f64, usize)>,
    /// Where the estimate probably is, and how far from there to look first.
    near: f64,
    step: f64,
    /// Part of the step to which a shift is found.
    fine: f64,
}

impl<'a> Looked<'a> {
    fn new(blocks: &'a Blocks, scale: Scale, cpu: usize) -> Self {
        let figures: Vec<f64> = match scale {
            // 0 has no logarithm: below anything that can be measured.
            Scale::Ratio => blocks.figures.iter().map(|x| x.max(1e-9).ln()).collect(),
            _ => blocks.figures.clone(),
        };
        let mut apart: Vec<f64> = match scale {
            Scale::Sums => Vec::new(),
            _ => figures
                .chunks_exact(blocks.cpus)
                .map(|block| {
                    let others = block.iter().enumerate().filter(|(at, _)| *at != cpu);
                    let mut others: Vec<f64> = others.map(|(_, x)| *x).collect();
                    block[cpu] - middle(&mut others)
                })
                .collect(),
        };
        let near = match scale {
            Scale::Sums => {
                let own: f64 = blocks.each().map(|(_, block)| block[cpu]).sum();
                let others = (blocks.sum() - own) / (blocks.cpus - 1) as f64;
                match own > 0.0 && others > 0.0 {
                    true => (own / others).ln(),
                    false => 0.0,
                }
            }
            _ => middle(&mut apart),
        };
        let mut off: Vec<f64> = apart.iter().map(|x| (x - near).abs()).collect();
        let step = middle(&mut off) / (blocks.len() as f64).sqrt();
        Self {
            blocks,
            scale,
            cpu,
            figures,
            aligned: Vec::new(),
            near,
            step: step.max(1e-6),
            fine: FINE,
        }
    }

    /// What each block's CPUs score when this CPU's figures are less by `shift`:
    /// block by block.
    fn scores(&mut self, shift: f64) -> Vec<f64> {
        match self.scale {
            Scale::Sums => {
                let mut scores = self.figures.clone();
                let factor = (-shift).exp();
                scores
                    .iter_mut()
                    .skip(self.cpu)
                    .step_by(self.blocks.cpus)
                    .for_each(|x| *x *= factor);
                scores
            }
            _ => self.ranks(shift),
        }
    }

    /// Ranks from 1, those of equal figures their mean.
    fn ranks(&mut self, shift: f64) -> Vec<f64> {
        let cpus = self.blocks.cpus;
        self.aligned.clear();
        let mut block = vec![0.0; cpus];
        let mut sorted = block.clone();
        for (number, figures) in self.figures.chunks_exact(cpus).enumerate() {
            block.copy_from_slice(figures);
            block[self.cpu] -= shift;
            sorted.copy_from_slice(&block);
            let middle = middle(&mut sorted);
            let aligned = block.iter().enumerate();
            self.aligned
                .extend(aligned.map(|(at, x)| (x - middle, number * cpus + at)));
        }
        self.aligned
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut ranks = vec![0.0; self.aligned.len()];
        let mut from = 0;
        while from < self.aligned.len() {
            let value = self.aligned[from].0;
            let same = self.aligned[from..].iter().take_while(|(x, _)| *x == value);
            let until = from + same.count();
            let mean = (from + 1 + until) as f64 / 2.0;
            for (_, at) in &self.aligned[from..until] {
                ranks[*at] = mean;
            }
            from = until;
        }
        ranks
    }

    fn at(&mut self, shift: f64) -> Statistic {
        let scores = self.scores(shift);
        let cpus = self.blocks.cpus as f64;
        let mut all = Statistic {
            deviation: 0.0,
            variance: 0.0,
            rounds: Vec::new(),
        };
        let mut last = None;
        let blocks = scores.chunks_exact(self.blocks.cpus);
        for (round, block) in self.blocks.rounds.iter().zip(blocks) {
            let mean = block.iter().sum::<f64>() / cpus;
            let variance = block.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cpus;
            let deviation = block[self.cpu] - mean;
            all.deviation += deviation;
            all.variance += variance;
            if last != Some(round) {
                all.rounds.push((0.0, 0.0));
                last = Some(round);
            }
            if let Some(sum) = all.rounds.last_mut() {
                sum.0 += deviation;
                sum.1 += variance;
            }
        }
        all
    }

    /// The shift at which the sum is so many standard deviations above what
    /// chance makes of it. The greater the shift, the less the sum.
    fn root(&mut self, z: f64) -> f64 {
        let widest = self.scale.widest();
        let (mut low, mut high) = (self.near, self.near);
        let mut step = self.step;
        while low > -widest && self.at(low).z() < z {
            low -= step;
            step *= 2.0;
        }
        step = self.step;
        while high < widest && self.at(high).z() > z {
            high += step;
            step *= 2.0;
        }
        let (mut low, mut high) = (low.max(-widest), high.min(widest));
        let least = (self.step * self.fine).max(1e-9);
        while high - low > least {
            let middle = f64::midpoint(low, high);
            match self.at(middle).z() >= z {
                true => low = middle,
                false => high = middle,
            }
        }
        f64::midpoint(low, high)
    }
}

/// How much more rounds vary than their blocks say, with what neighbouring
/// rounds have in common: the long-run variance (Newey and West, "A simple,
/// positive semi-definite, heteroskedasticity and autocorrelation consistent
/// covariance matrix", 1987) of the sums of the rounds over that of the blocks.
fn inflation(rounds: &[(f64, f64)]) -> f64 {
    let explained: f64 = rounds.iter().map(|(_, variance)| variance).sum();
    let count = rounds.len();
    if count < 3 || explained <= 0.0 {
        return 1.0;
    }
    let mean = rounds.iter().map(|(sum, _)| sum).sum::<f64>() / count as f64;
    let off: Vec<f64> = rounds.iter().map(|(sum, _)| sum - mean).collect();
    let along = |lag: usize| off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let lags = lags(count);
    let mut sum = along(0);
    for lag in 1..=lags {
        let weight = 1.0 - lag as f64 / (lags + 1) as f64;
        sum += 2.0 * weight * along(lag);
    }
    // The mean was taken from the same rounds.
    let sum = sum * count as f64 / (count - 1) as f64;
    (sum / explained).max(1.0)
}

/// Rounds over which a disturbance may last.
fn lags(rounds: usize) -> usize {
    ((rounds as f64).sqrt().round() as usize).min(rounds.saturating_sub(2))
}

/// The probability that the CPU's sum is as far from its mean as it is, to
/// either side, each block's ranks being dealt at random: by enumeration, sum
/// by sum.
fn exact_p(ranks: &[f64], cpus: usize, cpu: usize) -> f64 {
    // Means of ranks are whole or half numbers.
    let twice: Vec<usize> = ranks.iter().map(|x| (x * 2.0).round() as usize).collect();
    let blocks = || twice.chunks_exact(cpus);
    let most: usize = blocks().map(|b| b.iter().copied().max().unwrap_or(0)).sum();
    let mut chances = vec![0.0f64; most + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for block in blocks() {
        let mut next = vec![0.0; most + 1];
        for rank in block {
            for sum in 0..=reached {
                next[sum + rank] += chances[sum] / cpus as f64;
            }
        }
        reached += block.iter().copied().max().unwrap_or(0);
        chances = next;
    }
    let own: usize = blocks().map(|block| block[cpu]).sum();
    let mean: f64 = blocks()
        .map(|b| b.iter().sum::<usize>() as f64 / cpus as f64)
        .sum();
    let far = (own as f64 - mean).abs() - 1e-6;
    let beyond = chances.iter().enumerate();
    beyond
        .filter(|(sum, _)| (*sum as f64 - mean).abs() >= far)
        .map(|(_, chance)| chance)
        .sum()
}

/// The median; 0 of nothing. Sorts.
#[must_use]
pub fn middle(all: &mut [f64]) -> f64 {
    if all.is_empty() {
        return 0.0;
    }
    all.sort_unstable_by(f64::total_cmp);
    let half = all.len() / 2;
    match all.len() % 2 {
        0 => f64::midpoint(all[half - 1], all[half]),
        _ => all[half],
    }
}

#[cfg(test)]
mod tests;
