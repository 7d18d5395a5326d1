// SPDX-License-Identifier: Apache-2.0 OR MIT
//! By how much one sample lies above another, without a word about how either
//! is distributed: the Hodges-Lehmann shift with the interval of the rank-sum
//! test (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 4.2
//! and 4.3).
//!
//! Samples come in pairs, one for each length of a test. Only values of the same
//! length are compared: the statistic is the sum of those of the pairs, and its
//! distribution that of a sum. Intervals invert it exactly; above
//! [`MOST_EXACT`] values in a pair by the normal distribution.
//!
//! Rounds of an audit that have something in common with their neighbours say less than as
//! many independent ones: all errors are wider by the root of what they vary more, as within an
//! audit ([`inflation`]).

use std::collections::BTreeMap;

use sandbag_stats::{middle, normal_cdf, normal_quantile, ranks};

use crate::ranks::inflation;

/// Most differences in a pair of samples for the exact distribution of the statistic.
const MOST_EXACT: usize = 2500;

/// Two samples that may be compared value by value, each in the order of its rounds.
pub(super) struct Pair {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

/// By how much B lies above A.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shift {
    /// The middle of all differences.
    pub value: f64,
    /// Probability of so great a shift, either way, where there is none.
    pub p: f64,
    differences: Vec<f64>,
    /// Pairs by their sizes, of which the statistic's distribution depends.
    sizes: Vec<(usize, usize)>,
    /// By how much errors are wider than of independent values; at least 1.
    wider: f64,
}

/// Distributions of the statistic that were needed already: those of CPUs are
/// mostly the same.
#[derive(Default)]
pub(super) struct NullCache(BTreeMap<Vec<(usize, usize)>, Null>);

impl NullCache {
    fn of(&mut self, sizes: &[(usize, usize)]) -> &Null {
        self.0
            .entry(sizes.to_vec())
            .or_insert_with(|| Null::of(sizes))
    }
}

impl Shift {
    /// `None` if no pair has a value on both sides.
    pub(super) fn of(pairs: &[Pair], known: &mut NullCache) -> Option<Self> {
        let mut differences: Vec<f64> = pairs
            .iter()
            .flat_map(|pair| {
                pair.a
                    .iter()
                    .flat_map(|a| pair.b.iter().map(move |b| b - a))
            })
            .collect();
        sandbag_stats::sort(&mut differences);
        let mut sizes: Vec<(usize, usize)> = pairs
            .iter()
            .map(|pair| (pair.a.len(), pair.b.len()))
            .filter(|(a, b)| *a > 0 && *b > 0)
            .collect();
        sizes.sort_unstable();
        let value = middle(&differences)?;
        let (a, b) = sizes
            .iter()
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        // Each value of A stands against all of B: the fewer those are, the more it counts.
        let of_a = of_rounds(pairs.iter().map(|pair| &pair.a));
        let of_b = of_rounds(pairs.iter().map(|pair| &pair.b));
        let wider = ((b as f64 * of_a + a as f64 * of_b) / (a + b) as f64).sqrt();
        // From here the shift is as far as from 0 in wider errors.
        let none = value - value / wider;
        let above = differences.iter().filter(|d| **d > none).count();
        let same = differences.iter().filter(|d| **d == none).count();
        // What is the same on both sides counts for no shift.
        let below = differences.len() - above - same;
        let null = known.of(&sizes);
        let tail = null.at_most(above + same).min(null.at_most(below + same));
        Some(Self {
            value,
            p: (2.0 * tail).min(1.0),
            differences,
            sizes,
            wider,
        })
    }

    /// Where the shift lies with this confidence; `None` where so few values
    /// cannot say it with any.
    pub(super) fn interval(&self, confidence: f64, known: &mut NullCache) -> Option<(f64, f64)> {
        let rank = known.of(&self.sizes).rank((1.0 - confidence) / 2.0)?;
        let n = self.differences.len();
        let end = |at: usize| self.value + (self.differences[at] - self.value) * self.wider;
        (rank <= n / 2).then(|| (end(rank - 1), end(n - rank)))
    }
}

