// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a load is produced on a CPU.
//!
//! A [`Method`] is pure: from the asked level and an estimate of the
//! competition it says what the burners do and what their groups need. The
//! supervisor applies it and knows no method by name, so a new one is a new
//! file here and a line in [`by_name`].

mod cap;
mod deadline;
mod frequency;
mod hogs;
mod lim;
mod pace;
mod quota;
mod rt;
mod shares;
mod slowing;

use sandbag_linux::cgroup::{Cap, Weight};
use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root};

use crate::board::BOUNDARY_NS;
use crate::burn::Duty;
use crate::frequencies::Wishes;
use crate::throttle::LimVariant;
use sandbag_run::error::Result as Outcome;

pub use cap::NodeCap;
pub use deadline::Deadline;
pub use frequency::{Freq, Gov};
pub use hogs::{Hogs, Sync};
pub use lim::Lim;
pub use pace::Pace;
pub use quota::Quota;
pub use rt::Rt;
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

impl Demand {
    /// Of a method that needs no group.
    const NOTHING: Self = Self {
        weight: Weight(1.0),
        cap: None,
    };
}

/// What a method needs changed on the machine, beyond groups of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineNeed {
    /// `kernel.sched_rt_runtime_us = -1`: no admission control for
    /// reservations, no throttling of real-time classes.
    NoRealTimeLimit,
    /// The frequencies of each node's CPUs can be set:
    /// [`frequencies::prepare`](crate::frequencies::prepare).
    Frequencies,
}

/// On what one process of a method acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One CPU: it takes load there.
    Cpu,
    /// The group of a virtual node, all its CPUs: it slows what runs there.
    Node,
}

/// A way to produce a load.
pub trait Method: std::fmt::Debug + Send {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// One sentence for lists.
    fn about(&self) -> &'static str;

    /// Looks at the machine that it is to work on, so that what it
    /// [serves](Method::serves) and its parameters are those of these CPUs.
    /// Changes nothing there. To be called before anything else.
    ///
    /// # Errors
    /// [`NotPossible`](sandbag_run::Error::NotPossible) where it cannot work on
    /// them, with what can.
    fn fit_to(&mut self, _root: &Root, _cpus: &CpuList) -> Outcome<()> {
        Ok(())
    }

    /// What a burner process does.
    fn duty(&self) -> Duty;

    /// Scheduling attributes of a burner.
    fn attributes(&self) -> Attributes;

    /// The level (0 to 1) that is served for `asked`: itself, or the nearest
    /// that the method reaches.
    fn serves(&self, asked: f64) -> f64;

    /// What the groups need for `level` against `competition`, the weight of
    /// everything else that wants this CPU, in units of a default group.
    fn demand(&self, _level: f64, _competition: f64) -> Demand {
        Demand::NOTHING
    }

    /// Whether the weight only makes room, so that it may grow and shrink
    /// with the competition, and may be split over several burners.
    fn wants_headroom(&self) -> bool {
        false
    }

    /// Whether burners have groups of their own. Real-time ones stay in the
    /// root group: others have no real-time budget (v1) or bring nothing.
    fn grouped(&self) -> bool {
        false
    }

    /// On what one of its processes acts. What a [`Scope::Node`] takes from
    /// the node counts as load on each of its CPUs.
    fn scope(&self) -> Scope {
        Scope::Cpu
    }

    /// What must be changed on the machine before burners start.
    fn machine_needs(&self) -> &'static [MachineNeed] {
        &[]
    }

    /// Whether the level is there before the program starts. A method whose
    /// load needs a competitor to be right cannot be waited for.
    fn settles(&self) -> bool {
        true
    }

    /// The constants in use, for run.json.
    fn parameters(&self) -> Vec<(&'static str, String)>;
}

/// Names of all methods that put a load on CPUs, the default first.
pub const NAMES: [&str; 6] = ["pace", "quota", "shares", "hogs", "rt", "deadline"];

/// Names of all methods that can slow a virtual node, the default first.
pub const SLOWING: [&str; 10] = [
    "hogs", "shares", "pace", "quota", "rt", "deadline", "lim", "freq", "gov", "cap",
];

/// Constants of methods that a user may choose; `None` is the method's own.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Options {
    /// Period, ns.
    pub period_ns: Option<u64>,
    /// Weight of pace's burners on each CPU, in place of one that makes room.
    pub weight: Option<Weight>,
    /// Slice of pace's burners, ns; 0 for the kernel's own.
    pub slice_ns: Option<u64>,
    /// What keeps hogs in phase.
    pub sync: Option<Sync>,
    /// Real-time priority of hogs.
    pub priority: Option<u32>,
    /// For a virtual node: all CPUs must be taken at the same time.
    pub in_phase: bool,
    /// Which of the two published lims.
    pub lim: Option<LimVariant>,
    /// Time between two looks of lim, ns.
    pub interval_ns: Option<u64>,
    /// About the hardware's frequencies.
    pub frequencies: Wishes,
}

