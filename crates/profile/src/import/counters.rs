// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From counters of CPU time to a load.
//!
//! busy = 1 - (idle + iowait + steal) / (sum of all - steal), over the
//! differences of the counters. Never over wall time: the sum of the states
//! strays from it by several percent, and by more on a laptop that slept.

use crate::ProfileCell;

use super::sample::count_warnings;

/// What a CPU can do, as far as its load is concerned. Guest time is inside
/// user and guest_nice inside nice, in every source that counts like the
/// kernel; it must not be added again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuState {
    User,
    Nice,
    System,
    Idle,
    Iowait,
    Irq,
    Softirq,
    Steal,
}

pub(super) const STATES: usize = 8;

/// Time in each state since some moment, by [`CpuState`], in any unit.
pub(super) type StateTimes = [u64; STATES];

/// The kernel counts in hundredths of a second on every common machine, in
/// the order of [`CpuState`].
pub(super) const USER_HZ: u64 = 100;

/// A counter that falls by this much began anew; a smaller fall is the
/// kernel's, which corrects idle. Seconds.
const RESET_S: u64 = 3;

/// The times with waiting for I/O as idle. The kernel counts an idle period that is
/// under way as one of the two when it is asked and perhaps as the other when the
/// period ends: one falls, the other jumps, and only their sum is steady.
pub(super) fn with_iowait_as_idle(mut times: StateTimes) -> StateTimes {
    let iowait = std::mem::take(&mut times[CpuState::Iowait as usize]);
    let idle = &mut times[CpuState::Idle as usize];
    *idle = idle.saturating_add(iowait);
    times
}

/// Makes loads of differences and counts what was odd about them.
#[derive(Debug)]
pub(super) struct Differences {
    reset: u64,
    resets: u64,
    small_falls: u64,
    still: u64,
    turned_back: u64,
}

impl Default for Differences {
    /// For counters of the kernel's ticks.
    fn default() -> Self {
        Self::new(USER_HZ)
    }
}

impl Differences {
    /// For counters of `per_second` units a second.
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            reset: RESET_S * per_second,
            resets: 0,
            small_falls: 0,
            still: 0,
            turned_back: 0,
        }
    }

    /// The load between two readings; `None` if the counters began anew.
    pub(super) fn cell(&mut self, before: &StateTimes, after: &StateTimes) -> Option<ProfileCell> {
        let [before, after] = [before, after].map(|times| with_iowait_as_idle(*times));
        let mut delta = [0u64; STATES];
        for i in 0..STATES {
            if before[i] > after[i] {
                if before[i] - after[i] >= self.reset {
                    self.resets += 1;
                    return None;
                }
                self.small_falls += 1;
            }
            delta[i] = after[i].saturating_sub(before[i]);
        }
        let total: u64 = delta.iter().fold(0, |sum, d| sum.saturating_add(*d));
        if total == 0 {
            // A CPU whose tick is switched off is idle.
            self.still += 1;
            return Some(ProfileCell::default());
        }
        let idle = CpuState::Idle as usize;
        let fell = before[idle].saturating_sub(after[idle]);
        if fell >= total {
            // What the others rose by is no measure of the time that passed.
            self.turned_back += 1;
            return None;
        }
        let of = |state: CpuState| delta[state as usize] as f64;
        Some(cell(of(CpuState::Idle), of(CpuState::Steal), total as f64))
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        count_warnings([
            (
                self.resets,
                "in {} samples a CPU's counters began anew (a restart, or the CPU was offline); \
                 its load is unknown there",
            ),
            (
                self.turned_back,
                "in {} samples idle time fell by what a CPU's other counters rose, or more; its \
                 load is unknown there",
            ),
            (
                self.small_falls,
                "{} counters fell by less than 3 s, as the kernel allows; they count as still",
            ),
            (
                self.still,
                "in {} samples no counter of a CPU moved (its tick was off, or the samples are \
                 too close); its load is taken to be 0",
            ),
        ])
    }
}

/// The load of a CPU that for `total`, more than 0, was unused for so long
/// and stolen for so long, all in the same unit.
pub(super) fn cell(unused: f64, steal: f64, total: f64) -> ProfileCell {
    let delivered = total - steal;
    let load_pct = if delivered > 0.0 {
        ((delivered - unused) / delivered * 100.0).clamp(0.0, 100.0)
    } else {
        0.0
    };
    ProfileCell {
        load_pct,
        steal_pct: (steal / total * 100.0).clamp(0.0, 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_of_three_seconds_is_a_restart_and_a_smaller_one_is_not() {
        let mut differences = Differences::new(1000);
        let before = [10_000, 0, 0, 10_000, 0, 0, 5_000, 0];
        let mut after = before;
        after[CpuState::Idle as usize] += 500;
        after[CpuState::User as usize] += 500;
        after[CpuState::Softirq as usize] -= 2_999;
        assert_eq!(
            differences.cell(&before, &after),
            Some(ProfileCell::load(50.0))
        );
        after[CpuState::Softirq as usize] -= 1;
        assert_eq!(differences.cell(&before, &after), None);
        assert_eq!(
            differences.cell(&before, &before),
            Some(ProfileCell::default())
        );
        assert_eq!(differences.warnings().len(), 3);
    }

    #[test]
    fn nothing_is_known_of_a_sample_in_which_idle_ran_backwards() {
        let mut differences = Differences::default();
        let mut load = |idle: u64, user: u64| {
            let (before, after) = ([0, 0, 0, 1000, 0, 0, 0, 0], [user, 0, 0, idle, 0, 0, 0, 0]);
            differences.cell(&before, &after).map(|cell| cell.load_pct)
        };
        assert_eq!(load(990, 1), None);
        assert_eq!(load(999, 1), None);
        assert_eq!(load(999, 100), Some(100.0));
        assert_eq!(load(999, 0), Some(0.0));
        assert!(differences.warnings()[0].starts_with("in 2 samples idle time fell"));
    }

    #[test]
    fn an_idle_period_may_move_from_iowait_to_idle() {
        let mut differences = Differences::default();
        let all = [
            [0, 0, 0, 1000, 0, 0, 0, 0],
            [50, 0, 0, 1000, 50, 0, 0, 0],
            [100, 0, 0, 1100, 0, 0, 0, 0],
            // By more than a restart takes.
            [100, 0, 0, 1100, 900, 0, 0, 0],
            [150, 0, 0, 2050, 0, 0, 0, 0],
        ];
        let loads = all.windows(2).map(|two| differences.cell(&two[0], &two[1]));
        let loads: Vec<_> = loads.map(|cell| cell.unwrap().load_pct).collect();
        assert_eq!(loads, [50.0, 50.0, 0.0, 50.0]);
        assert!(differences.warnings().is_empty());
    }

    #[test]
    fn steal_is_no_part_of_the_delivered_time() {
        let mut differences = Differences::new(100);
        let after = [30, 0, 0, 40, 10, 0, 0, 20];
        assert_eq!(
            differences.cell(&[0; STATES], &after),
            Some(ProfileCell {
                load_pct: 37.5,
                steal_pct: 20.0
            })
        );
    }
}
