// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pace`: an ordinary task that paces itself. The default.
//!
//! # Approach
//! The burner is a SCHED_OTHER task in a group whose weight gives it
//! *headroom*: the share it would get if it never slept lies above the asked
//! level. It takes L*P of CPU time in every period P of the clock and sleeps
//! for the rest. The level is held by the burner's own clock; weight, number
//! of competitors and number of CPUs do not enter.
//!
//! # Constants, and what was tried
//! Measured on 2 CPUs, Linux 6.18 (EEVDF, HZ 250), cgroup v1; wake-up latency
//! in us (p50 / p90 / p99) of a task that sleeps 1 ms, beside a load of 50 %.
//! Beside an ordinary pinned spinner it is 4 / 5-7 / 13-22.
//!
//! | weight | P ms | slice | p50 / p90 / p99 |
//! |---|---|---|---|
//! | 3 | 20 | kernel's (1.4 ms) | 10 / 30 / 3876 |
//! | 3 | 20 | 0.1 ms | 11 / 25 / 3858 |
//! | 3 | 4 | kernel's | 14 / 1702 / 2007 |
//! | 3 | 20 | 5 ms | 10 / 21 / 47 |
//! | 3 | 20 | 20 ms | 10 / 22 / 42 |
//! | 3 | 20 | 100 ms | 11 / 29 / 44 |
//! | 256 | 20 | kernel's | 19 / 3526 / 5665 |
//! | 256 | 20 | 100 ms | 30 / 3778 / 5984 |
//!
//! A *long* slice, not a short one, makes the burner a good neighbour: its
//! virtual deadline is slice/weight away, so whoever wakes has the earlier
//! deadline and is served at once. That works while slice/weight exceeds the
//! others' 1.4 ms, hence moderate weight and the longest slice the kernel
//! takes (100 ms). At the maximum weight nothing helps.
//!
//! The error does not depend on any of this while there is headroom: mean
//! absolute .001, worst .007 points per 1 s window at 50 and 95 % beside 2
//! and 40 spinners. Without it (weight 10 for 95 %, kernel's slice) it was
//! 1.3 to 2.5 points.
//!
//! # In phase
//! For a virtual node the burners of all CPUs must be done at the same time,
//! or the program moves to the CPU that is free first and gets more than its
//! speed. A burner with moderate weight shares its part of the period with
//! whoever is there; with the maximum weight it takes it in one piece at the
//! beginning ([`Pace::in_phase`]).
//!
//! # Weight and slice of one's own
//! Both are options, so that the figures above can be had again (`sandbag lab
//! run errors`). A weight that was asked for stays as it is: nobody rings for
//! more, and a level above its share is missed. A slice that the kernel does
//! not keep is refused ([`Pace::fit_to`](Method::fit_to)); the default one is
//! only wished for.
//!
//! P = 20 ms divides every window and is not a multiple of a 4 ms tick's
//! aliasing partners that matter here: the claims are made on CPU clocks, not
//! on sampled ticks. Shorter periods wake more often and gain nothing at 1 s.

use std::ops::RangeInclusive;

use clap::Args;
use sandbag_linux::cgroup::Weight;
use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root};

use super::{Demand, Method, MethodOptions, OptionGroup, headroom_weight};
use crate::burn::Duty;
use crate::probe;
use sandbag_run::error::{Error, Result as Outcome};
use sandbag_ui::units;

/// Constants of `pace` in place of its own. In `--help`, not in `-h`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct PaceOptions {
    /// pace: weight of its group on each CPU, 0.01 to 100 default weights
    /// [default: as much as makes room; in a node the maximum]
    ///
    /// Nothing is added where it is too little, so the load may be missed: for
    /// experiments.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub pace_weight: Option<f64>,

    /// pace: slice of its tasks, 100us to 100ms, or `kernel` for the kernel's
    /// own [default: 100ms]
    ///
    /// Linux 6.12 and later (EEVDF). For experiments: docs/explanation/methods.md
    /// says what it does.
    #[arg(long, value_name = "TIME", value_parser = slice, hide_short_help = true)]
    pub pace_slice: Option<u64>,
}

impl PaceOptions {
    pub(super) fn option_group(&self) -> OptionGroup {
        let given = self.pace_weight.is_some() || self.pace_slice.is_some();
        (given, &["pace"], "no weight or slice to choose")
    }
}

/// A slice, ns; 0 is the kernel's own.
fn slice(text: &str) -> Result<u64, String> {
    match text {
        "kernel" => Ok(0),
        time => units::positive_duration(time).map(units::nanos),
    }
}

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Length of the grid, ns.
    pub period_ns: u64,
    /// Custom slice that a user asked for, ns; 0 for the kernel's own.
    pub asked_slice_ns: Option<u64>,
    /// Weight that a user asked for, in place of headroom.
    pub asked_weight: Option<Weight>,
    /// Take the level in one piece at the beginning of the period.
    pub in_phase: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            period_ns: 20_000_000,
            asked_slice_ns: None,
            asked_weight: None,
            in_phase: false,
        }
    }
}

/// The longest slice that the kernel takes, ns.
const SLICE_NS: u64 = 100_000_000;
/// Slices that the kernel keeps as they are asked for, ns (`__setparam_fair`
/// in kernel/sched/syscalls.c, Linux 6.12 and later).
const SLICES_NS: RangeInclusive<u64> = 100_000..=SLICE_NS;
/// Weights that one group carries on either version of cgroups, in those of a
/// default group.
const WEIGHTS: RangeInclusive<f64> = 0.01..=100.0;

/// Above this a paced burner has no time left to make up for anything.
const MOST: f64 = 0.995;

