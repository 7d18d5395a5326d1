// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparing where at least one side is known only to a bin.
//!
//! All CPUs of a side are taken together. The shares below a value are held
//! against each other at the values where both are known exactly: the ends of
//! bins that both have, or any value in a trace. What lies between two of them
//! is one cell. Merging cells never moves two distributions apart, so the
//! distances are lower bounds of those that all events would give.

use serde::{Deserialize, Serialize};

use crate::{Fault, Quantity, Series};

/// All CPUs of a recording together, as counts of one quantity.
#[derive(Debug, Clone)]
pub struct Counted {
    of: Of,
    /// Only what is at least as long.
    above_ns: u64,
    /// How many are left out by it.
    left_out: u64,
}

#[derive(Debug, Clone)]
enum Of {
    /// Ascending.
    Lengths(Vec<u64>),
    Series(Vec<Series>),
}

/// Where a quantile lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// It is this.
    Is(u64),
    /// Less than this, and not less than the end of the bin before.
    Below(u64),
    /// This or more.
    NotBelow(u64),
}

/// Lower bounds of the distances of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BinnedDistances {
    /// Cells that both sides know.
    pub cells: usize,
    /// Jensen-Shannon divergence, bits, 0 to 1.
    pub js_bits: f64,
    /// Kolmogorov-Smirnov distance, 0 to 1.
    pub ks: f64,
}

impl Counted {
    /// The lengths of the events of a trace.
    #[must_use]
    pub fn of_lengths(mut lengths_ns: Vec<u64>) -> Self {
        lengths_ns.sort_unstable();
        Self::new(Of::Lengths(lengths_ns))
    }

    /// Those series of a distribution that count this.
    #[must_use]
    pub fn of_series(series: &[Series], quantity: Quantity) -> Self {
        let these = series.iter().filter(|one| one.quantity.is_as(quantity));
        Self::new(Of::Series(these.cloned().collect()))
    }

    fn new(of: Of) -> Self {
        Self {
            of,
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
        let Some(left_out) = self.all_below(ns) else {
            return Err(Fault::NotComparable(format!(
                "{ns} ns, above which they should be, is not where a bin ends"
            )));
        };
        (self.above_ns, self.left_out) = (ns, left_out);
        Ok(self)
    }

    fn all_below(&self, ns: u64) -> Option<u64> {
        match &self.of {
            Of::Lengths(all) => Some(all.partition_point(|length| *length < ns) as u64),
            Of::Series(all) => all
                .iter()
                .map(|series| series.below(ns))
                .try_fold(0u64, |sum, below| Some(sum.saturating_add(below?))),
        }
    }

    fn below(&self, ns: u64) -> Option<u64> {
        Some(self.all_below(ns)?.saturating_sub(self.left_out))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        let all = match &self.of {
            Of::Lengths(all) => all.len() as u64,
            Of::Series(all) => {
                let counts = all.iter().map(Series::count);
                counts.fold(0, u64::saturating_add)
            }
        };
        all.saturating_sub(self.left_out)
    }

    /// Ends of bins at which the count below is known, ascending; none of a
    /// trace, of which it is known everywhere.
    fn ends_ns(&self) -> Vec<u64> {
        let Of::Series(all) = &self.of else {
            return Vec::new();
        };
        let bins = all.iter().flat_map(|series| &series.bins);
        let mut ends: Vec<u64> = bins.flat_map(|bin| [bin.from_ns, bin.until_ns]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|end| *end > self.above_ns && self.below(*end).is_some());
        ends
    }

    /// Where so many percent of all are not longer; one for each part. `None`
    /// without any.
    #[must_use]
    pub fn quantiles(&self, parts_pct: &[f64]) -> Option<Vec<Bound>> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let ends = self.ends_ns();
        let one = |part: &f64| {
            let rank = ((count as f64 * part / 100.0).ceil() as u64).clamp(1, count);
            match &self.of {
                Of::Lengths(all) => {
                    let at = (self.left_out + rank) as usize;
                    Bound::Is(all[at.min(all.len()) - 1])
                }
                Of::Series(_) => {
                    let first = ends.partition_point(|end| self.below(*end) < Some(rank));
                    match ends.get(first) {
                        Some(end) => Bound::Below(*end),
                        None => Bound::NotBelow(ends.last().copied().unwrap_or(self.above_ns)),
                    }
                }
            }
        };
        Some(parts_pct.iter().map(one).collect())
    }
}

