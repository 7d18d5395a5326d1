// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Foreign load: CPU time of processes that are neither sandbag's nor the
//! program's.

use crate::supervisor::{ForeignProcess, RunOutcome};
use sandbag_linux::procstat::tick_ns;
use sandbag_stats::Window;
use sandbag_stats::verdict::{NOISY_FOREIGN_PCT, NOISY_SHARE};
use sandbag_stats::window::share_pct;

use super::super::observer::Collector;
use super::facts::Facts;

/// Busy time while a program ran, ns. Its sums are compared, and not window by window: the
/// kernel counts idle time by ticks.
#[derive(Debug, Clone, Copy, Default)]
struct BusyTime {
    busy_ns: u64,
    /// What a method took that does so without CPU time is no part of it.
    burner_ns: u64,
    program_ns: u64,
    delivered_ns: u64,
}

impl BusyTime {
    /// `burns`: the method takes its load as CPU time.
    fn foreign_load(self, burns: bool) -> ForeignLoad {
        let burned_ns = if burns { self.burner_ns } else { 0 };
        ForeignLoad {
            foreign_ns: self.busy_ns.saturating_sub(self.program_ns + burned_ns),
            delivered_ns: self.delivered_ns,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct ForeignLoad {
    foreign_ns: u64,
    delivered_ns: u64,
}

impl ForeignLoad {
    fn pct(self) -> f64 {
        share_pct(self.foreign_ns, self.delivered_ns)
    }

    /// Whether it is more than may be. The counters of idle time and steal of each
    /// of the `cpus` have a tick each that is not known.
    fn is_too_much(self, cpus: usize) -> bool {
        let slack_ns = 2 * tick_ns() * cpus as u64;
        let known_ns = self.foreign_ns.saturating_sub(slack_ns);
        share_pct(known_ns, self.delivered_ns) > NOISY_FOREIGN_PCT
    }
}

/// Foreign load over the windows in which a program used CPU time: in others it took nothing
/// from one.
#[derive(Debug, Clone, Default)]
pub struct ForeignSums {
    /// By CPU, in the order of the plan.
    cpus: Vec<BusyTime>,
    /// Of all CPUs together, where no more than that is known. The delivered time is that of the
    /// CPU that had least of it: all foreign load may have been there.
    together: Option<BusyTime>,
    /// Length of these windows, and of those of them of which nothing is known, ns.
    ran_ns: u64,
    unknown_ns: u64,
}

impl ForeignSums {
    /// Adds the windows of all CPUs that begin at one time. `program_ns`: CPU time of the
    /// programs on all CPUs, where it is not known of each.
    pub fn add(&mut self, row: &[Window], program_ns: Option<u64>) {
        let length_ns = row.first().map_or(0, |window| window.length_ns);
        let sum = |of: &dyn Fn(&Window) -> Option<u64>| row.iter().map(of).sum::<Option<u64>>();
        let busy_ns = sum(&|window| window.busy_ns);
        let command_ns = sum(&|window| window.command_ns);
        match (busy_ns, command_ns.or(program_ns)) {
            (Some(_), Some(0)) => {}
            (Some(_), Some(_)) if command_ns.is_some() => {
                self.ran_ns += length_ns;
                self.cpus.resize(row.len(), BusyTime::default());
                for (sums, window) in self.cpus.iter_mut().zip(row) {
                    sums.busy_ns += window.busy_ns.unwrap_or(0);
                    sums.burner_ns += window.burner_ns;
                    sums.program_ns += window.command_ns.unwrap_or(0);
                    sums.delivered_ns += window.delivered_ns();
                }
            }
            (Some(busy_ns), Some(program_ns)) => {
                self.ran_ns += length_ns;
                let sums = self.together.get_or_insert_default();
                sums.busy_ns += busy_ns;
                sums.burner_ns += row.iter().map(|window| window.burner_ns).sum::<u64>();
                sums.program_ns += program_ns;
                let delivered = row.iter().map(Window::delivered_ns);
                sums.delivered_ns += delivered.min().unwrap_or(0);
            }
            _ => {
                self.ran_ns += length_ns;
                self.unknown_ns += length_ns;
            }
        }
    }

    /// Share of the windows, 0 to 1, of which nothing is known, if that is too much to judge.
    fn unknown_share(&self) -> Option<f64> {
        let share = self.unknown_ns as f64 / self.ran_ns.max(1) as f64;
        (share > NOISY_SHARE).then_some(share)
    }
}

/// Foreign load of one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnCpu {
    cpu: u32,
    /// `None` where it was not looked for or the kernel does not say.
    load: Option<ForeignLoad>,
}

impl OnCpu {
    pub fn pct(self) -> Option<f64> {
        self.load.map(ForeignLoad::pct)
    }
}

/// Foreign load of the run.
pub(super) struct Foreign<'a> {
    pub cpus: Vec<OnCpu>,
    /// Of all CPUs together, percent of one, where no more than that is known.
    together: Option<ForeignLoad>,
    /// Share of the windows, 0 to 1, of which nothing is known, if that is too much to judge.
    unknown: Option<f64>,
    /// Time in which programs waited for a CPU beside the windows in which they had one, ns.
    starved_ns: u64,
    processes: &'a [ForeignProcess],
}

pub(super) const MOST_NAMED: usize = 5;

/// Waiting for a CPU that is no sign of starvation, ns.
const STARVED_NS: u64 = 2_000_000_000;

impl<'a> Foreign<'a> {
    pub fn of(facts: &Facts, outcome: &'a RunOutcome, collector: &Collector<'_>) -> Self {
        // A node without programs is there to slow others.
        let empty = outcome.node.as_ref().is_some_and(|node| node.entered == 0);
        let sums = collector.foreign().filter(|_| !empty);
        let load = |time: BusyTime| time.foreign_load(facts.burns);
        let of = |(at, cpu): (usize, &u32)| OnCpu {
            cpu: *cpu,
            load: sums.and_then(|sums| sums.cpus.get(at).copied().map(load)),
        };
        Self {
            cpus: facts.cpus.iter().enumerate().map(of).collect(),
            together: sums.and_then(|sums| sums.together).map(load),
            unknown: sums.and_then(ForeignSums::unknown_share),
            starved_ns: sums.map_or(0, |sums| {
                let node = outcome.node.as_ref();
                let waited_ns = node.and_then(|node| node.waited_ns).unwrap_or(0);
                waited_ns.saturating_sub(sums.ran_ns)
            }),
            processes: &outcome.foreign,
        }
    }