impl Pace {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        let PaceOptions {
            pace_weight: weight,
            pace_slice: slice_ns,
        } = options.pace;
        if weight.is_some_and(|weight| !WEIGHTS.contains(&weight)) {
            return Err("the weight of pace lies between 0.01 and 100 default weights".to_owned());
        }
        if slice_ns.is_some_and(|slice| slice != 0 && !SLICES_NS.contains(&slice)) {
            return Err(
                "the slice of pace lies between 0.1 and 100 ms, or is the kernel's".to_owned(),
            );
        }
        Ok(Self {
            period_ns: options.period_on_grid("pace", Self::default().period_ns)?,
            asked_slice_ns: slice_ns,
            asked_weight: weight.map(Weight),
            in_phase: options.in_phase,
        })
    }

    fn slice_ns(self) -> u64 {
        self.asked_slice_ns.unwrap_or(SLICE_NS)
    }

    /// Refuses a slice that was asked for where `kept` is what the kernel made
    /// of it.
    fn judge_slice(asked_ns: u64, kept_ns: u64) -> Outcome<()> {
        if kept_ns == asked_ns {
            return Ok(());
        }
        let asked_ms = asked_ns as f64 / 1e6;
        Err(Error::NotPossible {
            what: match kept_ns {
                0 => format!("this kernel has no custom slices, and {asked_ms} ms were asked for"),
                kept => format!(
                    "this kernel makes {} ms of a slice of {asked_ms} ms",
                    kept as f64 / 1e6
                ),
            },
            remedy: "Linux 6.12 and later have them; without --pace-slice the load is held here, \
                     too"
            .to_owned(),
        })
    }
}

impl Method for Pace {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn about(&self) -> &'static str {
        "an ordinary task with headroom that paces itself by its own CPU clock"
    }

    fn fit_to(&mut self, _root: &Root, _cpus: &CpuList) -> Outcome<()> {
        match self.asked_slice_ns {
            None | Some(0) => Ok(()),
            Some(asked) => Self::judge_slice(asked, probe::slice(asked)?),
        }
    }

    fn duty(&self) -> Duty {
        Duty::Pace {
            period_ns: self.period_ns,
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fair {
            nice: 0,
            slice_ns: self.slice_ns(),
        }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn demand(&self, level: f64, competition: f64) -> Demand {
        Demand {
            weight: match (self.asked_weight, self.in_phase) {
                (Some(weight), _) => weight,
                (None, true) => Weight(f64::MAX),
                (None, false) => headroom_weight(level, competition),
            },
            cap: None,
        }
    }

    fn wants_headroom(&self) -> bool {
        !self.in_phase && self.asked_weight.is_none()
    }

    fn grouped(&self) -> bool {
        true
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let slice = match self.slice_ns() {
            0 => "the kernel's".to_owned(),
            ns => format!("{}", ns as f64 / 1e6),
        };
        let mut all = vec![("slice_ms", slice)];
        match (self.asked_weight, self.in_phase) {
            (Some(Weight(weight)), _) => all.push(("weight", format!("{weight}, as asked"))),
            (None, true) => all.push(("weight", "maximum, in phase".to_owned())),
            (None, false) => {}
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_the_range_is_said() {
        let pace = Pace::default();
        assert!((pace.serves(1.0) - MOST).abs() < 1e-12);
        assert!((pace.serves(0.99) - 0.99).abs() < 1e-12);
    }

    #[test]
    fn the_period_divides_the_boundaries() {
        assert_eq!(crate::board::BOUNDARY_NS % Pace::default().period_ns, 0);
    }

    fn with(weight: Option<f64>, slice: Option<u64>) -> Result<Pace, String> {
        let mut options = MethodOptions::default();
        (options.pace.pace_weight, options.pace.pace_slice) = (weight, slice);
        Pace::with_options(&options)
    }

    #[test]
    fn weights_and_slices_beyond_the_kernels_are_refused() {
        for inside in [0.01, 1.0, 100.0] {
            assert!(with(Some(inside), None).is_ok(), "{inside}");
        }
        for outside in [0.0, 0.009, 100.1, -1.0, f64::NAN, f64::INFINITY] {
            assert!(with(Some(outside), None).is_err(), "{outside}");
        }
        for inside in [0, 100_000, 20_000_000, 100_000_000] {
            assert!(with(None, Some(inside)).is_ok(), "{inside}");
        }
        for outside in [1, 99_999, 100_000_001, u64::MAX] {
            assert!(with(None, Some(outside)).is_err(), "{outside}");
        }
    }

    #[test]
    fn a_slice_is_a_time_or_the_kernels() {
        assert_eq!(slice("kernel"), Ok(0));
        assert_eq!(slice("5ms"), Ok(5_000_000));
        assert!(slice("0ms").is_err() && slice("soon").is_err());
    }

    #[test]
    fn a_weight_that_was_asked_for_stays() {
        let pace = with(Some(3.0), None).unwrap();
        assert!(!pace.wants_headroom());
        for competition in [1.0, 64.0] {
            assert_eq!(pace.demand(0.9, competition).weight, Weight(3.0));
        }
        assert!(Pace::default().wants_headroom());
        assert!(
            pace.parameters()
                .contains(&("weight", "3, as asked".to_owned()))
        );
    }

    #[test]
    fn a_slice_that_is_not_kept_is_refused_with_its_remedy() {
        assert!(Pace::judge_slice(5_000_000, 5_000_000).is_ok());
        let error = Pace::judge_slice(5_000_000, 0).unwrap_err().to_string();
        assert!(error.contains("no custom slices"), "{error}");
        let error = Pace::judge_slice(5_000_000, 3_000_000).unwrap_err();
        assert!(error.to_string().contains("makes 3 ms"), "{error}");
    }
}
