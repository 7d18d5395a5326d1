// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spread of ranks that began together, as positions in what they replay: from when the
//! barrier released each, and from the rates of their clocks. A late event is made up for,
//! so it does not spread them. Pure.

use sandbag_stats::{median, range};
use serde::{Deserialize, Serialize};

use super::clocks::Offset;
use super::times::{BenchTimes, Segment, SegmentTimes};

/// Medians over the segments with jitter, or over all if there are none: another task that
/// took a CPU at the begin of one segment does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankSpread {
    /// Distance from the first rank to the last when a segment begins, ns: the release of
    /// the barrier.
    #[serde(rename = "begin")]
    pub begin_ns: f64,
    /// The same when it ends.
    #[serde(rename = "first_to_last")]
    pub end_ns: f64,
    /// Standard deviation at its end, ns.
    #[serde(rename = "standard_deviation")]
    pub deviation_ns: f64,
    /// Uncertainty of both, from the round trips of messages, ns.
    #[serde(rename = "error")]
    pub error_ns: f64,
    /// Gain of the fastest clock on the slowest, ns in a second.
    pub clocks_ns_per_s: f64,
    /// Uncertainty of that.
    pub clocks_error_ns_per_s: f64,
    /// Phases of a segment, about.
    pub phases: u64,
}

impl RankSpread {
    /// Distance from the first rank to the last this long after a common start, ns. Not
    /// continued from the two distances: they hide growth where the rank that is released late
    /// has the fast clock.
    pub fn after_ns(&self, passed_ns: f64) -> f64 {
        self.begin_ns + self.clocks_ns_per_s * passed_ns / 1e9
    }
}

/// A clock that runs evenly between two readings and beyond them.
struct LinearClock {
    from: Offset,
    per_ns: f64,
}

impl LinearClock {
    fn new(from: Offset, until: Offset) -> Self {
        let passed = until.at_ns.saturating_sub(from.at_ns).max(1);
        Self {
            from,
            per_ns: (until.ahead_ns - from.ahead_ns) as f64 / passed as f64,
        }
    }

    /// How much it is ahead at a time of the first rank's, ns.
    fn ahead_ns(&self, at_ns: u64) -> f64 {
        let since = at_ns.wrapping_sub(self.from.at_ns).cast_signed();
        self.from.ahead_ns as f64 + self.per_ns * since as f64
    }

    /// A reading of it, on the first rank's; relative to `zero_ns` there.
    fn common_ns(&self, own_ns: u64, zero_ns: u64) -> f64 {
        let about = own_ns.wrapping_sub(self.from.ahead_ns.cast_unsigned());
        let since = own_ns.wrapping_sub(zero_ns).cast_signed();
        since as f64 - self.ahead_ns(about)
    }
}

/// Distance from the least to the greatest.
pub(super) fn width(all: &[f64]) -> f64 {
    range(all).map_or(0.0, |(first, last)| last - first)
}

/// Standard deviation of all of a population.
pub(super) fn deviation(all: &[f64]) -> f64 {
    let count = all.len().max(1) as f64;
    let mean = all.iter().sum::<f64>() / count;
    let square = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    (square / count).sqrt()
}