/// The method of that name with its default constants.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    with_options(name, Options::default()).ok()
}

/// The same with constants of the user's.
///
/// # Errors
/// The reason, in words, where there is no such method, it has no such
/// constant, or the constant cannot be that.
pub fn with_options(name: &str, options: Options) -> Result<Box<dyn Method>, String> {
    let on_grid = |default: u64| match options.period_ns {
        None => Ok(default),
        Some(ns) if ns >= LEAST_PERIOD_NS && BOUNDARY_NS.is_multiple_of(ns) => Ok(ns),
        Some(_) => Err(format!(
            "the period of {name} must be at least 1 ms and divide 100 ms"
        )),
    };
    if name != "pace" && (options.weight.is_some() || options.slice_ns.is_some()) {
        return Err(format!("{name} has no weight or slice to choose: pace has"));
    }
    let is_hogs = name == "hogs";
    if !is_hogs && (options.sync.is_some() || options.priority.is_some()) {
        return Err(format!("{name} has neither phase nor priority: hogs has"));
    }
    slowing::refuse_what_it_has_not(name, options)?;
    Ok(match name {
        "pace" => Box::new(Pace::with_options(
            on_grid(Pace::default().period_ns)?,
            options,
        )?),
        "quota" => Box::new(match options.period_ns {
            None => Quota::default(),
            Some(ns) if (LEAST_PERIOD_NS..=1_000_000_000).contains(&ns) => Quota {
                period_us: ns / 1000,
            },
            Some(_) => return Err("the period of quota must be between 1 ms and 1 s".to_owned()),
        }),
        "hogs" => {
            let sync = options.sync.unwrap_or_default();
            let own = match sync {
                Sync::Clock => 1,
                Sync::Barrier => 99,
            };
            let priority = options.priority.unwrap_or(own);
            if !(1..=99).contains(&priority) {
                return Err("a real-time priority lies between 1 and 99".to_owned());
            }
            Box::new(Hogs {
                period_ns: on_grid(Hogs::default().period_ns)?,
                sync,
                priority,
            })
        }
        "rt" => Box::new(Rt {
            period_ns: on_grid(Rt::default().period_ns)?,
        }),
        "deadline" => Box::new(Deadline {
            period_ns: on_grid(Deadline::default().period_ns)?,
        }),
        "shares" if options.period_ns.is_some() => return Err("shares has no period".to_owned()),
        "shares" => Box::new(Shares),
        _ => return slowing::with_options(name, options, on_grid),
    })
}

/// Shorter periods are mostly wake-ups.
const LEAST_PERIOD_NS: u64 = 1_000_000;

/// The share that a burner of this level should have if it never slept: three
/// quarters of the way from the level to 1. Half of the way holds 1 s as well;
/// at 95 % it leaves 100 ms windows .7 points off in the mean.
#[must_use]
pub fn wanted_share(level: f64) -> f64 {
    (3.0 + level) / 4.0
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
        for name in NAMES.into_iter().chain(SLOWING) {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert!(by_name("hogs-of-war").is_none());
    }

    #[test]
    fn constants_that_cannot_be_are_refused() {
        let period = |name, ns| {
            with_options(
                name,
                Options {
                    period_ns: Some(ns),
                    ..Options::default()
                },
            )
        };
        assert!(period("pace", 10_000_000).is_ok());
        assert!(period("pace", 30_000_000).is_err());
        assert!(period("hogs", 100_000).is_err());
        assert!(period("quota", 500_000).is_err());
        assert!(period("shares", 20_000_000).is_err());
        let priority = |name, priority| {
            with_options(
                name,
                Options {
                    priority: Some(priority),
                    ..Options::default()
                },
            )
        };
        let slice = |name| {
            with_options(
                name,
                Options {
                    slice_ns: Some(5_000_000),
                    ..Options::default()
                },
            )
        };
        assert!(slice("pace").is_ok());
        assert!(slice("hogs").is_err() && slice("lim").is_err());
        assert!(priority("hogs", 99).is_ok());
        assert!(priority("hogs", 100).is_err());
        assert!(priority("pace", 1).is_err());
    }

    #[test]
    fn hogs_at_a_barrier_are_as_published() {
        let options = Options {
            sync: Some(Sync::Barrier),
            ..Options::default()
        };
        let hogs = with_options("hogs", options).unwrap();
        assert_eq!(hogs.attributes(), Attributes::Fifo { priority: 99 });
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
