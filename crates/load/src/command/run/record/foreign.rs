// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Foreign load: CPU time of processes that are neither sandbag's nor the
//! program's.

use crate::supervisor::{ForeignProcess, RunOutcome};
use sandbag_linux::procstat::tick_ns;
use sandbag_stats::verdict::NOISY_FOREIGN_PCT;
use sandbag_stats::window::share_pct;

use super::super::observer::{Collector, CpuSums};
use super::facts::Facts;

/// Foreign load of one CPU over the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnCpu {
    cpu: u32,
    /// `None` where it was not looked for or the kernel does not say.
    foreign_ns: Option<u64>,
    delivered_ns: u64,
}

impl OnCpu {
    pub fn pct(self) -> Option<f64> {
        let foreign_ns = self.foreign_ns?;
        Some(share_pct(foreign_ns, self.delivered_ns))
    }

    /// Whether it is more than may be. The counters of idle time and steal
    /// have a tick each that is not known.
    fn is_too_much(self) -> bool {
        let known_ns = self.foreign_ns.unwrap_or(0).saturating_sub(2 * tick_ns());
        share_pct(known_ns, self.delivered_ns) > NOISY_FOREIGN_PCT
    }
}

/// Foreign load of the run.
pub(super) struct Foreign<'a> {
    pub cpus: Vec<OnCpu>,
    processes: &'a [ForeignProcess],
}

pub(super) const MOST_NAMED: usize = 5;

impl<'a> Foreign<'a> {
    pub fn of(facts: &Facts, outcome: &'a RunOutcome, collector: &Collector<'_>) -> Self {
        // A node without programs is there to slow others.
        let empty = outcome.node.as_ref().is_some_and(|node| node.entered == 0);
        let of = |(cpu, sums): (&u32, &CpuSums)| {
            let burned_ns = if facts.burns { sums.burner_ns } else { 0 };
            let busy = sums.busy_ns.zip(sums.command_ns).filter(|_| !empty);
            OnCpu {
                cpu: *cpu,
                foreign_ns: busy.map(|(busy, own)| busy.saturating_sub(own + burned_ns)),
                delivered_ns: sums.wall_ns.saturating_sub(sums.steal_ns),
            }
        };
        Self {
            cpus: facts.cpus.iter().zip(collector.sums()).map(of).collect(),
            processes: &outcome.foreign,
        }
    }

    /// `52.3 % of CPU 0, 4.0 % of CPU 1`, of those with too much.
    pub fn too_much(&self) -> Option<String> {
        let too_much = self.cpus.iter().filter(|on| on.is_too_much());
        let words: Vec<String> = too_much
            .map(|on| format!("{:.1} % of CPU {}", on.pct().unwrap_or(0.0), on.cpu))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
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
