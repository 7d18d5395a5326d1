// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace in blocks of equal length in time, and sums over blocks that are
//! drawn (block bootstrap): see [`likeness`](super::likeness()).

use super::density::{Grid, fine_histogram, spread};
use super::summary::QUANTILES_PCT;
use crate::spans::extent;
use crate::{JitterTrace, Span};
use sandbag_stats::Chance;

/// Blocks of a trace at most...
pub(super) const MOST_BLOCKS: usize = 50;
/// ...each at least so long...
pub(super) const LEAST_BLOCK_NS: u64 = 100_000_000;

/// Densities are on this.
pub(super) const GRID: fn() -> Grid = Grid::standard;

/// Quantiles, ns, as of [`QUANTILES_PCT`].
pub(super) type Qs = [f64; QUANTILES_PCT.len()];

/// A stretch of time on all CPUs.
pub(super) struct TimeBlock {
    pub(super) known_ns: f64,
    pub(super) noise_ns: f64,
    pub(super) events: f64,
    pub(super) histogram: Vec<u64>,
    pub(super) spread: Vec<f64>,
}

/// The part of a grid outside of which no block has anything: first value and
/// end.
type GridRange = (usize, usize);

/// The parts of both grids that are added up; most of them is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    spread: GridRange,
    histogram: GridRange,
}

impl Cut {
    pub(super) fn of<'a>(blocks: impl Iterator<Item = &'a TimeBlock>) -> Self {
        let mut cut = Self {
            spread: (usize::MAX, 0),
            histogram: (usize::MAX, 0),
        };
        let widen = |part: &mut GridRange, first: Option<usize>, last: Option<usize>| {
            part.0 = part.0.min(first.unwrap_or(usize::MAX));
            part.1 = part.1.max(last.map_or(0, |last| last + 1));
        };
        for block in blocks {
            let (all, counts) = (&block.spread, &block.histogram);
            let is = |value: &f64| *value > 0.0;
            widen(
                &mut cut.spread,
                all.iter().position(is),
                all.iter().rposition(is),
            );
            let is = |count: &u64| *count > 0;
            let ends = (counts.iter().position(is), counts.iter().rposition(is));
            widen(&mut cut.histogram, ends.0, ends.1);
        }
        // Of blocks without events.
        let whole = |part: GridRange| if part.0 < part.1 { part } else { (0, 1) };
        Self {
            spread: whole(cut.spread),
            histogram: whole(cut.histogram),
        }
    }

    pub(super) fn cut(&self, block: &mut TimeBlock) {
        block.spread = block.spread[self.spread.0..self.spread.1].to_vec();
        block.histogram = block.histogram[self.histogram.0..self.histogram.1].to_vec();
    }
}

/// Sums over blocks.
#[derive(Clone)]
pub(super) struct BlockSums {
    pub(super) cut: Cut,
    pub(super) known_ns: f64,
    pub(super) noise_ns: f64,
    pub(super) events: f64,
    pub(super) spread: Vec<f64>,
    /// Only where it is asked for.
    pub(super) histogram: Vec<u64>,
}

impl BlockSums {
    pub(super) fn density(&self) -> Vec<f64> {
        let grid = GRID();
        let sum: f64 = self.spread.iter().sum::<f64>() * grid.step();
        let mut density = vec![0.0; grid.points];
        let inside = &mut density[self.cut.spread.0..self.cut.spread.1];
        for (density, value) in inside.iter_mut().zip(&self.spread) {
            *density = value / sum;
        }
        density
    }

    pub(super) fn quantiles_ns(&self) -> Qs {
        let grid = GRID();
        let fine = grid.step() / super::density::FINE as f64;
        QUANTILES_PCT.map(|part| {
            let rank = (self.events * part / 100.0).ceil().max(1.0);
            let mut passed = 0.0;
            let bin = self.histogram.iter().position(|count| {
                passed += *count as f64;
                passed >= rank
            });
            let bin = self.cut.histogram.0 + bin.unwrap_or(0);
            10f64.powf(grid.from + bin as f64 * fine)
        })
    }
}

