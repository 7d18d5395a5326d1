// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a load is produced on a CPU.
//!
//! A [`Method`] is pure: from the asked level and an estimate of the
//! competition it says what the burners do and what their groups need. The
//! supervisor applies it and knows no method by name, so a new one is a new
//! file here and a line in [`by_name`].

mod pace;
mod quota;
mod shares;

use sandbag_kernel::cgroup::{Cap, Weight};
use sandbag_kernel::sched::Attributes;

use crate::board::BOUNDARY_NS;
use crate::burn::Duty;

pub use pace::Pace;
pub use quota::Quota;
pub use shares::Shares;

/// What the groups of one CPU's burners need while a level is in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Weight of all burners of the CPU together; more than one group can
    /// carry is split over several.
    pub weight: Weight,
    /// Hard limit of the CPU's burners together.
    pub cap: Option<Cap>,
}

/// A way to produce a load.
pub trait Method: std::fmt::Debug + Send {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// One sentence for lists.
    fn about(&self) -> &'static str;

    /// What a burner process does.
    fn duty(&self) -> Duty;

    /// Scheduling attributes of a burner.
    fn attributes(&self) -> Attributes;

    /// The level (0 to 1) that is served for `asked`: itself, or the nearest
    /// that the method reaches.
    fn serves(&self, asked: f64) -> f64;

    /// What the groups need for `level` against `competition`, the weight of
    /// everything else that wants this CPU, in units of a default group.
    fn demand(&self, level: f64, competition: f64) -> Demand;

    /// Whether the weight only makes room, so that it may grow and shrink
    /// with the competition, and may be split over several burners.
    fn wants_headroom(&self) -> bool;

    /// Whether the level is there before the program starts. A method whose
    /// load needs a competitor to be right cannot be waited for.
    fn settles(&self) -> bool {
        true
    }

    /// The constants in use, for run.json.
    fn parameters(&self) -> Vec<(&'static str, String)>;
}

/// Names of all methods, the default first.
pub const NAMES: [&str; 3] = ["pace", "quota", "shares"];

/// The method of that name with its default constants.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    Some(match name {
        "pace" => Box::new(Pace::default()),
        "quota" => Box::new(Quota::default()),
        "shares" => Box::new(Shares),
        _ => return None,
    })
}

/// The share that a burner of this level should have if it never slept: three
/// quarters of the way from the level to 1. Half of the way holds 1 s as well;
/// at 95 % it leaves 100 ms windows .7 points off in the mean.
#[must_use]
pub fn wanted_share(level: f64) -> f64 {
    (3.0 + level) / 4.0
}

/// The same with another period, ns.
///
/// # Errors
/// The reason, in words, where the method has no period or not this one.
pub fn with_period(name: &str, period_ns: u64) -> Result<Box<dyn Method>, String> {
    match name {
        "pace" if period_ns > 0 && BOUNDARY_NS.is_multiple_of(period_ns) => Ok(Box::new(Pace {
            period_ns,
            ..Pace::default()
        })),
        "pace" => Err("the period of pace must divide 100 ms".to_owned()),
        "quota" if (1_000_000..=1_000_000_000).contains(&period_ns) => Ok(Box::new(Quota {
            period_us: period_ns / 1000,
        })),
        "quota" => Err("the period of quota must be between 1 ms and 1 s".to_owned()),
        other => Err(format!("{other} has no period")),
    }
}

/// Weight whose share w/(w+c) against the competition is the wanted one.
/// Rounded up to a power of two, so that small changes of either write
/// nothing.
fn headroom_weight(level: f64, competition: f64) -> Weight {
    let share = wanted_share(level).min(0.9999);
    let exact = competition * share / (1.0 - share);
    Weight(exact.log2().ceil().exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_method() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert!(by_name("hogs-of-war").is_none());
    }

    #[test]
    fn periods_that_cannot_be_are_refused() {
        assert!(with_period("pace", 10_000_000).is_ok());
        assert!(with_period("pace", 30_000_000).is_err());
        assert!(with_period("quota", 500_000).is_err());
        assert!(with_period("shares", 20_000_000).is_err());
    }

    #[test]
    fn headroom_lies_above_the_level() {
        for level in [0.005, 0.05, 0.5, 0.8, 0.95, 0.99] {
            for competition in [1.0, 2.0, 64.0] {
                let w = headroom_weight(level, competition).0;
                let share = w / (w + competition);
                assert!(
                    share >= (1.0 + level) / 2.0 - 1e-12,
                    "{level} {competition}"
                );
            }
        }
    }
}
