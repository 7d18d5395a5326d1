// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arrivals with a daily cycle: each interval is drawn as a number of points,
//! and each half hour of the day has its number of points.

use super::parameters::Parameters;
use super::{ArrivalClock, Options};
use crate::synth::chance::Drand48;

/// Half hours of a day.
const BUCKETS: usize = 48;
/// Their length, s.
const BUCKET_S: f64 = 1800.0;
/// The day of the fit begins at half hour 11, 05:30.
const FIRST: usize = 11;
/// Days from which on they are not walked through by the bucket; never at the
/// published rate (e^13 s are 5 days).
const FAR: f64 = 100.0;
/// Intervals with a larger logarithm are drawn again.
const MOST_LN_INTERVAL: f64 = 13.0;

/// When jobs of a kind arrive.
#[derive(Debug, Clone)]
pub struct Arrivals {
    weights: [f64; BUCKETS],
    clock: ArrivalClock,
    rate: f64,
    bucket: usize,
    points: f64,
    /// Part of the bucket that is over.
    over: f64,
    next_s: f64,
}

impl Arrivals {
    /// The first arrival is drawn.
    pub fn new(parameters: &Parameters, options: &Options, chance: &mut Drand48) -> Self {
        let mut arrivals = Self {
            weights: weights(parameters),
            clock: options.clock,
            rate: options.rate,
            bucket: 2 * options.start_hour as usize % BUCKETS,
            points: 0.0,
            over: 0.0,
            next_s: 0.0,
        };
        arrivals.draw(parameters, chance);
        arrivals
    }

    /// Time of the next arrival, s.
    pub fn next_s(&self) -> f64 {
        self.next_s
    }

    /// Draws the arrival after it.
    pub fn draw(&mut self, p: &Parameters, chance: &mut Drand48) {
        let ln = loop {
            let ln = chance.gamma(p.aarr * p.arar, p.barr);
            if ln <= MOST_LN_INTERVAL {
                break ln;
            }
        };
        self.points += libm::exp(ln) / BUCKET_S / self.rate;
        let mut interval_s = 0.0;
        // Whole days first: each is worth as many points as it has buckets.
        let day = BUCKETS as f64;
        if self.points > FAR * day {
            let days = libm::floor(self.points / day);
            self.points -= days * day;
            interval_s += days * day * BUCKET_S;
        }
        while self.points > self.weights[self.bucket] {
            self.points -= self.weights[self.bucket];
            self.bucket = (self.bucket + 1) % BUCKETS;
            interval_s += BUCKET_S;
        }
        let over = self.points / self.weights[self.bucket];
        interval_s += BUCKET_S * (over - self.over);
        self.over = over;
        self.next_s += match self.clock {
            ArrivalClock::Exact => interval_s,
            ArrivalClock::WholeSeconds => libm::floor(interval_s),
        };
    }
}

/// What each half hour is worth; 1 in the mean.
fn weights(p: &Parameters) -> [f64; BUCKETS] {
    let mut weights = [1.0; BUCKETS];
    let cdf = |half_hours: f64| lower_gamma(p.anum, half_hours / p.bnum);
    for half_hour in FIRST..FIRST + BUCKETS {
        let at = half_hour as f64;
        weights[(half_hour - 1) % BUCKETS] = cdf(at + 0.5) - cdf(at - 0.5);
    }
    let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
    weights.map(|weight| weight / mean)
}

/// The regularised lower incomplete gamma function by its series (Abramowitz
/// and Stegun 6.5.29), for the moderate arguments here. Not a library's: those
/// use the C library's logarithm, whose last bit depends on the processor.
fn lower_gamma(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut n = a;
    while term > sum * f64::EPSILON / 4.0 {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    sum * libm::exp(a * libm::log(x) - x - libm::lgamma(a))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::ALL;
    use super::*;

    #[test]
    fn the_incomplete_gamma_is_a_librarys() {
        use statrs::function::gamma::gamma_lr;
        for a in [6.1271, 8.1737, 8.9186] {
            for x in [0.1, 1.0, 5.0, 10.0, 16.0] {
                assert!(
                    (lower_gamma(a, x) - gamma_lr(a, x)).abs() < 1e-13,
                    "{a} {x}"
                );
            }
        }
    }

    #[test]
    fn the_daily_cycle_is_the_published_one() {
        let weights = weights(&ALL);
        let share = |hour: usize| (weights[2 * hour] + weights[2 * hour + 1]) / BUCKETS as f64;
        // Shares of the hours 0, 4, 8, 13 and 20.
        for (hour, expected) in [
            (0, 0.0201),
            (4, 0.0078),
            (8, 0.0371),
            (13, 0.0761),
            (20, 0.0426),
        ] {
            assert!(
                (share(hour) - expected).abs() < 1e-4,
                "{hour}: {}",
                share(hour)
            );
        }
    }
}