    /// `52.3 % of CPU 0, 4.0 % of CPU 1`, of those with too much.
    pub fn too_much(&self) -> Option<String> {
        let is_too_much = |on: &&OnCpu| on.load.is_some_and(|load| load.is_too_much(1));
        let mut words: Vec<String> = self
            .cpus
            .iter()
            .filter(is_too_much)
            .map(|on| format!("{:.1} % of CPU {}", on.pct().unwrap_or(0.0), on.cpu))
            .collect();
        let cpus = self.cpus.len();
        words.extend(
            self.together
                .filter(|load| load.is_too_much(cpus))
                .map(|load| format!("{:.1} % of a CPU, on all CPUs together,", load.pct())),
        );
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// For how long programs waited for a CPU and had none at all, if that is more than their
    /// beginning and end, where windows are cut.
    pub fn starved(&self) -> Option<String> {
        let is_long = self.starved_ns > STARVED_NS;
        is_long.then(|| {
            let seconds = self.starved_ns as f64 / 1e9;
            format!("for {seconds:.1} s the node's programs waited for a CPU and had none")
        })
    }

    /// Of how much of the time in which programs ran it is not known, if that is too much to
    /// say that there was none.
    pub fn unknown(&self) -> Option<String> {
        let share = self.unknown?;
        Some(format!(
            "foreign load is not known: what the node's programs used could not be read in \
             {:.0} % of their time",
            share * 100.0
        ))
    }

    pub fn warning(&self, is_node: bool) -> Option<String> {
        let named: Vec<String> = self
            .processes
            .iter()
            .take(MOST_NAMED)
            .map(|p| {
                format!(
                    "{} (process {}) {:.2} s",
                    p.name,
                    p.pid,
                    p.used_ns as f64 / 1e9
                )
            })
            .collect();
        let names = if named.is_empty() {
            "short-lived processes, interrupts, or processes that sandbag cannot see".to_owned()
        } else {
            format!("most CPU time was used by {}", named.join(", "))
        };
        let than = if is_node {
            "the node's programs"
        } else {
            "the command"
        };
        Some(format!(
            "foreign load (limit {NOISY_FOREIGN_PCT} %) took {} from {than}: {names}",
            self.too_much()?
        ))
    }
}
