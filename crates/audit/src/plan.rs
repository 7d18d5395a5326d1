// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs where in which order, and when there is enough of it. Pure.
//!
//! In a round every CPU runs each of a test's lengths once. The CPUs of one
//! length follow each other directly and in random order: a block. So the
//! machine's drift falls on all of them, and on no CPU more than on another.
//! Tests take turns, a round each, in an order of chance as well: what disturbs a
//! CPU for seconds falls on a few rounds of each of them.

use std::time::Duration;

use sandbag_stats::Chance;

use crate::effects::TestLevel;
use crate::options::AuditOptions;

/// How much longer each length is than the one before.
const FACTORS: [u64; 3] = [1, 2, 4];
/// Lengths of a test, but for commands, which have one.
pub const LENGTHS: usize = FACTORS.len();

/// The lengths of a test of which a unit takes `unit_ns`: the longest about
/// `longest`, each of at least one unit, no two the same.
pub fn lengths(unit_ns: f64, longest: Duration) -> Vec<u64> {
    let most = FACTORS[FACTORS.len() - 1] as f64;
    let unit_ns = unit_ns.max(1e-3);
    let units = longest.as_nanos() as f64 / most / unit_ns;
    from_shortest(units.clamp(1.0, 1e15) as u64)
}

/// The lengths whose shortest has `units` units.
pub fn from_shortest(units: u64) -> Vec<u64> {
    FACTORS
        .iter()
        .map(|factor| units.max(1).saturating_mul(*factor))
        .collect()
}

/// The lengths with which each CPU does `units` units in `rounds` rounds.
pub fn in_all(units: u64, rounds: u32) -> Vec<u64> {
    let each: u64 = FACTORS.iter().sum::<u64>() * u64::from(rounds.max(1));
    from_shortest(units.div_ceil(each))
}

/// A block: a length, and the CPUs in the order in which they run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBlock {
    /// Which of the lengths.
    pub length: usize,
    pub cpus: Vec<u32>,
}

/// The blocks of a round, in their order; the same for the same seed.
pub fn round(seed: u64, test: &str, round: u32, lengths: usize, cpus: &[u32]) -> Vec<OrderBlock> {
    let mut chance = Chance::new(seed, &format!("audit {test} {round}"));
    let mut order: Vec<usize> = (0..lengths).collect();
    shuffle(&mut order, &mut chance);
    order
        .into_iter()
        .map(|length| {
            let mut cpus = cpus.to_vec();
            shuffle(&mut cpus, &mut chance);
            OrderBlock { length, cpus }
        })
        .collect()
}

/// The order in which tests have their turns; the same for the same seed.
pub fn order(seed: u64, round: u32, tests: &[usize]) -> Vec<usize> {
    let mut chance = Chance::new(seed, &format!("audit turns {round}"));
    let mut order = tests.to_vec();
    shuffle(&mut order, &mut chance);
    order
}

fn shuffle<T>(all: &mut [T], chance: &mut Chance) {
    for last in (1..all.len()).rev() {
        let other = chance.below(last as u64 + 1) as usize;
        all.swap(last, other);
    }
}

/// The fewest rounds that can decide anything if a CPU is slower in every run. By
/// ranks, one CPU has to be the slowest or the fastest of all blocks with less
/// probability than the level; by means, their statistic, at most the root of the
/// number of blocks times that of the other CPUs, has to be beyond the level.
pub fn rounds_needed(cpus: usize, level: TestLevel, lengths: usize) -> u32 {
    if cpus < 2 || level.comparisons == 0 {
        return 0;
    }
    let by_ranks = (2.0 / level.joint_alpha()).ln() / (cpus as f64).ln();
    let by_means = level.z().powi(2) / (cpus - 1) as f64;
    (by_ranks.max(by_means) / lengths.max(1) as f64).ceil() as u32
}

/// When a test has enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// Fewest and most rounds.
    pub rounds: (u32, u32),
    pub limit: Duration,
    /// To one side, percent.
    pub precision_pct: f64,
}

