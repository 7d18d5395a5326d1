// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparing where at least one side is known only to a bin.
//!
//! All CPUs of a side are taken together. At each end of a bin it is known how
//! many are below it at least and at most: exactly, unless a bin of another CPU
//! holds the value in its middle. The greatest difference of the shares that
//! cannot be less is a lower bound of the Kolmogorov-Smirnov distance.
//!
//! For the Jensen-Shannon divergence what lies between two values that both
//! sides know exactly is one cell. Merging cells never moves two distributions
//! apart, so it is a lower bound too.

use serde::{Deserialize, Serialize};

use crate::{CpuCounts, Fault, Quantile, Quantity};

/// All CPUs of a recording together, as counts of one quantity.
#[derive(Debug, Clone)]
pub struct CountSample {
    of: SampleValues,
    all: u64,
    /// Only what is at least as long.
    above_ns: u64,
    /// How many are left out by it.
    left_out: u64,
}

#[derive(Debug, Clone)]
enum SampleValues {
    Lengths(Vec<u64>),
    Series(Vec<CumulativeSeries>),
}

/// A series, and how many its first bins hold together, from none to all of
/// them: a sum of each would take too long for thousands.
#[derive(Debug, Clone)]
struct CumulativeSeries {
    series: CpuCounts,
    sums: Vec<u64>,
}

impl CumulativeSeries {
    fn new(series: &CpuCounts) -> Self {
        let mut sums = vec![0];
        let mut sum = 0u64;
        for bin in &series.bins {
            sum = sum.saturating_add(bin.count);
            sums.push(sum);
        }
        Self {
            series: series.clone(),
            sums,
        }
    }

    /// How many are below a value, at least and at most.
    fn below(&self, ns: u64) -> (u64, u64) {
        let CpuCounts { bins, beyond, .. } = &self.series;
        let whole = bins.partition_point(|bin| bin.until_ns <= ns);
        let begun = bins.partition_point(|bin| bin.from_ns < ns);
        let beyond = beyond.filter(|beyond| beyond.from_ns < ns);
        let most = self.sums[begun].saturating_add(beyond.map_or(0, |beyond| beyond.count));
        (self.sums[whole], most)
    }
}

/// More values are not looked at; fewer only lower the bounds.
const MOST_VALUES: usize = 20_000;

/// Lower bounds of the distances of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BinnedDistances {
    /// Jensen-Shannon divergence, bits, 0 to 1; `None` if there is no value
    /// that both sides know exactly.
    pub js_bits: Option<f64>,
    /// Kolmogorov-Smirnov distance, 0 to 1.
    pub ks: f64,
}

impl CountSample {
    /// The lengths of the events of a trace.
    pub fn of_lengths(mut lengths_ns: Vec<u64>) -> Self {
        lengths_ns.sort_unstable();
        Self::new(SampleValues::Lengths(lengths_ns))
    }

    /// Those series of a distribution that count this.
    pub fn of_series(series: &[CpuCounts], quantity: Quantity) -> Self {
        let these = series.iter().filter(|one| one.quantity.is_as(quantity));
        Self::new(SampleValues::Series(
            these.map(CumulativeSeries::new).collect(),
        ))
    }

    fn new(of: SampleValues) -> Self {
        let all = match &of {
            SampleValues::Lengths(all) => all.len() as u64,
            SampleValues::Series(all) => {
                let counts = all.iter().map(|one| one.series.count());
                counts.fold(0, u64::saturating_add)
            }
        };
        Self {
            of,
            all,
            above_ns: 0,
            left_out: 0,
        }
    }

    /// Only what is at least so long. Tools see events from different lengths
    /// on; cutting both where the coarser one begins makes them comparable.
    ///
    /// # Errors
    /// A bin has this value in its middle.
    pub fn above(mut self, ns: u64) -> Result<Self, Fault> {
        let (left_out, most) = self.all_below(ns);
        if left_out != most {
            return Err(Fault::NotComparable(format!(
                "{ns} ns, above which they should be, is not where a bin ends"
            )));
        }
        (self.above_ns, self.left_out) = (ns, left_out);
        Ok(self)
    }

