// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts by size, of which 32 make a doubling: 3 % of a value.
//!
//! Own code, for it must never allocate and is written by one process and read
//! by another.

/// Sizes of a doubling, as a power of two.
const BITS: u32 = 5;
/// How many sizes there are.
pub const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    all: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            all: 0,
            most: 0,
        }
    }
}

/// Where a value is counted.
#[must_use]
pub fn bucket(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - BITS;
    ((shift as usize + 1) << BITS) + ((value >> shift) as usize & ((1 << BITS) - 1))
}

/// The largest value that is counted there.
#[must_use]
pub fn upper(bucket: usize) -> u64 {
    let (row, place) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
    match row {
        0 => place,
        row => {
            let low = ((1 << BITS) + place) << (row - 1);
            low + ((1u64 << (row - 1)) - 1)
        }
    }
}

impl Histogram {
    /// Counts a value. Does not allocate.
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.all += 1;
        self.most = self.most.max(value);
    }

    /// From counts by [`bucket`]; the largest is then known to 3 %.
    #[must_use]
    pub fn of_counts(mut counts: Vec<u64>) -> Self {
        counts.resize(BUCKETS, 0);
        let last = counts.iter().rposition(|count| *count > 0);
        Self {
            all: counts.iter().sum(),
            most: last.map_or(0, upper),
            counts,
        }
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.all += other.all;
        self.most = self.most.max(other.most);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The largest.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// A value that so many percent do not exceed, at most 3 % too large;
    /// `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, part_pct: f64) -> Option<u64> {
        let rank = (self.all as f64 * part_pct / 100.0).ceil() as u64;
        let rank = rank.clamp(1, self.all.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Some(upper(bucket).min(self.most));
            }
        }
        None
    }

    /// How many are not above a value, to 3 % of it.
    #[must_use]
    pub fn up_to(&self, value: u64) -> u64 {
        self.counts[..=bucket(value)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut all = Histogram::default();
        (0..=30).for_each(|value| all.add(value));
        assert_eq!(all.quantile(50.0), Some(15));
        assert_eq!(
            (all.quantile(100.0), all.most(), all.count()),
            (Some(30), 30, 31)
        );
        assert_eq!(all.up_to(9), 10);
        assert_eq!(Histogram::default().quantile(50.0), None);
    }

    #[test]
    fn two_are_one() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        a.add(1);
        b.add(1 << 40);
        a.merge(&b);
        assert_eq!((a.count(), a.most()), (2, 1 << 40));
        assert_eq!(a.quantile(100.0), Some(1 << 40));
    }

    #[test]
    fn counts_of_another_process_are_a_histogram() {
        let mut all = Histogram::default();
        [3, 900, 31].iter().for_each(|value| all.add(*value));
        let again = Histogram::of_counts(all.counts.clone());
        assert_eq!((again.count(), again.quantile(50.0)), (3, Some(31)));
        assert!((900..930).contains(&again.most()));
        assert_eq!(Histogram::of_counts(Vec::new()).count(), 0);
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value in any::<u64>()) {
            let at = bucket(value);
            prop_assert!(at < BUCKETS);
            prop_assert!(upper(at) >= value);
            prop_assert!(upper(at) - value <= value / 32);
            prop_assert!(at == 0 || upper(at - 1) < value);
        }
    }
}
