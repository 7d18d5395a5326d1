// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the events of a component are.

use sandbag_stats::Chance;

/// No event is longer: ten minutes.
const LONGEST_NS: f64 = 600e9;

/// A distribution of lengths. All times in ns.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// All of this length.
    Fixed(f64),
    /// The logarithm is normal.
    Lognormal {
        /// Half are shorter.
        median_ns: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// A least length, and an exponential one on top of it.
    Exponential {
        /// The shortest.
        least_ns: f64,
        /// Mean of what is on top.
        mean_ns: f64,
    },
    /// The share above x is `(least / x)^alpha`.
    Pareto {
        /// The shortest.
        least_ns: f64,
        /// Below 2 the spread, below 1 even the mean has no bound but that of
        /// the longest event (ten minutes).
        alpha: f64,
    },
    /// From quantiles at equal steps from 0 to 1, ascending; between two the
    /// logarithm is even.
    Quantiles(Vec<f64>),
    /// One of several, each with its share.
    Mixed(Vec<(f64, Lengths)>),
    /// Another, drawn again until it is within these bounds.
    Within {
        /// At least.
        least_ns: f64,
        /// Below that.
        below_ns: f64,
        of: Box<Lengths>,
    },
}

/// Draws before a bound is taken for what it cannot meet.
const MOST_DRAWS: u32 = 1000;
/// Quantiles that are kept of a recording. Of fewer, the few longest events would lie between
/// the last two, and lengths that no event has would be drawn between these.
const KEPT: usize = 1_000_001;

impl Lengths {
    pub const fn lognormal(median_ns: f64, sigma: f64) -> Self {
        Self::Lognormal { median_ns, sigma }
    }

    pub const fn exponential(least_ns: f64, mean_ns: f64) -> Self {
        Self::Exponential { least_ns, mean_ns }
    }

    pub const fn pareto(least_ns: f64, alpha: f64) -> Self {
        Self::Pareto { least_ns, alpha }
    }

    /// What these events have, by their quantiles; `None` without any.
    pub fn of_events(lengths_ns: &[u64]) -> Option<Self> {
        let mut sorted = lengths_ns.to_vec();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let steps = KEPT.min(sorted.len()).max(2) - 1;
        let at = |i: usize| {
            let place = i as f64 / steps as f64 * last as f64;
            let (low, high) = (sorted[place as usize], sorted[(place.ceil()) as usize]);
            low as f64 + (high - low) as f64 * place.fract()
        };
        Some(Self::Quantiles((0..=steps).map(at).collect()))
    }

    /// How long they are in the mean, ns, none longer than ten minutes; `None`
    /// where that is not known without drawing.
    pub fn mean_ns(&self) -> Option<f64> {
        let mean = match self {
            Self::Fixed(ns) => *ns,
            Self::Lognormal { median_ns, sigma } => median_ns * libm::exp(sigma * sigma / 2.0),
            Self::Exponential { least_ns, mean_ns } => least_ns + mean_ns,
            Self::Pareto { least_ns, alpha } => {
                // The least, and the integral of the share above up to the longest.
                let times = LONGEST_NS / least_ns;
                let more = if (alpha - 1.0).abs() < 1e-9 {
                    libm::log(times)
                } else {
                    (libm::pow(times, 1.0 - alpha) - 1.0) / (1.0 - alpha)
                };
                least_ns * (1.0 + more)
            }
            Self::Quantiles(quantiles) => {
                quantiles.iter().sum::<f64>() / quantiles.len().max(1) as f64
            }
            Self::Mixed(parts) => {
                let all: f64 = parts.iter().map(|(share, _)| share).sum();
                let of = |(share, lengths): &(f64, Self)| Some(share * lengths.mean_ns()?);
                parts.iter().map(of).sum::<Option<f64>>()? / all
            }
            Self::Within { .. } => return None,
        };
        Some(mean.min(LONGEST_NS))
    }

    /// Draws one, ns; at least 1.
    pub fn draw(&self, chance: &mut Chance) -> u64 {
        self.value(chance).round().clamp(1.0, LONGEST_NS) as u64
    }

