// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Order of values: sorted, median, percentiles, range, ranks.
//!
//! None of the hot ones is generic: they are optimised here also in builds for tests.

/// Into ascending order, that of `f64::total_cmp`.
pub fn sort(values: &mut [f64]) {
    values.sort_unstable_by(f64::total_cmp);
}

/// The median; the mean of the middle two of an even number; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sort(&mut sorted);
    middle(&sorted)
}

/// Ranks from 1 in the order of the values; those of equal values are their mean.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        let until = from + same.len();
        for (_, at) in same {
            ranks[*at] = (from + 1 + until) as f64 / 2.0;
        }
        from = until;
    }
    ranks
}

/// The median of values in ascending order.
pub fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// The `part_pct` percentile of values in ascending order, by nearest rank;
/// `None` without values.
pub fn quantile<T: Copy>(sorted: &[T], part_pct: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (sorted.len() as f64 * part_pct / 100.0).ceil() as usize;
    Some(sorted[rank.saturating_sub(1).min(last)])
}

/// Least and greatest; `None` without values.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let greatest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, greatest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_there_are() {
        assert_eq!(quantile(&[1, 5, 9], 50.0), Some(5));
        assert_eq!(quantile(&[1, 5, 9], 100.0), Some(9));
        assert_eq!(quantile(&[1, 5, 9], 0.0), Some(1));
        assert_eq!(quantile::<u64>(&[], 50.0), None);
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[]), [0.0; 0]);
        assert_eq!(ranks(&[0.3, 0.1, 0.3, 0.2]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(ranks(&[0.0, -0.0, -1.0]), [2.5, 2.5, 1.0]);
    }

    #[test]
    fn the_median_of_few() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(range(&[9.0, 1.0, 2.0]), Some((1.0, 9.0)));
        assert_eq!(range(&[]), None);
    }
}
