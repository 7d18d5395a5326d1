// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The times that a run of the benchmark measured.

use super::clocks::Offset;

/// Consecutive phases, all with jitter or all without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// Jitter was injected.
    pub jitter: bool,
    /// Duration of the work: phase by phase, within a phase rank by rank, ns.
    pub qt_ns: Vec<u32>,
    /// Duration of the wait that follows, ns. Empty for virtual ranks, which never wait.
    pub bt_ns: Vec<u32>,
    /// The segment as a whole, rank by rank; empty for virtual ranks.
    pub courses: Vec<SegmentTimes>,
}

impl Segment {
    /// Duration of the whole phase (qbt) at a place of the lists, ns.
    fn qbt_ns(&self, place: usize) -> u64 {
        let bt_ns = self.bt_ns.get(place).map_or(0, |ns| u64::from(*ns));
        u64::from(self.qt_ns[place]) + bt_ns
    }
}

/// The longest duration that can be kept, ns: 4.29 s. Longer ones count as this.
pub const LONGEST_NS: u32 = u32::MAX;

/// One rank in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentTimes {
    /// Begin of its first phase by its own clock, ns.
    pub begin_ns: u64,
    /// End of its last phase.
    pub end_ns: u64,
    /// Backlog at the end: delay of its next event and length of the events it skipped.
    pub piled_ns: u64,
}

impl From<[u64; 3]> for SegmentTimes {
    fn from([begin_ns, end_ns, piled_ns]: [u64; 3]) -> Self {
        Self {
            begin_ns,
            end_ns,
            piled_ns,
        }
    }
}

impl From<SegmentTimes> for [u64; 3] {
    fn from(times: SegmentTimes) -> Self {
        [times.begin_ns, times.end_ns, times.piled_ns]
    }
}

/// The measured times of all ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchTimes {
    pub ranks: u32,
    /// Ranks also waited for CPU time: there were more than CPUs, or their group had a limit.
    pub oversubscribed: bool,
    /// Iterations of the work.
    pub iterations: u64,
    /// Least duration of that work during calibration, ns.
    pub calibrated_ns: u64,
    /// In the order in which they ran.
    pub segments: Vec<Segment>,
    /// The ranks' clocks before the first segment and after the last; empty where they were
    /// not compared.
    pub clocks: [Vec<Offset>; 2],
}

impl BenchTimes {
    /// The segments with jitter, or those without.
    pub(super) fn segments_of(&self, jitter: bool) -> impl Iterator<Item = &Segment> + Clone {
        self.segments.iter().filter(move |s| s.jitter == jitter)
    }

    /// Whether jitter was injected in a segment.
    pub fn has_jitter(&self) -> bool {
        self.segments_of(true).next().is_some()
    }

    /// The slowest of the first `count` ranks in each phase, ns; for each of the `counts`,
    /// which ascend.
    pub(super) fn slowest_ns(&self, jitter: bool, counts: &[u32]) -> Vec<Vec<u64>> {
        let ranks = self.ranks.max(1) as usize;
        let phases = self.segments_of(jitter).map(|s| s.qt_ns.len() / ranks);
        let phases: usize = phases.sum();
        let mut all: Vec<_> = counts.iter().map(|_| Vec::with_capacity(phases)).collect();
        for segment in self.segments_of(jitter) {
            for first in (0..segment.qt_ns.len()).step_by(ranks) {
                let (mut most_ns, mut done) = (0, 0);
                for (slowest, count) in all.iter_mut().zip(counts) {
                    let places = first + done..first + *count as usize;
                    most_ns = places.fold(most_ns, |most, at| most.max(segment.qbt_ns(at)));
                    slowest.push(most_ns);
                    done = *count as usize;
                }
            }
        }
        all
    }

    /// Number of durations that reached [`LONGEST_NS`].
    pub fn capped(&self) -> usize {
        let all = self.segments.iter().flat_map(|s| [&s.qt_ns, &s.bt_ns]);
        all.flatten().filter(|ns| **ns == LONGEST_NS).count()
    }

    /// Duration of all segments by the first rank's clock, ns.
    pub fn took_ns(&self) -> u64 {
        let first = |segment: Option<&Segment>| segment.and_then(|s| s.courses.first().copied());
        let begin = first(self.segments.first()).map_or(0, |course| course.begin_ns);
        let end = first(self.segments.last()).map_or(0, |course| course.end_ns);
        end.saturating_sub(begin)
    }
}

/// 1, 2, 4 and so on up to the number of ranks, and that number.
pub(super) fn powers_and_all(ranks: u32) -> Vec<u32> {
    (1..=ranks)
        .filter(|count| count.is_power_of_two() || *count == ranks)
        .collect()
}
