// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Intervals of a prediction by the block bootstrap (Künsch 1989): the trace is cut into blocks
//! of time, the same for all CPUs, and the prediction is repeated from blocks drawn with
//! replacement. Events that come together stay together in a block.
//!
//! An interval covers other recordings of the same length. It knows nothing of noise that is
//! rarer than the trace is long: see `saturated`.

use super::cells::{BANDS, Cells};
use super::noise::{Grid, Noise};
use super::stretches::Stretches;
use super::tail::{SHARE, Tail};
use super::windows::NoisePiece;
use crate::chance::Chance;

/// Number of draws.
const DRAWS: usize = 200;
/// Most and fewest blocks; with fewer there is no interval.
const BLOCKS: u64 = 100;
const LEAST_BLOCKS: u64 = 10;
/// Length of a block, at least, in windows.
const WINDOWS: u64 = 20;
/// Cells per decade of noise: only the ratio of a draw to the whole is used.
const COARSE: f64 = 64.0;

/// The noise of one source, and its draws.
#[derive(Debug)]
pub struct Draws {
    whole: Cells,
    draws: Vec<Cells>,
}

/// The blocks of a trace.
#[derive(Debug)]
pub struct Blocks {
    blocks: Vec<Cells>,
    length_ns: u64,
}

impl Blocks {
    /// For a trace that ends at `until_ns`; `None` if it is too short.
    pub fn new(until_ns: u64, window_ns: u64) -> Option<Self> {
        let fit = until_ns / window_ns.saturating_mul(WINDOWS).max(1);
        let count = fit.min(BLOCKS);
        (count >= LEAST_BLOCKS).then(|| Self {
            blocks: (0..count)
                .map(|_| Cells::merge(Grid::new(COARSE)))
                .collect(),
            length_ns: until_ns / count + 1,
        })
    }

    /// Adds each part of a piece to its block: a CPU may be quiet for many.
    pub fn add(&mut self, piece: &NoisePiece) {
        let mut rest = *piece;
        let last = self.blocks.len() - 1;
        loop {
            let block = ((rest.from_ns / self.length_ns) as usize).min(last);
            let until_ns = (block as u64 + 1) * self.length_ns;
            if block == last || rest.until_ns <= until_ns {
                return self.blocks[block].add(&rest);
            }
            let (part, after) = rest.split(until_ns);
            self.blocks[block].add(&part);
            rest = after;
        }
    }

    /// With the weight of each phase among stretches of unknown time.
    pub fn weighted(&self, stretches: &Stretches) -> Self {
        let blocks = self.blocks.iter().map(|block| block.weighted(stretches));
        Self {
            blocks: blocks.collect(),
            length_ns: self.length_ns,
        }
    }

    /// Adds as many other blocks, multiplied by `factor`.
    pub fn add_scaled(&mut self, other: &Self, factor: f64) {
        for (block, more) in self.blocks.iter_mut().zip(&other.blocks) {
            block.add_scaled(more, factor);
        }
    }

    /// Draws with replacement.
    pub fn draw(&self, seed: u64) -> Draws {
        let sum = |times: &[u32]| {
            let mut cells = Cells::merge(Grid::new(COARSE));
            for (block, times) in self.blocks.iter().zip(times).filter(|(_, n)| **n > 0) {
                cells.add_scaled(block, f64::from(*times));
            }
            cells
        };
        let count = self.blocks.len();
        let draws = (0..DRAWS).map(|draw| {
            let mut chance = Chance::new(seed, draw as u64);
            let mut times = vec![0; count];
            for _ in 0..count {
                times[chance.below(count as u64) as usize] += 1;
            }
            sum(&times)
        });
        Draws {
            draws: draws.collect(),
            whole: sum(&vec![1; count]),
        }
    }
}

/// The 95 % interval for the greatest of several kinds, each with its number and the share of
/// its begins inside events that occurs; with a fitted tail if `has_tail`. Relative to the
/// prediction; `None` without noise.
pub fn interval(kinds: &[(&Draws, f64, f64)], has_tail: bool) -> Option<(f64, f64)> {
    let of = |cells: &dyn Fn(&Draws) -> &Cells| {
        let noises = kinds.iter().map(|(draws, count, inside)| {
            let mut accepted = [*inside; BANDS];
            accepted[0] = 1.0;
            (cells(draws).noise(&accepted), *count)
        });
        let noises: Vec<(Noise, f64)> = noises.collect();
        if let (true, [(noise, count)]) = (has_tail, &noises[..])
            && let Some(tail) = Tail::fit(noise, SHARE)
        {
            return tail.greatest_of(noise, *count);
        }
        Noise::greatest_of_all(&noises).mean()
    };
    let whole = of(&|draws| &draws.whole);
    if whole <= 0.0 {
        return None;
    }
    let draws = kinds.iter().map(|(draws, ..)| draws.draws.len()).min()?;
    let mut all: Vec<f64> = (0..draws)
        .map(|draw| of(&|draws| &draws.draws[draw]) / whole)
        .collect();
    Some(percentiles(&mut all))
}

