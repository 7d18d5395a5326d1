// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Discrete Fourier transform of a power of two of values.
//!
//! The values are put into bit-reversed order, and transforms of half the length are
//! joined pair by pair (Cooley and Tukey 1965). Halves are transformed depth first, so that
//! most of the work is on values that are in the cache.

use crate::complex::Complex;

/// A transform of one length; it may be applied many times.
#[derive(Debug)]
pub struct Fourier {
    /// The roots of unity of each level: `exp(-2 pi i k / n)` for `k` below `n / 2`, where `n`
    /// is 2, 4, ... the length.
    roots: Vec<Vec<Complex>>,
}

impl Fourier {
    /// # Panics
    /// Unless `length` is a power of two.
    pub fn new(length: usize) -> Self {
        assert!(length.is_power_of_two(), "{length} is no power of two");
        let step = -std::f64::consts::TAU / length as f64;
        let root = |k: usize| Complex::from_polar(1.0, step * k as f64);
        let longest: Vec<Complex> = (0..length / 2).map(root).collect();
        // The roots of half the length are every second one.
        let level = |above: &Vec<Complex>| {
            (above.len() > 1).then(|| above.iter().step_by(2).copied().collect())
        };
        let longest = Some(longest).filter(|roots| !roots.is_empty());
        let mut roots: Vec<_> = std::iter::successors(longest, level).collect();
        roots.reverse();
        Self { roots }
    }

    /// Replaces each value by `sum over j of x[j] exp(-2 pi i j k / n)`.
    ///
    /// # Panics
    /// Unless there are as many values as the length.
    pub fn transform(&self, values: &mut [Complex]) {
        let bits = self.roots.len() as u32;
        assert_eq!(values.len(), 1 << bits, "the length of the transform");
        for at in 1..values.len() {
            let reversed = at.reverse_bits() >> (usize::BITS - bits);
            if at < reversed {
                values.swap(at, reversed);
            }
        }
        join(values, &self.roots);
    }
}

fn join(values: &mut [Complex], roots: &[Vec<Complex>]) {
    let Some((roots, shorter)) = roots.split_last() else {
        return;
    };
    let (even, odd) = values.split_at_mut(roots.len());
    join(even, shorter);
    join(odd, shorter);
    for ((even, odd), root) in even.iter_mut().zip(odd).zip(roots) {
        let turned = *odd * *root;
        (*even, *odd) = (*even + turned, *even - turned);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<Complex>> {
        let value = (-1e3..1e3, -1e3..1e3).prop_map(|(re, im)| Complex::new(re, im));
        (0u32..9).prop_flat_map(move |bits| prop::collection::vec(value.clone(), 1 << bits))
    }

    fn transformed(values: &[Complex]) -> Vec<Complex> {
        let mut all = values.to_vec();
        Fourier::new(all.len()).transform(&mut all);
        all
    }

    fn direct(values: &[Complex], k: usize) -> Complex {
        let turn = -std::f64::consts::TAU / values.len() as f64;
        let term = |(j, value): (usize, &Complex)| {
            *value * Complex::from_polar(1.0, turn * (j * k % values.len()) as f64)
        };
        values.iter().enumerate().map(term).sum()
    }

    fn energy(values: &[Complex]) -> f64 {
        values.iter().map(Complex::norm_sqr).sum()
    }

    proptest! {
        #[test]
        fn it_is_the_sum_written_out(values in values()) {
            for (k, value) in transformed(&values).into_iter().enumerate() {
                prop_assert!((value - direct(&values, k)).norm_sqr() < 1e-12 * (1.0 + energy(&values)));
            }
        }

        #[test]
        fn energy_is_kept(values in values()) {
            let mean = energy(&transformed(&values)) / values.len() as f64;
            prop_assert!((mean - energy(&values)).abs() <= 1e-12 * energy(&values));
        }

        #[test]
        fn the_transform_of_the_conjugate_is_its_inverse(values in values()) {
            let forward: Vec<Complex> = transformed(&values).iter().map(Complex::conj).collect();
            let scale = 1.0 / values.len() as f64;
            for (back, value) in transformed(&forward).iter().zip(&values) {
                prop_assert!((back.conj() * scale - *value).norm_sqr() < 1e-12 * (1.0 + energy(&values)));
            }
        }
    }
}
