// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When processes begin: a Poisson process, at the same rate all the time or
//! over a working day.

use crate::synth::chance::Drand48;

/// The rate over the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DailyRate {
    /// The same at any time.
    Always,
    /// From 08:30 to 18:00, most in the morning and in the afternoon
    /// (Calzarossa and Serazzi 1985); none at night, of which the model says
    /// nothing.
    WorkingDay {
        /// Hour of the day at which time 0 is.
        start_hour: f64,
    },
}

/// The largest time, 2^64 ns in seconds; what is later never happens.
const NEVER_S: f64 = u64::MAX as f64 / 1e9;

const DAY_S: f64 = 86_400.0;
const OPENS_S: f64 = 8.5 * 3600.0;
const CLOSES_S: f64 = 18.0 * 3600.0;

/// Rate over the working day, from -0.5 to 0.5, by ascending powers; its unit
/// is not told, so that only its shape is used.
const RATE: [f64; 9] = [
    3.1, -8.5, 24.7, 130.8, 107.7, -804.2, -2038.5, 1856.8, 4618.6,
];
/// The highest is 5.583, at 10:19.
const MOST: f64 = 5.584;

fn rate(t: f64) -> f64 {
    RATE.iter().rev().fold(0.0, |sum, factor| sum * t + factor)
}

/// The mean of the polynomial: odd powers cancel out.
fn mean_rate() -> f64 {
    let powers = RATE.iter().enumerate().step_by(2);
    powers
        .map(|(power, factor)| factor * libm::pow(0.5, power as f64) / (power + 1) as f64)
        .sum()
}

impl DailyRate {
    /// Time of the day, s.
    fn time_of_day(start_hour: f64, at_s: f64) -> f64 {
        let days = (start_hour * 3600.0 + at_s) / DAY_S;
        (days - libm::floor(days)) * DAY_S
    }

    /// The rate in parts of the highest.
    pub(super) fn part(self, at_s: f64) -> f64 {
        let Self::WorkingDay { start_hour } = self else {
            return 1.0;
        };
        let time = Self::time_of_day(start_hour, at_s);
        if (OPENS_S..CLOSES_S).contains(&time) {
            rate((time - OPENS_S) / (CLOSES_S - OPENS_S) - 0.5) / MOST
        } else {
            0.0
        }
    }

    /// The highest rate in parts of the mean: of all times, or of the working
    /// day.
    pub(super) fn most(self) -> f64 {
        match self {
            Self::Always => 1.0,
            Self::WorkingDay { .. } => MOST / mean_rate(),
        }
    }

    /// The next time at which anything arrives at all, from `at_s` on.
    fn open(self, at_s: f64) -> f64 {
        let Self::WorkingDay { start_hour } = self else {
            return at_s;
        };
        let time = Self::time_of_day(start_hour, at_s);
        if time < OPENS_S {
            at_s + (OPENS_S - time)
        } else if time >= CLOSES_S {
            at_s + (OPENS_S + DAY_S - time)
        } else {
            at_s
        }
    }

    /// The first arrival after `at_s`, where the highest rate is `most_per_s`;
    /// infinity if none comes.
    pub(super) fn next(self, at_s: f64, most_per_s: f64, chance: &mut Drand48) -> f64 {
        if most_per_s <= 0.0 {
            return f64::INFINITY;
        }
        // Those of the highest rate, thinned out (Lewis and Shedler 1979).
        let mut at_s = self.open(at_s);
        loop {
            at_s += chance.exponential(1.0 / most_per_s);
            // There a time has no time of the day: nothing would be let in.
            if at_s.is_nan() || at_s >= NEVER_S {
                return f64::INFINITY;
            }
            if self == Self::Always || chance.uniform() < self.part(at_s) {
                return at_s;
            }
            at_s = self.open(at_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_never_below_0_nor_above_its_highest() {
        for i in 0..=10_000 {
            let value = rate(f64::from(i) / 10_000.0 - 0.5);
            assert!(value > 0.0 && value < MOST, "{i}: {value}");
        }
        let sum: f64 = (0..10_000)
            .map(|i| rate((f64::from(i) + 0.5) / 10_000.0 - 0.5))
            .sum();
        assert!((sum / 10_000.0 - mean_rate()).abs() < 1e-5);
    }

    #[test]
    fn arrivals_follow_the_rate_by_the_hour() {
        let when = DailyRate::WorkingDay { start_hour: 8.0 };
        let mut chance = Drand48::new(1);
        let mean_per_s = 0.2;
        let days = 50.0;
        let mut halves = [0.0f64; 48];
        let mut at = 0.0;
        loop {
            at = when.next(at, mean_per_s * when.most(), &mut chance);
            if at >= days * DAY_S {
                break;
            }
            halves[DailyRate::time_of_day(8.0, at) as usize / 1800] += 1.0;
        }
        for (half, count) in halves.iter().enumerate() {
            let expected: f64 = (0..1800)
                .map(|s| {
                    let at_s = (half * 1800 + s) as f64 - 8.0 * 3600.0;
                    days * mean_per_s * when.most() * when.part(at_s)
                })
                .sum();
            // Four standard deviations of a Poisson number.
            assert!(
                (count - expected).abs() <= 4.0 * expected.sqrt(),
                "{half}: {count} {expected}"
            );
        }
        let all: f64 = halves.iter().sum();
        let expected = days * mean_per_s * (CLOSES_S - OPENS_S);
        assert!((all - expected).abs() < 4.0 * expected.sqrt(), "{all}");
    }

    #[test]
    fn nothing_ever_arrives_at_no_rate() {
        let mut chance = Drand48::new(1);
        let day = DailyRate::WorkingDay { start_hour: 8.0 };
        for rate in [0.0, f64::from_bits(1), 1e-308, 1e-300, 1e-30] {
            for when in [DailyRate::Always, day] {
                let next = when.next(0.0, rate, &mut chance);
                assert_eq!(next, f64::INFINITY, "{rate} {when:?}");
            }
        }
    }
}
