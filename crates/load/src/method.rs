// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a load is produced on a CPU.
//!
//! A [`Method`] is pure: from the asked level and an estimate of the
//! competition it says what the burners do and what their groups need. The
//! supervisor applies it and knows no method by name. A new one is a file here
//! with its options, its name and a line in [`with_options`] below, and a
//! verdict of `sandbag doctor`.

mod cap;
mod deadline;
mod frequency;
mod hogs;
mod lim;
mod pace;
mod quota;
mod rt;
mod shares;

use clap::Args;
use sandbag_linux::cgroup::{Cap, Weight};
use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root};

use crate::board::BOUNDARY_NS;
use crate::burn::Duty;
use crate::frequencies::FrequencyOptions;
use sandbag_run::error::Result as Outcome;

pub use cap::NodeCap;
pub use deadline::Deadline;
pub use frequency::{Freq, Gov};
pub use hogs::{Hogs, HogsOptions, Sync};
pub use lim::{Lim, LimOptions};
pub use pace::{Pace, PaceOptions};
pub use quota::Quota;
pub use rt::Rt;
pub use shares::SharesMethod;

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
    fn attributes(&self) -> Attributes {
        Attributes::Fair {
            nice: 0,
            slice_ns: 0,
        }
    }

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
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct MethodOptions {
    /// Period, ns; `load` and `slow` describe it each in its own words.
    #[arg(skip)]
    pub period_ns: Option<u64>,
    /// For a virtual node: all CPUs must be taken at the same time.
    #[arg(skip)]
    pub in_phase: bool,
    #[command(flatten)]
    pub pace: PaceOptions,
    #[command(flatten)]
    pub hogs: HogsOptions,
    #[command(flatten)]
    pub lim: LimOptions,
    #[command(flatten)]
    pub frequencies: FrequencyOptions,
}

/// Whether an option was given, the methods that have it, and what the others
/// do not have.
type OptionGroup = (bool, &'static [&'static str], &'static str);

impl MethodOptions {
    /// Options of methods by name, as they may stand in a nodes file.
    #[must_use]
    pub fn names() -> Vec<String> {
        let all = Self::augment_args(clap::Command::new("method"));
        let long = all.get_arguments().filter_map(|option| option.get_long());
        std::iter::once("period")
            .chain(long)
            .map(str::to_owned)
            .collect()
    }

    /// The same by what clap calls them, without the period.
    #[must_use]
    pub fn ids() -> Vec<clap::Id> {
        let all = Self::augment_args(clap::Command::new("method"));
        all.get_arguments()
            .map(|option| option.get_id().clone())
            .collect()
    }

    /// Rejects options that the method does not have.
    fn reject_foreign(&self, name: &str) -> Result<(), String> {
        let own = [self.pace.option_group(), self.hogs.option_group()].into_iter();
        let all = own.chain(self.lim.option_groups());
        for (given, owners, what) in all.chain(self.frequencies.option_groups()) {
            if given && !owners.contains(&name) {
                let have = if owners.len() > 1 { "have" } else { "has" };
                let owners = owners.join(" and ");
                return Err(format!("{name} has {what}: {owners} {have}"));
            }
        }
        Ok(())
    }

    /// A period that no boundary of the windows cuts, ns.
    fn period_on_grid(&self, name: &str, default: u64) -> Result<u64, String> {
        match self.period_ns {
            None => Ok(default),
            Some(ns) if ns >= LEAST_PERIOD_NS && BOUNDARY_NS.is_multiple_of(ns) => Ok(ns),
            Some(_) => Err(format!(
                "the period of {name} must be at least 1 ms and divide 100 ms"
            )),
        }
    }

    /// Rejects a period with this reason.
    fn no_period(&self, reason: &str) -> Result<(), String> {
        match self.period_ns {
            Some(_) => Err(reason.to_owned()),
            None => Ok(()),
        }
    }
}

/// The method of that name with its default constants.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    with_options(name, &MethodOptions::default()).ok()
}