    fn all_below(&self, ns: u64) -> (u64, u64) {
        match &self.of {
            SampleValues::Lengths(all) => {
                let below = all.partition_point(|length| *length < ns) as u64;
                (below, below)
            }
            SampleValues::Series(all) => all
                .iter()
                .map(|one| one.below(ns))
                .fold((0, 0), |(a, b), (least, most)| {
                    (a.saturating_add(least), b.saturating_add(most))
                }),
        }
    }

    /// How many are below a value, at least and at most.
    fn below(&self, ns: u64) -> (u64, u64) {
        let (least, most) = self.all_below(ns);
        let counted = |below: u64| below.saturating_sub(self.left_out);
        (counted(least), counted(most))
    }

    /// The shares below a value, at least and at most.
    fn share_below(&self, ns: u64) -> (f64, f64) {
        let (least, most) = self.below(ns);
        let share = |below: u64| below as f64 / self.count() as f64;
        (share(least), share(most))
    }

    pub fn count(&self) -> u64 {
        self.all.saturating_sub(self.left_out)
    }

    /// Where bins end, ascending; nowhere in a trace, of which the count below
    /// is known everywhere.
    fn ends_ns(&self) -> Vec<u64> {
        let SampleValues::Series(all) = &self.of else {
            return Vec::new();
        };
        let bins = all.iter().flat_map(|one| &one.series.bins);
        let mut ends: Vec<u64> = bins.flat_map(|bin| [bin.from_ns, bin.until_ns]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|end| *end > self.above_ns);
        ends
    }

    /// The quantile at each percentage; `None` without values.
    pub fn quantiles(&self, parts_pct: &[f64]) -> Option<Vec<Quantile>> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let ends = self.ends_ns();
        let one = |part: &f64| {
            let rank = ((count as f64 * part / 100.0).ceil() as u64).clamp(1, count);
            match &self.of {
                SampleValues::Lengths(all) => {
                    let at = (self.left_out + rank) as usize;
                    Quantile::Is(all[at.min(all.len()) - 1])
                }
                SampleValues::Series(_) => {
                    let first = ends.partition_point(|end| self.below(*end).0 < rank);
                    match ends.get(first) {
                        Some(end) => Quantile::Below(*end),
                        None => Quantile::NotBelow(ends.last().copied().unwrap_or(self.above_ns)),
                    }
                }
            }
        };
        Some(parts_pct.iter().map(one).collect())
    }
}

/// Holds two sides against each other.
pub fn binned_distances(a: &CountSample, b: &CountSample) -> Result<BinnedDistances, Fault> {
    if a.count() == 0 || b.count() == 0 {
        return Err(Fault::NotComparable(
            "one of them counts nothing".to_owned(),
        ));
    }
    let mut ends = a.ends_ns();
    ends.extend(b.ends_ns());
    ends.sort_unstable();
    ends.dedup();
    let step = ends.len().div_ceil(MOST_VALUES).max(1);
    let mut ks = 0.0f64;
    let mut known = Vec::new();
    for end in ends.into_iter().step_by(step) {
        let (least_a, most_a) = a.share_below(end);
        let (least_b, most_b) = b.share_below(end);
        ks = ks.max(least_a - most_b).max(least_b - most_a);
        if least_a == most_a && least_b == most_b {
            known.push((least_a, least_b));
        }
    }
    // Where none or all values are below, the two cannot differ.
    let tells = |share: &(f64, f64)| share.0.max(share.1) > 0.0 && share.0.min(share.1) < 1.0;
    let js_bits = known.iter().any(tells).then(|| divergence(&known));
    Ok(BinnedDistances { js_bits, ks })
}

