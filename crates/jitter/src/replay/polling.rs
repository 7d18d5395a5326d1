// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jitter for a program that polls often: without timer, process or shortest event.
//!
//! Between two steps of its work the program polls with the current time. When an
//! event is due it gets the time until which to suffer, and suffers the whole length
//! from then on: the event is as late as the step was long. A program that waits (at
//! a barrier) polls while it waits; one that cannot suffers on its return what came
//! due, late, and the outcome has the cause.
//!
//! Due times are absolute: a late event delays the next one only if it is still being
//! suffered when that is due.
//!
//! On average an event takes exactly its length: it is over with the poll nearest to
//! its end, not with the first one after it (reading the CPU's clock takes half a
//! microsecond), and it is booked while the next one is suffered.

use std::sync::Arc;

use crate::replay::column::PlannedEvent;
use crate::replay::outcome::{Cause, Injection, RankOutcome};
use crate::replay::portion::{Events, Portion};
use crate::replay::sync::Sync;
use sandbag_linux::clock::Clock;

/// A longer time between two polls is a step of the program, or the host had the
/// CPU, ns. Polls in a row are some 50 ns apart.
const AWAY_NS: u64 = 1_000;

#[derive(Debug, Clone)]
pub struct PolledReplay {
    portion: Portion,
    events: Events,
    outcome: RankOutcome,
    /// Due times count from this time of the program's clock.
    base_ns: u64,
    /// Beginning of the replay.
    begin_ns: u64,
    /// Nothing is due before this time. 0 while an event is suffered.
    wake_ns: u64,
    next: Option<PlannedEvent>,
    suffering: Option<Suffering>,
    /// The last event, until it is booked.
    ended: Option<Injection>,
    /// The last poll.
    last_ns: u64,
    /// End of the last event: events that were due before are behind.
    ended_ns: u64,
    /// An event that is later is passed over.
    latest_ns: u64,
    passed_ns: u64,
    phase: u64,
}

#[derive(Debug, Clone, Copy)]
struct Suffering {
    due_ns: u64,
    start_ns: u64,
    until_ns: u64,
    length_ns: u64,
    cause: Cause,
}

/// No further event.
const NEVER: u64 = u64::MAX;

impl Portion {
    /// Replays it by polling, from `begin_ns` of the program's clock, and keeps
    /// `records` events one by one.
    pub fn polled(&self, records: usize, begin_ns: u64) -> PolledReplay {
        PolledReplay::new(self.clone(), RankOutcome::with_room(records), begin_ns)
    }
}

impl PolledReplay {
    /// A replay in which nothing comes due: a program runs the same instructions with it as
    /// with jitter.
    pub fn without_events() -> Self {
        let portion = Portion {
            column: Arc::default(),
            offset_ns: 0,
            length_ns: 0,
            factor: 1.0,
            repeat: false,
            sync: Sync::None,
            seed: 0,
        };
        Self::new(portion, RankOutcome::default(), 0)
    }

    fn new(portion: Portion, outcome: RankOutcome, begin_ns: u64) -> Self {
        let mut polled = Self {
            events: portion.events(),
            portion,
            outcome,
            base_ns: begin_ns,
            begin_ns,
            wake_ns: NEVER,
            next: None,
            suffering: None,
            ended: None,
            last_ns: begin_ns,
            ended_ns: 0,
            latest_ns: NEVER,
            passed_ns: 0,
            phase: 0,
        };
        polled.advance();
        polled
    }

    /// An event that is later than `ns`, and all that would be over by then, are
    /// passed over and count as missed: what came due while another task had the CPU
    /// is not suffered for ever.
    #[must_use]
    pub fn latest_after(mut self, ns: u64) -> Self {
        self.latest_ns = ns;
        self
    }

