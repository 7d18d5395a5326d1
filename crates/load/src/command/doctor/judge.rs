// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the figures of a probe mean. Pure.
//!
//! A probe lasts a quarter of a second on a machine that does other things
//! as well, so the limits are wide: they tell a kernel that does something
//! from one that does not, not a good one from a better one.

use std::time::Duration;

/// Why something does not work, and what to do.
pub type Refusal = (String, String);

/// What a reservation for a pinned task needs here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserving {
    /// Nothing: the limit on real-time classes is off.
    Admitted,
    /// That sandbag takes the limit off for the run.
    WithoutLimit {
        may: bool,
    },
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Yes,
    No,
    Unclear,
}

use Judgement::{No, Unclear, Yes};

/// Weight of the heavier of the two spinners; the other has 1.
pub const HEAVIER: f64 = 3.0;
const LEAST_RATIO: f64 = 1.8;
const MOST_RATIO: f64 = 5.0;
/// Spinners that got less than this share between them say nothing.
const LEAST_SHARE: f64 = 0.1;

/// Two spinners of weights 1 and [`HEAVIER`] on one CPU.
pub fn weights(light_ns: u64, heavy_ns: u64, wall_ns: u64) -> Judgement {
    if (light_ns + heavy_ns) as f64 <= LEAST_SHARE * wall_ns as f64 {
        return Unclear;
    }
    // 0 for the lighter one is a ratio of infinity.
    match heavy_ns as f64 / light_ns as f64 {
        ratio if (LEAST_RATIO..=MOST_RATIO).contains(&ratio) => Yes,
        _ => No,
    }
}

/// Share to which the spinner of the cap probe is limited.
pub const CAP: f64 = 0.3;
const CAP_WITHIN: f64 = 0.1;

pub fn cap(share: f64) -> Judgement {
    match share {
        share if share > CAP + CAP_WITHIN => No,
        // Others may have had the CPU; a cap that bites too hard looks the
        // same.
        share if share < CAP - CAP_WITHIN => Unclear,
        _ => Yes,
    }
}

/// A slice that was asked for, and what was kept of it.
pub fn slice(asked_ns: u64, kept_ns: u64) -> Judgement {
    match kept_ns {
        0 => No,
        kept if kept == asked_ns => Yes,
        _ => Unclear,
    }
}

/// Median lateness above this means that timers go by the tick, ns.
const LATE_NS: u64 = 500_000;

pub fn median_ns(late: &[u64]) -> Option<f64> {
    let late: Vec<f64> = late.iter().map(|ns| *ns as f64).collect();
    sandbag_stats::median(&late)
}

pub fn timers(late: &[u64]) -> Judgement {
    match median_ns(late) {
        None => Unclear,
        Some(median) if median <= LATE_NS as f64 => Yes,
        Some(_) => No,
    }
}

/// A real-time task that wanted `wanted_ns` and was looked at after half as much time again,
/// and an ordinary spinner beside it.
pub fn fifo(got_ns: u64, beside_ns: u64, wanted_ns: u64) -> Judgement {
    match got_ns {
        got if got >= wanted_ns * 3 / 4 => Yes,
        got if beside_ns >= got => No,
        // Others of that class, or the hypervisor.
        _ => Unclear,
    }
}

/// What uses more than this was not frozen, ns: a tick is charged late.
const STILL_NS: u64 = 1_000_000;

pub fn judge_freeze(used_ns: u64, went_on_after: Option<Duration>) -> Judgement {
    match (used_ns, went_on_after) {
        (used, _) if used > STILL_NS => No,
        // It may have waited for the CPU.
        (_, None) => Unclear,
        _ => Yes,
    }
}

pub fn command_clock(by_group_ns: u64, by_process_ns: u64, wall_ns: u64) -> Judgement {
    if (by_process_ns as f64) < LEAST_SHARE * wall_ns as f64 {
        return Unclear;
    }
    // The one may count steal and interrupts that the other leaves out.
    match by_group_ns as f64 / by_process_ns as f64 {
        ratio if (0.8..=1.5).contains(&ratio) => Yes,
        _ => No,
    }
}