/// Blocks in time in which something is known, and how long they are, s.
pub(super) fn blocks(trace: &JitterTrace, bandwidth: f64) -> (Vec<TimeBlock>, f64) {
    let spans = || trace.cpus.iter().flat_map(|cpu| &cpu.known);
    let all = extent(spans().copied()).unwrap_or_default();
    let (begin, end) = (all.from_ns, all.until_ns);
    // A recording of whole seconds lacks what its loops take to begin.
    let count = (end - begin).saturating_add(LEAST_BLOCK_NS / 10) / LEAST_BLOCK_NS;
    let count = count.clamp(1, MOST_BLOCKS as u64);
    let length = ((end - begin) / count).max(1);
    let block_of = |at: u64| ((at - begin) / length).min(count - 1) as usize;
    let mut known_ns = vec![0.0; count as usize];
    for span in spans().filter(|span| span.length_ns() > 0) {
        let (first, last) = (block_of(span.from_ns), block_of(span.until_ns - 1));
        for (i, known) in known_ns.iter_mut().enumerate().take(last + 1).skip(first) {
            let from_ns = begin + i as u64 * length;
            let until_ns = if i as u64 + 1 == count {
                end
            } else {
                from_ns + length
            };
            let inside = Span::new(span.from_ns.max(from_ns), span.until_ns.min(until_ns));
            *known += inside.length_ns() as f64;
        }
    }
    let mut lengths = vec![Vec::new(); count as usize];
    for event in trace.cpus.iter().flat_map(|cpu| &cpu.events) {
        lengths[block_of(event.start_ns.clamp(begin, end))].push(event.length_ns);
    }
    let block = |(known_ns, lengths): (f64, Vec<u64>)| {
        let histogram = fine_histogram(&lengths, GRID());
        TimeBlock {
            known_ns,
            noise_ns: lengths.iter().map(|ns| *ns as f64).sum(),
            events: lengths.len() as f64,
            spread: spread(&histogram, GRID(), bandwidth),
            histogram,
        }
    };
    let all = known_ns.into_iter().zip(lengths);
    let blocks = all.filter(|(known, _)| *known > 0.0).map(block).collect();
    (blocks, length as f64 / 1e9)
}

fn empty(cut: Cut) -> BlockSums {
    BlockSums {
        cut,
        known_ns: 0.0,
        noise_ns: 0.0,
        events: 0.0,
        spread: vec![0.0; cut.spread.1 - cut.spread.0],
        histogram: Vec::new(),
    }
}

/// Adds a block `times` times.
fn add(sum: &mut BlockSums, block: &TimeBlock, times: u32, histogram: bool) {
    let weight = f64::from(times);
    sum.known_ns += block.known_ns * weight;
    sum.noise_ns += block.noise_ns * weight;
    sum.events += block.events * weight;
    for (sum, value) in sum.spread.iter_mut().zip(&block.spread) {
        *sum += value * weight;
    }
    if histogram {
        sum.histogram.resize(block.histogram.len(), 0);
        for (sum, value) in sum.histogram.iter_mut().zip(&block.histogram) {
            *sum += value * u64::from(times);
        }
    }
}

pub(super) fn whole(blocks: &[TimeBlock], cut: Cut) -> BlockSums {
    let mut sum = empty(cut);
    blocks
        .iter()
        .for_each(|block| add(&mut sum, block, 1, true));
    sum
}

/// The sum of `count` blocks, drawn with replacement.
pub(super) fn sample(
    blocks: &[TimeBlock],
    count: usize,
    histogram: bool,
    cut: Cut,
    chance: &mut Chance,
) -> BlockSums {
    let mut times = vec![0u32; blocks.len()];
    for _ in 0..count {
        times[chance.below(blocks.len() as u64) as usize] += 1;
    }
    let mut sum = empty(cut);
    for (block, times) in blocks.iter().zip(times).filter(|(_, times)| *times > 0) {
        add(&mut sum, block, times, histogram);
    }
    sum
}
