// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shapes: the same on all CPUs, but for a shift.

use clap::Args;
use sandbag_ui::units;

use crate::{BoxSteps, Fault, Result};

use crate::synth::sampling::{LoadSource, sample_steps};

#[derive(Debug, Clone, Copy, PartialEq, Args)]
#[group(skip)]
pub struct Ramp {
    /// At the beginning, percent
    #[arg(id = "from-load", value_name = "FROM", value_parser = units::load)]
    pub from_pct: f64,
    /// At the end
    #[arg(id = "to-load", value_name = "TO", value_parser = units::load)]
    pub to_pct: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Args)]
#[group(skip)]
pub struct Sine {
    /// In the mean, percent
    #[arg(long = "mean", value_name = "MEAN", default_value = "50", value_parser = units::load)]
    pub mean_pct: f64,
    /// Above and below the mean, points
    #[arg(long = "amplitude", value_name = "AMPLITUDE", default_value = "30", value_parser = units::load)]
    pub amplitude_pct: f64,
    /// Length of a cycle
    #[arg(long = "cycle", value_name = "TIME", default_value = "1m", value_parser = seconds)]
    pub period_s: f64,
    /// By how many cycles each CPU is behind the one before
    #[arg(long, default_value = "0", allow_hyphen_values = true, value_parser = finite)]
    pub shift: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Args)]
#[group(skip)]
pub struct Square {
    /// In the first part of a cycle, percent
    #[arg(long = "high", value_name = "HIGH", default_value = "80", value_parser = units::load)]
    pub high_pct: f64,
    /// In the rest of it
    #[arg(long = "low", value_name = "LOW", default_value = "0", value_parser = units::load)]
    pub low_pct: f64,
    /// Length of a cycle
    #[arg(long = "cycle", value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub period_s: f64,
    /// The first part as a share of the cycle
    #[arg(long, default_value_t = 0.5)]
    pub duty: f64,
    /// By how many cycles each CPU is behind the one before
    #[arg(long, default_value = "0", allow_hyphen_values = true, value_parser = finite)]
    pub shift: f64,
}

/// A length of time, more than 0, in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    units::positive_duration(text).map(|time| time.as_secs_f64())
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("expected a number".to_owned()),
    }
}

/// A [`Ramp`] over the whole length.
///
/// # Errors
/// A step or length of 0.
pub fn ramp(ramp: Ramp, cpus: &[u32], step_ns: u64, length_ns: u64) -> Result<BoxSteps> {
    let length_s = length_ns as f64 / 1e9;
    let source =
        move |at: f64, _: f64, _| ramp.from_pct + (ramp.to_pct - ramp.from_pct) * at / length_s;
    sample_steps(Shape(source), cpus, step_ns, length_ns)
}

/// A [`Sine`]; a step has its mean over the step.
///
/// # Errors
/// A step or length of 0.
pub fn sine(sine: Sine, cpus: &[u32], step_ns: u64, length_ns: u64) -> Result<BoxSteps> {
    let source = move |at: f64, length_s: f64, cpu: usize| {
        let flat = flatness(length_s / sine.period_s);
        let cycles = at / sine.period_s - sine.shift * cpu as f64;
        sine.mean_pct + sine.amplitude_pct * flat * libm::sin(std::f64::consts::TAU * cycles)
    };
    sample_steps(Shape(source), cpus, step_ns, length_ns)
}

/// The mean of a sine over this number of cycles as a part of its value in their middle.
pub(super) fn flatness(cycles: f64) -> f64 {
    let half = std::f64::consts::PI * cycles;
    if half > 0.0 {
        libm::sin(half) / half
    } else {
        1.0
    }
}

/// A [`Square`]; a step has its mean over the step, so one in which an edge lies
/// is between the two loads.
///
/// # Errors
/// A step or length of 0.
pub fn square(square: Square, cpus: &[u32], step_ns: u64, length_ns: u64) -> Result<BoxSteps> {
    if !(0.0..=1.0).contains(&square.duty) {
        return Err(Fault::argument("duty", square.duty, "between 0 and 1").into());
    }
    // Cycles spent in the first part until then.
    let first = move |cycles: f64| {
        let whole = libm::floor(cycles);
        whole * square.duty + (cycles - whole).min(square.duty)
    };
    let source = move |at: f64, length_s: f64, cpu: usize| {
        let half = length_s / 2.0 / square.period_s;
        let middle = at / square.period_s - square.shift * cpu as f64;
        let share = (first(middle + half) - first(middle - half)) / (2.0 * half);
        // What is rounded away is far below what a profile holds.
        let share = (share * 1e9).round() / 1e9;
        square.low_pct + (square.high_pct - square.low_pct) * share
    };
    sample_steps(Shape(source), cpus, step_ns, length_ns)
}

