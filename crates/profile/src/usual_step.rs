// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The step in which a profile was recorded.

use std::collections::BTreeMap;

use crate::{BoxSteps, Result, Steps};

/// Lengths are counted by the millisecond.
const TICK_NS: u64 = 1_000_000;
/// Different lengths that are counted; a recording has few.
const LENGTHS: usize = 4096;
/// By how much the steps of a recording differ from each other.
const JITTER: f64 = 0.05;

/// How a profile is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLength {
    /// Length of a step.
    pub ns: u64,
    /// Whether it is what most steps have, as in a recording; else loads change
    /// at any time, and it is a mean.
    pub is_usual: bool,
}

/// The mean of the steps that are about as long as the middle one, where those
/// are at least half of all; else, as where loads change at any time, the mean
/// of all. Neighbours that are equal may have been joined, so that the mean
/// alone is no measure. To the millisecond.
pub fn usual_step(mut steps: BoxSteps) -> Result<StepLength> {
    let mut lengths = Lengths::default();
    let (mut count, mut end_ns) = (0u64, 0);
    while let Some(step) = steps.next_step()? {
        count += 1;
        end_ns = step.end_ns;
        lengths.add(to_ticks(step.length_ns()));
    }
    let usual = lengths.middle().and_then(|middle| {
        let near = |ticks: &u64| ticks.abs_diff(middle) as f64 <= JITTER * middle as f64;
        let near = lengths.counts.iter().filter(|(ticks, _)| near(ticks));
        let (mut sum, mut many) = (0, 0);
        for (ticks, n) in near {
            sum += ticks * n;
            many += n;
        }
        (middle > 0 && count > 1 && 2 * many >= count).then(|| (sum + many / 2) / many)
    });
    let mean_ns = end_ns / count.max(1);
    Ok(StepLength {
        ns: match (usual, to_ticks(mean_ns)) {
            (Some(ticks), _) => ticks * TICK_NS,
            (None, 0) => mean_ns.max(1),
            (None, ticks) => ticks * TICK_NS,
        },
        is_usual: usual.is_some(),
    })
}

fn to_ticks(ns: u64) -> u64 {
    ns / TICK_NS + u64::from(ns % TICK_NS >= TICK_NS / 2)
}

#[derive(Debug, Default)]
pub(crate) struct Lengths {
    counts: BTreeMap<u64, u64>,
}

impl Lengths {
    pub(crate) fn add(&mut self, length: u64) {
        if self.counts.len() < LENGTHS || self.counts.contains_key(&length) {
            *self.counts.entry(length).or_default() += 1;
        }
    }

    /// The length that as many are below as above.
    pub(crate) fn middle(&self) -> Option<u64> {
        let all: u64 = self.counts.values().sum();
        let mut below = 0;
        let middle = self.counts.iter().find(|(_, n)| {
            below += **n;
            2 * below >= all
        });
        middle.map(|(length, _)| *length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile;

    #[test]
    fn the_usual_length_and_else_the_mean() {
        const MS: u64 = TICK_NS;
        let of = |lengths: &[u64]| {
            let mut end_ns = 0;
            let ends = lengths.iter().map(|ns| {
                end_ns += ns;
                (end_ns, &[Some(50.0)][..])
            });
            let steps: Vec<(u64, &[Option<f64>])> = ends.collect();
            let step = usual_step(profile(&[0], &steps).into_steps()).unwrap();
            (step.ns, step.is_usual)
        };
        let sampled = [1000 * MS, 1000 * MS, 3000 * MS, 400 * MS];
        assert_eq!(of(&sampled), (1000 * MS, true));
        assert_eq!(of(&[1000 * MS + 3, 1000 * MS - 9]), (1000 * MS, true));
        assert_eq!(of(&[1000 * MS, 1000 * MS, 3]), (1000 * MS, true));
        let late = [9_960 * MS, 10_041 * MS, 20_000 * MS, 9_999 * MS];
        assert_eq!(of(&late), (10_000 * MS, true));
        assert_eq!(of(&[1, 3]), (2, false));
        assert_eq!(of(&[20 * MS, 40 * MS, 60 * MS]), (40 * MS, false));
        assert_eq!(of(&[20 * MS]), (20 * MS, false));
    }
}
