// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers.

/// The generator of POSIX drand48(3): 48 bits, X' = 0x5DEECE66D X + 0xB. Good
/// enough for loads, and what the published C programs use, so that their
/// output can be reproduced.
#[derive(Debug, Clone)]
pub(crate) struct Drand48(u64);

const BITS: u32 = 48;

impl Drand48 {
    /// As srand48(3) seeds it.
    pub(crate) fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 16 | 0x330E)
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << BITS) - 1);
        self.0 as f64 / (1u64 << BITS) as f64
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is never 0.
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Standard normal (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Gamma of this shape and scale: the sum of exponentials for the whole
    /// part of the shape, and for the rest one times a beta variate (Jöhnk
    /// 1964), in the order in which Lublin's program draws.
    pub(crate) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        let whole = libm::floor(shape);
        let rest = shape - whole;
        let mut sum = 0.0;
        for _ in 0..whole as u64 {
            sum -= libm::log(self.uniform());
        }
        sum *= scale;
        if rest > 0.0 {
            let beta = loop {
                let x = libm::pow(self.uniform(), 1.0 / rest);
                let y = libm::pow(self.uniform(), 1.0 / (1.0 - rest));
                if x + y <= 1.0 {
                    break x / (x + y);
                }
            };
            sum += scale * beta * -libm::log(self.uniform());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_posix() {
        // srand48(1); drand48() three times (glibc).
        let mut chance = Drand48::new(1);
        for expected in [
            0.041_630_344_771_878,
            0.454_492_444_728_629,
            0.834_817_218_166_915,
        ] {
            assert!((chance.uniform() - expected).abs() < 1e-12);
        }
    }

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        const N: usize = 100_000;
        let values: Vec<f64> = (0..N).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / N as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / N as f64;
        (mean, variance)
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut chance = Drand48::new(7);
        let (mean, variance) = moments(|| chance.normal());
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03,
            "{mean} {variance}"
        );
        let (mean, variance) = moments(|| chance.exponential(3.0));
        assert!(
            (mean - 3.0).abs() < 0.05 && (variance - 9.0).abs() < 0.4,
            "{mean} {variance}"
        );
        // E = shape * scale, Var = shape * scale^2.
        for (shape, scale) in [(0.4, 2.0), (3.0, 0.5), (6.57, 0.823)] {
            let (mean, variance) = moments(|| chance.gamma(shape, scale));
            let (e, v) = (shape * scale, shape * scale * scale);
            assert!((mean / e - 1.0).abs() < 0.03, "{shape} {mean}");
            assert!((variance / v - 1.0).abs() < 0.06, "{shape} {variance}");
        }
    }
}