/// Holds two sides against each other.
///
/// # Errors
/// One of them counts nothing, or there is no value at which both are known.
pub fn binned_distances(a: &Counted, b: &Counted) -> Result<BinnedDistances, Fault> {
    let (all_a, all_b) = (a.count(), b.count());
    if all_a == 0 || all_b == 0 {
        return Err(Fault::NotComparable(
            "one of them counts nothing".to_owned(),
        ));
    }
    let mut ends = a.ends_ns();
    ends.extend(b.ends_ns());
    ends.sort_unstable();
    ends.dedup();
    let shares = ends.iter().filter_map(|end| {
        let (a, b) = a.below(*end).zip(b.below(*end))?;
        Some((a as f64 / all_a as f64, b as f64 / all_b as f64))
    });
    let mut cells = Vec::new();
    let mut last = (0.0, 0.0);
    let (mut ks, mut known) = (0.0f64, 0);
    for share in shares.chain([(1.0, 1.0)]) {
        ks = ks.max((share.0 - share.1).abs());
        cells.push((share.0 - last.0, share.1 - last.1));
        last = share;
        known += 1;
    }
    if known < 2 {
        return Err(Fault::NotComparable(
            "their bins end nowhere at the same value".to_owned(),
        ));
    }
    let js: f64 = cells
        .iter()
        .map(|(p, q)| {
            let middle = (p + q) / 2.0;
            let term = |p: f64| {
                if p > 0.0 {
                    p * (p / middle).log2()
                } else {
                    0.0
                }
            };
            (term(*p) + term(*q)) / 2.0
        })
        .sum();
    Ok(BinnedDistances {
        cells: known,
        js_bits: js.clamp(0.0, 1.0),
        ks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bin;
    use crate::stats::{Grid, distances};
    use proptest::prelude::*;

    /// Counts in bins of this width.
    fn binned(lengths: &[u64], width: u64) -> Counted {
        let mut series = Series::new(0, Quantity::Length);
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        for length in sorted {
            let from_ns = length / width * width;
            match series.bins.last_mut() {
                Some(last) if last.from_ns == from_ns => last.count += 1,
                _ => series.bins.push(Bin {
                    from_ns,
                    until_ns: from_ns + width,
                    count: 1,
                }),
            }
        }
        Counted::of_series(&[series], Quantity::Length)
    }

    #[test]
    fn a_trace_and_its_own_histogram_are_at_no_distance() {
        let lengths = vec![100, 250, 260, 900, 5_000];
        let (a, b) = (Counted::of_lengths(lengths.clone()), binned(&lengths, 100));
        let d = binned_distances(&a, &b).unwrap();
        assert_eq!((d.ks, d.js_bits), (0.0, 0.0));
        assert!(d.cells > 4);
    }

    #[test]
    fn quantiles_are_ends_of_bins() {
        let b = binned(&[100, 250, 260, 900], 100);
        assert_eq!(
            b.quantiles(&[50.0, 100.0]).unwrap(),
            [Bound::Below(300), Bound::Below(1000)]
        );
        let a = Counted::of_lengths(vec![1, 2, 3, 4]).above(3).unwrap();
        assert_eq!(
            a.quantiles(&[50.0, 100.0]).unwrap(),
            [Bound::Is(3), Bound::Is(4)]
        );
        assert!(b.clone().above(250).is_err());
        assert_eq!(b.above(300).unwrap().count(), 1);
    }

    #[test]
    fn bins_that_end_nowhere_together_cannot_be_compared() {
        let bin = |from_ns, until_ns| {
            let mut series = Series::new(0, Quantity::Length);
            series.bins.push(Bin {
                from_ns,
                until_ns,
                count: 1,
            });
            Counted::of_series(&[series], Quantity::Length)
        };
        let got = binned_distances(&bin(0, 10), &bin(5, 15));
        // Below 0, and from 15 on, both are known.
        assert!(got.is_ok_and(|d| d.ks == 0.0));
        let nothing = Counted::of_lengths(vec![]);
        assert!(binned_distances(&nothing, &bin(0, 1)).is_err());
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
            let fine = Counted::of_lengths(b.clone());
            for counted in [fine, binned(&b, width), binned(&b, other)] {
                if let Ok(d) = binned_distances(&binned(&a, width), &counted) {
                    prop_assert!(d.ks <= exact + 1e-9, "{} {exact}", d.ks);
                    prop_assert!((0.0..=1.0).contains(&d.js_bits));
                }
            }
        }
    }
}