/// A function of the middle of a step, its length, s, and the CPU's place.
struct Shape<F>(F);

impl<F: FnMut(f64, f64, usize) -> f64 + Send> LoadSource for Shape<F> {
    fn loads(&mut self, middle_s: f64, length_s: f64, loads: &mut [f64]) {
        for (cpu, load) in loads.iter_mut().enumerate() {
            *load = (self.0)(middle_s, length_s, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS_PER_S, Profile};

    #[test]
    fn a_shorter_last_step_has_its_own_mean() {
        let last = |steps: Result<BoxSteps>| loads(steps.unwrap(), 0).pop().unwrap();
        let wave = Sine {
            mean_pct: 50.0,
            amplitude_pct: 50.0,
            period_s: 10.0,
            shift: 0.0,
        };
        let found = last(sine(wave, &[0], 10 * NS_PER_S, 15 * NS_PER_S));
        assert!((found - (50.0 + 100.0 / std::f64::consts::PI)).abs() < 1e-9);
        let edges = Square {
            high_pct: 80.0,
            low_pct: 0.0,
            period_s: 3.0,
            duty: 0.5,
            shift: 0.0,
        };
        // Of 4 to 6 s it is high from 4 to 4.5 s.
        assert_eq!(last(square(edges, &[0], 4 * NS_PER_S, 6 * NS_PER_S)), 20.0);
    }

    fn loads(steps: BoxSteps, cpu: usize) -> Vec<f64> {
        let profile = Profile::collect(steps).unwrap();
        profile
            .steps
            .iter()
            .map(|s| s.cells[cpu].unwrap().load_pct)
            .collect()
    }

    #[test]
    fn a_ramp_is_met_in_the_middle_of_each_step() {
        let shape = Ramp {
            from_pct: 0.0,
            to_pct: 100.0,
        };
        let steps = ramp(shape, &[0], NS_PER_S, 4 * NS_PER_S).unwrap();
        assert_eq!(loads(steps, 0), [12.5, 37.5, 62.5, 87.5]);
    }

    #[test]
    fn a_sine_goes_around_its_mean() {
        let shape = Sine {
            mean_pct: 50.0,
            amplitude_pct: 40.0,
            period_s: 100.0,
            shift: 0.5,
        };
        let both: Vec<Vec<f64>> = (0..2)
            .map(|cpu| loads(sine(shape, &[0, 1], NS_PER_S, 100 * NS_PER_S).unwrap(), cpu))
            .collect();
        let mean = both[0].iter().sum::<f64>() / 100.0;
        assert!((mean - 50.0).abs() < 1e-9);
        // Half a cycle behind: where one is above the mean the other is below.
        assert!(
            both[0]
                .iter()
                .zip(&both[1])
                .all(|(a, b)| (a + b - 100.0).abs() < 1e-9)
        );
    }

    #[test]
    fn a_square_is_high_for_its_duty() {
        let shape = Square {
            high_pct: 80.0,
            low_pct: 10.0,
            period_s: 4.0,
            duty: 0.25,
            shift: 0.25,
        };
        let of = |cpu| loads(square(shape, &[0, 1], NS_PER_S, 4 * NS_PER_S).unwrap(), cpu);
        assert_eq!(of(0), [80.0, 10.0, 10.0, 10.0]);
        assert_eq!(of(1), [10.0, 80.0, 10.0, 10.0]);
        // Edges within steps: the mean stays.
        let shape = Square {
            period_s: 10.0,
            low_pct: 0.0,
            shift: 0.0,
            ..shape
        };
        let all = loads(square(shape, &[0], NS_PER_S, 10 * NS_PER_S).unwrap(), 0);
        assert_eq!(all[..4], [80.0, 80.0, 40.0, 0.0]);
        // Cycles shorter than a step.
        let shape = Square {
            period_s: 0.5,
            ..shape
        };
        let all = loads(square(shape, &[0], NS_PER_S, 3 * NS_PER_S).unwrap(), 0);
        assert_eq!(all, [20.0; 3]);
    }
}
