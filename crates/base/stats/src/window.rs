// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One interval of one CPU: what was asked, what was got.

use serde::{Deserialize, Serialize};

/// What one CPU was asked and what it got between `start_ns` and
/// `start_ns + length_ns` of the run.
///
/// The load is a share of the *delivered* time: the time the hypervisor gave
/// to others (steal) is taken out of the denominator, because no process on
/// this machine could have used it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Kernel number of the CPU.
    pub cpu: u32,
    /// Start of the window on the run's own clock, which stands still while a
    /// run is paused.
    pub start_ns: u64,
    /// Wall-clock length of the window, without pauses of the whole run. One
    /// with a pause in it may be up to 0.1 s longer than others.
    pub length_ns: u64,
    /// Time-weighted mean of the asked load over the window, 0 to 100.
    pub asked_pct: f64,
    /// CPU time of the burner (all burners of this CPU), from its CPU clock.
    pub burner_ns: u64,
    /// Time the hypervisor withheld; 0 where the machine does not say.
    pub steal_ns: u64,
    /// Busy time of the CPU, everything included except steal: the length
    /// without steal and the idle time of `/proc/stat`; absent where that was
    /// not read.
    pub busy_ns: Option<u64>,
    /// CPU time of the wrapped command, or of the programs in the virtual
    /// node, on this CPU; absent where there is neither or no per-CPU clock.
    pub command_ns: Option<u64>,
    /// The CPU was offline, the burner was being restarted, the program ran
    /// while the run was paused, or nothing is known of the window: the asked
    /// load was not there for all that can be said.
    pub hole: bool,
}

impl Window {
    /// Delivered time: wall minus steal, never below zero.
    pub fn delivered_ns(&self) -> u64 {
        self.length_ns.saturating_sub(self.steal_ns)
    }

    /// The load that the burner took, percent of the delivered time of one CPU.
    pub fn got_pct(&self) -> f64 {
        share_pct(self.burner_ns, self.delivered_ns())
    }

    /// Got minus asked, in points; not a number without delivered time.
    pub fn error_points(&self) -> f64 {
        match self.delivered_ns() {
            0 => f64::NAN,
            _ => self.got_pct() - self.asked_pct,
        }
    }

    /// Steal as percent of the wall time.
    pub fn steal_pct(&self) -> f64 {
        share_pct(self.steal_ns, self.length_ns)
    }

    /// Busy time of processes that are neither sandbag's nor the program's;
    /// `None` where busy time or the program's part of it is not known.
    /// `burns`: the burner's time is CPU time, and not time in which it kept
    /// the program from running.
    pub fn foreign_ns(&self, burns: bool) -> Option<u64> {
        let burned = if burns { self.burner_ns } else { 0 };
        let ours = burned + self.command_ns?;
        self.busy_ns.map(|busy| busy.saturating_sub(ours))
    }

    /// The same as percent of the delivered time.
    pub fn foreign_pct(&self, burns: bool) -> Option<f64> {
        self.foreign_ns(burns)
            .map(|ns| share_pct(ns, self.delivered_ns()))
    }

    /// The command's share of the delivered time, percent of one CPU.
    pub fn command_pct(&self) -> Option<f64> {
        self.command_ns.map(|ns| share_pct(ns, self.delivered_ns()))
    }
}

/// `part` of `whole` in percent; 0 of 0 is 0.
pub fn share_pct(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64 * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(length_ns: u64, burner_ns: u64, steal_ns: u64) -> Window {
        Window {
            cpu: 0,
            start_ns: 0,
            length_ns,
            asked_pct: 50.0,
            burner_ns,
            steal_ns,
            busy_ns: None,
            command_ns: None,
            hole: false,
        }
    }

    #[test]
    fn steal_is_not_part_of_the_time_that_is_shared() {
        let w = window(1_000_000_000, 450_000_000, 100_000_000);
        assert!((w.got_pct() - 50.0).abs() < 1e-9);
        assert!((w.steal_pct() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_window_without_delivered_time_has_no_load() {
        let w = window(10, 0, 20);
        assert_eq!(w.delivered_ns(), 0);
        assert!(w.got_pct().abs() < 1e-12);
        assert!(w.error_points().is_nan());
    }

    #[test]
    fn foreign_load_is_busy_time_of_neither_burner_nor_program() {
        let mut w = window(1000, 500, 0);
        assert_eq!(w.foreign_pct(true), None);
        w.busy_ns = Some(900);
        assert_eq!(w.foreign_pct(true), None, "the program's part is not known");
        w.command_ns = Some(300);
        assert!((w.foreign_pct(true).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(w.foreign_ns(false), Some(600));
    }
}