/// The 95 % interval of the mean of rows of phases, by drawing rows: phases of `phase_ns` from a
/// trace of `known_ns`, each with the weight that `weight` gives its noise. Relative to the mean;
/// `None` if the trace is too short.
///
/// `R` rows are a sample of the trace, which is a sample of the noise with the information of
/// `T` rows: the variance of their mean is that of a row times `1/R + 1/T`. Rows that are drawn
/// show `1/R` only, so the interval is wider by the square root of `1 + R/T`.
pub fn of_rows(
    rows: &[Vec<f64>],
    weight: impl Fn(f64) -> f64,
    (phase_ns, known_ns): (u64, u64),
    seed: u64,
) -> Option<(f64, f64)> {
    if known_ns / phase_ns.saturating_mul(WINDOWS).max(1) < LEAST_BLOCKS {
        return None;
    }
    let sums: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| {
            let each = row.iter().map(|noise_ns| (*noise_ns, weight(*noise_ns)));
            each.fold((0.0, 0.0), |(sum, all), (noise_ns, weight)| {
                (sum + weight * noise_ns, all + weight)
            })
        })
        .collect();
    let (sum, phases) = sums.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let whole = sum / phases;
    if sums.len() < LEAST_BLOCKS as usize || whole <= 0.0 {
        return None;
    }
    let apart = from_line(&sums);
    let mut chance = Chance::new(seed, u64::MAX - 1);
    let mut all: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..apart.len()).map(|_| apart[chance.below(apart.len() as u64) as usize]);
            1.0 + drawn.sum::<f64>() / phases / whole
        })
        .collect();
    let often = phases * phase_ns as f64 / known_ns as f64;
    let wider = (1.0 + often).sqrt();
    let (low, high) = percentiles(&mut all);
    Some((
        (1.0 - (1.0 - low) * wider).max(0.0),
        1.0 + (high - 1.0) * wider,
    ))
}

/// The sums of rows less what a straight line through their means gives them: the growth of a
/// drift from row to row is no chance.
fn from_line(sums: &[(f64, f64)]) -> Vec<f64> {
    let rows = sums.len() as f64;
    let at = |row: usize| row as f64 - (rows - 1.0) / 2.0;
    let means: Vec<f64> = sums.iter().map(|(sum, count)| sum / count).collect();
    let middle = means.iter().sum::<f64>() / rows;
    let along: f64 = (0..).zip(&means).map(|(row, mean)| at(row) * mean).sum();
    let slope = along / (0..sums.len()).map(|row| at(row).powi(2)).sum::<f64>();
    // The line was taken from the same rows.
    let wider = (rows / (rows - 2.0)).sqrt();
    let rest = (0..).zip(sums.iter().zip(&means));
    rest.map(|(row, ((_, count), mean))| (mean - middle - slope * at(row)) * count * wider)
        .collect()
}