    /// Length of all events that were passed over, ns.
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns
    }

    /// Begins now instead of when it was made; before the first
    /// [`poll`](Self::poll).
    pub fn begin(&mut self, now_ns: u64) {
        self.base_ns = now_ns;
        self.begin_ns = now_ns;
        self.last_ns = now_ns;
        self.set_wake();
    }

    /// `Some`: suffer until then, polling at will, and continue the work when it is
    /// `None`. Does not allocate.
    #[inline]
    #[must_use]
    pub fn poll(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.wake_ns {
            self.last_ns = now_ns;
            return None;
        }
        self.serve(now_ns)
    }

    /// Polls, and suffers one event if one is due or under way. What came due
    /// meanwhile comes at the next call: the program has a step between two events,
    /// however late they are.
    #[inline]
    pub fn suffer_one(&mut self, clock: &impl Clock) {
        if self.poll(clock.now_ns()).is_some() {
            self.finish(clock);
        }
    }

    /// Suffers the rest of the event that is under way.
    pub fn finish(&mut self, clock: &impl Clock) {
        let Some(now) = self.suffering else {
            return;
        };
        while !self.ends(now, clock.now_ns()) {
            std::hint::spin_loop();
        }
    }

    /// How late the event is that is under way or due, ns. It grows where events and
    /// the steps between them need more time than there is.
    pub fn late_ns(&self, now_ns: u64) -> u64 {
        match (self.suffering, self.next) {
            (Some(now), _) => now.start_ns.saturating_sub(now.due_ns),
            (None, Some(next)) => now_ns.saturating_sub(self.base_ns.saturating_add(next.due_ns)),
            (None, None) => 0,
        }
    }

    fn pass_over(&mut self, now_ns: u64) {
        while let Some(event) = self.next {
            if self.base_ns.saturating_add(event.end_ns()) > now_ns {
                return;
            }
            self.outcome.counts.asked += 1;
            self.outcome.counts.missed += 1;
            self.passed_ns += event.length_ns;
            self.advance();
        }
    }

    /// Whether it is over now, and if so books it: the next poll would come later
    /// after its end than this one comes before.
    fn ends(&mut self, now: Suffering, now_ns: u64) -> bool {
        let between_ns = now_ns.saturating_sub(self.last_ns).min(AWAY_NS);
        self.last_ns = now_ns;
        if now_ns.saturating_add(between_ns / 2) < now.until_ns {
            return false;
        }
        self.suffering = None;
        self.ended_ns = now_ns;
        self.ended = Some(Injection {
            due_ns: now.due_ns.saturating_sub(self.base_ns),
            length_ns: now.length_ns,
            start_error_ns: difference(now.start_ns, now.due_ns),
            length_error_ns: difference(now_ns, now.until_ns),
            cause: now.cause,
        });
        self.set_wake();
        true
    }

    fn book(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.outcome.note(ended);
        }
    }

    #[cold]
    fn serve(&mut self, now_ns: u64) -> Option<u64> {
        if let Some(now) = self.suffering
            && !self.ends(now, now_ns)
        {
            return Some(now.until_ns);
        }
        if self.late_ns(now_ns) > self.latest_ns {
            self.pass_over(now_ns);
        }
        let due = self.next.filter(|_| now_ns >= self.wake_ns);
        let Some(event) = due else {
            self.last_ns = now_ns;
            return None;
        };
        let due_ns = self.base_ns.saturating_add(event.due_ns);
        let behind = due_ns < self.ended_ns;
        let cause = match (behind, now_ns.saturating_sub(self.last_ns) > AWAY_NS) {
            // It came due while the event before was suffered.
            (true, _) => Cause::Behind,
            (false, true) => Cause::Away,
            (false, false) => Cause::Nothing,
        };
        let until_ns = now_ns.saturating_add(event.length_ns);
        self.suffering = Some(Suffering {
            due_ns,
            start_ns: now_ns,
            until_ns,
            length_ns: event.length_ns,
            cause,
        });
        self.last_ns = now_ns;
        self.book();
        self.advance();
        self.wake_ns = 0;
        Some(until_ns)
    }

    fn advance(&mut self) {
        self.next = self.events.next();
        self.set_wake();
    }

    fn set_wake(&mut self) {
        self.wake_ns = self
            .next
            .map_or(NEVER, |event| self.base_ns.saturating_add(event.due_ns));
    }

    /// A phase of the program begins, on all ranks: where they are synchronised by
    /// phases, each moves to a common random position every [`Sync::Phases`] phases.
    /// Not while an event is suffered.
    ///
    /// [`Sync::Phases`]: crate::replay::Sync::Phases
    pub fn begin_phase(&mut self, now_ns: u64) {
        let phase = self.phase;
        self.phase += 1;
        let Some(reset) = self.portion.at_phase(phase) else {
            return;
        };
        self.events = Events::new(reset);
        self.base_ns = now_ns;
        self.last_ns = now_ns;
        self.advance();
    }

    /// Whether the portion is used up; never if it repeats. The paper's experiment
    /// ends for all ranks when it is over for one.
    pub fn is_over(&self, now_ns: u64) -> bool {
        let used_ns = now_ns.saturating_sub(self.begin_ns);
        !self.portion.repeats() && used_ns >= self.portion.length_ns()
    }

    /// The outcome so far; due times count from the beginning, or from the last
    /// common position.
    pub fn outcome(&mut self) -> &RankOutcome {
        self.book();
        &self.outcome
    }

    pub fn into_outcome(mut self) -> RankOutcome {
        self.book();
        self.outcome
    }
}

fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{CpuTrace, Span, TraceEvent};

    use super::*;
    use crate::replay::outcome::EventCounts;
    use crate::replay::plan::{ReplayOptions, ReplayPlan};

    fn plan(
        events: impl IntoIterator<Item = (u64, u64)>,
        known_ns: u64,
        options: &ReplayOptions,
    ) -> ReplayPlan {
        let events = events
            .into_iter()
            .map(|(start, ns)| TraceEvent::new(start, ns));
        let trace = CpuTrace {
            cpu: 0,
            known: vec![Span::new(0, known_ns)],
            events: events.collect(),
        };
        ReplayPlan::new(&[&trace], options).unwrap()
    }

    /// The whole trace from its beginning.
    fn polled(events: impl IntoIterator<Item = (u64, u64)>, known_ns: u64) -> PolledReplay {
        plan(events, known_ns, &ReplayOptions::WHOLE)
            .rank(0)
            .polled(1000, 0)
    }

    /// A clock that takes `look_ns` to read.
    fn ticking(now: &Cell<u64>, look_ns: u64) -> impl Fn() -> u64 {
        move || {
            now.set(now.get() + look_ns);
            now.get()
        }
    }

    #[test]
    fn a_replay_without_events_is_never_due() {
        let mut quiet = PolledReplay::without_events();
        quiet.begin(1000);
        quiet.begin_phase(2000);
        assert_eq!([3000, u64::MAX].map(|now| quiet.poll(now)), [None; 2]);
        assert_eq!((quiet.late_ns(9000), quiet.passed_ns()), (0, 0));
        assert_eq!(quiet.into_outcome().counts, EventCounts::default());
    }

    #[test]
    fn an_event_is_suffered_when_it_is_due() {
        let events = [(100, 50), (400, 10)];
        let mut polled = plan(events, 1000, &ReplayOptions::WHOLE)
            .rank(0)
            .polled(10, 10_000);
        for (now, until) in [
            (10_099, None),
            (10_103, Some(10_153)),
            // The same meanwhile.
            (10_120, Some(10_153)),
            (10_155, None),
            (10_399, None),
            (10_400, Some(10_410)),
            (10_410, None),
        ] {
            assert_eq!(polled.poll(now), until, "{now}");
        }
        let (first, second) = (polled.outcome().kept[0], polled.outcome().kept[1]);
        let expected = Injection {
            due_ns: 100,
            length_ns: 50,
            start_error_ns: 3,
            length_error_ns: 2,
            cause: Cause::Nothing,
        };
        assert_eq!((first, second.start_error_ns), (expected, 0));
        assert!(!polled.is_over(10_999) && polled.is_over(11_000));
    }

    #[test]
    fn a_program_that_was_away_suffers_late_with_the_cause() {
        let mut polled = polled([(5_000, 50), (5_060, 10)], 100_000);
        // The step takes 2 us: both are due.
        let until = [4_000, 6_000, 6_050, 6_060].map(|now| polled.poll(now));
        assert_eq!(until, [None, Some(6_050), Some(6_060), None]);
        let counts = polled.outcome().counts;
        assert_eq!((counts.injected, counts.away, counts.behind), (2, 1, 1));
        assert_eq!(polled.outcome().kept[1].start_error_ns, 990);
        assert_eq!(polled.outcome().start_errors(), None);
    }

    #[test]
    fn phases_set_all_ranks_to_the_same_position() {
        let events: Vec<(u64, u64)> = (0..500).map(|i| (i * 1000 + i, 10 + i % 7)).collect();
        let options = ReplayOptions {
            sync: Sync::Phases(2),
            ..ReplayOptions::default()
        };
        let plan = plan(events, 600_000, &options);
        let (mut a, mut b) = (plan.rank(0).polled(0, 0), plan.rank(5).polled(0, 70_000));
        let mut lengths = Vec::new();
        for phase in 0..40u64 {
            // The ranks' clocks differ.
            let (now_a, now_b) = (phase * 5_000, 70_000 + phase * 9_000);
            let before = a.wake_ns;
            a.begin_phase(now_a);
            b.begin_phase(now_b);
            // Only every second phase sets the position.
            if phase % 2 == 1 {
                assert_eq!(a.wake_ns, before);
                continue;
            }
            let due = |rank: &PolledReplay, now| (rank.wake_ns - now, rank.next.unwrap().length_ns);
            assert_eq!(due(&a, now_a), due(&b, now_b), "phase {phase}");
            lengths.push(due(&a, now_a));
        }
        lengths.dedup();
        assert!(lengths.len() > 10);
    }

    #[test]
    fn a_program_suffers_by_a_clock() {
        let now = Cell::new(0u64);
        let clock = ticking(&now, 7);
        let mut polled = polled([(100, 50), (150, 30)], 1000);
        while !polled.is_over(clock.now_ns()) {
            polled.suffer_one(&clock);
        }
        let outcome = polled.into_outcome();
        assert_eq!(outcome.counts.injected, 2);
        for event in &outcome.kept {
            assert!((0..40).contains(&event.start_error_ns), "{event:?}");
            assert!((-4..=4).contains(&event.length_error_ns), "{event:?}");
        }
    }

    #[test]
    fn events_take_their_lengths_on_average() {
        // A poll takes 100; lengths are no multiples of it.
        let mut polled = polled((0..1000).map(|i| (i * 3000, 900 + i % 97)), 3_000_000);
        let now = Cell::new(0u64);
        let clock = ticking(&now, 100);
        while !polled.is_over(now.get()) {
            polled.suffer_one(&clock);
        }
        let outcome = polled.into_outcome();
        assert!(outcome.asked_ns.abs_diff(outcome.suffered_ns) < 1000 * 5);
        assert_eq!(outcome.kept.len(), 1000);
        assert!(
            outcome
                .kept
                .iter()
                .all(|event| event.length_error_ns.abs() <= 50)
        );
    }

    #[test]
    fn an_event_ends_while_the_program_is_away() {
        let mut polled = polled([(1_000, 50_000), (80_000, 10)], 100_000);
        // The time between two polls is then of no use for an estimate of the next.
        let until = [1_000, 41_000, 50_400, 50_900].map(|now| polled.poll(now));
        assert_eq!(until, [Some(51_000), Some(51_000), Some(51_000), None]);
        assert_eq!(polled.outcome().kept[0].length_error_ns, -100);
    }

    #[test]
    fn late_events_leave_a_step_between_two() {
        // 10 ns of each 1000 are free, and a poll takes 50.
        let mut polled = polled((0..100).map(|i| (i * 1000 + 10, 990)), 100_000);
        let now = Cell::new(0u64);
        let clock = ticking(&now, 50);
        let mut late = Vec::new();
        while polled.outcome().counts.injected < 100 {
            polled.suffer_one(&clock);
            late.push(polled.late_ns(now.get()));
        }
        assert_eq!(late.len(), 100);
        assert!(late[98] > late[50] && late[50] > late[0], "{late:?}");
        let counts = polled.outcome().counts;
        assert!(counts.behind >= 98, "{counts:?}");
        assert_eq!(polled.late_ns(now.get()), 0);
    }

    #[test]
    fn events_far_too_late_are_passed_over() {
        let polled = polled((0..100).map(|i| (i * 1000, 500)), 100_000);
        let mut polled = polled.latest_after(5_000);
        // Away for less than that: no event is lost.
        assert_eq!(polled.poll(4_900), Some(5_400));
        assert_eq!(polled.poll(5_400), Some(5_900));
        assert_eq!(polled.passed_ns(), 0);
        // Away for longer: events that would be over are.
        assert_eq!(polled.poll(20_200), Some(20_700));
        assert_eq!(polled.passed_ns(), 18 * 500);
        let counts = polled.outcome().counts;
        assert_eq!((counts.missed, counts.injected), (18, 2));
        assert_eq!(polled.poll(20_700), None);
        assert_eq!(polled.poll(21_000), Some(21_500));
    }

    #[test]
    fn only_the_event_under_way_is_finished() {
        let now = Cell::new(0u64);
        let clock = ticking(&now, 7);
        let mut polled = polled([(100, 50), (151, 30)], 1000);
        polled.finish(&clock);
        assert_eq!(now.get(), 0);
        assert_eq!(polled.poll(110), Some(160));
        assert_eq!(polled.late_ns(130), 10);
        now.set(150);
        polled.finish(&clock);
        assert!((156..164).contains(&now.get()));
        assert_eq!(polled.outcome().counts.injected, 1);
        assert_eq!(polled.late_ns(161), 10);
        assert_eq!(polled.poll(161), Some(191));
        let _ = polled.poll(191);
        assert_eq!(polled.outcome().kept[1].cause, Cause::Behind);
    }

    #[test]
    fn a_portion_that_repeats_is_never_over() {
        let options = ReplayOptions {
            repeat: true,
            ..ReplayOptions::WHOLE
        };
        let mut polled = plan([(10, 5)], 100, &options).rank(0).polled(100, 0);
        let begins = |now: &u64| polled.poll(*now) == Some(now + 5);
        assert_eq!((0..1000).filter(begins).count(), 10);
        assert!(!polled.is_over(u64::MAX));
    }
}
