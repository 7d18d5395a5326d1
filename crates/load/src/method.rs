// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a load is produced on a CPU.
//!
//! A [`Method`] is a pure value: from the asked level and an estimate of the
//! competition it says what the burners do and what their groups need. The
//! supervisor applies it and knows no method by name. A new one is a file here
//! with its options, its name and a line in [`with_options`] below, and a
//! verdict of `sandbag doctor`. docs/explanation/methods.md has the mechanisms
//! with figures, and the flaws that were published and kept.

mod cap;
mod deadline;
mod frequency;
mod hogs;
mod lim;
mod pace;
mod quota;
mod rt;
mod shares;

use std::ops::RangeInclusive;

use clap::Args;
use sandbag_linux::cgroup::{Cap, Weight};
use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root};

use crate::board::BOUNDARY_NS;
use crate::burn::Duty;
use crate::frequencies::{self, FrequencyOptions, Ladder};
use crate::probe;
use crate::throttle::{Throttling, nearest};
use sandbag_run::error::Result as Outcome;

pub use hogs::{HogsOptions, MOST_REAL_TIME, Sync, period_for};
pub use lim::LimOptions;
pub use pace::PaceOptions;
pub use shares::SharesOptions;

/// What the groups of one CPU's burners need while a level is in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Weight of all burners of the CPU together; more than one group can
    /// carry is split over several.
    pub weight: Weight,
    /// Hard limit of the CPU's burners together.
    pub cap: Option<Cap>,
}

/// How the demand follows from the level.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DemandRule {
    Nothing,
    /// A weight that makes room for the level. It grows and shrinks with the
    /// competition and may be split over several burners.
    Headroom,
    Fixed(Weight),
    /// Headroom, and the level as a cap per period, us. A burner that spins
    /// cannot tell a small share from a cap, so its weight is chosen once.
    Cap(u64),
    Shares,
}

/// What a program is to notice of the load beside it, at the same level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Feel {
    /// All CPUs are taken at the same time, and sleep while nothing runs.
    #[default]
    Steady,
    /// As beside a task on each CPU that always runs: the CPUs are taken independently
    /// of each other, and do not sleep.
    Competitor,
}

/// On what one process of a method acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cpu,
    /// The group of a virtual node, all its CPUs: it slows what runs there.
    /// What it takes from the node counts as load on each of its CPUs.
    Node,
}

/// A way to produce a load, with its constants.
#[derive(Debug, Clone)]
pub struct Method {
    pub name: &'static str,
    pub about: &'static str,
    pub duty: Duty,
    pub attributes: Attributes,
    pub scope: Scope,
    /// Burners have groups of their own. Real-time ones stay in the root
    /// group: others have no real-time budget (v1) or bring nothing.
    pub grouped: bool,
    /// The level is there before the program starts. A method whose load
    /// needs a competitor to be right cannot be waited for.
    pub settles: bool,
    /// Needs `kernel.sched_rt_runtime_us = -1`: no admission control for
    /// reservations, no throttling of real-time classes.
    pub lifts_real_time_limit: bool,
    pub feel: Feel,
    pub parameters: Vec<(&'static str, String)>,
    /// Highest level that it reaches, 0 to 1.
    most: f64,
    demand: DemandRule,
    /// Slice that the user asked for, ns: refused where the kernel does not keep it.
    asked_slice_ns: Option<u64>,
    /// Frequencies of the node, once it was fitted to a machine that has some.
    pub(crate) ladder: Option<Ladder>,
}

impl Method {
    /// An ordinary burner that spins on its CPU, without a group.
    fn named(name: &'static str) -> Self {
        Self {
            name,
            about: "",
            duty: Duty::Spin,
            attributes: Attributes::Fair {
                nice: 0,
                slice_ns: 0,
            },
            scope: Scope::Cpu,
            grouped: false,
            settles: true,
            lifts_real_time_limit: false,
            feel: Feel::Steady,
            parameters: Vec::new(),
            most: 1.0,
            demand: DemandRule::Nothing,
            asked_slice_ns: None,
            ladder: None,
        }
    }

