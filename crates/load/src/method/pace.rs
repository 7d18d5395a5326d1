// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pace`: an ordinary task that paces itself. The default.
//!
//! The burner is a SCHED_OTHER task in a group whose weight gives it
//! *headroom*: the share it would get if it never slept lies above the asked
//! level. It takes L*P of CPU time in every period P of the clock and sleeps
//! for the rest. The level is held by the burner's own clock; weight, number
//! of competitors and number of CPUs do not enter.
//!
//! A *long* slice makes the burner a good neighbour: its virtual deadline is
//! slice/weight away, so a task that wakes has the earlier deadline and is
//! served at once. That works while slice/weight exceeds the others' 1.4 ms,
//! hence moderate weight and the longest slice the kernel takes.
//!
//! For a virtual node the burners of all CPUs must be done at the same time,
//! or the program moves to the CPU that is free first and gets more than its
//! speed: with the maximum weight a burner takes its part in one piece at the
//! beginning of the period.
//!
//! P follows the level, so that the burst L*P is about as long as the kernel lets an
//! ordinary competitor run ([`burst_period`](crate::pacing::burst_period)); 5, 10 and 20 ms
//! divide every window. In a node, whose gaps must be in phase, it is 20 ms.
//!
//! While the CPU has time to spare the burners are *light*: headroom is not needed, and
//! in idle groups with a period of 1.6 or 3.1 ms ([`light_period`](crate::pacing::light_period))
//! they give way to every task that wakes. The supervisor decides.

use std::ops::RangeInclusive;

use clap::Args;
use sandbag_linux::cgroup::Weight;
use sandbag_linux::sched::Attributes;

use super::{DemandRule, Method, MethodOptions, OptionGroup, WEIGHTS};
use crate::burn::Duty;
use crate::pacing::LONGEST_NS;
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

/// The longest slice that the kernel takes, ns.
const SLICE_NS: u64 = 100_000_000;
/// Slices that the kernel keeps as they are asked for, ns (`__setparam_fair`
/// in kernel/sched/syscalls.c, Linux 6.12 and later).
const SLICES_NS: RangeInclusive<u64> = 100_000..=SLICE_NS;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    let (weight, slice) = (options.pace.pace_weight, options.pace.pace_slice);
    if weight.is_some_and(|weight| !WEIGHTS.contains(&weight)) {
        return Err("the weight of pace lies between 0.01 and 100 default weights".to_owned());
    }
    if slice.is_some_and(|slice| slice != 0 && !SLICES_NS.contains(&slice)) {
        return Err("the slice of pace lies between 0.1 and 100 ms, or is the kernel's".to_owned());
    }
    let slice_ns = slice.unwrap_or(SLICE_NS);
    let slice_ms = match slice_ns {
        0 => "the kernel's".to_owned(),
        ns => format!("{}", ns as f64 / 1e6),
    };
    let mut parameters = vec![("slice_ms", slice_ms)];
    let demand = match (weight, options.in_phase) {
        (Some(weight), _) => {
            parameters.push(("weight", format!("{weight}, as asked")));
            DemandRule::Fixed(Weight(weight))
        }
        (None, true) => {
            parameters.push(("weight", "maximum, in phase".to_owned()));
            DemandRule::Fixed(Weight(f64::MAX))
        }
        (None, false) => DemandRule::Headroom,
    };
    let duty = match options.period_ns {
        None if !options.in_phase => Duty::Burst,
        _ => Duty::Pace {
            period_ns: options.period_on_grid("pace", LONGEST_NS)?,
        },
    };
    if duty == Duty::Burst {
        parameters.push(("period", "1.5625 to 20 ms, by the level".to_owned()));
    }
    Ok(Method {
        about: "an ordinary task with headroom that paces itself by its own CPU clock",
        duty,
        attributes: Attributes::Fair { nice: 0, slice_ns },
        demand,
        // Above this a paced burner has no time left to make up for anything.
        most: 0.995,
        grouped: true,
        parameters,
        asked_slice_ns: slice.filter(|ns| *ns > 0),
        ..Method::named("pace")
    })
}

/// Refuses an asked slice of which the kernel made `kept_ns`.
pub(super) fn judge_slice(asked_ns: u64, kept_ns: u64) -> Outcome<()> {
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
        remedy: "Linux 6.12 and later have them; without --pace-slice the load is held here, too"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(weight: Option<f64>, slice: Option<u64>) -> Result<Method, String> {
        let mut options = MethodOptions::default();
        (options.pace.pace_weight, options.pace.pace_slice) = (weight, slice);
        method(&options)
    }

    #[test]
    fn weights_and_slices_beyond_the_kernels_are_refused() {
        let weights = [0.01, 1.0, 100.0, 0.0, 0.009, 100.1, -1.0, f64::NAN];
        let taken = weights.map(|weight| with(Some(weight), None).is_ok());
        assert_eq!(taken, [true, true, true, false, false, false, false, false]);
        let slices = [0, 100_000, 100_000_000, 1, 99_999, 100_000_001, u64::MAX];
        let taken = slices.map(|slice| with(None, Some(slice)).is_ok());
        assert_eq!(taken, [true, true, true, false, false, false, false]);
        assert_eq!(slice("kernel"), Ok(0));
        assert_eq!(slice("5ms"), Ok(5_000_000));
        assert!(slice("0ms").is_err() && slice("soon").is_err());
    }

    #[test]
    fn a_weight_that_was_asked_for_stays() {
        let pace = with(Some(3.0), None).unwrap();
        assert!(!pace.wants_headroom() && with(None, None).unwrap().wants_headroom());
        for competition in [1.0, 64.0] {
            assert_eq!(pace.demand(0.9, competition).weight, Weight(3.0));
        }
        let weight = ("weight", "3, as asked".to_owned());
        assert!(pace.parameters.contains(&weight));
    }

    #[test]
    fn a_slice_that_is_not_kept_is_refused_with_its_remedy() {
        assert!(judge_slice(5_000_000, 5_000_000).is_ok());
        for (kept, part) in [(0, "no custom slices"), (3_000_000, "makes 3 ms")] {
            let error = judge_slice(5_000_000, kept).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
