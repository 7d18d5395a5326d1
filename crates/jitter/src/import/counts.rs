// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of a fixed time (how much work was done) or of a fixed work (how
//! long it took), counted by value, and the noise that follows from them.
//!
//! The quietest sample is taken for one without noise: what the others lack of
//! its work, or took longer than it, was taken away from them. So noise that
//! every sample has cannot be seen.

use std::collections::BTreeMap;

use crate::{Bin, CpuCounts, Quantity};

/// More different values than this are counted at half the resolution.
const MOST_VALUES: usize = 4096;

/// How often each value was there.
#[derive(Debug, Clone)]
pub(crate) struct ValueCounts {
    /// Values from a key up to the key plus this count as the same.
    width: u64,
    counts: BTreeMap<u64, u64>,
    least: u64,
    most: u64,
    sum: u128,
    pub(crate) samples: u64,
}

impl Default for ValueCounts {
    fn default() -> Self {
        Self {
            width: 1,
            counts: BTreeMap::new(),
            least: u64::MAX,
            most: 0,
            sum: 0,
            samples: 0,
        }
    }
}

impl ValueCounts {
    pub(crate) fn add(&mut self, value: u64) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.sum += u128::from(value);
        self.samples += 1;
        *self
            .counts
            .entry(value / self.width * self.width)
            .or_default() += 1;
        while self.counts.len() > MOST_VALUES {
            self.width *= 2;
            let mut coarser = BTreeMap::new();
            for (value, count) in std::mem::take(&mut self.counts) {
                *coarser.entry(value / self.width * self.width).or_default() += count;
            }
            self.counts = coarser;
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        clamp_ns(self.sum)
    }

    /// The values as bins, in units of `unit_ns`.
    pub(crate) fn bins(&self, unit_ns: u64) -> Vec<Bin> {
        let mut bins = Vec::new();
        for (value, count) in &self.counts {
            let until = value.saturating_add(self.width);
            let (from_ns, until_ns) =
                (value.saturating_mul(unit_ns), until.saturating_mul(unit_ns));
            push(&mut bins, from_ns, until_ns, *count);
        }
        bins
    }

    /// Of samples of one time, each the work that was done in it. `None` if
    /// none did any.
    pub(crate) fn of_fixed_time(&self, cpu: u32, quantum_ns: u64) -> Option<CpuCounts> {
        let most = u128::from(self.most);
        if most == 0 {
            return None;
        }
        // Work less by one unit is that much time more.
        let edge = |work: u128| {
            let lacking = (most + 1).saturating_sub(work);
            clamp_ns(u128::from(quantum_ns) * lacking / most)
        };
        let mut series = CpuCounts::new(cpu, Quantity::Noise { quantum_ns });
        for (work, count) in self.counts.iter().rev() {
            let work = u128::from(*work);
            let from_ns = edge(work + u128::from(self.width));
            push(&mut series.bins, from_ns, edge(work), *count);
        }
        let time = u128::from(quantum_ns) * u128::from(self.samples);
        // Work and samples may each be near 64 bits: not in whole numbers.
        let done_ns = self.sum as f64 * quantum_ns as f64 / self.most as f64;
        series.known_ns = Some(clamp_ns(time));
        series.noise_ns = Some((time as f64 - done_ns).max(0.0) as u64);
        Some(series)
    }

    /// Of samples of one work, each the time it took in ticks of `tick_ns`.
    /// `None` if there are none, or none took any time.
    pub(crate) fn of_fixed_work(&self, cpu: u32, tick_ns: f64) -> Option<CpuCounts> {
        let quantum_ns = (self.least as f64 * tick_ns) as u64;
        if self.samples == 0 || self.most == 0 {
            return None;
        }
        let edge = |ticks: u64| {
            let longer = ticks.saturating_sub(self.least);
            (longer as f64 * tick_ns) as u64
        };
        let mut series = CpuCounts::new(cpu, Quantity::Noise { quantum_ns });
        for (ticks, count) in &self.counts {
            let until_ns = edge(ticks.saturating_add(self.width));
            push(&mut series.bins, edge(*ticks), until_ns, *count);
        }
        let least = u128::from(self.least) * u128::from(self.samples);
        series.known_ns = Some((self.sum as f64 * tick_ns) as u64);
        series.noise_ns = Some(((self.sum - least) as f64 * tick_ns) as u64);
        Some(series)
    }
}

fn clamp_ns(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Adds a bin at the end. Bins are at least a nanosecond wide; what would be
/// narrower is counted with its neighbour.
fn push(bins: &mut Vec<Bin>, from_ns: u64, until_ns: u64, count: u64) {
    let last = bins.last_mut();
    let end = last.as_ref().map_or(0, |last| last.until_ns);
    let from_ns = from_ns.max(end).min(u64::MAX - 1);
    let until_ns = until_ns.max(from_ns.saturating_add(1));
    match last {
        Some(last) if from_ns < last.until_ns => last.count = last.count.saturating_add(count),
        _ => bins.push(Bin::new(from_ns, until_ns, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(values: &[u64]) -> ValueCounts {
        let mut counts = ValueCounts::default();
        values.iter().for_each(|value| counts.add(*value));
        counts
    }

    #[test]
    fn work_that_lacks_is_time_that_was_taken() {
        let series = count(&[1000, 1000, 900, 1000]);
        let series = series.of_fixed_time(3, 1_000_000).unwrap();
        assert_eq!(series.cpu, 3);
        let bins: Vec<_> = series
            .bins
            .iter()
            .map(|b| (b.from_ns, b.until_ns, b.count))
            .collect();
        assert_eq!(bins, [(0, 1000, 3), (100_000, 101_000, 1)]);
        assert_eq!(series.noise_ns, Some(100_000));
        assert_eq!(series.known_ns, Some(4_000_000));
    }

    #[test]
    fn time_beyond_the_shortest_was_taken() {
        let series = count(&[500, 520, 500]).of_fixed_work(0, 2.0).unwrap();
        let bins: Vec<_> = series
            .bins
            .iter()
            .map(|b| (b.from_ns, b.until_ns, b.count))
            .collect();
        assert_eq!(bins, [(0, 2, 2), (40, 42, 1)]);
        assert_eq!((series.noise_ns, series.known_ns), (Some(40), Some(3040)));
        assert_eq!(series.quantity, Quantity::Noise { quantum_ns: 1000 });
    }

    #[test]
    fn many_values_take_no_more_room_than_few() {
        let mut counts = ValueCounts::default();
        (0..100_000).for_each(|i| counts.add(i * 7919 % 1_000_003));
        assert!(counts.counts.len() <= MOST_VALUES);
        let series = counts.of_fixed_work(0, 1.0).unwrap();
        assert_eq!(series.count(), 100_000);
    }

    proptest! {
        #[test]
        fn bins_ascend_and_hold_all(
            values in prop::collection::vec(any::<u64>(), 1..300),
            quantum_ns in 1u64..,
            tick_ns in 1e-6f64..1e9,
        ) {
            let counts = count(&values);
            let both = [counts.of_fixed_time(0, quantum_ns), counts.of_fixed_work(0, tick_ns)];
            for series in both.into_iter().flatten() {
                prop_assert_eq!(series.count(), values.len() as u64);
                super::super::tests::assert_sound_counts(&series);
            }
        }
    }
}
