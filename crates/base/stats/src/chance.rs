// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that are the same on every machine: xoshiro256++ (Blackman
//! and Vigna 2019), seeded by SplitMix64 from a seed and a name, so that each
//! component on each CPU has numbers of its own, whatever the others use.
//!
//! And SplitMix64 itself (Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", OOPSLA 2014), as a function of seed, stream and index:
//! processes that use the same three get the same number without
//! communication. The library inside programs has it in C (crates/jitter/c),
//! and a test there compares the two.

/// The generator, for messages.
pub const GENERATOR: &str = "xoshiro256++";

/// What SplitMix64 adds to its state: 2^64 divided by the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64: what it gives from this state.
pub fn mix(state: u64) -> u64 {
    finish(state.wrapping_add(GOLDEN))
}

/// The same after the state was added to.
pub fn finish(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `n`-th value of a stream of a seed, uniform in 0 to `below` (excluded);
/// 0 if that is 0.
pub fn draw(seed: u64, stream: u64, n: u64, below: u64) -> u64 {
    let value = mix(mix(mix(seed) ^ stream) ^ n);
    ((u128::from(value) * u128::from(below)) >> 64) as u64
}

/// A row of random numbers.
#[derive(Debug, Clone)]
pub struct Chance([u64; 4]);

impl Chance {
    /// The row of this name for a seed.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: names are few and short.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut state = seed ^ hash;
        Self([(); 4].map(|()| {
            let number = mix(state);
            state = state.wrapping_add(GOLDEN);
            number
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
    fn the_mixer_is_the_published_one() {
        // The first outputs of the authors' program, seeded with 0.
        for (n, output) in [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
            0xf88b_b8a8_724c_81ec,
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(mix(GOLDEN.wrapping_mul(n as u64)), output);
        }
    }

    #[test]
    fn draws_are_spread_and_differ_by_seed_and_stream() {
        let all: Vec<u64> = (0..10_000).map(|n| draw(1, 2, n, 100)).collect();
        assert!(all.iter().all(|value| *value < 100));
        for decile in 0..10 {
            let within = all.iter().filter(|value| **value / 10 == decile).count();
            assert!((850..1150).contains(&within), "{decile}: {within}");
        }
        assert_ne!(draw(1, 0, 0, u64::MAX), draw(2, 0, 0, u64::MAX));
        assert_ne!(draw(1, 0, 0, u64::MAX), draw(1, 1, 0, u64::MAX));
        assert_eq!(draw(1, 0, 0, 0), 0);
    }

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