/// `None` of a single rank, and where clocks were not compared.
pub fn rank_spread(measured: &BenchTimes) -> Option<RankSpread> {
    let [before, after] = &measured.clocks;
    if before.len() < 2 || before.len() != after.len() {
        return None;
    }
    let clocks: Vec<LinearClock> = before
        .iter()
        .zip(after)
        .map(|(from, until)| LinearClock::new(*from, *until))
        .collect();
    let these: Vec<&Segment> = measured
        .segments_of(measured.has_jitter())
        .filter(|segment| segment.courses.len() == clocks.len())
        .collect();
    let count = these.len();
    if count == 0 {
        return None;
    }
    let (mut begins, mut ends, mut deviations) = (Vec::new(), Vec::new(), Vec::new());
    for segment in &these {
        let (began, positions) = positions(&segment.courses, &clocks);
        begins.push(width(&began));
        ends.push(width(&positions));
        deviations.push(deviation(&positions));
    }
    let worst = |all: &[Offset]| all.iter().map(|o| o.error_ns).max().unwrap_or(0) as f64;
    let error_ns = worst(before).max(worst(after));
    let rates: Vec<f64> = clocks.iter().map(|clock| clock.per_ns * 1e9).collect();
    let passed_s = (after[1].at_ns.saturating_sub(before[1].at_ns).max(1)) as f64 / 1e9;
    let phases: usize = these.iter().map(|s| s.qt_ns.len() / clocks.len()).sum();
    Some(RankSpread {
        begin_ns: median(&begins).unwrap_or(0.0),
        end_ns: median(&ends).unwrap_or(0.0),
        deviation_ns: median(&deviations).unwrap_or(0.0),
        error_ns,
        clocks_ns_per_s: width(&rates),
        clocks_error_ns_per_s: (worst(before) + worst(after)) / passed_s,
        phases: (phases / count) as u64,
    })
}

/// When each rank began, and where it is in what it replays when the first rank
/// ends, ns; each with a zero of its own.
fn positions(courses: &[SegmentTimes], clocks: &[LinearClock]) -> (Vec<f64>, Vec<f64>) {
    let (zero_ns, end_ns) = (courses[0].begin_ns, courses[0].end_ns);
    let passed_ns = end_ns.saturating_sub(zero_ns) as f64;
    let mut begins = Vec::new();
    let mut positions = Vec::new();
    for (course, clock) in courses.iter().zip(clocks) {
        let began = clock.common_ns(course.begin_ns, zero_ns);
        begins.push(began);
        // By its own clock the time since it began, which is what it goes by.
        let gained = clock.per_ns * (passed_ns - began);
        positions.push(passed_ns - began + gained);
    }
    (begins, positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(at_ns: u64, ahead_ns: i64) -> Offset {
        Offset {
            at_ns,
            ahead_ns,
            error_ns: if ahead_ns == 0 { 0 } else { 100 },
        }
    }

    fn measured(courses: Vec<SegmentTimes>, clocks: [Vec<Offset>; 2]) -> BenchTimes {
        let count = courses.len();
        let segment = Segment {
            jitter: true,
            qt_ns: vec![1; 10 * count],
            bt_ns: vec![1; 10 * count],
            courses,
        };
        BenchTimes {
            ranks: count as u32,
            segments: vec![segment],
            clocks,
            ..BenchTimes::default()
        }
    }

    fn course(begin_ns: u64, end_ns: u64) -> SegmentTimes {
        SegmentTimes::from([begin_ns, end_ns, 0])
    }

    #[test]
    fn clocks_of_different_rates_spread_ranks() {
        // The second rank's clock is 5 s ahead and gains a part in a million; it
        // began 300 ns after the first.
        let second = 1_000_000_000;
        let clocks = [
            vec![offset(0, 0), offset(0, 5_000_000_000)],
            vec![offset(10 * second, 0), offset(10 * second, 5_000_010_000)],
        ];
        let courses = vec![
            course(second, 9 * second),
            course(6_000_001_300, 14_000_009_000),
        ];
        let found = rank_spread(&measured(courses, clocks)).unwrap();
        assert!((found.begin_ns - 300.0).abs() < 1.0, "{found:?}");
        assert!((found.end_ns - 7_700.0).abs() < 1.0, "{found:?}");
        assert!((found.deviation_ns - 3_850.0).abs() < 1.0, "{found:?}");
        assert!((found.clocks_ns_per_s - 1000.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.error_ns, found.phases), (100.0, 10));
        assert!((found.clocks_error_ns_per_s - 20.0).abs() < 1e-9);
    }

    #[test]
    fn one_rank_or_clocks_that_were_not_compared_have_no_spread() {
        let one = measured(
            vec![course(0, 10)],
            [vec![offset(0, 0)], vec![offset(9, 0)]],
        );
        assert_eq!(rank_spread(&one), None);
        let two = vec![course(0, 10), course(0, 10)];
        assert_eq!(rank_spread(&measured(two, [Vec::new(), Vec::new()])), None);
    }
}
