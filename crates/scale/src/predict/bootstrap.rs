// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a prediction could be off because the trace is short: the block
//! bootstrap (Künsch 1989). The trace is cut into blocks of time, the same for
//! all CPUs; as many are drawn with replacement, and each draw predicts again.
//! Events that come together stay together within a block.
//!
//! It says what another recording of the same length might have given. Of noise
//! that is rarer than the trace is long it knows nothing: see `saturated`.

use super::cells::{BANDS, Cells};
use super::grid::Grid;
use super::noise::Noise;
use super::tail::Tail;
use super::windows::NoisePiece;
use crate::chance::Chance;

/// Draws.
const DRAWS: usize = 200;
/// Blocks, at most and at least; with fewer there is no interval.
const BLOCKS: u64 = 100;
const LEAST_BLOCKS: u64 = 10;
/// A block is at least so many windows long.
const WINDOWS: u64 = 20;
/// Cells per tenfold noise. Only the ratio of a draw to the whole is used.
const COARSE: f64 = 64.0;

/// Predictions of one source, drawn again.
#[derive(Debug)]
pub struct Draws {
    whole: Cells,
    draws: Vec<Cells>,
}

/// Gathers blocks.
#[derive(Debug)]
pub struct Blocks {
    blocks: Vec<Cells>,
    length_ns: u64,
}

impl Blocks {
    /// For a trace that ends at `until_ns`; `None` if it is too short.
    #[must_use]
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

    /// Takes a piece.
    pub fn add(&mut self, piece: &NoisePiece) {
        let block = (piece.from_ns / self.length_ns) as usize;
        let last = self.blocks.len() - 1;
        self.blocks[block.min(last)].add(piece);
    }

    /// Draws with replacement.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Draws {
        let sum = |of: &dyn Fn(usize) -> f64| {
            let mut cells = Cells::merge(Grid::new(COARSE));
            for (number, block) in self.blocks.iter().enumerate() {
                let times = of(number);
                if times > 0.0 {
                    cells.add_scaled(block, times);
                }
            }
            cells
        };
        let draws = (0..DRAWS).map(|draw| {
            let mut chance = Chance::new(seed, draw as u64);
            let mut times = vec![0u32; self.blocks.len()];
            for _ in 0..self.blocks.len() {
                times[chance.below(self.blocks.len() as u64) as usize] += 1;
            }
            sum(&|number| f64::from(times[number]))
        });
        Draws {
            draws: draws.collect(),
            whole: sum(&|_| 1.0),
        }
    }
}

/// An interval of the ratio of what might be to what was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Ratio {
    fn wider(self, times: f64) -> Self {
        Self {
            low: (1.0 - (1.0 - self.low) * times).max(0.0),
            high: 1.0 + (self.high - 1.0) * times,
        }
    }
}

/// What a draw is made into.
#[derive(Debug, Clone, Copy)]
pub enum DrawFigure {
    /// The mean of the greatest.
    Greatest,
    /// The same, with a tail fitted above this probability.
    Tail(f64),
}

/// The 95 % interval for the greatest of several kinds, each so many, of whose
/// begins inside events `inside` occur. `None` where nothing is met.
#[must_use]
pub fn interval(kinds: &[(&Draws, f64, f64)], figure: DrawFigure) -> Option<Ratio> {
    let of = |cells: &dyn Fn(&Draws) -> Cells| {
        let noises: Vec<(Noise, f64)> = kinds
            .iter()
            .map(|(draws, count, inside)| {
                let mut accepted = [*inside; BANDS];
                accepted[0] = 1.0;
                (cells(draws).noise(&accepted), *count)
            })
            .collect();
        let all: Vec<(&Noise, f64)> = noises.iter().map(|(noise, n)| (noise, *n)).collect();
        match (figure, all.as_slice()) {
            (DrawFigure::Tail(share), [(noise, count)]) => {
                let tail = Tail::fit(noise, share);
                tail.map_or_else(
                    || noise.greatest_of(*count).mean(),
                    |tail| tail.greatest_of(noise, *count),
                )
            }
            _ => Noise::greatest_of_all(&all).mean(),
        }
    };
    let whole = of(&|draws| draws.whole.clone());
    if whole <= 0.0 {
        return None;
    }
    let draws = kinds.iter().map(|(draws, ..)| draws.draws.len()).min()?;
    let mut all: Vec<f64> = (0..draws)
        .map(|draw| of(&|draws| draws.draws[draw].clone()) / whole)
        .collect();
    Some(percentiles(&mut all))
}

