// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The models and their options.

use std::path::PathBuf;
use std::time::Duration;

use crate::Format;
use crate::synth::{Autoregressive, OnOff, Ramp, Sine, Square};
use clap::{Args, Subcommand};

use crate::command::profile_output;
use sandbag_ui::output::Overwrite;
use sandbag_ui::units::{self, Cpus};

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// The same load all the time
    Constant {
        /// Percent of one CPU
        #[arg(value_name = "LOAD", value_parser = units::load)]
        load: f64,
        #[command(flatten)]
        out: SynthOutput,
    },
    /// One load after another: 20:10s 80:5s
    Steps {
        /// Load and how long, in turn
        #[arg(required = true, value_name = "LOAD:TIME", value_parser = piece)]
        pieces: Vec<(f64, Duration)>,
        #[command(flatten)]
        out: OutWithoutLength,
    },
    /// From one load to another over the whole length
    Ramp {
        #[command(flatten)]
        shape: Ramp,
        #[command(flatten)]
        sampled: StepModel,
    },
    /// Up and down
    Sine {
        #[command(flatten)]
        shape: Sine,
        #[command(flatten)]
        sampled: StepModel,
    },
    /// Busy and not, in turn
    Square {
        #[command(flatten)]
        shape: Square,
        #[command(flatten)]
        sampled: StepModel,
    },
    /// Random on and off: a Markov chain of two states, on each CPU by itself
    Onoff {
        #[command(flatten)]
        model: OnOff,
        #[command(flatten)]
        out: SynthOutput,
    },
    /// AR(p): each value a weighted sum of the last ones and of something new
    Ar {
        #[command(flatten)]
        model: Autoregressive,
        #[command(flatten)]
        sampled: StepModel,
    },
    /// A daily cycle times AR(p): loads swing around the mean of the hour
    ///
    /// The mean by the hour is a sine, or 24 loads (--hours), each of which holds
    /// for its hour. The load is that mean times an AR(p) process around 1.
    #[command(mut_arg("duration", |arg| arg.default_value("24h")))]
    #[command(mut_arg("step", |arg| arg.default_value("1m")))]
    Daily {
        /// Over the day, percent
        #[arg(long, default_value = "40", value_parser = units::load)]
        mean: f64,
        /// Above and below the mean, points
        #[arg(long, default_value = "25", value_parser = units::load)]
        amplitude: f64,
        /// Hour of the highest load
        #[arg(long, default_value_t = 14.0, value_name = "HOUR", value_parser = hour)]
        peak: f64,
        /// 24 loads instead of the sine, from midnight on: 5,5,4,...
        #[arg(long, value_name = "LOADS", value_parser = hours, conflicts_with_all = ["mean", "amplitude", "peak"])]
        hours: Option<Box<[f64; 24]>>,
        /// Time of the day at which the profile begins
        #[arg(long, default_value_t = 0.0, value_name = "HOUR", value_parser = hour)]
        start_hour: f64,
        /// How long the day is
        #[arg(long, default_value = "24h", value_name = "TIME", value_parser = units::positive_duration)]
        day: Duration,
        /// Weights of the last values, the latest first
        #[arg(
            long,
            default_value = "0.9",
            value_delimiter = ',',
            allow_hyphen_values = true
        )]
        weights: Vec<f64>,
        /// Standard deviation of what is new in each step, percent of the mean
        /// of the hour
        #[arg(long, default_value_t = 5.0)]
        noise: f64,
        /// Correlation of what is new between CPUs, 0 to 1
        #[arg(long, default_value_t = 0.0)]
        correlation: f64,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        sampled: StepModel,
    },
    /// Background processes: Poisson arrivals on each CPU, Pareto run times
    /// (Leland and Ott 1986)
    ///
    /// P(run > t) = t^EXPONENT for t > 1 s, up to the longest time. Each process
    /// takes its share of the CPU as long as it runs; loads of several at once
    /// are added and cut off at 100 %.
    Background {
        /// Mean load, percent; makes the rate of arrivals
        #[arg(long, default_value = "20", value_parser = units::load)]
        load: f64,
        /// Processes that begin on each CPU, per second, instead of a load
        #[arg(long, value_name = "PER-SECOND", conflicts_with = "load", value_parser = rate)]
        rate: Option<f64>,
        /// What a process takes of its CPU, percent
        #[arg(long, default_value = "100", value_parser = units::load)]
        share: f64,
        /// Exponent of the run times; -1.3 to -0.8 were found
        #[arg(long, default_value_t = -1.0, allow_hyphen_values = true)]
        exponent: f64,
        /// The longest run time
        #[arg(long, default_value = "1h", value_name = "TIME", value_parser = units::positive_duration)]
        longest: Duration,
        /// Arrivals from 08:30 to 18:00 only, most in the morning and in the
        /// afternoon (Calzarossa and Serazzi 1985); load and rate are those of
        /// these hours
        #[arg(long)]
        working_day: bool,
        /// Time of the day at which the profile begins
        #[arg(long, default_value_t = 8.0, value_name = "HOUR", value_parser = hour, requires = "working_day")]
        start_hour: f64,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        out: SynthOutput,
    },
    /// Jobs of a parallel machine (Lublin and Feitelson 2003), first come first
    /// served on the CPUs
    ///
    /// With a daily cycle of arrivals. Sizes are fitted to the number of CPUs; a
    /// CPU on which a job runs is busy, the others are not. On few CPUs the
    /// published rates are more than they can serve: --arrivals makes them rarer.
    /// A day is long; --scale-time of replay makes it shorter.
    Lublin {
        /// Load of a CPU on which a job runs, percent
        #[arg(long, default_value = "100", value_parser = units::load)]
        busy: f64,
        /// Hour of the day at which the profile begins
        #[arg(long, default_value_t = 8, value_name = "HOUR", value_parser = clap::value_parser!(u32).range(0..24))]
        start_hour: u32,
        /// One kind of jobs, not batch and interactive ones
        #[arg(long)]
        one_type: bool,
        /// Sizes of the published machine of 128 nodes; what is larger than ours
        /// takes all CPUs
        #[arg(long)]
        published_sizes: bool,
        /// Add up times of arrival as the published program does, whose daily
        /// cycle drifts
        #[arg(long)]
        drift: bool,
        /// Rate of arrivals, in parts of the published one
        #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
        arrivals: f64,
        #[command(flatten)]
        seed: Seed,
        #[command(flatten)]
        out: SynthOutput,
    },
}