pub fn run_delay(waited_ns: u64, wall_ns: u64) -> Judgement {
    match waited_ns {
        0 => No,
        waited if waited as f64 > wall_ns as f64 / 4.0 => Yes,
        _ => Unclear,
    }
}

/// Steal below this while a spinner ran alone tells nothing, ns: /proc/stat
/// has it in steps of 10 ms.
const LEAST_STEAL_NS: u64 = 30_000_000;

/// Whether the clock of a spinner that always wanted the CPU left out what
/// was stolen: the wall time that is neither its own nor waiting for others.
/// `None` where too little was stolen to tell.
pub fn excludes_steal(wall_ns: u64, cpu_ns: u64, waited_ns: u64, steal_ns: u64) -> Option<bool> {
    let gap = wall_ns.saturating_sub(cpu_ns + waited_ns) as f64 / steal_ns.max(1) as f64;
    match gap {
        _ if steal_ns < LEAST_STEAL_NS => None,
        gap if gap >= 0.5 => Some(true),
        gap if gap <= 0.2 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn figures_of_probes_are_judged() {
        let soon = Some(Duration::from_micros(100));
        for (case, found, expected) in [
            ("by weight", weights(62 * MS, 188 * MS, 250 * MS), Yes),
            (
                "by weight, half taken by others",
                weights(31 * MS, 94 * MS, 250 * MS),
                Yes,
            ),
            ("weights ignored", weights(125 * MS, 125 * MS, 250 * MS), No),
            (
                "the lighter got nothing",
                weights(0, 250 * MS, 250 * MS),
                No,
            ),
            ("neither ran", weights(20 * MS, 4 * MS, 250 * MS), Unclear),
            ("nothing ran", weights(0, 0, 250 * MS), Unclear),
            ("cap held", cap(0.31), Yes),
            ("cap ignored", cap(1.0), No),
            ("cap not reached", cap(0.05), Unclear),
            ("slice kept", slice(100, 100), Yes),
            ("no slices", slice(100, 0), No),
            ("another slice", slice(100, 20), Unclear),
            ("one late wake-up", timers(&[10, 20, 90 * MS]), Yes),
            ("late by ticks", timers(&[MS, 2 * MS, 3 * MS]), No),
            ("no wake-ups", timers(&[]), Unclear),
            ("FIFO first", fifo(20 * MS, 10 * MS, 20 * MS), Yes),
            (
                "FIFO as an ordinary task",
                fifo(10 * MS, 20 * MS, 20 * MS),
                No,
            ),
            ("neither had the CPU", fifo(3 * MS, MS, 20 * MS), Unclear),
            ("frozen", judge_freeze(0, soon), Yes),
            ("not frozen", judge_freeze(20 * MS, soon), No),
            ("not thawed in time", judge_freeze(0, None), Unclear),
            (
                "command clock",
                command_clock(250 * MS, 249 * MS, 250 * MS),
                Yes,
            ),
            (
                "command clock stands",
                command_clock(0, 249 * MS, 250 * MS),
                No,
            ),
            (
                "command did not run",
                command_clock(MS, MS, 250 * MS),
                Unclear,
            ),
            ("waiting counted", run_delay(240 * MS, 250 * MS), Yes),
            ("waiting not counted", run_delay(0, 250 * MS), No),
            ("hardly waited", run_delay(10 * MS, 250 * MS), Unclear),
        ] {
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn steal_is_judged_only_where_there_is_enough_of_it() {
        for (cpu_ms, waited_ms, steal_ms, expected) in [
            (150, 50, 50, Some(true)),
            (200, 50, 50, Some(false)),
            (185, 50, 50, None),
            (230, 0, 20, None),
        ] {
            let found = excludes_steal(250 * MS, cpu_ms * MS, waited_ms * MS, steal_ms * MS);
            assert_eq!(found, expected, "{cpu_ms} {waited_ms} {steal_ms}");
        }
    }
}