    /// One process that slows a whole node; its lowest speed is 0.01.
    fn of_node(name: &'static str, throttling: Throttling) -> Self {
        Self {
            duty: Duty::Throttle(throttling),
            scope: Scope::Node,
            settles: false,
            most: 0.99,
            ..Self::named(name)
        }
    }

    /// The same as it is to feel.
    ///
    /// # Errors
    /// Why it cannot, as words after its name.
    pub fn with_feel(mut self, feel: Feel) -> Result<Self, String> {
        if feel == Feel::Competitor {
            if self.name != "pace" {
                return Err(format!(
                    "{} cannot feel like a competitor: pace can",
                    self.name
                ));
            }
            self.parameters.push(("feel", "competitor".to_owned()));
        }
        self.feel = feel;
        Ok(self)
    }

    /// Looks at the machine that it is to work on, so that what it
    /// [serves](Self::serves) and its parameters are those of these CPUs.
    /// Changes nothing there. To be called before anything else. Refuses with
    /// [`NotPossible`](sandbag_run::Error::NotPossible) where it cannot work.
    pub fn fit_to(&mut self, root: &Root, cpus: &CpuList) -> Outcome<()> {
        if let Some(asked) = self.asked_slice_ns {
            pace::judge_slice(asked, probe::slice(asked)?)?;
        }
        if let Duty::Throttle(throttling) = self.duty
            && let Some(need) = throttling.frequencies()
        {
            let cpus: Vec<u32> = cpus.iter().collect();
            self.ladder = frequencies::ladder_for(root, &cpus, need)?;
            let own = frequency::parameters(self.ladder.as_ref(), need);
            self.parameters.extend(own);
        }
        if let Duty::Throttle(Throttling::Cap { period_us }) = self.duty {
            self.most = self.most.min(cap::most(period_us, cpus.len()));
        }
        Ok(())
    }

    /// The level (0 to 1) that is served for `asked`: the nearest that is reached.
    pub fn serves(&self, asked: f64) -> f64 {
        match (&self.ladder, self.duty) {
            // By the advertised frequencies.
            (Some(ladder), Duty::Throttle(Throttling::Frequency { .. })) => {
                1.0 - ladder.speeds()[nearest(ladder.speeds(), 1.0 - asked)]
            }
            _ => asked.min(self.most),
        }
    }

    /// What the groups need for `level` against `competition`, the weight of
    /// everything else that wants this CPU, in units of a default group.
    pub fn demand(&self, level: f64, competition: f64) -> Demand {
        let weight = match self.demand {
            DemandRule::Nothing => Weight(1.0),
            DemandRule::Headroom | DemandRule::Cap(_) => headroom_weight(level, competition),
            DemandRule::Fixed(weight) => weight,
            DemandRule::Shares => Weight(level / (1.0 - level)),
        };
        let cap = match self.demand {
            DemandRule::Cap(period_us) if level > 0.0 => Some(quota::cap(period_us, level)),
            _ => None,
        };
        Demand { weight, cap }
    }

    /// Whether the weight only makes room and may follow the competition.
    pub fn wants_headroom(&self) -> bool {
        self.demand == DemandRule::Headroom
    }
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
    pub shares: SharesOptions,
    #[command(flatten)]
    pub hogs: HogsOptions,
    #[command(flatten)]
    pub lim: LimOptions,
    #[command(flatten)]
    pub frequencies: FrequencyOptions,
}

/// Whether an option was given, the methods that have it, what the others lack.
type OptionGroup = (bool, &'static [&'static str], &'static str);

impl MethodOptions {
    /// Options of methods by name, as they may stand in a nodes file.
    pub fn names() -> Vec<String> {
        let all = Self::augment_args(clap::Command::new("method"));
        let long = all.get_arguments().filter_map(|option| option.get_long());
        std::iter::once("period")
            .chain(long)
            .map(str::to_owned)
            .collect()
    }

    /// The same by what clap calls them, without the period.
    pub fn ids() -> Vec<clap::Id> {
        let all = Self::augment_args(clap::Command::new("method"));
        all.get_arguments()
            .map(|option| option.get_id().clone())
            .collect()
    }