/// Jensen-Shannon, of the cells between shares that ascend.
fn divergence(shares: &[(f64, f64)]) -> f64 {
    let mut last = (0.0, 0.0);
    let mut sum = 0.0;
    for share in shares.iter().chain(&[(1.0, 1.0)]) {
        let (p, q) = (share.0 - last.0, share.1 - last.1);
        let middle = (p + q) / 2.0;
        let term = |p: f64| {
            if p > 0.0 {
                p * (p / middle).log2()
            } else {
                0.0
            }
        };
        sum += (term(p) + term(q)) / 2.0;
        last = *share;
    }
    sum.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bin;
    use crate::stats::{Grid, distances};
    use proptest::prelude::*;

    /// Counts in bins of this width.
    fn binned(lengths: &[u64], width: u64) -> CountSample {
        let mut series = CpuCounts::new(0, Quantity::Length);
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        for length in sorted {
            let from_ns = length / width * width;
            match series.bins.last_mut() {
                Some(last) if last.from_ns == from_ns => last.count += 1,
                _ => series.bins.push(Bin::new(from_ns, from_ns + width, 1)),
            }
        }
        CountSample::of_series(&[series], Quantity::Length)
    }

    #[test]
    fn a_trace_and_its_own_histogram_are_at_no_distance() {
        let lengths = vec![100, 250, 260, 900, 5_000];
        let (a, b) = (
            CountSample::of_lengths(lengths.clone()),
            binned(&lengths, 100),
        );
        let d = binned_distances(&a, &b).unwrap();
        assert_eq!((d.ks, d.js_bits), (0.0, Some(0.0)));
    }

    #[test]
    fn quantiles_are_ends_of_bins() {
        let b = binned(&[100, 250, 260, 900], 100);
        assert_eq!(
            b.quantiles(&[50.0, 100.0]).unwrap(),
            [Quantile::Below(300), Quantile::Below(1000)]
        );
        let a = CountSample::of_lengths(vec![1, 2, 3, 4]).above(3).unwrap();
        assert_eq!(
            a.quantiles(&[50.0, 100.0]).unwrap(),
            [Quantile::Is(3), Quantile::Is(4)]
        );
        assert!(b.clone().above(250).is_err());
        assert_eq!(b.above(300).unwrap().count(), 1);
    }

    #[test]
    fn bins_that_end_elsewhere_say_less() {
        let bin = |from_ns, until_ns| {
            let mut series = CpuCounts::new(0, Quantity::Length);
            series.bins.push(Bin::new(from_ns, until_ns, 1));
            series
        };
        let one = |series| CountSample::of_series(&[series], Quantity::Length);
        // Both might be 7.
        let d = binned_distances(&one(bin(0, 10)), &one(bin(5, 15))).unwrap();
        assert_eq!((d.ks, d.js_bits), (0.0, None));
        let d = binned_distances(&one(bin(0, 10)), &one(bin(10, 15))).unwrap();
        assert_eq!((d.ks, d.js_bits), (1.0, Some(1.0)));
        // CPUs whose bins overlap are bounded together.
        let two = CountSample::of_series(&[bin(0, 10), bin(5, 15)], Quantity::Length);
        let quantiles = two.quantiles(&[50.0, 100.0]).unwrap();
        assert_eq!(quantiles, [Quantile::Below(10), Quantile::Below(15)]);
        let d = binned_distances(&two, &one(bin(10, 20))).unwrap();
        assert_eq!(d.ks, 0.5);
        let nothing = CountSample::of_lengths(vec![]);
        assert!(binned_distances(&nothing, &two).is_err());
    }

    proptest! {
        #[test]
        fn bins_never_move_two_sides_apart(
            a in prop::collection::vec(1u64..100_000, 1..60),
            b in prop::collection::vec(1u64..100_000, 1..60),
            width in 1u64..5_000,
            other in 1u64..5_000,
        ) {
            let exact = distances(&a, &b, Grid::standard()).unwrap().ks;
            let fine = CountSample::of_lengths(b.clone());
            for counted in [fine, binned(&b, width), binned(&b, other)] {
                if let Ok(d) = binned_distances(&binned(&a, width), &counted) {
                    prop_assert!(d.ks <= exact + 1e-9, "{} {exact}", d.ks);
                    prop_assert!(d.js_bits.is_none_or(|js| (0.0..=1.0).contains(&js)));
                }
            }
        }
    }
}
