// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts by size, of which 2^`BITS` make a doubling: of 5 bits, which injectors
//! of ours use, to 3 % of a value; of 3, which the library in a program uses, to
//! 12 %.
//!
//! Own code, for it must never allocate and is written by one process and read
//! by another.

/// Of injectors: sizes of a doubling, as a power of two.
const FINE: u32 = 5;
/// How many sizes there are of those.
pub const BUCKETS: usize = buckets(FINE);

const fn buckets(bits: u32) -> usize {
    (64 - bits as usize + 1) << bits
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<const BITS: u32 = FINE> {
    counts: Vec<u64>,
    all: u64,
    most: u64,
}

impl<const BITS: u32> Default for Histogram<BITS> {
    fn default() -> Self {
        Self {
            counts: vec![0; buckets(BITS)],
            all: 0,
            most: 0,
        }
    }
}

/// Where a value is counted by injectors.
#[must_use]
pub fn bucket(value: u64) -> usize {
    bucket_of(value, FINE)
}

fn bucket_of(value: u64, bits: u32) -> usize {
    if value < 1 << bits {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - bits;
    ((shift as usize + 1) << bits) + ((value >> shift) as usize & ((1 << bits) - 1))
}

/// The largest value that is counted there.
fn upper(bucket: usize, bits: u32) -> u64 {
    let (row, place) = (bucket >> bits, (bucket & ((1 << bits) - 1)) as u64);
    match row {
        0 => place,
        row => {
            let low = ((1 << bits) + place) << (row - 1);
            low + ((1u64 << (row - 1)) - 1)
        }
    }
}

impl<const BITS: u32> Histogram<BITS> {
    /// Counts a value. Does not allocate.
    pub fn add(&mut self, value: u64) {
        self.counts[bucket_of(value, BITS)] += 1;
        self.all += 1;
        self.most = self.most.max(value);
    }

    /// From counts by size; the largest is then known to the size.
    #[must_use]
    pub fn of_counts(mut counts: Vec<u64>) -> Self {
        counts.resize(buckets(BITS), 0);
        let last = counts.iter().rposition(|count| *count > 0);
        Self {
            all: counts.iter().fold(0, |sum, n| sum.saturating_add(*n)),
            most: last.map_or(0, |last| upper(last, BITS)),
            counts,
        }
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.all = self.all.saturating_add(other.all);
        self.most = self.most.max(other.most);
    }

    /// The same in other sizes, each value as the largest of its size.
    #[must_use]
    pub fn resize<const OTHER: u32>(&self) -> Histogram<OTHER> {
        let mut counts = vec![0; buckets(OTHER)];
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let sum: &mut u64 = &mut counts[bucket_of(upper(bucket, BITS), OTHER)];
            *sum = sum.saturating_add(*count);
        }
        Histogram::of_counts(counts)
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

    /// A value that `part_pct` percent of the entries do not exceed, at most a size too large;
    /// `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, part_pct: f64) -> Option<u64> {
        let rank = (self.all as f64 * part_pct / 100.0).ceil() as u64;
        let rank = rank.clamp(1, self.all.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below = u64::saturating_add(below, *count);
            if below >= rank {
                return Some(upper(bucket, BITS).min(self.most));
            }
        }
        None
    }

    /// How many are not above a value, to its size.
    #[must_use]
    pub fn up_to(&self, value: u64) -> u64 {
        self.counts[..=bucket_of(value, BITS)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut all = Histogram::<FINE>::default();
        (0..=30).for_each(|value| all.add(value));
        assert_eq!(all.quantile(50.0), Some(15));
        assert_eq!(
            (all.quantile(100.0), all.most(), all.count()),
            (Some(30), 30, 31)
        );
        assert_eq!(all.up_to(9), 10);
        assert_eq!(Histogram::<FINE>::default().quantile(50.0), None);
    }

    #[test]
    fn two_are_one() {
        let (mut a, mut b) = (Histogram::<FINE>::default(), Histogram::default());
        a.add(1);
        b.add(1 << 40);
        a.merge(&b);
        assert_eq!((a.count(), a.most()), (2, 1 << 40));
        assert_eq!(a.quantile(100.0), Some(1 << 40));
    }

    #[test]
    fn counts_of_another_process_are_a_histogram() {
        let mut all = Histogram::<FINE>::default();
        [3, 900, 31].iter().for_each(|value| all.add(*value));
        let again = Histogram::<FINE>::of_counts(all.counts.clone());
        assert_eq!((again.count(), again.quantile(50.0)), (3, Some(31)));
        assert!((900..930).contains(&again.most()));
        assert_eq!(Histogram::<FINE>::of_counts(Vec::new()).count(), 0);
    }

    #[test]
    fn counts_in_coarser_sizes_are_ends_of_those() {
        let mut all = Histogram::<3>::default();
        [5, 5, 5, 16].iter().for_each(|value| all.add(*value));
        assert_eq!(all.quantile(50.0), Some(5));
        let counts = Histogram::<3>::of_counts(all.counts.clone());
        assert_eq!(counts.quantile(100.0), Some(17));
        let fine = counts.resize::<FINE>();
        assert_eq!((fine.count(), fine.most()), (4, 17));
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value in any::<u64>()) {
            for bits in [3, FINE] {
                let at = bucket_of(value, bits);
                prop_assert!(at < buckets(bits));
                prop_assert!(upper(at, bits) >= value);
                prop_assert!(upper(at, bits) - value <= value >> bits);
                prop_assert!(at == 0 || upper(at - 1, bits) < value);
            }
        }
    }
}
