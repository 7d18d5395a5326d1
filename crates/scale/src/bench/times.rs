// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured of ranks that met, whatever they are.

use super::clocks::Offset;

/// Phases in a row, all with jitter or all without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Jitter was injected.
    pub jitter: bool,
    /// How long the work took: phase by phase, rank by rank, ns.
    pub qt_ns: Vec<u32>,
    /// How long the rank then waited, ns.
    pub bt_ns: Vec<u32>,
    /// Rank by rank.
    pub courses: Vec<SegmentTimes>,
}

impl Segment {
    /// Of phases whose ranks' courses are not known.
    #[must_use]
    pub fn of_phases(jitter: bool, qt_ns: &[u32], bt_ns: &[u32]) -> Self {
        Self {
            jitter,
            qt_ns: qt_ns.to_vec(),
            bt_ns: bt_ns.to_vec(),
            courses: Vec::new(),
        }
    }
}

/// The longest time of a phase that can be told, ns: 4.29 s.
pub const LONGEST_NS: u32 = u32::MAX;

/// How many of these are longer than can be told.
pub(super) fn capped(all: &[u32]) -> usize {
    all.iter().filter(|ns| **ns == LONGEST_NS).count()
}

/// A segment of one rank, as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentTimes {
    /// When its first phase began, by its own clock, ns.
    pub begin_ns: u64,
    /// When its last phase ended.
    pub end_ns: u64,
    /// What had piled up then: how late its events were, and how long those were
    /// that had been passed over.
    pub piled_ns: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchTimes {
    pub ranks: u32,
    /// There were more ranks than CPUs: they waited for CPUs as well.
    pub oversubscribed: bool,
    /// Iterations of the work.
    pub iterations: u64,
    /// How long they took at least when they were calibrated, ns.
    pub calibrated_ns: u64,
    /// In the order in which they ran.
    pub segments: Vec<Segment>,
    /// The ranks' clocks before the first segment and after the last; none where
    /// they were not compared.
    pub clocks: [Vec<Offset>; 2],
}

impl BenchTimes {
    /// Works and waits that are known to have taken [`LONGEST_NS`] or longer only.
    #[must_use]
    pub fn capped(&self) -> usize {
        let all = |segment: &Segment| capped(&segment.qt_ns) + capped(&segment.bt_ns);
        self.segments.iter().map(all).sum()
    }

    /// How long all segments took, by the first rank's clock, ns.
    #[must_use]
    pub fn took_ns(&self) -> u64 {
        let first = |segment: Option<&Segment>| segment.and_then(|s| s.courses.first().copied());
        let begin = first(self.segments.first()).map_or(0, |course| course.begin_ns);
        let end = first(self.segments.last()).map_or(0, |course| course.end_ns);
        end.saturating_sub(begin)
    }
}
