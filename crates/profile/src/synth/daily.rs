// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A day: a mean that depends on the hour, times an AR process around 1.

use crate::{BoxSteps, Fault, Result};

use crate::synth::autoregressive::Deviations;
use crate::synth::sampling::{LoadSource, sample_steps};
use crate::synth::shapes::flatness;

/// Hours of a day.
const HOURS: usize = 24;

/// The mean load by the time of day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Day {
    /// A sine.
    Wave {
        /// Over the day, percent.
        mean_pct: f64,
        /// Above and below it, points.
        amplitude_pct: f64,
        /// Hour of the highest load.
        peak_hour: f64,
    },
    /// A load for each hour, from midnight on, percent; it holds for the whole
    /// hour, so that it is the mean of it.
    Hours([f64; HOURS]),
}

impl Day {
    /// The mean of the hours around `hour`, as many as `length`.
    fn mean_pct(&self, hour: f64, length: f64) -> f64 {
        match self {
            Self::Wave {
                mean_pct,
                amplitude_pct,
                peak_hour,
            } => {
                let cycles = (hour - peak_hour) / HOURS as f64;
                let flat = flatness(length / HOURS as f64);
                mean_pct + amplitude_pct * flat * libm::cos(std::f64::consts::TAU * cycles)
            }
            Self::Hours(hours) => {
                let from = (hour - length / 2.0).rem_euclid(HOURS as f64);
                let until = from + length;
                if libm::floor(from) == libm::floor(until) {
                    return hours[hour as usize % HOURS];
                }
                (sum_until(hours, until) - sum_until(hours, from)) / length
            }
        }
    }
}

/// The loads of all hours before this moment, each as long as it lasts.
fn sum_until(hours: &[f64; HOURS], hour: f64) -> f64 {
    let days = libm::floor(hour / HOURS as f64);
    let hour = hour - days * HOURS as f64;
    let whole = (hour as usize).min(HOURS - 1);
    let before: f64 = hours[..whole].iter().sum();
    days * hours.iter().sum::<f64>() + before + hours[whole] * (hour - whole as f64)
}

/// A daily cycle times AR(p): where the mean is twice as high the load swings
/// twice as far.
#[derive(Debug, Clone, PartialEq)]
pub struct Daily {
    pub day: Day,
    /// How long the day is, s; what is shorter than 86400 is a day in small.
    pub day_s: f64,
    /// Time of the day at which the profile begins, h.
    pub start_hour: f64,
    /// Standard deviation of what is new in each step, percent of the mean at
    /// that hour.
    pub noise_pct: f64,
    /// Weights of the last values, the latest first.
    pub weights: Vec<f64>,
    /// Correlation between what is new on two CPUs, 0 to 1.
    pub correlation: f64,
    pub seed: u32,
}

/// Values beyond 0 to 100 are clipped and counted.
///
/// # Errors
/// A mean beyond 0 to 100 at some hour, a day without length, and what
/// [`autoregressive`](fn@crate::synth::autoregressive) refuses.
pub fn daily(model: Daily, cpus: &[u32], step_ns: u64, length_ns: u64) -> Result<BoxSteps> {
    check(&model)?;
    let source = Cycle {
        day: model.day,
        day_s: model.day_s,
        start_hour: model.start_hour,
        factors: Deviations::new(
            model.noise_pct / 100.0,
            model.weights,
            model.correlation,
            model.seed,
            cpus.len(),
        )?,
    };
    sample_steps(source, cpus, step_ns, length_ns)
}

fn check(model: &Daily) -> Result<()> {
    let refused = |what, value: f64, must| Err(Fault::argument(what, value, must).into());
    if !(model.day_s > 0.0 && model.day_s.is_finite()) {
        return refused("length of a day", model.day_s, "above 0");
    }
    let hours = 0.0..=HOURS as f64;
    if !hours.contains(&model.start_hour) {
        return refused("first hour", model.start_hour, "between 0 and 24");
    }
    let within = |load: &f64| (0.0..=100.0).contains(load);
    match &model.day {
        Day::Hours(loads) => match loads.iter().find(|load| !within(load)) {
            Some(load) => refused("load of an hour", *load, "between 0 and 100"),
            None => Ok(()),
        },
        Day::Wave {
            mean_pct,
            amplitude_pct,
            peak_hour,
        } => {
            if !hours.contains(peak_hour) {
                return refused("hour of the peak", *peak_hour, "between 0 and 24");
            }
            let ends = [mean_pct - amplitude_pct, mean_pct + amplitude_pct];
            if ends.iter().all(within) {
                Ok(())
            } else {
                refused(
                    "amplitude",
                    *amplitude_pct,
                    "such that the mean of every hour is between 0 and 100",
                )
            }
        }
    }
}

struct Cycle {
    day: Day,
    day_s: f64,
    start_hour: f64,
    /// Around 0, as parts of the mean.
    factors: Deviations,
}

