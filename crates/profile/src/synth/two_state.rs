// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random on and off: a Markov chain of two states in continuous time, each
//! CPU on its own.

use clap::Args;
use sandbag_ui::units;

use crate::stream::make_steps;
use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step};

use crate::synth::chance::Drand48;
use crate::synth::shapes::seconds;

/// How long which load lasts; lengths are exponential.
#[derive(Debug, Clone, Copy, PartialEq, Args)]
#[group(skip)]
pub struct OnOff {
    /// Load while on, percent
    #[arg(long = "high", value_name = "HIGH", default_value = "80", value_parser = units::load)]
    pub on_pct: f64,
    /// Load while off
    #[arg(long = "low", value_name = "LOW", default_value = "0", value_parser = units::load)]
    pub off_pct: f64,
    /// Mean time on
    #[arg(long = "on", value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub on_s: f64,
    /// Mean time off
    #[arg(long = "off", value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub off_s: f64,
    /// Another number makes another profile of the same kind
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
}

/// Shortest state, ns: a replay could not follow shorter ones.
const LEAST_NS: u64 = 1_000_000;

/// Each CPU begins in the state and for the rest of it that it would be found
/// in at any moment.
///
/// # Errors
/// A mean that is not above 0, or a length of 0.
pub fn on_off(model: OnOff, cpus: &[u32], length_ns: u64) -> Result<BoxSteps> {
    for (what, value) in [
        ("mean time on", model.on_s),
        ("mean time off", model.off_s),
        ("length", length_ns as f64),
    ] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(Fault::argument(what, value, "above 0").into());
        }
    }
    let mut chance = Drand48::new(model.seed);
    let mut states: Vec<OnOffState> = cpus
        .iter()
        .map(|_| {
            let is_on = chance.uniform() < model.on_s / (model.on_s + model.off_s);
            let mut state = OnOffState { is_on, until_ns: 0 };
            state.stay(&model, &mut chance);
            state
        })
        .collect();
    let header = ProfileHeader::new(cpus.to_vec(), Format::Synthetic);
    let mut now_ns = 0;
    Ok(make_steps(header, Vec::new(), move || {
        if now_ns >= length_ns {
            return Ok(None);
        }
        for state in &mut states {
            while state.until_ns <= now_ns {
                state.is_on = !state.is_on;
                state.stay(&model, &mut chance);
            }
        }
        // Steps end at whole milliseconds, and states where they end: short ones may vanish.
        let first = states.iter().map(|state| state.until_ns).min();
        let end_ns = first.unwrap_or(u64::MAX).div_ceil(LEAST_NS);
        let end_ns = end_ns.saturating_mul(LEAST_NS).min(length_ns);
        let start_ns = std::mem::replace(&mut now_ns, end_ns);
        let load = |state: &OnOffState| {
            if state.is_on {
                model.on_pct
            } else {
                model.off_pct
            }
        };
        let cells = states
            .iter()
            .map(|state| Some(ProfileCell::load(load(state))));
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells: cells.collect(),
        }))
    }))
}

#[derive(Debug)]
struct OnOffState {
    is_on: bool,
    until_ns: u64,
}

impl OnOffState {
    fn stay(&mut self, model: &OnOff, chance: &mut Drand48) {
        let mean_s = if self.is_on { model.on_s } else { model.off_s };
        let length_ns = (chance.exponential(mean_s) * 1e9) as u64;
        self.until_ns = self.until_ns.saturating_add(length_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS_PER_S, summarise};

    const MODEL: OnOff = OnOff {
        on_pct: 80.0,
        off_pct: 10.0,
        on_s: 3.0,
        off_s: 9.0,
        seed: 1,
    };

    #[test]
    fn the_mean_is_that_of_the_chain() {
        let mut steps = on_off(MODEL, &[0, 1], 400_000 * NS_PER_S).unwrap();
        let summary = summarise(&mut *steps).unwrap();
        // A quarter of the time at 80, the rest at 10.
        for cpu in &summary.cpus {
            let mean = cpu.mean_load_pct.unwrap();
            assert!((mean - 27.5).abs() < 1.0, "{mean}");
        }
        assert_eq!(summary.end_ns, 400_000 * NS_PER_S);
    }

    #[test]
    fn what_has_no_length_is_refused() {
        assert!(on_off(OnOff { on_s: 0.0, ..MODEL }, &[0], 1).is_err());
        assert!(
            on_off(
                OnOff {
                    off_s: f64::NAN,
                    ..MODEL
                },
                &[0],
                1
            )
            .is_err()
        );
        assert!(on_off(MODEL, &[0], 0).is_err());
    }
}
