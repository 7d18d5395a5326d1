// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which frequencies make up a speed (Buchert et al. 2011, CPU-Gov). Pure.

/// Speeds closer than this are the same.
const SAME: f64 = 1e-9;

/// The two neighbouring steps (ascending, not empty, any unit) between which
/// `wanted` lies, by their indices: `None` is a standstill, below the lowest.
/// The highest step for what lies above.
pub fn neighbours(steps: &[f64], wanted: f64) -> (Option<usize>, usize) {
    let high = steps
        .partition_point(|step| *step < wanted - SAME)
        .min(steps.len() - 1);
    (high.checked_sub(1), high)
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

    /// HPCC's Xeon X5570, GHz.
    const X5570: [f64; 11] = [
        1.60, 1.73, 1.87, 2.00, 2.13, 2.27, 2.40, 2.53, 2.67, 2.80, 2.93,
    ];

    #[test]
    fn a_speed_lies_between_two_steps_and_below_the_lowest_is_a_standstill() {
        for (wanted, expected) in [
            (2.1, (Some(3), 4)),
            (0.4, (None, 0)),
            (0.0, (None, 0)),
            (3.5, (Some(9), 10)),
        ] {
            assert_eq!(neighbours(&X5570, wanted), expected, "{wanted}");
        }
        for (n, step) in X5570.iter().enumerate() {
            assert_eq!(neighbours(&X5570, *step).1, n);
        }
        // The paper's example, and a machine without frequencies.
        assert_eq!(neighbours(&[2.0, 2.4], 2.1), (Some(0), 1));
        assert_eq!(neighbours(&[1.0], 0.3), (None, 0));
    }

    #[test]
    fn the_nearest_step() {
        let steps = [2.1, 0.1, 9.0].map(|wanted| nearest(&X5570, wanted));
        assert_eq!(steps, [4, 0, 10]);
        assert_eq!(nearest(&[1.0, 2.0], 1.5), 0);
    }
}
