// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the values are, which a document does not say: counters or rates, of
//! all of the time or of a part.

use std::collections::BTreeMap;

use crate::import::counters::{CpuState, STATES};
use crate::number::NS_PER_S;
use crate::{Fault, Result};

use super::labels::MODES;
use super::store::{MetricPoint, Modes};

/// A share of the time, as a rate extrapolates it, is not greater.
const SHARE: f64 = 1.5;
const PERCENT: f64 = 150.0;
/// Rates fall as often as they rise; counters fall once in a restart.
const FALLS: f64 = 0.1;
/// CPU time per wall time above which rounding is no explanation.
pub(super) const TOO_MUCH: f64 = 1.1;
/// Modes that add up to less than this are not all there are.
const ALL: f64 = 0.9;
/// Points of each mode that are looked at to find such things out.
pub(super) const ENOUGH: usize = 1000;
/// The modes of Linux whose absence changes a load. Without steal the sum of the others is the
/// delivered time, and the load is a share of that.
const NEEDED: [CpuState; 7] = [
    CpuState::User,
    CpuState::Nice,
    CpuState::System,
    CpuState::Idle,
    CpuState::Iowait,
    CpuState::Irq,
    CpuState::Softirq,
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MetricKind {
    /// Seconds so far.
    Counters,
    /// Time in a mode as a share of all time: `rate()`, `irate()`.
    Rates {
        /// What the whole time is: 1, or 100.
        unit: f64,
    },
}

/// What the kinds differ in: how large values become and how often they fall.
pub(super) fn kind<'a>(series: impl Iterator<Item = &'a [MetricPoint]>, named: bool) -> MetricKind {
    let mut greatest = 0f64;
    let (mut falls, mut moves, mut rises) = (0u64, 0u64, true);
    for points in series {
        greatest = points.iter().fold(greatest, |max, p| max.max(p.value));
        for two in points.windows(2) {
            let (before, now) = (two[0].value, two[1].value);
            falls += u64::from(now < before);
            moves += u64::from(now != before);
            // A counter that falls begins anew at 0.
            rises &= now >= before || now == 0.0;
        }
    }
    let counts = (falls as f64) < FALLS * moves as f64;
    match greatest {
        ..=SHARE if named && rises => MetricKind::Counters,
        ..=SHARE => MetricKind::Rates { unit: 1.0 },
        _ if named || counts => MetricKind::Counters,
        ..=PERCENT => MetricKind::Rates { unit: 100.0 },
        _ => MetricKind::Rates { unit: greatest },
    }
}

impl MetricKind {
    /// What it was taken for; nothing of counters under their own name.
    pub(super) fn warning_text(self, named: bool) -> Option<String> {
        Some(match self {
            Self::Counters if named => return None,
            Self::Counters => {
                "the values were taken for counters, seconds of CPU time, because they rise".into()
            }
            Self::Rates { unit } => format!(
                "the values were taken for rates{}, because they rise and fall; each is the mean \
                 of the time before its stamp, here taken to begin at the stamp before it",
                match unit {
                    1.0 => ", shares of the time as rate() and irate() give them (0.5: 50 %)",
                    100.0 => " in percent of the time",
                    _ => "",
                }
            ),
        })
    }
}

/// What the whole time of a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// The sum of its modes.
    Modes,
    /// The wall time; idle is known, and busy is the rest.
    WallLessIdle,
    /// The wall time; what is busy is known, and idle is the rest.
    WallLessBusy,
}

