// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums over the multiples of a frequency.

/// Of all frequencies, in `multiples`ths of a step, whose multiples are within `values`, the one
/// with the greatest sum of the values nearest to its first `multiples` multiples, and that sum;
/// 0 and 0 if no sum is above 0.
///
/// `multiples` is a power of two; the lowest frequency is the step `first`.
pub fn harmonic_peak(values: &[f64], multiples: usize, first: usize) -> (usize, f64) {
    let (mut at, mut most) = (0, 0.0);
    // Most of the time of a spectrum was in these divisions.
    let halves = (2 * multiples).trailing_zeros();
    for top in first * multiples..values.len() {
        // Multiples of a frequency of which this is the last.
        let mut sum = 0.0;
        for k in 1..=multiples {
            sum += values[(2 * top * k + multiples) >> halves];
        }
        if sum > most {
            (at, most) = (top, sum);
        }
    }
    (at, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comb_is_found_by_its_multiples() {
        let mut values = vec![0.0; 64];
        for at in [10, 20, 30, 40] {
            values[at] = 1.0;
        }
        values[33] = 1.5;
        assert_eq!(harmonic_peak(&values, 1, 2), (33, 1.5));
        assert_eq!(harmonic_peak(&values, 4, 2), (40, 4.0));
        assert_eq!(harmonic_peak(&values, 4, 20), (0, 0.0));
    }
}