#[derive(Debug, Args)]
pub(super) struct OutWithoutLength {
    /// Where to, or - for standard output
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) overwrite: Overwrite,
    /// Format to write: see `sandbag show --formats` [default: by the ending of
    /// OUT; else native]
    #[arg(long, value_name = "FORMAT", value_parser = profile_output::writable)]
    pub(super) to: Option<Format>,
    /// The CPUs of the profile
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = units::cpus)]
    pub(super) cpus: Cpus,
}

#[derive(Debug, Args)]
pub(super) struct SynthOutput {
    #[command(flatten)]
    pub(super) place: OutWithoutLength,
    /// How long
    #[arg(short, long, value_name = "TIME", default_value = "10m", value_parser = units::positive_duration)]
    pub(super) duration: Duration,
}

#[derive(Debug, Args)]
pub(super) struct StepModel {
    #[command(flatten)]
    pub(super) out: SynthOutput,
    /// Length of a step
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::step)]
    pub(super) step: Duration,
}

#[derive(Debug, Args)]
pub(super) struct Seed {
    /// Another number makes another profile of the same kind
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u32,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1e-6..=1e6).contains(&value) => Ok(value),
        _ => Err("expected a number between 0.000001 and 1000000".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // What is too much depends on run times.
        Ok(value) if value == 0.0 || value >= 1e-9 && value.is_finite() => Ok(value),
        _ => Err("expected 0, or a number from 1e-9, one in 30 years".to_owned()),
    }
}

fn hour(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=24.0).contains(&value) => Ok(value),
        _ => Err("expected an hour of the day, between 0 and 24".to_owned()),
    }
}

fn hours(text: &str) -> Result<Box<[f64; 24]>, String> {
    let loads: Vec<f64> = text.split(',').map(units::load).collect::<Result<_, _>>()?;
    let count = loads.len();
    <Box<[f64; 24]>>::try_from(loads).map_err(|_| format!("expected 24 loads, found {count}"))
}

fn piece(text: &str) -> Result<(f64, Duration), String> {
    let (load, time) = text
        .split_once(':')
        .ok_or("expected LOAD:TIME, such as 20:10s")?;
    Ok((units::load(load)?, units::positive_duration(time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_a_load_and_a_time() {
        assert_eq!(piece("20:10s"), Ok((20.0, Duration::from_secs(10))));
        assert_eq!(piece("12.5%:500ms"), Ok((12.5, Duration::from_millis(500))));
        for text in ["20", "20:", ":10s", "120:10s", "20:0s", "20,5:1s"] {
            assert!(piece(text).is_err(), "{text}");
        }
    }
}