/// The same with constants of the user's.
///
/// # Errors
/// The reason, in words, where there is no such method, it has no such
/// constant, or the constant cannot be that.
pub fn with_options(name: &str, options: &MethodOptions) -> Result<Box<dyn Method>, String> {
    options.reject_foreign(name)?;
    Ok(match name {
        "pace" => Box::new(Pace::with_options(options)?),
        "quota" => Box::new(Quota::with_options(options)?),
        "shares" => Box::new(SharesMethod::with_options(options)?),
        "hogs" => Box::new(Hogs::with_options(options)?),
        "rt" => Box::new(Rt::with_options(options)?),
        "deadline" => Box::new(Deadline::with_options(options)?),
        "lim" => Box::new(Lim::with_options(options)?),
        "freq" => Box::new(Freq::with_options(options)?),
        "gov" => Box::new(Gov::with_options(options)?),
        "cap" => Box::new(NodeCap::with_options(options)?),
        _ => return Err(format!("there is no method {name}")),
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

    /// A method with options as on the command line.
    fn with(name: &str, words: &[&str]) -> Result<Box<dyn Method>, String> {
        use clap::FromArgMatches as _;
        let mut words = words.to_vec();
        let period = words.first().filter(|word| !word.starts_with('-')).copied();
        words.retain(|word| Some(*word) != period);
        let command = MethodOptions::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(words).unwrap();
        let mut options = MethodOptions::from_arg_matches(&matches).unwrap();
        options.period_ns = period.map(|us| us.parse::<u64>().unwrap() * 1000);
        with_options(name, &options)
    }

    /// The first word without a dash is the period, us.
    #[test]
    fn constants_that_cannot_be_are_refused() {
        for (name, words, reason) in [
            ("pace", "10000", ""),
            ("pace", "30000", "must be at least 1 ms and divide 100 ms"),
            ("hogs", "100", "at least 1 ms"),
            ("quota", "500", "between 1 ms and 1 s"),
            ("quota", "1000000", ""),
            ("shares", "20000", "shares has no period"),
            ("cap", "20000", ""),
            ("cap", "200000", "the period of cap"),
            ("gov", "20000", ""),
            ("freq", "20000", "freq has no period: gov has"),
            ("lim", "10000", "lim has no period, but an interval"),
            ("pace", "--pace-slice=5ms", ""),
            ("hogs", "--pace-slice=5ms", "no weight or slice"),
            ("lim", "--pace-weight=3", "no weight or slice"),
            ("hogs", "--hog-priority=99", ""),
            ("hogs", "--hog-priority=100", "between 1 and 99"),
            ("pace", "--hog-priority=1", "neither phase nor priority"),
            ("lim", "--lim-interval=1ms", ""),
            ("lim", "--lim-interval=999us", "between 1 and 100 ms"),
            ("lim", "--lim-interval=200ms", "between 1 and 100 ms"),
            (
                "hogs",
                "--lim-interval=1ms",
                "hogs has no interval: lim has",
            ),
            ("lim", "--lim-variant=wrekavoc", ""),
            (
                "cap",
                "--lim-variant=wrekavoc",
                "cap has no variant: lim has",
            ),
            ("gov", "--split-domains", ""),
            ("freq", "--calibrate", ""),
            (
                "lim",
                "--split-domains",
                "lim has no frequency domain: freq and gov have",
            ),
            (
                "hogs",
                "--calibrate",
                "hogs has no calibration: freq and gov have",
            ),
            ("none", "10000", "there is no method none"),
        ] {
            match with(name, &words.split(' ').collect::<Vec<_>>()) {
                Ok(method) => assert!(reason.is_empty() && method.name() == name, "{words}"),
                Err(found) => {
                    assert!(
                        !reason.is_empty() && found.contains(reason),
                        "{words}: {found}"
                    );
                }
            }
        }
    }

    #[test]
    fn hogs_at_a_barrier_are_as_published() {
        let hogs = with("hogs", &["--hog-sync=barrier"]).unwrap();
        assert_eq!(hogs.attributes(), Attributes::Fifo { priority: 99 });
    }

    #[test]
    fn a_nodes_file_has_every_option_of_a_method() {
        let names = MethodOptions::names();
        assert_eq!(names.len(), 9, "{names:?}");
        assert_eq!(
            (names[0].as_str(), names[3].as_str()),
            ("period", "hog-sync")
        );
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
