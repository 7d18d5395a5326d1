// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both notations of atop keep of the samples read so far.

use crate::ProfileCell;

use super::super::counters::{Differences, STATES, StateTimes};
use super::super::host::Host;
use super::super::sample::{ImportSummary, slack};

/// What atop adds to a counter that fell, which it takes for one of 32 bits
/// that was full.
const WRAP: u64 = 0xffff_ffff;
/// More ticks than an interval can have: 248 days at 100 ticks a second.
const FELL: u64 = WRAP / 2;

#[derive(Default)]
pub(super) struct AtopRecording {
    /// Every line names it.
    pub(super) host: Host,
    pub(super) differences: Differences,
    /// End of the last sample that was taken.
    pub(super) last_ns: Option<i64>,
    /// Samples left out because they hold all the time since boot.
    pub(super) since_boot: u64,
    pub(super) has_steal: bool,
}

impl AtopRecording {
    /// The load of a CPU, by the ticks that it spent in each state. All are 0
    /// where the CPU is offline.
    pub(super) fn cell(&mut self, ticks: &StateTimes) -> Option<ProfileCell> {
        if *ticks == [0; STATES] {
            return None;
        }
        let (mut before, mut after) = ([0; STATES], *ticks);
        for (before, after) in before.iter_mut().zip(&mut after) {
            if *after > FELL {
                *before = WRAP.saturating_sub(*after);
                *after = 0;
            }
        }
        self.differences.cell(&before, &after)
    }

    /// Whether a sample that nothing marks counts from the boot: the first
    /// does, and a later one that reaches back before the last one's end.
    pub(super) fn counts_from_boot(&self, start_ns: i64, end_ns: i64) -> bool {
        match self.last_ns {
            None => self.since_boot == 0,
            Some(last_ns) => {
                end_ns > last_ns && start_ns < last_ns.saturating_sub(slack(end_ns - last_ns))
            }
        }
    }

    pub(super) fn about(&self, warnings: Vec<String>) -> ImportSummary {
        ImportSummary {
            host: self.host.name(),
            local: false,
            undated: false,
            has_steal: self.has_steal,
            warnings: warnings
                .into_iter()
                .chain(self.differences.warnings())
                .collect(),
        }
    }
}

/// Where nothing marks the samples since boot.
pub(super) fn unmarked_warning(since_boot: u64) -> String {
    let first = "the first sample holds all the time since boot, as atop writes it, \
                 and was left out";
    if since_boot > 1 {
        format!(
            "{first}, and so were {} more, written where atop was started anew",
            since_boot - 1
        )
    } else {
        first.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::counters::CpuState;

    #[test]
    fn a_counter_that_fell() {
        let mut r = AtopRecording::default();
        let mut ticks = [0; STATES];
        ticks[CpuState::User as usize] = 25;
        ticks[CpuState::Idle as usize] = 75;
        // What atop makes of a counter that fell by one tick, and by 4 s.
        ticks[CpuState::Softirq as usize] = WRAP - 1;
        assert_eq!(r.cell(&ticks), Some(ProfileCell::load(25.0)));
        ticks[CpuState::Softirq as usize] = WRAP - 400;
        assert_eq!(r.cell(&ticks), None);
        ticks[CpuState::Softirq as usize] = u64::MAX;
        assert_eq!(r.cell(&ticks), Some(ProfileCell::load(25.0)));
        assert_eq!(r.cell(&[0; STATES]), None);
        assert_eq!(r.about(Vec::new()).warnings.len(), 2);
        // Of a wait it is less idle time.
        ticks[CpuState::Softirq as usize] = 0;
        ticks[CpuState::Iowait as usize] = WRAP - 50;
        assert_eq!(r.cell(&ticks), Some(ProfileCell::load(50.0)));
    }
}
