// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that are the same on every machine: xoshiro256++ (Blackman
//! and Vigna 2019), seeded by SplitMix64 from a seed and a name, so that each
//! component on each CPU has numbers of its own, whatever the others use.

/// The generator, for messages.
pub const GENERATOR: &str = "xoshiro256++";

/// A row of random numbers.
#[derive(Debug, Clone)]
pub struct Chance([u64; 4]);

impl Chance {
    /// The row of this name for a seed.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: names are few and short.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut state = seed ^ hash;
        Self([(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `end`, which is above 0; the bias of the remainder is
    /// below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is never 0.
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_reference() {
        // xoshiro256++ of the state 1, 2, 3, 4 (the authors' C program).
        let mut chance = Chance([1, 2, 3, 4]);
        let first = [(); 4].map(|()| chance.bits());
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn names_have_rows_of_their_own() {
        assert_eq!(Chance::new(1, "a").bits(), Chance::new(1, "a").bits());
        assert_ne!(Chance::new(1, "a").bits(), Chance::new(1, "b").bits());
        assert_ne!(Chance::new(1, "a").bits(), Chance::new(2, "a").bits());
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        const N: usize = 100_000;
        let mut chance = Chance::new(7, "moments");
        let mean = (0..N).map(|_| chance.exponential(3.0)).sum::<f64>() / N as f64;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let normals: Vec<f64> = (0..N).map(|_| chance.normal()).collect();
        let mean = normals.iter().sum::<f64>() / N as f64;
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / N as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03);
    }
}
