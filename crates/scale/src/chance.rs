// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers in streams: the same for a seed on every machine and for any number of
//! threads, because each piece of work has its own stream.

use sandbag_stats::chance::{GOLDEN, finish, mix};

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream with this number.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(finish(mix(seed) ^ stream.wrapping_mul(GOLDEN)))
    }

    fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        number
    }

    /// Uniform in (0, 1), both excluded.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform in 0 to `below`, excluded; 0 if that is 0.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_uniform_and_differ() {
        let mut chance = Chance::new(1, 2);
        let mean = (0..10_000).map(|_| chance.uniform()).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!((0..1000).all(|_| chance.below(7) < 7));
        assert_eq!(chance.below(0), 0);
        assert_ne!(Chance::new(1, 0).next(), Chance::new(1, 1).next());
        assert_ne!(Chance::new(1, 0).next(), Chance::new(2, 0).next());
    }
}