impl StopRule {
    pub fn of(options: &AuditOptions) -> Self {
        Self {
            rounds: options.rounds,
            limit: options.limit,
            precision_pct: options.precision_pct,
        }
    }

    /// Whether to look at the width of the intervals now: that takes a while,
    /// and the width halves with four times the rounds.
    pub fn looks(&self, done: u32) -> bool {
        done >= self.rounds.0 && (done - self.rounds.0).is_multiple_of((self.rounds.0 / 4).max(1))
    }

    /// Whether the test is over after `done` rounds. Looks at the width of the
    /// intervals, never at their position: a test that ends when it finds something
    /// finds too much.
    pub fn is_reached(&self, done: u32, took: Duration, half_width_pct: Option<f64>) -> bool {
        if done < self.rounds.0 {
            return false;
        }
        done >= self.rounds.1
            || took >= self.limit
            || half_width_pct.is_some_and(|half| half <= self.precision_pct)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_one_two_four() {
        assert_eq!(
            lengths(1000.0, Duration::from_millis(160)),
            [40_000, 80_000, 160_000]
        );
        // A unit that takes longer than all of them.
        assert_eq!(lengths(1e12, Duration::from_millis(160)), [1, 2, 4]);
        assert_eq!(in_all(8_000_000, 12), [95_239, 190_478, 380_956]);
        let calls: u64 = in_all(8_000_000, 12).iter().sum::<u64>() * 12;
        assert!((8_000_000..8_000_100).contains(&calls));
    }

    #[test]
    fn the_width_ends_a_test_and_not_before_the_fewest_rounds() {
        let enough = StopRule {
            rounds: (5, 20),
            limit: Duration::from_secs(10),
            precision_pct: 0.5,
        };
        let short = Duration::from_secs(1);
        assert!(!enough.is_reached(4, Duration::from_secs(60), Some(0.1)));
        assert!(enough.is_reached(5, short, Some(0.5)));
        assert!(!enough.is_reached(5, short, Some(0.6)));
        assert!(!enough.is_reached(5, short, None));
        assert!(enough.is_reached(20, short, None));
        assert!(enough.is_reached(6, Duration::from_secs(10), None));
        assert!(enough.looks(5) && enough.looks(6) && !enough.looks(4));
    }

    #[test]
    fn a_few_rounds_can_decide_nothing() {
        let level = |comparisons| TestLevel {
            confidence: 0.99,
            comparisons,
        };
        // 2^-14 to either side are less than 1 % of 80.
        assert_eq!(rounds_needed(2, level(80), LENGTHS), 5);
        assert_eq!(rounds_needed(2, level(5), LENGTHS), 4);
        assert!(rounds_needed(64, level(2000), LENGTHS) <= 12);
        // A command has a third of the blocks.
        assert_eq!(rounds_needed(2, level(5), 1), 10);
        // 4^-6 to either side are less than 1 % of 20.
        assert_eq!(rounds_needed(4, level(20), 1), 6);
        assert_eq!(rounds_needed(1, level(0), LENGTHS), 0);
    }

    proptest! {
        #[test]
        fn in_a_round_every_cpu_runs_every_length_once(
            seed: u64,
            round_number in 0u32..1000,
            lengths in 1usize..5,
            cpus in prop::collection::btree_set(0u32..300, 1..20),
        ) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let blocks = round(seed, "x", round_number, lengths, &cpus);
            prop_assert_eq!(&blocks, &round(seed, "x", round_number, lengths, &cpus));
            let mut seen: Vec<usize> = blocks.iter().map(|block| block.length).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths).collect::<Vec<_>>());
            for block in blocks {
                let mut of = block.cpus.clone();
                of.sort_unstable();
                prop_assert_eq!(&of, &cpus);
            }
        }
    }

    #[test]
    fn each_cpu_is_first_as_often_as_the_others() {
        let firsts =
            (0..3000).filter(|number| round(1, "x", *number, 1, &[3, 5, 9])[0].cpus[0] == 5);
        let firsts = firsts.count();
        assert!((900..1100).contains(&firsts), "{firsts}");
    }
}
