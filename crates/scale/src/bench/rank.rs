// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rank of the benchmark, with any barrier.

use sandbag_jitter::replay::{PolledReplay, ReplayPlan, Sync};
use sandbag_linux::clock::Clock as _;

use super::barrier::RankBarrier;
use super::clock::AnyClock;
use super::clocks::{Messages, Offset, compare};
use super::times::{LONGEST_NS, SegmentTimes};
use super::work::Lcg;

/// A phase of one rank, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Duration of the work.
    pub qt_ns: u32,
    /// Duration of the wait that follows.
    pub bt_ns: u32,
}

/// Length of a segment: it ends at whichever limit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Time by the first rank's clock, ms.
    pub ms: u32,
    pub phases: usize,
}

/// Delay after which events that are over are skipped, ns: another task had the CPU, or there
/// is more noise than time.
pub(super) const LATEST_NS: u64 = 100_000_000;

/// Backlog of a rank's events, ns.
pub(super) fn piled_ns(polled: &PolledReplay, now_ns: u64) -> u64 {
    polled.late_ns(now_ns) + polled.passed_ns()
}

/// A rank with its work and its portion of the trace.
pub struct Rank<'a, B> {
    barrier: B,
    clock: AnyClock,
    lcg: Lcg,
    iterations: u64,
    plan: Option<&'a ReplayPlan>,
}

impl<'a, B: RankBarrier> Rank<'a, B> {
    /// A rank whose work has this number of iterations. With a plan it replays its portion in
    /// segments with jitter.
    pub fn new(barrier: B, clock: AnyClock, iterations: u64, plan: Option<&'a ReplayPlan>) -> Self {
        Self {
            barrier,
            clock,
            lcg: Lcg::default(),
            iterations,
            plan,
        }
    }

    /// Runs consecutive phases, all with jitter or all without, and passes the times of each
    /// to `keep`. All ranks run the same number of phases. `number`: the segment's number in
    /// the run.
    pub fn segment(
        &mut self,
        number: u64,
        jitter: bool,
        length: Length,
        keep: &mut dyn FnMut(PhaseTimes),
    ) -> SegmentTimes {
        let clock = self.clock;
        let plan = self.plan.filter(|_| jitter);
        // The number of phases after which ranks are set to a common position.
        let resets = plan.and_then(|plan| match plan.options().sync {
            Sync::Phases(every) => Some(every.max(1) as usize),
            Sync::None | Sync::Once => None,
        });
        let mut polled = plan.map_or_else(PolledReplay::without_events, |plan| {
            self.portion(plan, number)
        });
        self.barrier.wait(0, &mut || {});
        self.barrier.announcement();
        let begin = clock.now_ns();
        polled.begin(begin);
        let mut end_ns = begin;
        for number in 0..length.phases {
            if resets.is_some_and(|every| number.is_multiple_of(every)) {
                // No event may be under way when the position changes.
                polled.finish(&clock);
            }
            polled.begin_phase(clock.now_ns());
            let t0 = clock.now_ns();
            self.lcg.work(self.iterations, &clock, &mut polled);
            let t1 = clock.now_ns();
            let passed_ms = t1.saturating_sub(begin) / 1_000_000;
            self.barrier.wait(passed_ms as u32, &mut || {
                // An event that comes due while waiting runs meanwhile.
                let _ = polled.poll(clock.now_ns());
            });
            let t2 = clock.now_ns();
            end_ns = t2;
            let ns = |from: u64, until: u64| {
                u32::try_from(until.saturating_sub(from)).unwrap_or(LONGEST_NS)
            };
            keep(PhaseTimes {
                qt_ns: ns(t0, t1),
                bt_ns: ns(t1, t2),
            });
            // The rest of an event after the release belongs to the next phase's work, which
            // polls first.
            if self.barrier.announcement() >= length.ms {
                break;
            }
        }
        SegmentTimes {
            begin_ns: begin,
            end_ns,
            piled_ns: piled_ns(&polled, end_ns),
        }
    }

    /// Compares the clocks of all ranks with the first one's, which gets the offsets.
    /// Collective: all ranks call it.
    pub fn clocks(&mut self) -> Vec<Offset>
    where
        B: Messages,
    {
        let (rank, ranks) = (self.barrier.rank(), self.barrier.size());
        let clock = self.clock;
        compare(&mut self.barrier, rank, ranks, &clock)
    }

    /// The rank's portion in a segment: another one in each.
    fn portion(&self, plan: &ReplayPlan, segment: u64) -> PolledReplay {
        plan.in_segment(u64::from(self.barrier.rank()), segment)
            .polled(0, self.clock.now_ns())
            .latest_after(LATEST_NS)
    }
}
