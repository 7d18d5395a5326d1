// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile that a model with its options makes.

use crate::synth::lublin::{ArrivalClock, Lublin, Options, Types};
use crate::synth::{
    Background, Daily, DailyRate, Day, RunTimes, autoregressive, background, daily, on_off,
    piecewise, ramp, sine, square,
};
use crate::{BoxSteps, Format, ProfileHeader, constant, schedule};

use super::model::{ModelCommand, OutWithoutLength, StepModel, SynthOutput};
use sandbag_ui::units;

impl ModelCommand {
    pub(super) fn place(&self) -> &OutWithoutLength {
        match self {
            Self::Constant { out, .. }
            | Self::Onoff { out, .. }
            | Self::Background { out, .. }
            | Self::Lublin { out, .. } => &out.place,
            Self::Steps { out, .. } => out,
            Self::Ramp { sampled, .. }
            | Self::Sine { sampled, .. }
            | Self::Square { sampled, .. }
            | Self::Daily { sampled, .. }
            | Self::Ar { sampled, .. } => &sampled.out.place,
        }
    }

    pub(super) fn steps(&self, cpus: &[u32]) -> crate::Result<BoxSteps> {
        let length = |out: &SynthOutput| units::nanos(out.duration);
        let grid = |s: &StepModel| (units::nanos(s.step), units::nanos(s.out.duration));
        match self {
            Self::Constant { load, out } => Ok(constant(cpus, *load, length(out))),
            Self::Steps { pieces, .. } => {
                let pieces: Vec<(f64, u64)> = pieces
                    .iter()
                    .map(|(load, time)| (*load, units::nanos(*time)))
                    .collect();
                Ok(piecewise(&pieces, cpus))
            }
            Self::Ramp { shape, sampled } => {
                let (step_ns, length_ns) = grid(sampled);
                ramp(*shape, cpus, step_ns, length_ns)
            }
            Self::Sine { shape, sampled } => {
                let (step_ns, length_ns) = grid(sampled);
                sine(*shape, cpus, step_ns, length_ns)
            }
            Self::Square { shape, sampled } => {
                let (step_ns, length_ns) = grid(sampled);
                square(*shape, cpus, step_ns, length_ns)
            }
            Self::Onoff { model, out } => on_off(*model, cpus, length(out)),
            Self::Ar { model, sampled } => {
                let (step_ns, length_ns) = grid(sampled);
                autoregressive(model.clone(), cpus, step_ns, length_ns)
            }
            Self::Daily {
                mean,
                amplitude,
                peak,
                hours,
                start_hour,
                day,
                weights,
                noise,
                correlation,
                seed,
                sampled,
            } => {
                let (step_ns, length_ns) = grid(sampled);
                let wave = Day::Wave {
                    mean_pct: *mean,
                    amplitude_pct: *amplitude,
                    peak_hour: *peak,
                };
                let model = Daily {
                    day: hours.as_deref().copied().map_or(wave, Day::Hours),
                    day_s: day.as_secs_f64(),
                    start_hour: *start_hour,
                    noise_pct: *noise,
                    weights: weights.clone(),
                    correlation: *correlation,
                    seed: seed.seed,
                };
                daily(model, cpus, step_ns, length_ns)
            }
            Self::Background {
                load,
                rate,
                share,
                exponent,
                longest,
                working_day,
                start_hour,
                seed,
                out,
            } => {
                let runs = RunTimes {
                    exponent: *exponent,
                    longest_s: longest.as_secs_f64(),
                };
                let model = Background {
                    rate_per_s: match rate {
                        Some(rate) => *rate,
                        None => Background::rate_for(*load, &runs, *share)?,
                    },
                    when: if *working_day {
                        DailyRate::WorkingDay {
                            start_hour: *start_hour,
                        }
                    } else {
                        DailyRate::Always
                    },
                    runs,
                    share_pct: *share,
                    seed: seed.seed,
                };
                background(model, cpus, length(out))
            }
            Self::Lublin {
                busy,
                start_hour,
                one_type,
                published_sizes,
                drift,
                arrivals,
                seed,
                out,
            } => {
                let options = Options {
                    seed: seed.seed,
                    types: if *one_type { Types::One } else { Types::Two },
                    clock: if *drift {
                        ArrivalClock::WholeSeconds
                    } else {
                        ArrivalClock::Exact
                    },
                    start_hour: *start_hour,
                    machine: (!published_sizes)
                        .then(|| u32::try_from(cpus.len()).unwrap_or(u32::MAX)),
                    rate: *arrivals,
                    busy_pct: *busy,
                };
                let jobs = Lublin::new(&options).map(|submitted| Ok(submitted.job));
                let header = ProfileHeader::new(cpus.to_vec(), Format::Synthetic);
                Ok(schedule(jobs, header, Some(length(out))))
            }
        }
    }
}
