// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which figures of two audits stand against each other.

use super::shift::Pair;
use crate::model::{Quantity, Test};

/// What is compared: by length, run by run. Where runs alone say nothing, because
/// the figure is 0 in many and large in a few (time that a run waited; system
/// time of less than a tick), parts of the audit.
pub(super) fn pairs(a: &Test, b: &Test, quantity: Quantity, cpu: u32) -> Vec<Pair> {
    let has_zeros = |test: &Test| {
        let mut own = test.samples.iter().filter(|sample| sample.cpu == cpu);
        own.any(|sample| sample.figure(quantity) == Some(0.0))
    };
    let in_parts =
        quantity == Quantity::Waiting || (!quantity.is_share() && (has_zeros(a) || has_zeros(b)));
    if in_parts {
        parts(a, quantity, cpu)
            .zip(parts(b, quantity, cpu))
            .map(|(a, b)| Pair { a, b })
            .into_iter()
            .collect()
    } else {
        by_length(a, b, quantity, cpu)
    }
}

/// Logarithms of the time for a unit of length, so that tests of almost the same
/// lengths can be compared, too; of noise the share itself.
fn by_length(a: &Test, b: &Test, quantity: Quantity, cpu: u32) -> Vec<Pair> {
    let of = |test: &Test, length: usize| -> Option<Vec<f64>> {
        let units = test.lengths.get(length).copied().unwrap_or(1).max(1) as f64;
        let samples = test.samples.iter();
        let samples = samples.filter(|sample| sample.cpu == cpu && sample.length == length);
        let values = samples.filter_map(|sample| sample.figure(quantity));
        let all: Option<Vec<f64>> = values
            .map(|value| match quantity {
                share if share.is_share() => Some(value),
                _ => (value > 0.0).then(|| (value / units).ln()),
            })
            .collect();
        Some(thin(all?))
    };
    let lengths = a.lengths.len().min(b.lengths.len());
    (0..lengths)
        .filter_map(|length| {
            Some(Pair {
                a: of(a, length)?,
                b: of(b, length)?,
            })
        })
        .collect()
}

/// All differences of two samples are held at once: of more runs than this, so
/// many that lie evenly are compared.
const MOST_RUNS: usize = 1000;

fn thin(all: Vec<f64>) -> Vec<f64> {
    let count = all.len();
    if count > MOST_RUNS {
        (0..MOST_RUNS).map(|i| all[i * count / MOST_RUNS]).collect()
    } else {
        all
    }
}

/// Number of parts, of equally many rounds.
const PARTS: u64 = 12;

/// The figure of each part, all lengths together: a logarithm of the time for a
/// unit; of shares of time the share. `None` if one of them is 0 all the same.
fn parts(test: &Test, quantity: Quantity, cpu: u32) -> Option<Vec<f64>> {
    let own = || test.samples.iter().filter(|sample| sample.cpu == cpu);
    let rounds = u64::from(own().map(|sample| sample.round).max()?) + 1;
    let count = PARTS.min(rounds);
    let place = |round: u32| u64::from(round) * count / rounds;
    let mut sums = vec![(0.0, 0.0); count as usize];
    for sample in own() {
        let units = test.lengths.get(sample.length).copied().unwrap_or(1).max(1);
        // Of a share the long runs count for more.
        let weight = if quantity.is_share() {
            sample.elapsed_ns as f64
        } else {
            units as f64
        };
        let value = sample.figure(quantity)?;
        let (sum, weights) = &mut sums[place(sample.round) as usize];
        *sum += if quantity.is_share() {
            value * weight
        } else {
            value
        };
        *weights += weight;
    }
    let values = sums.into_iter().filter(|(_, weights)| *weights > 0.0);
    values
        .map(|(sum, weights)| match sum / weights {
            share if quantity.is_share() => Some(share),
            time => (time > 0.0).then(|| time.ln()),
        })
        .collect()
}