/// How much more rounds of one audit vary than by chance; by length, each in their order.
fn of_rounds<'a>(lengths: impl Iterator<Item = &'a Vec<f64>>) -> f64 {
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    for values in lengths {
        let count = values.len() as f64;
        rounds.resize(rounds.len().max(values.len()), (0.0, 0.0));
        for (round, rank) in rounds.iter_mut().zip(ranks(values)) {
            round.0 += rank - (count + 1.0) / 2.0;
            round.1 += (count * count - 1.0) / 12.0;
        }
    }
    inflation(&rounds)
}

/// How the number of differences above 0 is distributed where there is no shift.
enum Null {
    /// Probabilities of at most 0, 1, 2 and so on.
    Counted(Vec<f64>),
    Normal(f64, f64),
}

impl Null {
    fn of(sizes: &[(usize, usize)]) -> Self {
        if sizes
            .iter()
            .all(|(a, b)| a.saturating_mul(*b) <= MOST_EXACT)
        {
            let mut all = vec![1.0];
            for (a, b) in sizes {
                all = convolve(&all, &rank_sum(*a, *b));
            }
            let mut sum = 0.0;
            for share in &mut all {
                sum += *share;
                *share = sum;
            }
            return Self::Counted(all);
        }
        let (mut mean, mut variance) = (0.0, 0.0);
        for (a, b) in sizes {
            let (a, b) = (*a as f64, *b as f64);
            mean += a * b / 2.0;
            variance += a * b * (a + b + 1.0) / 12.0;
        }
        Self::Normal(mean, variance.sqrt())
    }

    /// Probability of at most `count`.
    fn at_most(&self, count: usize) -> f64 {
        match self {
            Self::Counted(sums) => sums.get(count).or(sums.last()).copied().unwrap_or(1.0),
            Self::Normal(mean, sd) => {
                // With the correction for a discrete statistic.
                normal_cdf((count as f64 + 0.5 - mean) / sd)
            }
        }
    }

    /// The greatest rank of a difference below which the shift lies with no
    /// more than this probability, from 1.
    fn rank(&self, tail: f64) -> Option<usize> {
        let rank = match self {
            Self::Counted(sums) => sums.partition_point(|sum| *sum <= tail),
            Self::Normal(mean, sd) => {
                let z = normal_quantile(tail.max(f64::MIN_POSITIVE));
                (mean + z * sd - 0.5).max(0.0) as usize + 1
            }
        };
        // At rank 0 nothing is known; beyond the middle there is no interval.
        (rank > 0 && self.at_most(rank - 1) <= tail).then_some(rank)
    }
}

