// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chance without state: ranks that never talk to each other must come to the
//! same position.

/// The output function of SplitMix64 (Steele, Lea and Flood 2014), the same on
/// every machine.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The `n`-th value of a stream of a seed, uniform in 0 to `below` (excluded);
/// 0 if that is 0.
pub(crate) fn below(seed: u64, stream: u64, n: u64, below: u64) -> u64 {
    let value = mix(mix(mix(seed) ^ stream) ^ n);
    ((u128::from(value) * u128::from(below)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first output of SplitMix64 seeded with 0.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn values_are_spread_and_differ_by_seed_and_stream() {
        let all: Vec<u64> = (0..10_000).map(|n| below(1, 2, n, 100)).collect();
        assert!(all.iter().all(|value| *value < 100));
        for decile in 0..10 {
            let within = all.iter().filter(|value| **value / 10 == decile).count();
            assert!((850..1150).contains(&within), "{decile}: {within}");
        }
        assert_ne!(below(1, 0, 0, u64::MAX), below(2, 0, 0, u64::MAX));
        assert_ne!(below(1, 0, 0, u64::MAX), below(1, 1, 0, u64::MAX));
        assert_eq!(below(1, 0, 0, 0), 0);
    }
}