/// The 95 % interval of the mean of rows, by drawing rows, as a ratio: of phases of this
/// length, from a trace of which so much is known. `None` if that is too short.
///
/// Rows that together are longer than the trace go through the same of it again and again:
/// they know no more than it does, and the interval is wider by the square root of how often.
#[must_use]
pub fn of_rows(rows: &[Vec<f64>], (phase_ns, known_ns): (u64, u64), seed: u64) -> Option<Ratio> {
    if known_ns / phase_ns.saturating_mul(WINDOWS).max(1) < LEAST_BLOCKS {
        return None;
    }
    let sums: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| (row.iter().sum(), row.len() as f64))
        .collect();
    let mean = |all: &mut dyn Iterator<Item = (f64, f64)>| {
        let (sum, count) = all.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        sum / count
    };
    let whole = mean(&mut sums.iter().copied());
    if sums.len() < LEAST_BLOCKS as usize || whole <= 0.0 {
        return None;
    }
    let mut chance = Chance::new(seed, u64::MAX - 1);
    let mut all: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut drawn = (0..sums.len()).map(|_| sums[chance.below(sums.len() as u64) as usize]);
            mean(&mut drawn) / whole
        })
        .collect();
    let phases: f64 = sums.iter().map(|(_, count)| count).sum();
    let often = phases * phase_ns as f64 / known_ns as f64;
    Some(percentiles(&mut all).wider(often.max(1.0).sqrt()))
}

fn percentiles(all: &mut [f64]) -> Ratio {
    all.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| all[(part * (all.len() - 1) as f64).round() as usize];
    Ratio {
        low: at(0.025),
        high: at(0.975),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::{FINE, RUNNING};
    use super::super::windows::Windows;
    use super::*;
    use crate::fixture::by_chance;

    const WORK: u64 = 1_000_000;

    fn draw(seed: u64) -> Ratio {
        let cpu = by_chance(seed, 5_000_000_000, 0.6, |chance| {
            2e4 / chance.uniform().sqrt()
        });
        let mut blocks = Blocks::new(5_000_000_000, WORK).unwrap();
        Windows::new(&cpu, WORK).for_each(|piece| blocks.add(&piece));
        interval(&[(&blocks.draw(1), 64.0, 0.0)], DrawFigure::Greatest).unwrap()
    }

    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        // The truth from a hundred times as long a trace.
        let long = by_chance(99, 500_000_000_000, 0.6, |chance| {
            2e4 / chance.uniform().sqrt()
        });
        let mean = |cpu: &sandbag_jitter::CpuTrace| {
            let cells = Cells::gather(Grid::new(FINE), Windows::new(cpu, WORK));
            cells.noise(&RUNNING).greatest_of(64.0).mean()
        };
        let truth = mean(&long);
        let held = (0..20).filter(|seed| {
            let cpu = by_chance(*seed, 5_000_000_000, 0.6, |chance| {
                2e4 / chance.uniform().sqrt()
            });
            let (found, ratio) = (mean(&cpu), draw(*seed));
            (found * ratio.low..=found * ratio.high).contains(&truth)
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
        assert_eq!(
            interval(&[(&blocks.draw(1), 64.0, 1.0)], DrawFigure::Greatest),
            None
        );
        let long = (1, 1_000_000);
        assert_eq!(of_rows(&vec![vec![0.0; 3]; 20], long, 1), None);
        assert!(of_rows(&vec![vec![1.0]; 3], long, 1).is_none());
        assert!(of_rows(&vec![vec![1.0]; 20], long, 1).is_some());
        assert!(of_rows(&vec![vec![1.0]; 20], (1, 199), 1).is_none());
    }

    #[test]
    fn rows_of_the_same_again_know_no_more() {
        let mut chance = Chance::new(1, 1);
        let rows: Vec<Vec<f64>> = (0..100).map(|_| vec![chance.uniform(); 10]).collect();
        // A thousand phases of 1 s: as long as the trace, and four times.
        let width = |known_ns| {
            let ratio = of_rows(&rows, (1_000_000_000, known_ns), 1).unwrap();
            ratio.high - ratio.low
        };
        let once = width(1_000_000_000_000);
        assert_eq!(width(4_000_000_000_000), once);
        let again = width(1_000_000_000_000 / 4);
        assert!((again / once - 2.0).abs() < 1e-9, "{once} {again}");
    }
}
