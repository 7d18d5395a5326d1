// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts by size with a bounded relative error.
//!
//! A doubling is divided into 2^5 buckets: a value is known to 3 %. The library
//! inside a program divides it into 2^3 (12 %); its counts become one of these
//! histograms.
//!
//! Own code: it must not allocate, and one process writes the counts that another
//! reads.

/// Buckets of a doubling, as a power of two.
const BITS: u32 = 5;
/// Buckets of a doubling in the library inside a program (c/jitter_booking.inc).
const LIBRARY_BITS: u32 = 3;
/// Number of buckets.
pub const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// By bucket; as far as the highest that is used, or all.
    counts: Vec<u64>,
    all: u64,
    most: u64,
}

/// The bucket of a value.
pub fn bucket(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - BITS;
    ((shift as usize + 1) << BITS) + ((value >> shift) as usize & ((1 << BITS) - 1))
}

/// The largest value of a bucket.
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

impl Histogram {
    /// An empty one to which values can be added without allocation.
    pub fn allocated() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            ..Self::default()
        }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        if self.counts.len() < BUCKETS {
            self.counts.resize(BUCKETS, 0);
        }
        self.counts[bucket(value)] += 1;
        self.all += 1;
        self.most = self.most.max(value);
    }

    /// From counts by bucket, at most [`BUCKETS`] of them.
    pub fn of_counts(mut counts: Vec<u64>) -> Self {
        let used = counts.iter().rposition(|count| *count > 0);
        counts.truncate(used.map_or(0, |last| last + 1));
        Self {
            all: counts.iter().fold(0, |sum, n| sum.saturating_add(*n)),
            most: used.map_or(0, |last| upper(last, BITS)),
            counts,
        }
    }

    /// From the counts of the library inside a program: each value becomes the
    /// largest of its bucket there.
    pub fn of_library(counts: &[u32]) -> Self {
        let mut fine = vec![0u64; BUCKETS];
        for (place, count) in counts.iter().enumerate() {
            fine[bucket(upper(place, LIBRARY_BITS))] += u64::from(*count);
        }
        Self::of_counts(fine)
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        let length = self.counts.len().max(other.counts.len());
        self.counts.resize(length, 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.all = self.all.saturating_add(other.all);
        self.most = self.most.max(other.most);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The percentile, at most a bucket too large; `None` without values.
    pub fn quantile(&self, part_pct: f64) -> Option<u64> {
        let rank = (self.all as f64 * part_pct / 100.0).ceil() as u64;
        let rank = rank.clamp(1, self.all.max(1));
        let mut below = 0u64;
        let place = self.counts.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= rank
        });
        place.map(|place| upper(place, BITS).min(self.most))
    }

    /// Number of values up to the end of the bucket of `value`.
    pub fn up_to(&self, value: u64) -> u64 {
        self.counts.iter().take(bucket(value) + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact_and_large_ones_to_a_bucket() {
        let mut all = Histogram::allocated();
        (0..=30).for_each(|value| all.add(value));
        assert_eq!(
            (all.quantile(50.0), all.quantile(100.0)),
            (Some(15), Some(30))
        );
        assert_eq!((all.most, all.count(), all.up_to(9)), (30, 31, 10));
        assert_eq!(Histogram::default().quantile(50.0), None);
        let mut more = Histogram::default();
        more.add(1 << 40);
        all.merge(&more);
        assert_eq!((all.count(), all.most), (32, 1 << 40));
        // As another process reads the counts.
        let again = Histogram::of_counts(all.counts.clone());
        assert_eq!((again.count(), again.quantile(50.0)), (32, Some(15)));
        assert!(again.most >> 35 == 32);
        assert_eq!(Histogram::of_counts(vec![0; BUCKETS]), Histogram::default());
    }

    #[test]
    fn counts_of_the_library_become_the_largest_value_of_their_bucket() {
        let mut counts = vec![0; 320];
        // 5, and 16 to 17.
        (counts[5], counts[16]) = (3, 1);
        let all = Histogram::of_library(&counts);
        assert_eq!((all.count(), all.quantile(50.0)), (4, Some(5)));
        assert_eq!((all.quantile(100.0), all.most), (Some(17), 17));
        for place in 0..320 {
            let value = upper(place, LIBRARY_BITS);
            assert_eq!(upper(bucket(value), BITS), value);
        }
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value in any::<u64>()) {
            let at = bucket(value);
            prop_assert!(at < BUCKETS && upper(at, BITS) >= value);
            prop_assert!(upper(at, BITS) - value <= value >> BITS);
            prop_assert!(at == 0 || upper(at - 1, BITS) < value);
        }
    }
}