impl LoadSource for Cycle {
    fn loads(&mut self, middle_s: f64, length_s: f64, loads: &mut [f64]) {
        let days = middle_s / self.day_s + self.start_hour / HOURS as f64;
        let hour = (days - libm::floor(days)) * HOURS as f64;
        let mean = self
            .day
            .mean_pct(hour, length_s / self.day_s * HOURS as f64);
        for (load, factor) in loads.iter_mut().zip(self.factors.next()) {
            *load = mean * (1.0 + factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS_PER_S, Steps};

    #[test]
    fn a_step_over_the_border_of_hours_has_a_part_of_each() {
        let mut hours = [0.0; HOURS];
        hours
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|load| *load = 100.0);
        let day = Day::Hours(hours);
        let means = [0.75, 2.25, 3.75].map(|middle| day.mean_pct(middle, 1.5));
        let expected = [100.0 / 3.0, 100.0 / 3.0, 200.0 / 3.0];
        for (mean, expected) in means.into_iter().zip(expected) {
            assert!((mean - expected).abs() < 1e-9, "{means:?}");
        }
        assert!((day.mean_pct(23.9, 48.0) - 50.0).abs() < 1e-9);
        assert_eq!(day.mean_pct(1.5, 1.0), 100.0);
    }

    const HOUR_S: u64 = 3600;
    const STEP_S: u64 = 60;
    const DAYS: u64 = 200;

    fn model(day: Day) -> Daily {
        Daily {
            day,
            day_s: 86_400.0,
            start_hour: 0.0,
            noise_pct: 5.0,
            weights: vec![0.9],
            correlation: 0.5,
            seed: 1,
        }
    }

    fn wave() -> Day {
        Day::Wave {
            mean_pct: 40.0,
            amplitude_pct: 20.0,
            peak_hour: 14.0,
        }
    }

    /// Mean load of the first CPU by the hour since the beginning, of one day.
    fn hourly(model: Daily) -> [f64; HOURS] {
        let length_ns = DAYS * 24 * HOUR_S * NS_PER_S;
        let mut steps = daily(model, &[0, 1], STEP_S * NS_PER_S, length_ns).unwrap();
        let mut sums = [0.0; HOURS];
        while let Some(step) = steps.next_step().unwrap() {
            let hour = step.start_ns / (HOUR_S * NS_PER_S) % 24;
            sums[hour as usize] += step.cells[0].unwrap().load_pct;
        }
        assert!(steps.warnings().is_empty(), "{:?}", steps.warnings());
        sums.map(|sum| sum / (DAYS * HOUR_S / STEP_S) as f64)
    }

    /// The factor has a standard deviation of 5 / sqrt(1 - 0.9^2) = 11.5 %; an
    /// hour has 60 steps, of which (1 + 0.9) / (1 - 0.9) = 19 say as much as
    /// one independent: 200 days say it to 0.46 %. Four times that.
    const WITHIN: f64 = 0.02;

    fn assert_means(got: [f64; HOURS], expected: impl Fn(usize) -> f64) {
        for (hour, mean) in got.iter().enumerate() {
            let off = mean / expected(hour) - 1.0;
            assert!(off.abs() < WITHIN, "{hour} h: {mean}");
        }
    }

    #[test]
    fn the_mean_of_an_hour_is_the_one_given() {
        let hours: [f64; HOURS] = std::array::from_fn(|hour| 10.0 + 2.0 * hour as f64);
        assert_means(hourly(model(Day::Hours(hours))), |hour| hours[hour]);
        // Begun at 20 h, the fifth hour is midnight's.
        let later = Daily {
            start_hour: 20.0,
            ..model(Day::Hours(hours))
        };
        assert_means(hourly(later), |hour| hours[(hour + 20) % HOURS]);
    }

    #[test]
    fn a_wave_is_highest_at_its_peak() {
        use std::f64::consts::TAU;
        // The mean of a cosine over an hour.
        let of = |hour: usize| {
            let sine = |at: f64| ((at - 14.0) / 24.0 * TAU).sin() * 24.0 / TAU;
            40.0 + 20.0 * (sine(hour as f64 + 1.0) - sine(hour as f64))
        };
        assert_means(hourly(model(wave())), of);
    }

    #[test]
    fn a_day_can_be_shorter() {
        let small = Daily {
            day_s: 24.0,
            noise_pct: 0.0,
            ..model(wave())
        };
        let mut steps = daily(small, &[0], NS_PER_S, 48 * NS_PER_S).unwrap();
        let mut loads = Vec::new();
        while let Some(step) = steps.next_step().unwrap() {
            loads.push(step.cells[0].unwrap().load_pct);
        }
        let most = loads.iter().copied().fold(0.0, f64::max);
        // 13 h to 14 h and 14 h to 15 h are as far from the peak.
        assert!((loads[13] - most).abs() < 1e-9 && (loads[14] - most).abs() < 1e-9);
        assert!((loads[3] - loads[27]).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut hours = [50.0; HOURS];
        hours[7] = 120.0;
        let beyond = Day::Wave {
            mean_pct: 50.0,
            amplitude_pct: 60.0,
            peak_hour: 14.0,
        };
        let late = Day::Wave {
            mean_pct: 50.0,
            amplitude_pct: 10.0,
            peak_hour: 25.0,
        };
        for day in [Day::Hours(hours), beyond, late] {
            assert!(daily(model(day), &[0], 1, 1).is_err(), "{day:?}");
        }
        for broken in [
            Daily {
                day_s: 0.0,
                ..model(wave())
            },
            Daily {
                start_hour: f64::NAN,
                ..model(wave())
            },
            Daily {
                weights: vec![1.0],
                ..model(wave())
            },
        ] {
            assert!(daily(broken.clone(), &[0], 1, 1).is_err(), "{broken:?}");
        }
    }
}