    /// Rejects options that the method does not have.
    fn reject_foreign(&self, name: &str) -> Result<(), String> {
        let own = [
            self.pace.option_group(),
            self.shares.option_group(),
            self.hogs.option_group(),
        ];
        let all = own.into_iter().chain(self.lim.option_groups());
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

    fn no_period(&self, reason: &str) -> Result<(), String> {
        match self.period_ns {
            Some(_) => Err(reason.to_owned()),
            None => Ok(()),
        }
    }
}

pub fn by_name(name: &str) -> Option<Method> {
    with_options(name, &MethodOptions::default()).ok()
}

/// The method of that name with the user's constants, or why it cannot have them.
pub fn with_options(name: &str, options: &MethodOptions) -> Result<Method, String> {
    options.reject_foreign(name)?;
    match name {
        "pace" => pace::method(options),
        "quota" => quota::method(options),
        "shares" => shares::method(options),
        "hogs" => hogs::method(options),
        "rt" => rt::method(options),
        "deadline" => deadline::method(options),
        "lim" => lim::method(options),
        "freq" => frequency::freq(options),
        "gov" => frequency::gov(options),
        "cap" => cap::method(options),
        _ => Err(format!("there is no method {name}")),
    }
}

/// Weights that one group carries on either version of cgroups, in those of a
/// default group.
const WEIGHTS: RangeInclusive<f64> = 0.01..=100.0;

/// Shorter periods are mostly wake-ups.
const LEAST_PERIOD_NS: u64 = 1_000_000;

/// The share that a burner of this level should have if it never slept: three
/// quarters of the way from the level to 1. Half of the way holds 1 s as well;
/// at 95 % it leaves 100 ms windows .7 points off in the mean.
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
            assert_eq!(by_name(name).unwrap().name, name);
        }
        assert!(by_name("hogs-of-war").is_none());
    }

    /// A method with options as on the command line.
    fn with(name: &str, words: &[&str]) -> Result<Method, String> {
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
                Ok(method) => assert!(reason.is_empty() && method.name == name, "{words}"),
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
        assert_eq!(hogs.attributes, Attributes::Fifo { priority: 99 });
    }

    #[test]
    fn a_nodes_file_has_every_option_of_a_method() {
        let names = MethodOptions::names();
        assert_eq!(names.len(), 10, "{names:?}");
        assert_eq!(
            (names[0].as_str(), names[4].as_str()),
            ("period", "hog-sync")
        );
    }

    #[test]
    fn every_method_has_a_highest_level_and_a_period_that_no_boundary_cuts() {
        for (name, most) in [
            ("pace", 0.995),
            ("quota", 0.995),
            ("shares", 0.99),
            ("hogs", MOST_REAL_TIME),
            ("rt", MOST_REAL_TIME),
            ("deadline", MOST_REAL_TIME),
            ("lim", 0.99),
            ("gov", 0.99),
            ("cap", 0.99),
        ] {
            let method = by_name(name).unwrap();
            assert_eq!(
                (method.serves(1.0), method.serves(0.3)),
                (most, 0.3),
                "{name}"
            );
            let period_ns = method.duty.period_ns();
            assert!(
                period_ns == 0 || BOUNDARY_NS.is_multiple_of(period_ns),
                "{name}"
            );
        }
    }

    #[test]
    fn shares_have_the_published_weight_and_quotas_are_taken_by_the_kernel() {
        let shares = |level| by_name("shares").unwrap().demand(level, 7.0);
        assert_eq!(shares(0.5).weight, Weight(1.0));
        assert!((shares(0.8).weight.0 - 4.0).abs() < 1e-9);
        for level in [0.001, 0.005, 0.05, 0.5, 0.95, 0.995] {
            let cap = by_name("quota").unwrap().demand(level, 1.0).cap.unwrap();
            assert!(
                cap.quota_us >= 1000 && cap.burst_us <= cap.quota_us,
                "{level}"
            );
            assert!((1000..=1_000_000).contains(&cap.period_us), "{level}");
            let got = cap.quota_us as f64 / cap.period_us as f64;
            assert!((got - level).abs() < 1e-4, "{level}: {got}");
        }
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
