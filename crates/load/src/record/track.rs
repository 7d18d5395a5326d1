// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One CPU from sample to sample: counters in, cells of the profile out.

use sandbag_linux::procstat::{CpuDelta, CpuTimes, without_steal};
use sandbag_profile::ProfileCell;

use crate::record::CpuReport;

/// Smaller decreases are races of the kernel's bookkeeping, ticks.
const RACE_TICKS: u64 = 2;

/// How far the command's clock may run ahead of `/proc/stat`: ten ticks. It
/// covers the rounding of both (the busy states are rounded one by one) and
/// the error of sampling them at the timer interrupt. Without a bound, a
/// command that always runs between two interrupts, and so is never seen by
/// `/proc/stat`, would blot out the load of others for a long time.
const LEAD_TICKS: u64 = 10;

/// What the command took between two samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandTime {
    /// Its clock now; only differences count. `None` where it is not known.
    pub(crate) ns: Option<u64>,
    /// Stolen time is contained.
    pub(crate) counts_steal: bool,
}

#[derive(Debug, Default)]
pub(crate) struct RecordTrack {
    cpu: u32,
    tick_ns: u64,
    steal_as_load: bool,
    before: Option<CpuTimes>,
    command_before: Option<u64>,
    /// The command's time that `/proc/stat` has not yet shown as busy.
    lead_ns: u64,
    unplaced_ns: u64,
    holes: u64,
    loaded_ns: u64,
    base_ns: u64,
    steal_ns: u64,
    total_ns: u64,
}