    fn value(&self, chance: &mut Chance) -> f64 {
        match self {
            Self::Fixed(ns) => *ns,
            Self::Lognormal { median_ns, sigma } => median_ns * libm::exp(sigma * chance.normal()),
            Self::Exponential { least_ns, mean_ns } => least_ns + chance.exponential(*mean_ns),
            Self::Pareto { least_ns, alpha } => {
                least_ns * libm::pow(1.0 - chance.uniform(), -1.0 / alpha)
            }
            Self::Quantiles(quantiles) => {
                let last = quantiles.len().saturating_sub(1);
                let place = chance.uniform() * last as f64;
                let low = quantiles.get(place as usize).copied().unwrap_or(1.0);
                let high = quantiles.get(place as usize + 1).copied().unwrap_or(low);
                if low > 0.0 {
                    low * libm::pow(high / low, place.fract())
                } else {
                    low + (high - low) * place.fract()
                }
            }
            Self::Mixed(parts) => {
                let mut left = chance.uniform() * parts.iter().map(|part| part.0).sum::<f64>();
                let chosen = parts.iter().find(|(share, _)| {
                    left -= share;
                    left < 0.0
                });
                let chosen = chosen.or(parts.last());
                chosen.map_or(1.0, |(_, lengths)| lengths.value(chance))
            }
            Self::Within {
                least_ns,
                below_ns,
                of,
            } => {
                let mut drawn = || of.value(chance);
                let fits = |ns: &f64| (*least_ns..*below_ns).contains(ns);
                (0..MOST_DRAWS)
                    .map(|_| drawn())
                    .find(fits)
                    .unwrap_or(*least_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(lengths: &Lengths, count: usize) -> Vec<u64> {
        let mut chance = Chance::new(3, "lengths");
        let mut all: Vec<u64> = (0..count).map(|_| lengths.draw(&mut chance)).collect();
        all.sort_unstable();
        all
    }

    fn near(value: u64, expected: f64, part: f64) {
        let value = value as f64;
        assert!((value / expected - 1.0).abs() < part, "{value} {expected}");
    }

    #[test]
    fn quantiles_are_those_of_the_distributions() {
        const N: usize = 40_000;
        let quantile = |all: &[u64], part: f64| all[(part * N as f64) as usize];
        let all = draw(&Lengths::lognormal(5_000.0, 0.8), N);
        near(quantile(&all, 0.5), 5_000.0, 0.03);
        near(quantile(&all, 0.975), 5_000.0 * (0.8 * 1.96f64).exp(), 0.05);
        let all = draw(&Lengths::exponential(1_000.0, 2_000.0), N);
        assert!(all[0] >= 1_000);
        near(quantile(&all, 0.5), 1_000.0 + 2_000.0 * 2f64.ln(), 0.03);
        let all = draw(&Lengths::pareto(1_000.0, 2.0), N);
        assert!(all[0] >= 1_000);
        near(quantile(&all, 0.75), 2_000.0, 0.03);
        near(quantile(&all, 0.99), 10_000.0, 0.08);
    }

    #[test]
    fn the_few_long_events_of_a_recording_stay_few() {
        let mut recorded = draw(&Lengths::lognormal(5_000.0, 0.8), 100_000);
        recorded.extend([5_000_000; 5]);
        let all = draw(&Lengths::of_events(&recorded).unwrap(), 100_000);
        let long = all.iter().filter(|ns| **ns > 1_000_000).count();
        assert!(long <= 20, "{long}");
    }

    #[test]
    fn a_recording_has_its_own_quantiles_again() {
        let recorded: Vec<u64> = (0..5_000).map(|i| 100 + i * i / 1_000).collect();
        let lengths = Lengths::of_events(&recorded).unwrap();
        let all = draw(&lengths, 40_000);
        for part in [0.1, 0.5, 0.9, 0.99] {
            let expected = recorded[(part * 5_000.0) as usize] as f64;
            near(all[(part * 40_000.0) as usize], expected, 0.03);
        }
        assert!(*all.last().unwrap() <= *recorded.last().unwrap());
        assert_eq!(Lengths::of_events(&[]), None);
        assert_eq!(draw(&Lengths::of_events(&[7]).unwrap(), 3), [7, 7, 7]);
    }

    #[test]
    fn bounds_are_kept_and_nothing_is_endless() {
        let pareto = Lengths::pareto(100.0, 0.05);
        assert!(
            draw(&pareto, 1_000)
                .iter()
                .all(|ns| *ns <= LONGEST_NS as u64)
        );
        let within = Lengths::Within {
            least_ns: 200.0,
            below_ns: 300.0,
            of: Box::new(pareto),
        };
        assert!(
            draw(&within, 1_000)
                .iter()
                .all(|ns| (200..=300).contains(ns))
        );
        let never = Lengths::Within {
            least_ns: 5.0,
            below_ns: 6.0,
            of: Box::new(Lengths::Fixed(7.0)),
        };
        assert_eq!(draw(&never, 1), [5]);
    }
}
