// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far two sets of lengths lie apart.
//!
//! The paper gives a Kullback-Leibler divergence that is not normalised and
//! whose formula is not printed (18117 without a scale factor, 873 with 3), so
//! no figure here can be held against it. Ours is of densities on a stated
//! grid, each mixed with a little of the uniform one, without which a single
//! length that only one of the two has would make it infinite.

use serde::{Deserialize, Serialize};

use super::density::{Density, Grid};

/// Part of the uniform density in each.
const UNIFORM: f64 = 1e-6;

/// Distances of two sets of lengths, the first being the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Kullback-Leibler divergence of the other from the reference, bits:
    /// what is lost by taking the other for it.
    pub kl_bits: f64,
    pub kl_back_bits: f64,
    /// Jensen-Shannon divergence, bits, 0 to 1.
    pub js_bits: f64,
    /// Kolmogorov-Smirnov distance, 0 to 1, exact.
    pub ks: f64,
    /// Wasserstein distance of the logarithms, decades: how far an event has
    /// to be moved in the mean.
    pub wasserstein_decades: f64,
}

/// Compares lengths; `None` if one of the sets is empty. Both densities have
/// the bandwidth of the reference.
pub fn distances(reference_ns: &[u64], other_ns: &[u64], grid: Grid) -> Option<Distances> {
    let p = Density::of(reference_ns, grid, None)?;
    let q = Density::of(other_ns, grid, Some(p.bandwidth))?;
    let (kl_bits, kl_back_bits, js_bits) = divergences(&p.values, &q.values, grid);
    let (ks, wasserstein_decades) = of_distributions(reference_ns, other_ns);
    Some(Distances {
        kl_bits,
        kl_back_bits,
        js_bits,
        ks,
        wasserstein_decades,
    })
}

/// Kullback-Leibler both ways and Jensen-Shannon, bits, of two densities whose
/// integrals are 1.
pub(super) fn divergences(p: &[f64], q: &[f64], grid: Grid) -> (f64, f64, f64) {
    let uniform = 1.0 / (grid.until - grid.from);
    let mixed = |value: f64| value * (1.0 - UNIFORM) + uniform * UNIFORM;
    let (mut there, mut back, mut between) = (0.0, 0.0, 0.0);
    for (p, q) in p.iter().zip(q) {
        let (p, q) = (mixed(*p), mixed(*q));
        let middle = (p + q) / 2.0;
        there += p * (p / q).log2();
        back += q * (q / p).log2();
        between += (p * (p / middle).log2() + q * (q / middle).log2()) / 2.0;
    }
    let integral = |sum: f64| (sum * grid.step()).max(0.0);
    (integral(there), integral(back), integral(between))
}

/// Kolmogorov-Smirnov and Wasserstein, from the empirical distributions.
fn of_distributions(a: &[u64], b: &[u64]) -> (f64, f64) {
    let sorted = |values: &[u64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let (mut i, mut j) = (0, 0);
    let (mut largest, mut area) = (0.0f64, 0.0);
    let mut last: Option<f64> = None;
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => *x.min(y),
            (Some(x), None) => *x,
            (None, Some(y)) => *y,
            (None, None) => break,
        };
        let log = (next.max(1) as f64).log10();
        let apart = (i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs();
        area += apart * last.map_or(0.0, |last| log - last);
        last = Some(log);
        while a.get(i) == Some(&next) {
            i += 1;
        }
        while b.get(j) == Some(&next) {
            j += 1;
        }
        largest = largest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    (largest, area)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_sets_are_at_no_distance() {
        let lengths = [100, 200, 200, 5_000, 70_000];
        let d = distances(&lengths, &lengths, Grid::standard()).unwrap();
        assert_eq!((d.ks, d.wasserstein_decades), (0.0, 0.0));
        assert!(d.kl_bits < 1e-12 && d.js_bits < 1e-12);
        assert_eq!(distances(&lengths, &[], Grid::standard()), None);
    }

    #[test]
    fn ten_times_as_long_is_a_decade() {
        let a: Vec<u64> = (1..=1000).map(|i| i * 1000).collect();
        let b: Vec<u64> = a.iter().map(|ns| ns * 10).collect();
        let d = distances(&a, &b, Grid::standard()).unwrap();
        assert!((d.wasserstein_decades - 1.0).abs() < 1e-9);
        assert!((d.ks - 0.9).abs() < 1e-9);
        assert!(d.js_bits > 0.3 && d.js_bits <= 1.0);
    }

    #[test]
    fn sets_without_a_common_length_are_as_far_apart_as_can_be() {
        let d = distances(&[100; 50], &[1_000_000; 50], Grid::standard()).unwrap();
        assert_eq!(d.ks, 1.0);
        assert!((d.wasserstein_decades - 4.0).abs() < 1e-9);
        assert!(d.js_bits > 0.99 && d.kl_bits.is_finite() && d.kl_bits > 10.0);
    }

    proptest! {
        #[test]
        fn distances_are_finite_and_symmetric_where_they_should_be(
            a in prop::collection::vec(1u64..1_000_000_000, 1..100),
            b in prop::collection::vec(1u64..1_000_000_000, 1..100),
        ) {
            let one = distances(&a, &b, Grid::standard()).unwrap();
            let two = distances(&b, &a, Grid::standard()).unwrap();
            prop_assert!((one.ks - two.ks).abs() < 1e-12);
            prop_assert!((one.wasserstein_decades - two.wasserstein_decades).abs() < 1e-9);
            prop_assert!((0.0..=1.0 + 1e-9).contains(&one.js_bits));
            prop_assert!(one.kl_bits.is_finite() && one.kl_back_bits.is_finite());
        }
    }
}