/// The Mann-Whitney statistic of samples of these sizes: a value for each
/// number of pairs in which the second is greater.
fn rank_sum(a: usize, b: usize) -> Vec<f64> {
    // The greatest of all is of the second sample with probability b/(a + b), and then
    // above all of the first.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; b + 1];
    for first in 1..=a {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for second in 1..=b {
            let all = (first + second) as f64;
            let mut shares = vec![0.0; first * second + 1];
            for (count, share) in rows[second].iter().enumerate() {
                shares[count] += share * first as f64 / all;
            }
            for (count, share) in next[second - 1].iter().enumerate() {
                shares[count + first] += share * second as f64 / all;
            }
            next.push(shares);
        }
        rows = next;
    }
    rows.pop().unwrap_or_default()
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut all = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            all[i + j] += x * y;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(a: &[f64], b: &[f64]) -> Shift {
        let pair = Pair {
            a: a.to_vec(),
            b: b.to_vec(),
        };
        Shift::of(&[pair], &mut NullCache::default()).unwrap()
    }

    #[test]
    fn the_statistic_is_that_of_the_tables() {
        // Of 3 and 3 each order has one of 20; U = 0 and U = 1 one each, U = 2 two.
        let shares = rank_sum(3, 3);
        let counts: Vec<u32> = shares
            .iter()
            .map(|share| (share * 20.0).round() as u32)
            .collect();
        assert_eq!(counts, [1, 1, 2, 3, 3, 3, 3, 2, 1, 1]);
        // Hollander and Wolfe, table A.6: P(W >= 30) = .005 for 3 and 9 ... as
        // tails of U: with 4 and 5, P(U <= 1) = 2/126.
        let sum: f64 = rank_sum(4, 5)[..2].iter().sum();
        assert!((sum - 2.0 / 126.0).abs() < 1e-12);
        assert!((rank_sum(12, 7).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_shift_is_found_with_its_interval() {
        let a = [0.0, 9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        let b = a.map(|value| value + 100.0);
        let shift = of(&a, &b);
        assert!((shift.value - 100.0).abs() < 1e-12);
        // The least that 10 and 10 can say: 2 of C(20, 10).
        assert!((shift.p - 2.0 / 184_756.0).abs() < 1e-12, "{}", shift.p);
        let mut known = NullCache::default();
        let (low, high) = shift.interval(0.95, &mut known).unwrap();
        // Of 10 and 10 the 24th and the 77th difference (qwilcox gives 23 and 77).
        assert!(low < 100.0 && high > 100.0 && low > 95.0 && high < 105.0);
        assert_eq!(known.of(&[(10, 10)]).rank(0.025), Some(24));
    }

    #[test]
    fn rounds_that_follow_a_drift_say_less() {
        let mixed = [0.0, 9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        let mut drifting = mixed;
        sandbag_stats::sort(&mut drifting);
        let [independent, drifting] =
            [mixed, drifting].map(|a| of(&a, &a.map(|value| value + 5.0)));
        assert_eq!(independent.wider, 1.0);
        assert!(drifting.wider > 1.3, "{drifting:?}");
        assert!(independent.p < 0.01 && drifting.p > 0.05, "{drifting:?}");
        let width = |shift: &Shift| {
            let (low, high) = shift.interval(0.9, &mut NullCache::default()).unwrap();
            high - low
        };
        let wider = width(&drifting) / width(&independent);
        assert!((wider / drifting.wider - 1.0).abs() < 1e-9, "{wider}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        let shift = of(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]);
        let mut known = NullCache::default();
        assert_eq!(shift.interval(0.99, &mut known), None);
        assert!(shift.interval(0.85, &mut known).is_some());
        assert!(Shift::of(&[], &mut known).is_none());
        let one_side = Pair {
            a: vec![1.0],
            b: Vec::new(),
        };
        assert!(Shift::of(&[one_side], &mut known).is_none());
    }

    #[test]
    fn what_is_the_same_is_no_shift() {
        let shift = of(&[5.0; 8], &[5.0; 8]);
        assert_eq!((shift.value, shift.p), (0.0, 1.0));
    }

    #[test]
    fn many_values_are_as_the_normal_distribution_says() {
        let counted = Null::of(&[(50, 50)]);
        let normal = Null::Normal(1250.0, (2500.0_f64 * 101.0 / 12.0).sqrt());
        for count in [900, 1000, 1100, 1249] {
            assert!((counted.at_most(count) - normal.at_most(count)).abs() < 2e-3);
        }
        let apart = counted
            .rank(0.005)
            .unwrap()
            .abs_diff(normal.rank(0.005).unwrap());
        assert!(apart <= 6, "{apart}");
        assert!(matches!(Null::of(&[(51, 50)]), Null::Normal(..)));
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_middle(
            a in prop::collection::vec(-1e3f64..1e3, 1..12),
            b in prop::collection::vec(-1e3f64..1e3, 1..12),
            confidence in 0.5f64..0.999,
        ) {
            let shift = of(&a, &b);
            prop_assert!((0.0..=1.0).contains(&shift.p));
            if let Some((low, high)) = shift.interval(confidence, &mut NullCache::default()) {
                prop_assert!(low <= shift.value && shift.value <= high);
            }
        }
    }
}
