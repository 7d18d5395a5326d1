// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether noise left anything to the work. Where it takes nearly all of a rank's
//! time, or more events come due than can be suffered, what is measured is how
//! much piled up. Pure.

use sandbag_jitter::replay::ReplayPlan;
use serde::Serialize;

use super::figures::per_rank;
use super::meets::most_noise_pct;
use super::progress::Virtual;
use super::times::BenchTimes;
use crate::predict::SATURATED_PCT;
use crate::{Error, Result};

/// How much of the ranks' time noise took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct NoiseLoad {
    /// Of the time of its work, percent; the rank that suffered most.
    pub noise_pct: f64,
    /// How late the events of a rank were at the end, and how long those were that
    /// had been passed over, percent of the time since they began; the rank of
    /// which that was most, mean of the segments.
    pub piled_pct: f64,
    /// Either is so much that the slowdown says nothing of the trace.
    pub saturated: bool,
}

/// What piled up is this part of the time, percent, and as long as this: one that
/// is late because somebody had the CPU for a while is made up for.
const PILED_PCT: f64 = 5.0;
const PILED_NS: f64 = 50e6;

/// Noise that takes this part of a rank's time leaves it next to nothing, percent; a host
/// takes the rest, and phases, between which the time is looked at, do not end.
const MOST_PCT: f64 = 98.0;

/// Whether works end under a plan.
///
/// # Errors
/// Noise takes nearly all of the time that a CPU of the trace was looked at.
pub fn leaves_room(plan: &ReplayPlan) -> Result<()> {
    let noise_pct = most_noise_pct(plan);
    if noise_pct < MOST_PCT {
        Ok(())
    } else {
        Err(Error::NoRoom {
            noise_pct,
            most_pct: MOST_PCT,
        })
    }
}

impl NoiseLoad {
    fn new(noise_pct: f64, piled_ns: f64, passed_ns: f64) -> Self {
        let piled_pct = piled_ns / passed_ns.max(1.0) * 100.0;
        let piles_up = piled_pct >= PILED_PCT && piled_ns >= PILED_NS;
        Self {
            noise_pct,
            piled_pct,
            saturated: noise_pct >= SATURATED_PCT || piles_up,
        }
    }
}

fn share_pct(quiet_ns: f64, jitter_ns: f64) -> f64 {
    if jitter_ns > quiet_ns {
        (1.0 - quiet_ns / jitter_ns) * 100.0
    } else {
        0.0
    }
}

/// Of ranks that met; `None` if no jitter was injected.
#[must_use]
pub fn load(measured: &BenchTimes) -> Option<NoiseLoad> {
    let these: Vec<_> = measured.segments.iter().filter(|s| s.jitter).collect();
    if these.is_empty() {
        return None;
    }
    let (quiet, jitter) = (per_rank(measured, false), per_rank(measured, true));
    let noise = quiet.iter().zip(&jitter);
    let noise = noise.map(|(quiet, jitter)| share_pct(quiet.qt_ns, jitter.qt_ns));
    let piled = (0..measured.ranks as usize).map(|rank| {
        let courses = || these.iter().filter_map(|segment| segment.courses.get(rank));
        let piled_ns: u64 = courses().map(|course| course.piled_ns).sum();
        let passed = courses().map(|course| course.end_ns.saturating_sub(course.begin_ns));
        (piled_ns, passed.sum::<u64>())
    });
    let (piled_ns, passed_ns) = piled.max().unwrap_or((0, 0));
    Some(NoiseLoad::new(
        noise.fold(0.0, f64::max),
        piled_ns as f64,
        passed_ns as f64,
    ))
}

impl Virtual {
    /// Of all ranks together: each for itself has few phases. `None` if no
    /// jitter was injected.
    #[must_use]
    pub fn load(&self) -> Option<NoiseLoad> {
        if self.jitter_ns.is_empty() {
            return None;
        }
        let sum = |all: &[u32]| all.iter().map(|ns| f64::from(*ns)).sum::<f64>();
        let (quiet_ns, jitter_ns) = (sum(&self.quiet_ns), sum(&self.jitter_ns));
        let noise_pct = share_pct(quiet_ns, jitter_ns);
        let piled_ns: u64 = self.piled_ns.iter().sum();
        Some(NoiseLoad::new(noise_pct, piled_ns as f64, jitter_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::times::{Segment, SegmentTimes};
    use super::*;

    fn measured(qt_ns: u32, piled_ns: u64) -> BenchTimes {
        let course = |piled_ns| SegmentTimes {
            begin_ns: 1000,
            end_ns: 1_000_001_000,
            piled_ns,
        };
        let jitter = Segment {
            courses: vec![course(0), course(piled_ns)],
            ..Segment::of_phases(true, &[100, qt_ns], &[0, 0])
        };
        BenchTimes {
            ranks: 2,
            oversubscribed: false,
            iterations: 1,
            calibrated_ns: 100,
            segments: vec![Segment::of_phases(false, &[100, 100], &[0, 0]), jitter],
            clocks: [Vec::new(), Vec::new()],
        }
    }

    #[test]
    fn little_left_is_saturated_and_so_is_what_piles_up() {
        let found = load(&measured(400, 10_000_000)).unwrap();
        assert_eq!((found.noise_pct, found.piled_pct), (75.0, 1.0));
        assert!(!found.saturated);
        assert!(load(&measured(1000, 0)).unwrap().saturated);
        assert!(load(&measured(400, 60_000_000)).unwrap().saturated);
        assert!(!load(&measured(400, 49_000_000)).unwrap().saturated);
        let quiet = BenchTimes {
            segments: vec![Segment::of_phases(false, &[100, 100], &[0, 0])],
            ..measured(100, 0)
        };
        assert_eq!(load(&quiet), None);
    }
}
