// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Saturation: noise takes nearly all of a rank's time, or events come due faster than they
//! can be replayed. Then the run measures the backlog, not the trace. Pure.

use sandbag_jitter::replay::ReplayPlan;
use serde::Serialize;

use super::meets::most_noise_pct;
use super::progress::Virtual;
use super::times::BenchTimes;
use crate::predict::SATURATED_PCT;
use crate::{Error, Result};

/// Share of the ranks' time that noise took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct NoiseLoad {
    /// Share of the time of the work, percent, of the rank with the most noise.
    pub noise_pct: f64,
    /// How late the events of a rank were at the end, and how long those were that
    /// had been passed over, percent of the time since they began; the rank of
    /// which that was most, mean of the segments.
    pub piled_pct: f64,
    /// Either is so large that the slowdown says nothing about the trace.
    pub saturated: bool,
}

/// A backlog of this share of the time, percent, and of this length saturates: a shorter one
/// is made up for, as after another task had the CPU for a while.
const PILED_PCT: f64 = 5.0;
const PILED_NS: f64 = 50e6;

/// Noise that takes this share of a CPU, percent, is refused: the host takes the rest, and
/// phases, between which the time is checked, do not end.
const MOST_PCT: f64 = 98.0;

/// Refuses a plan under which no work would end.
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

impl BenchTimes {
    /// Of ranks that meet; `None` if no jitter was injected.
    pub fn load(&self) -> Option<NoiseLoad> {
        if !self.has_jitter() {
            return None;
        }
        let both = self.per_rank(false).into_iter().zip(self.per_rank(true));
        let noise = both.map(|(quiet, jitter)| share_pct(quiet.qt_ns, jitter.qt_ns));
        let piled = (0..self.ranks as usize).map(|rank| {
            let courses = || self.segments_of(true).filter_map(|s| s.courses.get(rank));
            let piled_ns: u64 = courses().map(|course| course.piled_ns).sum();
            let passed = courses().map(|course| course.end_ns.saturating_sub(course.begin_ns));
            (piled_ns, passed.sum::<u64>())
        });
        let (piled_ns, passed_ns) = piled.max().unwrap_or((0, 0));
        let noise_pct = noise.fold(0.0, f64::max);
        Some(NoiseLoad::new(noise_pct, piled_ns as f64, passed_ns as f64))
    }
}

impl Virtual {
    /// Of all ranks together, because each has few phases; `None` if no jitter was injected.
    pub fn load(&self) -> Option<NoiseLoad> {
        let sum = |jitter| {
            let all = self.times.segments_of(jitter).flat_map(|s| &s.qt_ns);
            all.map(|ns| f64::from(*ns)).sum::<f64>()
        };
        let jitter_ns = sum(true);
        let noise_pct = share_pct(sum(false), jitter_ns);
        let piled_ns: u64 = self.piled_ns.iter().sum();
        let load = || NoiseLoad::new(noise_pct, piled_ns as f64, jitter_ns);
        self.times.has_jitter().then(load)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::bench_times;
    use super::super::times::SegmentTimes;

    #[test]
    fn noise_or_a_backlog_saturates() {
        let load = |qt_ns, piled_ns| {
            let jitter = (true, vec![100, qt_ns], vec![0, 0]);
            let mut measured = bench_times(100, [(false, vec![100; 2], vec![0; 2]), jitter]);
            let course = |piled_ns| SegmentTimes::from([1000, 1_000_001_000, piled_ns]);
            measured.segments[1].courses = vec![course(0), course(piled_ns)];
            measured.load().unwrap()
        };
        let found = load(400, 10_000_000);
        assert_eq!((found.noise_pct, found.piled_pct), (75.0, 1.0));
        let cases = [
            (400, 10_000_000),
            (1000, 0),
            (400, 60_000_000),
            (400, 49_000_000),
        ];
        let saturated = cases.map(|(qt_ns, piled_ns)| load(qt_ns, piled_ns).saturated);
        assert_eq!(saturated, [false, true, true, false]);
        let quiet = bench_times(100, [(false, vec![100; 2], vec![0; 2])]);
        assert_eq!(quiet.load(), None);
    }
}