/// Which it is, by the modes that are there; and what is to be told.
pub(super) fn whole<'a>(
    states: &[bool; STATES],
    mut cpus: impl Iterator<Item = &'a Modes>,
    kind: MetricKind,
) -> Result<(Whole, Option<String>), Fault> {
    let has = |state: CpuState| states[state as usize];
    let names = |wanted: &dyn Fn(usize) -> bool| -> String {
        let names = (0..STATES).filter(|mode| wanted(*mode));
        names.map(|mode| MODES[mode]).collect::<Vec<_>>().join(", ")
    };
    let unused = |mode: usize| {
        [CpuState::Idle, CpuState::Iowait, CpuState::Steal]
            .map(|state| state as usize)
            .contains(&mode)
    };
    let there = names(&|mode| states[mode]);
    let busy = names(&|mode| states[mode] && !unused(mode));
    let waits = if has(CpuState::Iowait) {
        ""
    } else {
        ", waiting for I/O included"
    };
    let too_little = || {
        format!(
            "the modes that are there, {there}, do not add up to the wall time (missing: {})",
            names(&|mode| !states[mode])
        )
    };
    let main_modes = has(CpuState::User) && has(CpuState::System);
    // The sums of an increase() are no wall time, and steal may be all that is missing.
    let is_unclear = matches!(kind, MetricKind::Rates { unit } if unit != 1.0)
        || has(CpuState::Iowait) && !has(CpuState::Steal);
    let found = if !has(CpuState::Idle) && busy.is_empty() {
        return Err(Fault::NoSingleCpu(
            "export mode idle at least, better all modes of node_cpu_seconds_total",
        ));
    } else if !has(CpuState::Idle) {
        let told = format!("mode idle is not there: busy is the sum of {busy} over the wall time");
        (Whole::WallLessBusy, Some(told))
    } else if busy.is_empty() {
        let usage = match kind {
            MetricKind::Counters => "",
            MetricKind::Rates { .. } => {
                " (a usage such as 1 - rate(idle) still carries mode=idle; ask for rate() itself)"
            }
        };
        let told = format!(
            "of the modes only {there} is there: busy is the rest of the wall time{waits}{usage}"
        );
        (Whole::WallLessIdle, Some(told))
    } else if NEEDED.iter().all(|state| has(*state)) || cpus.any(|modes| adds_up(modes, kind)) {
        (Whole::Modes, None)
    } else if main_modes && is_unclear {
        let told = too_little() + ": load is the busy share of their sum; ask for all modes";
        (Whole::Modes, Some(told))
    } else if main_modes && !has(CpuState::Iowait) {
        let told = too_little() + &format!(": busy is the sum of {busy} over the wall time");
        (Whole::WallLessBusy, Some(told))
    } else {
        let told = too_little() + &format!(": busy is what idle leaves of it{waits}");
        (Whole::WallLessIdle, Some(told))
    };
    match (found, kind) {
        ((Whole::WallLessBusy | Whole::WallLessIdle, _), MetricKind::Rates { unit })
            if unit != 1.0 && unit != 100.0 =>
        {
            Err(Fault::out_of_range(
                "the greatest value, taken for a rate,",
                unit,
            ))
        }
        (found, _) => Ok(found),
    }
}

/// The sums of a CPU's modes at its first moments, of those at which each mode has a point.
fn sums(modes: &Modes) -> Vec<(i64, f64)> {
    let series = || modes.iter().flatten();
    let mut sums: BTreeMap<i64, (usize, f64)> = BTreeMap::new();
    for point in series().flat_map(|points| points.iter().take(ENOUGH)) {
        let (count, sum) = sums.entry(point.ns).or_default();
        *count += 1;
        *sum += point.value;
    }
    let whole = sums
        .iter()
        .filter(|(_, (count, _))| *count == series().count());
    whole.map(|(ns, (_, sum))| (*ns, *sum)).collect()
}

/// By how many times the counters of a CPU grow faster than time does, if they do. The greatest
/// move may be a fault of the kernel, and each be late by the time between two.
pub(super) fn times_too_fast(modes: &Modes) -> Option<f64> {
    let mut sums = sums(modes);
    sums.dedup_by_key(|(_, sum)| *sum);
    let moves = sums.windows(2).map(|two| {
        let wall_s = (two[1].0 - two[0].0) as f64 / NS_PER_S as f64;
        ((two[1].1 - two[0].1).max(0.0), wall_s)
    });
    let mut moves: Vec<(f64, f64)> = moves.collect();
    moves.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    moves.pop();
    if moves.len() < 2 {
        return None;
    }
    let late_s = moves.iter().fold(0.0, |late, (_, wall)| wall.max(late));
    let spent_s: f64 = moves.iter().map(|(spent, _)| spent).sum();
    let wall_s: f64 = moves.iter().map(|(_, wall)| wall).sum();
    (spent_s > wall_s * TOO_MUCH + late_s).then_some(spent_s / wall_s)
}

/// Whether a CPU's modes are all of its time, in nine of ten intervals.
fn adds_up(modes: &Modes, kind: MetricKind) -> bool {
    let sums = sums(modes);
    let mut shares: Vec<f64> = match kind {
        MetricKind::Rates { unit } => sums.iter().map(|(_, sum)| sum / unit).collect(),
        MetricKind::Counters => sums
            .windows(2)
            .map(|two| (two[1].1 - two[0].1, two[1].0 - two[0].0))
            .map(|(spent_s, wall_ns)| spent_s / (wall_ns as f64 / 1e9))
            .collect(),
    };
    // Counters were held for a while, or began anew; rates are those of a CPU that is offline.
    shares.retain(|share| *share > 0.0);
    if shares.is_empty() {
        return false;
    }
    // On a machine that mostly idles, idle alone is nearly all in most of them.
    let low = shares.len() / 10;
    *shares.select_nth_unstable_by(low, f64::total_cmp).1 > ALL
}