impl RecordTrack {
    pub(crate) fn new(cpu: u32, tick_ns: u64, steal_as_load: bool) -> Self {
        Self {
            cpu,
            tick_ns,
            steal_as_load,
            ..Self::default()
        }
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    pub(crate) fn start(&mut self, now: Option<&CpuTimes>, command: Option<CommandTime>) {
        self.before = now.copied();
        self.command_before = command.and_then(|c| c.ns);
    }

    /// The row from the last sample to this one; `None` where it is unknown.
    pub(crate) fn next(
        &mut self,
        now: Option<&CpuTimes>,
        command: Option<CommandTime>,
    ) -> Option<ProfileCell> {
        let cell = self.cell(now, command);
        self.before = now.copied();
        self.holes += u64::from(cell.is_none());
        cell
    }

    fn cell(
        &mut self,
        now: Option<&CpuTimes>,
        command: Option<CommandTime>,
    ) -> Option<ProfileCell> {
        let own = command.map(|c| (self.own_time(c), c.counts_steal));
        let delta = now?.since(self.before.as_ref()?, self.tick_ns);
        if delta.back_ns > RACE_TICKS * self.tick_ns || delta.total_ns() == 0 {
            return None;
        }
        let busy_ns = match own {
            None => delta.busy_ns,
            Some((ns, counts_steal)) => self.opposing(&delta, ns?, counts_steal),
        };
        let (loaded_ns, base_ns, steal_ns) = if !self.steal_as_load {
            (busy_ns, delta.delivered_ns(), delta.steal_ns)
        } else {
            // A share of all time, beside which nothing is stolen.
            (busy_ns + delta.steal_ns, delta.total_ns(), 0)
        };
        self.loaded_ns += loaded_ns;
        self.base_ns += base_ns;
        self.steal_ns += delta.steal_ns;
        self.total_ns += delta.total_ns();
        Some(ProfileCell {
            // Where all was stolen there is no load to speak of, but the
            // steal is to be kept.
            load_pct: percent(loaded_ns, base_ns).unwrap_or(0.0),
            steal_pct: percent(steal_ns, delta.total_ns())?,
        })
    }

    /// The command's time since the last sample.
    fn own_time(&mut self, command: CommandTime) -> Option<u64> {
        let before = std::mem::replace(&mut self.command_before, command.ns)?;
        Some(command.ns?.saturating_sub(before))
    }

    /// Busy time minus the command's own, never below 0. What the command's
    /// clock is ahead is taken from the rows that follow, so that sums stay
    /// right.
    fn opposing(&mut self, delta: &CpuDelta, own_ns: u64, counts_steal: bool) -> u64 {
        let mut own_ns = own_ns;
        if counts_steal {
            let not_idle_ns = delta.busy_ns + delta.steal_ns;
            own_ns = without_steal(own_ns, delta.steal_ns, not_idle_ns);
        }
        let own_ns = own_ns + self.lead_ns;
        self.lead_ns = own_ns.saturating_sub(delta.busy_ns);
        let bound = LEAD_TICKS * self.tick_ns;
        if self.lead_ns > bound {
            self.unplaced_ns += self.lead_ns - bound;
            self.lead_ns = bound;
        }
        delta.busy_ns.saturating_sub(own_ns)
    }

    pub(crate) fn report(&self) -> CpuReport {
        CpuReport {
            cpu: self.cpu,
            load_pct: percent(self.loaded_ns, self.base_ns),
            steal_pct: percent(self.steal_ns, self.total_ns),
            holes: self.holes,
            unplaced_ns: self.unplaced_ns,
        }
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: u64 = 10_000_000;

    fn times(user: u64, idle: u64, steal: u64) -> CpuTimes {
        CpuTimes {
            user,
            idle,
            steal,
            ..CpuTimes::default()
        }
    }

    /// A track that starts at counters of zero.
    fn track(steal_as_load: bool, command: Option<CommandTime>) -> RecordTrack {
        let mut track = RecordTrack::new(3, TICK, steal_as_load);
        track.start(Some(&times(0, 0, 0)), command);
        track
    }

    fn command(ns: u64, counts_steal: bool) -> Option<CommandTime> {
        Some(CommandTime {
            ns: Some(ns),
            counts_steal,
        })
    }

    #[test]
    fn load_and_steal() {
        for (steal_as_load, now, expected) in [
            (false, times(40, 40, 20), (50.0, 20.0)),
            (true, times(40, 40, 20), (60.0, 0.0)),
            (false, times(0, 0, 20), (0.0, 100.0)),
        ] {
            let cell = track(steal_as_load, None).next(Some(&now), None).unwrap();
            assert_eq!((cell.load_pct, cell.steal_pct), expected);
        }
    }

    #[test]
    fn a_cpu_that_is_away_and_counters_that_go_back_leave_holes() {
        let mut track = track(false, None);
        for (now, known) in [
            (Some(times(5, 5, 0)), true),
            (None, false),
            // Back again: this sample only begins a row.
            (Some(times(6, 9, 0)), false),
            (Some(times(500, 503, 0)), true),
            (Some(times(1, 1, 0)), false),
            (Some(times(11, 11, 0)), true),
            // A race of the kernel's bookkeeping.
            (Some(times(10, 21, 0)), true),
            // Nothing was accounted.
            (Some(times(10, 21, 0)), false),
        ] {
            assert_eq!(track.next(now.as_ref(), None).is_some(), known, "{now:?}");
        }
        assert_eq!((track.report().cpu, track.report().holes), (3, 4));
    }

    /// Samples, the command's clock in ticks, and the opposing load.
    #[test]
    fn opposing_load_is_busy_minus_the_command_s_own() {
        type Rows<'a> = &'a [((u64, u64, u64), u64, f64)];
        let cases: [(bool, Rows<'_>, u64); 5] = [
            (false, &[((80, 20, 0), 30, 50.0)], 0),
            // The command was the only one to run: 60 ticks delivered, 20
            // stolen. Then half of the busy time, and of the steal, is its own.
            (
                true,
                &[((60, 20, 20), 80, 0.0), ((120, 40, 40), 120, 37.5)],
                0,
            ),
            // What the command is ahead is made up for.
            (false, &[((4, 6, 0), 5, 0.0), ((10, 10, 0), 9, 10.0)], 0),
            // A command that /proc/stat never sees does not blot out the rest.
            (
                false,
                &[((0, 100, 0), 50, 0.0), ((60, 140, 0), 50, 50.0)],
                40,
            ),
            (false, &[((50, 50, 0), 0, 50.0)], 0),
        ];
        for (counts_steal, rows, unplaced) in cases {
            let mut track = track(false, command(7, counts_steal));
            for ((user, idle, steal), own, expected) in rows {
                let own = command(7 + own * TICK, counts_steal);
                let now = times(*user, *idle, *steal);
                let cell = track.next(Some(&now), own).unwrap();
                assert!((cell.load_pct - expected).abs() < 1e-9, "{rows:?}");
            }
            assert_eq!(track.report().unplaced_ns, unplaced * TICK);
        }
    }

    /// As after a suspend: the CPU is there in every sample, the command's time is not.
    #[test]
    fn a_load_is_unknown_while_the_command_s_time_is() {
        let mut track = track(false, command(0, true));
        let unknown = Some(CommandTime {
            ns: None,
            counts_steal: true,
        });
        for (n, own, known) in [
            (1, command(5, true), true),
            (2, unknown, false),
            // This one only begins a row.
            (3, command(5, true), false),
            (4, command(6, true), true),
        ] {
            let cell = track.next(Some(&times(n, n, 0)), own);
            assert_eq!(cell.is_some(), known, "row {n}");
        }
        assert_eq!(track.report().holes, 2);
    }

    proptest! {
        // A command and others share a CPU; /proc/stat sees both in whole
        // ticks, the command's clock is exact. The sums agree to a tick.
        #[test]
        fn sums_of_the_opposing_load_are_right(
            rows in prop::collection::vec((0u64..=50, 0u64..=50), 1..200),
        ) {
            let mut track = track(false, command(0, false));
            let (mut busy, mut own, mut all, mut sum) = (0, 0, 0u64, 0.0);
            let mut seen = times(0, 0, 0);
            for (command_ms, others_ms) in rows {
                own += command_ms * 1_000_000;
                busy += (command_ms + others_ms) * 1_000_000;
                all += 100_000_000;
                let now = times(busy / TICK, all / TICK - busy / TICK, 0);
                let cell = track.next(Some(&now), command(own, false)).unwrap();
                prop_assert!((0.0..=100.0).contains(&cell.load_pct));
                let delivered = now.user + now.idle - seen.user - seen.idle;
                sum += cell.load_pct / 100.0 * (delivered * TICK) as f64;
                seen = now;
            }
            prop_assert_eq!(track.report().unplaced_ns, 0);
            let others = (busy - own) as f64;
            prop_assert!((sum - others).abs() <= 2.0 * TICK as f64, "{} {}", sum, others);
        }
    }
}
