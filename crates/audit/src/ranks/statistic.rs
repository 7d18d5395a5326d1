// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sum of a CPU's scores in all blocks when its figures are shifted, and how far
//! that is from what chance makes of it.

use super::blocks::{Blocks, Scale};
use super::chance::middle;

/// Shifts are found to this part of their standard error or so.
const FINE: f64 = 1e-3;
/// The factor by which those of two CPUs alone are found finer.
const FINER_PAIR: f64 = 10.0;

/// The sum of a CPU's scores against what it would be by chance.
pub(super) struct Statistic {
    /// What it is more, and its variance.
    pub(super) deviation: f64,
    pub(super) variance: f64,
    /// The same of each round.
    pub(super) rounds: Vec<(f64, f64)>,
}

impl Statistic {
    pub(super) fn z(&self) -> f64 {
        if self.variance > 0.0 {
            self.deviation / self.variance.sqrt()
        } else {
            0.0
        }
    }
}

/// The figures of a test, looked at with one CPU's shifted.
pub(super) struct ShiftedBlocks<'a> {
    blocks: &'a Blocks,
    scale: Scale,
    cpu: usize,
    /// Logarithms where ratios are compared.
    figures: Vec<f64>,
    /// Where the estimate probably is, and how far from there to look first.
    near: f64,
    step: f64,
    /// Part of the step to which a shift is found.
    pub(super) fine: f64,
}

impl<'a> ShiftedBlocks<'a> {
    pub(super) fn new(blocks: &'a Blocks, scale: Scale, cpu: usize) -> Self {
        let figures: Vec<f64> = match scale {
            // 0 has no logarithm: below anything that can be measured.
            Scale::Ratio => blocks.figures.iter().map(|x| x.max(1e-9).ln()).collect(),
            _ => blocks.figures.clone(),
        };
        let mut apart: Vec<f64> = match scale {
            Scale::Sums => Vec::new(),
            Scale::Ratio | Scale::Points | Scale::Means => figures
                .chunks_exact(blocks.cpus)
                .map(|block| {
                    let others = block.iter().enumerate().filter(|(at, _)| *at != cpu);
                    let mut others: Vec<f64> = others.map(|(_, x)| *x).collect();
                    let others = match scale {
                        Scale::Means => others.iter().sum::<f64>() / others.len() as f64,
                        _ => middle(&mut others),
                    };
                    block[cpu] - others
                })
                .collect(),
        };
        let near = match scale {
            Scale::Sums => {
                let own: f64 = blocks.iter().map(|(_, block)| block[cpu]).sum();
                let others = (blocks.sum() - own) / (blocks.cpus - 1) as f64;
                if own > 0.0 && others > 0.0 {
                    (own / others).ln()
                } else {
                    0.0
                }
            }
            Scale::Means => apart.iter().sum::<f64>() / apart.len().max(1) as f64,
            Scale::Ratio | Scale::Points => middle(&mut apart),
        };
        let mut off: Vec<f64> = apart.iter().map(|x| (x - near).abs()).collect();
        let off = match scale {
            Scale::Means => off.iter().sum::<f64>() / off.len().max(1) as f64,
            _ => middle(&mut off),
        };
        let step = off / (blocks.len() as f64).sqrt();
        Self {
            blocks,
            scale,
            cpu,
            figures,
            near,
            step: step.max(1e-6),
            fine: FINE,
        }
    }

    /// What each block's CPUs score when this CPU's figures are less by `shift`:
    /// block by block.
    fn scores(&self, shift: f64) -> Vec<f64> {
        match self.scale {
            Scale::Sums => {
                let factor = (-shift).exp();
                self.transform(|x| x * factor)
            }
            Scale::Means => self.transform(|x| x - shift),
            Scale::Ratio | Scale::Points => self.ranks(shift),
        }
    }

    /// The figures themselves, this CPU's changed.
    fn transform(&self, change: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut scores = self.figures.clone();
        let own = scores.iter_mut().skip(self.cpu).step_by(self.blocks.cpus);
        own.for_each(|x| *x = change(*x));
        scores
    }

    /// Ranks from 1, those of equal figures their mean.
    pub(super) fn ranks(&self, shift: f64) -> Vec<f64> {
        let cpus = self.blocks.cpus;
        let mut aligned = Vec::with_capacity(self.figures.len());
        let mut block = vec![0.0; cpus];
        let mut sorted = block.clone();
        for figures in self.figures.chunks_exact(cpus) {
            block.copy_from_slice(figures);
            block[self.cpu] -= shift;
            sorted.copy_from_slice(&block);
            let middle = middle(&mut sorted);
            aligned.extend(block.iter().map(|x| x - middle));
        }
        sandbag_stats::ranks(&aligned)
    }

    pub(super) fn at(&self, shift: f64) -> Statistic {
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

    /// The estimate: the shift at which the CPU's sum is that of an equal one. Of three CPUs, one
    /// of them far off, all shifts between the other two have the same ranks, so it would be any
    /// of them: there it is the difference from the middle CPU.
    pub(super) fn estimate(&self) -> f64 {
        let is_by_ranks = matches!(self.scale, Scale::Ratio | Scale::Points);
        if self.blocks.cpus != 3 || !is_by_ranks {
            return self.root(0.0);
        }
        let others = (0..3).filter(|other| *other != self.cpu);
        let mut apart: Vec<f64> = others.map(|other| self.difference_from(other)).collect();
        sandbag_stats::sort(&mut apart);
        // Between the others the CPU itself is the middle one, else the nearer of them is.
        0.0f64.clamp(apart[0], apart[1])
    }

    /// The estimate of the two alone.
    fn difference_from(&self, other: usize) -> f64 {
        let pair = self.blocks.pair(self.cpu, other);
        let mut looked = ShiftedBlocks::new(&pair, self.scale, 0);
        // The difference of one block is often the solution itself, and rounding decides on which
        // side of it the search begins.
        looked.fine = self.fine / FINER_PAIR;
        looked.root(0.0)
    }

    /// The shift at which the sum is `z` standard deviations above its mean by chance.
    /// The greater the shift, the less the sum.
    pub(super) fn root(&self, z: f64) -> f64 {
        // From where it is by and large: a CPU may be further off than what is looked for.
        let widest = self.scale.widest() + self.near.abs();
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
            if middle <= low || middle >= high {
                // As near as these numbers come.
                break;
            }
            if self.at(middle).z() >= z {
                low = middle
            } else {
                high = middle
            }
        }
        f64::midpoint(low, high)
    }
}

/// How much more rounds vary than their blocks say, with what neighbouring
/// rounds have in common: the long-run variance (Newey and West, "A simple,
/// positive semi-definite, heteroskedasticity and autocorrelation consistent
/// covariance matrix", 1987) of the sums of the rounds over that of the blocks.
pub(crate) fn inflation(rounds: &[(f64, f64)]) -> f64 {
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
