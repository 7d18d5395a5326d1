// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The step in which a profile was recorded.

use std::collections::HashMap;

use sandbag_profile::{BoxSteps, Result, Steps};

/// Lengths are told apart by the millisecond: recorders are late by less.
const TICK_NS: u64 = 1_000_000;
/// So many different lengths are remembered; a recording has few.
const LENGTHS: usize = 4096;

/// How a profile is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLength {
    /// Length of a step.
    pub ns: u64,
    /// Whether it is what most steps have, as in a recording; else loads change
    /// at any time, and it is a mean.
    pub is_usual: bool,
}

/// The length that at least half of the steps have, to the millisecond; where
/// there is none, as where loads change at any time, the mean length. Neighbours
/// that are equal may have been joined, so that the mean alone is no measure.
///
/// # Errors
/// The stream's.
pub fn usual_step(mut steps: BoxSteps) -> Result<StepLength> {
    let mut lengths: HashMap<u64, u64> = HashMap::new();
    let (mut count, mut end_ns) = (0, 0);
    while let Some(step) = steps.next_step()? {
        count += 1;
        end_ns = step.end_ns;
        let length = (step.length_ns() + TICK_NS / 2) / TICK_NS;
        if lengths.len() < LENGTHS || lengths.contains_key(&length) {
            *lengths.entry(length).or_default() += 1;
        }
    }
    let usual = lengths.iter().max_by_key(|(length, n)| (**n, **length));
    Ok(match usual {
        Some((length, n)) if *length > 0 && count > 1 && 2 * n >= count => StepLength {
            ns: length * TICK_NS,
            is_usual: true,
        },
        _ => StepLength {
            ns: (end_ns / count.max(1)).max(1),
            is_usual: false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piecewise;

    #[test]
    fn the_usual_length_and_else_the_mean() {
        const MS: u64 = TICK_NS;
        let of = |lengths: &[u64]| {
            let pieces: Vec<(f64, u64)> = lengths.iter().map(|ns| (50.0, *ns)).collect();
            let step = usual_step(piecewise(&pieces, &[0])).unwrap();
            (step.ns, step.is_usual)
        };
        let sampled = [1000 * MS, 1000 * MS, 3000 * MS, 400 * MS];
        assert_eq!(of(&sampled), (1000 * MS, true));
        assert_eq!(of(&[1000 * MS + 3, 1000 * MS - 9]), (1000 * MS, true));
        assert_eq!(of(&[1, 3]), (2, false));
        assert_eq!(of(&[20 * MS, 40 * MS, 60 * MS]), (40 * MS, false));
        assert_eq!(of(&[20 * MS]), (20 * MS, false));
    }
}
