// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which frequencies make up a speed (Buchert et al. 2011, CPU-Gov). Pure.
//!
//! With tL at the lower and tH at the higher of two neighbouring frequencies
//! the mean is f = (fL*tL + fH*tH) / (tL + tH). Below the lowest one the lower
//! neighbour is zero.

/// Speeds closer than this are the same.
const SAME: f64 = 1e-9;

/// Two neighbouring steps and the time spent at each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Index of the lower step; `None` is a standstill.
    pub low: Option<usize>,
    /// Index of the higher step.
    pub high: usize,
    /// Part of the time at the lower step, 0 to 1; 0 where one step is right.
    pub low_part: f64,
}

/// The mix of `steps` (ascending, not empty, any unit) for `wanted`; the
/// highest step for what lies above.
pub fn mix(steps: &[f64], wanted: f64) -> Mix {
    let high = steps
        .partition_point(|step| *step < wanted - SAME)
        .min(steps.len() - 1);
    let low = high.checked_sub(1);
    let (f_low, f_high) = (low.map_or(0.0, |low| steps[low]), steps[high]);
    let part = (f_high - wanted) / (f_high - f_low);
    Mix {
        low,
        high,
        low_part: if part > SAME { part.min(1.0) } else { 0.0 },
    }
}

/// The step nearest to `wanted`; the lower one where two are.
pub fn nearest(steps: &[f64], wanted: f64) -> usize {
    let far = |n: &usize| (steps[*n] - wanted).abs();
    let by_distance = |a: &usize, b: &usize| far(a).total_cmp(&far(b));
    (0..steps.len()).min_by(by_distance).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// HPCC's Xeon X5570, GHz.
    const X5570: [f64; 11] = [
        1.60, 1.73, 1.87, 2.00, 2.13, 2.27, 2.40, 2.53, 2.67, 2.80, 2.93,
    ];

    #[test]
    fn the_papers_example() {
        let mix = mix(&[2.0, 2.4], 2.1);
        assert_eq!((mix.low, mix.high), (Some(0), 1));
        assert!((mix.low_part - 0.75).abs() < 1e-9, "{mix:?}");
    }

    #[test]
    fn between_neighbours_of_the_papers_processor() {
        let found = mix(&X5570, 2.1);
        assert_eq!((found.low, found.high), (Some(3), 4));
        assert!((found.low_part - 0.03 / 0.13).abs() < 1e-9);
        // One of its own frequencies needs no other.
        for (n, step) in X5570.iter().enumerate() {
            let found = mix(&X5570, *step);
            assert_eq!((found.high, found.low_part), (n, 0.0));
        }
    }

    #[test]
    fn below_the_lowest_it_stands_still_in_between() {
        let found = mix(&X5570, 0.4);
        assert_eq!((found.low, found.high), (None, 0));
        assert!((found.low_part - 0.75).abs() < 1e-9);
        // A machine without frequencies: full speed and none.
        let found = mix(&[1.0], 0.3);
        assert_eq!((found.low, found.high), (None, 0));
        assert!((found.low_part - 0.7).abs() < 1e-9);
        assert_eq!(mix(&X5570, 0.0).low_part, 1.0);
    }

    #[test]
    fn above_the_highest_there_is_nothing() {
        let found = mix(&X5570, 3.5);
        assert_eq!((found.high, found.low_part), (10, 0.0));
    }

    #[test]
    fn the_nearest_step() {
        assert_eq!(nearest(&X5570, 2.1), 4);
        assert_eq!(nearest(&X5570, 0.1), 0);
        assert_eq!(nearest(&X5570, 9.0), 10);
        assert_eq!(nearest(&[1.0, 2.0], 1.5), 0);
    }

    proptest! {
        #[test]
        fn the_mean_is_what_was_wanted(wanted in 0.0f64..2.93) {
            let mix = mix(&X5570, wanted);
            let low = mix.low.map_or(0.0, |low| X5570[low]);
            let mean = low * mix.low_part + X5570[mix.high] * (1.0 - mix.low_part);
            prop_assert!((mean - wanted).abs() < 1e-9);
        }
    }
}