fn percentiles(all: &mut [f64]) -> (f64, f64) {
    sandbag_stats::sort(all);
    let at = |part: f64| all[(part * (all.len() - 1) as f64).round() as usize];
    (at(0.025), at(0.975))
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::CpuTrace;

    use super::super::cells::{FINE, RUNNING};
    use super::super::windows::Windows;
    use super::*;
    use crate::fixture::by_chance;

    const WORK: u64 = 1_000_000;

    fn alike(_noise_ns: f64) -> f64 {
        1.0
    }

    fn heavy_tailed(seed: u64, known_ns: u64) -> CpuTrace {
        by_chance(seed, known_ns, 0.6, |chance| 2e4 / chance.uniform().sqrt())
    }

    #[test]
    fn intervals_cover_the_true_value() {
        // The truth from a hundred times as long a trace.
        let mean = |cpu: &CpuTrace| {
            let cells = Cells::gather(Grid::new(FINE), Windows::new(cpu, WORK));
            cells.noise(&RUNNING).greatest_of(64.0).mean()
        };
        let truth = mean(&heavy_tailed(99, 500_000_000_000));
        let held = (0..20).filter(|seed| {
            let cpu = heavy_tailed(*seed, 5_000_000_000);
            let mut blocks = Blocks::new(5_000_000_000, WORK).unwrap();
            Windows::new(&cpu, WORK).for_each(|piece| blocks.add(&piece));
            let draws = [(&blocks.draw(1), 64.0, 0.0)];
            let (low, high) = interval(&draws, false).unwrap();
            let found = mean(&cpu);
            (found * low..=found * high).contains(&truth)
        });
        let held = held.count();
        assert!(held >= 14, "{held} of 20");
    }

    #[test]
    fn short_traces_and_quiet_ones_have_none() {
        assert!(Blocks::new(100_000_000, WORK).is_none());
        let quiet = crate::fixture::cpu(&[(0, 1_000_000_000)], &[]);
        let mut blocks = Blocks::new(1_000_000_000, WORK).unwrap();
        Windows::new(&quiet, WORK).for_each(|piece| blocks.add(&piece));
        assert_eq!(interval(&[(&blocks.draw(1), 64.0, 1.0)], false), None);
        let long = (1, 1_000_000);
        assert_eq!(of_rows(&vec![vec![0.0; 3]; 20], alike, long, 1), None);
        assert!(of_rows(&vec![vec![1.0]; 3], alike, long, 1).is_none());
        assert!(of_rows(&vec![vec![1.0]; 20], alike, long, 1).is_some());
        assert!(of_rows(&vec![vec![1.0]; 20], alike, (1, 199), 1).is_none());
    }

    /// One CPU is noisy all the time, and the other is quiet: there is no chance in it.
    #[test]
    fn a_quiet_cpu_belongs_to_all_blocks() {
        let known = &[(0, 1_000_000_000)];
        let noisy: Vec<(u64, u64)> = (0..100).map(|n| (n * 10_000_000, 1_000_000)).collect();
        let mut blocks = Blocks::new(1_000_000_000, WORK).unwrap();
        for events in [&noisy[..], &[(20_000_000, 500_000_000)], &[]] {
            let cpu = crate::fixture::cpu(known, events);
            Windows::new(&cpu, WORK).for_each(|piece| blocks.add(&piece));
        }
        let weights = blocks.blocks.iter().map(|block| block.weights());
        let weights: Vec<f64> = weights.map(|(outside, inside)| outside + inside).collect();
        let sum: f64 = weights.iter().sum();
        assert!((2.99e9..=3e9).contains(&sum), "{sum}");
        let each_ns = 3e9 / weights.len() as f64;
        for weight in &weights[..weights.len() - 1] {
            assert!((weight / each_ns - 1.0).abs() < 0.01, "{weights:?}");
        }
    }

    #[test]
    fn the_growth_of_a_drift_is_no_chance() {
        let rows = |growth: f64| -> Vec<Vec<f64>> {
            let mut chance = Chance::new(1, 1);
            let mut row = |i: u32| vec![100.0 + growth * f64::from(i) + chance.uniform(); 10];
            (0..100).map(&mut row).collect()
        };
        let width = |growth: f64, mean: f64| {
            let (low, high) = of_rows(&rows(growth), alike, (1_000, 1_000_000), 1).unwrap();
            (high - low) * mean
        };
        let (level, growing) = (width(0.0, 100.5), width(10.0, 595.5));
        assert!((growing / level - 1.0).abs() < 0.01, "{growing} {level}");
    }

    #[test]
    fn rows_hold_no_more_information_than_their_trace() {
        let mut chance = Chance::new(1, 1);
        let rows: Vec<Vec<f64>> = (0..100).map(|_| vec![chance.uniform(); 10]).collect();
        // A thousand phases of 1 s: as long as the trace, a quarter of it, and four times.
        let width = |known_ns| {
            let (low, high) = of_rows(&rows, alike, (1_000_000_000, known_ns), 1).unwrap();
            high - low
        };
        let once = width(1_000_000_000_000);
        for (known_ns, variance) in [(4_000_000_000_000, 1.25), (250_000_000_000, 5.0)] {
            let ratio = width(known_ns) / once;
            assert!((ratio - f64::sqrt(variance / 2.0)).abs() < 1e-9, "{ratio}");
        }
    }
}
