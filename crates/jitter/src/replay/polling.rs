// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jitter for a program that asks often: no timer, no process, no floor.
//!
//! Between two steps of its own work the program says what time it is. When an
//! event is due it is told until when to suffer, and it suffers the whole
//! length from then on: the event is as late as the step was long. A program
//! that waits (at a barrier) asks while it waits; one that cannot serves on
//! its return what came due, late, and the outcome says so.
//!
//! Due times are absolute: what is late makes nothing after it late, unless it
//! is still being suffered when the next is due.
//!
//! An event takes a program its length, on the mean, and nothing beside: it is over
//! with the question nearest to its end, not with the first one after that (a look
//! at the CPU's clock takes half a microsecond), and what there is to book is booked
//! while the next one is suffered.

use crate::replay::clock::ReplayClock;
use crate::replay::column::PlannedEvent;
use crate::replay::outcome::{Cause, Injection, RankOutcome};
use crate::replay::portion::{Events, Portion};

/// A program that did not ask for longer than this was away: its own step was
/// that long, or the host had the CPU. Ours is a few tens of nanoseconds.
pub const AWAY_NS: u64 = 1_000;

#[derive(Debug, Clone)]
pub struct PolledReplay {
    portion: Portion,
    events: Events,
    outcome: RankOutcome,
    /// Of the program's clock: what due times are counted from.
    base_ns: u64,
    /// When the whole began.
    begin_ns: u64,
    /// Before this there is nothing to do. 0 while an event is suffered.
    wake_ns: u64,
    next: Option<PlannedEvent>,
    suffering: Option<Suffering>,
    /// The last one suffered, if it is not booked yet.
    ended: Option<Injection>,
    /// The last time that was said.
    last_ns: u64,
    /// When the last event ended: what was due before it is behind.
    ended_ns: u64,
    /// Longer than this between two is away.
    away_ns: u64,
    /// Later than this, an event that is over by then is passed over.
    latest_ns: u64,
    passed_ns: u64,
    phase: u64,
}

#[derive(Debug, Clone, Copy)]
struct Suffering {
    /// On the program's clock.
    due_ns: u64,
    start_ns: u64,
    until_ns: u64,
    length_ns: u64,
    cause: Cause,
}

/// Nothing more to come.
const NEVER: u64 = u64::MAX;

impl Portion {
    /// For a program that asks: see [`PolledReplay`]. It begins at `begin_ns` of the
    /// program's clock and keeps `records` events one by one.
    #[must_use]
    pub fn polled(&self, records: usize, begin_ns: u64) -> PolledReplay {
        PolledReplay::new(self.clone(), RankOutcome::with_room(records), begin_ns)
    }
}

impl PolledReplay {
    pub(crate) fn new(portion: Portion, outcome: RankOutcome, begin_ns: u64) -> Self {
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
            away_ns: AWAY_NS,
            latest_ns: NEVER,
            passed_ns: 0,
            phase: 0,
        };
        polled.advance();
        polled
    }

    /// Another bound for [`AWAY_NS`], for programs with longer steps.
    #[must_use]
    pub fn away_after(mut self, ns: u64) -> Self {
        self.away_ns = ns;
        self
    }

    /// Once an event is later than this, it and all that would be over by then
    /// are passed over: what piled up while somebody else had the CPU is not
    /// paid for for ever. They count as missed.
    #[must_use]
    pub fn latest_after(mut self, ns: u64) -> Self {
        self.latest_ns = ns;
        self
    }

    /// How long all events were that were passed over, ns.
    #[must_use]
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns
    }

    /// Begins now and not when it was made; before the first
    /// [`poll`](Self::poll).
    pub fn begin(&mut self, now_ns: u64) {
        self.base_ns = now_ns;
        self.begin_ns = now_ns;
        self.last_ns = now_ns;
        self.set_wake();
    }

    /// Asks. `Some`: suffer until then, asking as often as you like, and go on
    /// with your work only when it is `None`. Does not allocate.
    #[inline]
    #[must_use]
    pub fn poll(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.wake_ns {
            self.last_ns = now_ns;
            return None;
        }
        self.serve(now_ns)
    }

    /// Asks, and suffers what is due.
    #[inline]
    pub fn suffer(&mut self, clock: &impl ReplayClock) {
        while self.poll(clock.now_ns()).is_some() {
            self.finish(clock);
        }
    }

    /// Asks, and suffers one event, if one is due or under way. What came due
    /// meanwhile comes at the next question: however much has piled up, the
    /// program has a step between two events.
    #[inline]
    pub fn suffer_one(&mut self, clock: &impl ReplayClock) {
        if self.poll(clock.now_ns()).is_some() {
            self.finish(clock);
        }
    }

    /// Suffers what is left of an event that is under way, and nothing else.
    pub fn finish(&mut self, clock: &impl ReplayClock) {
        let Some(now) = self.suffering else {
            return;
        };
        while !self.ends(now, clock.now_ns()) {
            std::hint::spin_loop();
        }
    }

    /// How late the event is that is under way or due, ns: what has piled up
    /// because events and what is between them need more time than there is.
    #[must_use]
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

    /// Whether it is over now, and so ended: the next question would come later
    /// after its end than this one comes before.
    fn ends(&mut self, now: Suffering, now_ns: u64) -> bool {
        let between_ns = now_ns.saturating_sub(self.last_ns).min(self.away_ns);
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
        let cause = match (behind, now_ns.saturating_sub(self.last_ns) > self.away_ns) {
            // It came due while the one before was suffered.
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

    /// A phase of the program begins, on all ranks. Where ranks are
    /// synchronised by phases (`phases`) they all come to a common
    /// random position of the trace at every so many of them; else nothing
    /// happens. Not while an event is suffered.
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

    /// Whether the portion is used up. The paper's experiment ends for all
    /// ranks when it is for one; one that repeats never is.
    #[must_use]
    pub fn is_over(&self, now_ns: u64) -> bool {
        let used_ns = now_ns.saturating_sub(self.begin_ns);
        !self.portion.repeats() && used_ns >= self.portion.length_ns()
    }

    /// What was suffered so far; due times are counted from the beginning, or
    /// from the last common position.
    #[must_use]
    pub fn outcome(&mut self) -> &RankOutcome {
        self.book();
        &self.outcome
    }

    /// What was suffered, at the end.
    #[must_use]
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
    use crate::replay::plan::{ReplayOptions, ReplayPlan};
    use crate::replay::sync::Sync;

    fn plan(events: &[(u64, u64)], known_ns: u64, options: ReplayOptions) -> ReplayPlan {
        let trace = CpuTrace {
            cpu: 0,
            known: vec![Span::new(0, known_ns)],
            events: events
                .iter()
                .map(|(start_ns, length_ns)| TraceEvent::new(*start_ns, *length_ns))
                .collect(),
        };
        ReplayPlan::new(&[&trace], &options).unwrap()
    }

    /// A clock of which each look takes so long, ns.
    fn ticking(now: &Cell<u64>, look_ns: u64) -> impl Fn() -> u64 {
        move || {
            now.set(now.get() + look_ns);
            now.get()
        }
    }

    /// The whole trace from its beginning.
    fn plainly() -> ReplayOptions {
        ReplayOptions {
            share: 1.0,
            random: false,
            ..ReplayOptions::default()
        }
    }

    #[test]
    fn an_event_is_suffered_when_it_is_due() {
        let plan = plan(&[(100, 50), (400, 10)], 1000, plainly());
        let mut polled = plan.rank(0).polled(10, 10_000);
        assert_eq!(polled.poll(10_099), None);
        assert_eq!(polled.poll(10_103), Some(10_153));
        // Whoever asks meanwhile is told the same.
        assert_eq!(polled.poll(10_120), Some(10_153));
        assert_eq!(polled.poll(10_155), None);
        assert_eq!(polled.poll(10_399), None);
        assert_eq!(polled.poll(10_400), Some(10_410));
        assert_eq!(polled.poll(10_410), None);
        let first = polled.outcome().kept()[0];
        assert_eq!((first.due_ns, first.length_ns), (100, 50));
        assert_eq!((first.start_error_ns, first.length_error_ns), (3, 2));
        assert_eq!(first.cause, Cause::Nothing);
        assert_eq!(polled.outcome().kept()[1].start_error_ns, 0);
        assert!(!polled.is_over(10_999) && polled.is_over(11_000));
    }

    #[test]
    fn a_program_that_was_away_is_told_so() {
        let plan = plan(&[(5_000, 50), (5_060, 10)], 100_000, plainly());
        let mut polled = plan.rank(0).polled(10, 0);
        assert_eq!(polled.poll(4_000), None);
        // The step took 2 us: both are due.
        assert_eq!(polled.poll(6_000), Some(6_050));
        assert_eq!(polled.poll(6_050), Some(6_060));
        assert_eq!(polled.poll(6_060), None);
        let counts = polled.outcome().counts;
        assert_eq!((counts.injected, counts.away, counts.behind), (2, 1, 1));
        assert_eq!(polled.outcome().kept()[1].start_error_ns, 990);
        assert_eq!(polled.outcome().start_errors(), None);
    }

    #[test]
    fn phases_take_all_ranks_to_the_same_position() {
        let events: Vec<(u64, u64)> = (0..500).map(|i| (i * 1000 + i, 10 + i % 7)).collect();
        let options = ReplayOptions {
            sync: Sync::Phases(2),
            ..ReplayOptions::default()
        };
        let plan = plan(&events, 600_000, options);
        let (mut a, mut b) = (plan.rank(0).polled(0, 0), plan.rank(5).polled(0, 70_000));
        let mut lengths = Vec::new();
        for phase in 0..40u64 {
            // The ranks' clocks need not agree.
            let (now_a, now_b) = (phase * 5_000, 70_000 + phase * 9_000);
            a.begin_phase(now_a);
            b.begin_phase(now_b);
            if phase % 2 == 1 {
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
    fn only_every_so_many_phases_is_the_position_another() {
        let events: Vec<(u64, u64)> = (0..500).map(|i| (i * 1000 + i, 10)).collect();
        let options = ReplayOptions {
            sync: Sync::Phases(3),
            ..ReplayOptions::default()
        };
        let plan = plan(&events, 600_000, options);
        let mut polled = plan.rank(0).polled(0, 0);
        polled.begin_phase(0);
        let wake_ns = polled.wake_ns;
        polled.begin_phase(1);
        polled.begin_phase(2);
        assert_eq!(polled.wake_ns, wake_ns);
        polled.begin_phase(3);
        assert_ne!(polled.wake_ns, wake_ns);
    }

    #[test]
    fn a_clock_is_suffered_on() {
        let plan = plan(&[(100, 50), (150, 30)], 1000, plainly());
        let now = Cell::new(0u64);
        let clock = ticking(&now, 7);
        let mut polled = plan.rank(0).polled(10, 0);
        while !polled.is_over(clock.now_ns()) {
            polled.suffer(&clock);
        }
        let outcome = polled.into_outcome();
        assert_eq!(outcome.counts.injected, 2);
        for event in outcome.kept() {
            assert!((0..40).contains(&event.start_error_ns), "{event:?}");
            assert!((-4..=4).contains(&event.length_error_ns), "{event:?}");
        }
    }

    #[test]
    fn events_take_their_lengths_on_the_mean() {
        // A question takes 100; lengths are no multiples of it.
        let events: Vec<(u64, u64)> = (0..1000).map(|i| (i * 3000, 900 + i % 97)).collect();
        let plan = plan(&events, 3_000_000, plainly());
        let now = Cell::new(0u64);
        let clock = ticking(&now, 100);
        let mut polled = plan.rank(0).polled(1000, 0);
        while !polled.is_over(now.get()) {
            polled.suffer_one(&clock);
        }
        let (asked, suffered) = polled.outcome().taken_ns();
        assert!(asked.abs_diff(suffered) < 1000 * 5, "{asked} {suffered}");
        let kept = polled.outcome().kept();
        assert_eq!(kept.len(), 1000);
        assert!(kept.iter().all(|event| event.length_error_ns.abs() <= 50));
    }

    #[test]
    fn who_was_away_meanwhile_has_suffered_all_of_it() {
        let plan = plan(&[(1_000, 50_000), (80_000, 10)], 100_000, plainly());
        let mut polled = plan.rank(0).polled(10, 0);
        assert_eq!(polled.poll(1_000), Some(51_000));
        // The last question was long ago: nothing is known of the next.
        assert_eq!(polled.poll(41_000), Some(51_000));
        assert_eq!(polled.poll(50_400), Some(51_000));
        assert_eq!(polled.poll(50_900), None);
        assert_eq!(polled.outcome().kept()[0].length_error_ns, -100);
    }

    #[test]
    fn what_piles_up_leaves_a_step_between_two_events() {
        // 10 ns of each 1000 are free, and a question takes 50.
        let events: Vec<(u64, u64)> = (0..100).map(|i| (i * 1000 + 10, 990)).collect();
        let plan = plan(&events, 100_000, plainly());
        let now = Cell::new(0u64);
        let clock = ticking(&now, 50);
        let mut polled = plan.rank(0).polled(100, 0);
        let (mut steps, mut late) = (0, Vec::new());
        while polled.outcome().counts.injected < 100 {
            polled.suffer_one(&clock);
            steps += 1;
            late.push(polled.late_ns(now.get()));
        }
        assert_eq!(steps, 100);
        assert!(late[98] > late[50] && late[50] > late[0], "{late:?}");
        let counts = polled.outcome().counts;
        assert!(counts.behind >= 98, "{counts:?}");
        assert_eq!(polled.late_ns(now.get()), 0);
    }

    #[test]
    fn what_is_far_too_late_is_passed_over() {
        let events: Vec<(u64, u64)> = (0..100).map(|i| (i * 1000, 500)).collect();
        let plan = plan(&events, 100_000, plainly());
        let mut polled = plan.rank(0).polled(10, 0).latest_after(5_000);
        // Away for less than that: all of it is made up for.
        assert_eq!(polled.poll(4_900), Some(5_400));
        assert_eq!(polled.poll(5_400), Some(5_900));
        assert_eq!(polled.passed_ns(), 0);
        // Away for longer: what would be over by now is, what would not is not.
        assert_eq!(polled.poll(20_200), Some(20_700));
        assert_eq!(polled.passed_ns(), 18 * 500);
        let counts = polled.outcome().counts;
        assert_eq!((counts.missed, counts.injected), (18, 2));
        assert_eq!(polled.poll(20_700), None);
        assert_eq!(polled.poll(21_000), Some(21_500));
    }

    #[test]
    fn only_what_is_under_way_is_finished() {
        let plan = plan(&[(100, 50), (151, 30)], 1000, plainly());
        let now = Cell::new(0u64);
        let clock = ticking(&now, 7);
        let mut polled = plan.rank(0).polled(10, 0);
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
        assert_eq!(polled.outcome().kept()[1].cause, Cause::Behind);
    }

    #[test]
    fn one_that_repeats_is_never_over() {
        let options = ReplayOptions {
            repeat: true,
            ..plainly()
        };
        let plan = plan(&[(10, 5)], 100, options);
        let mut polled = plan.rank(0).polled(100, 0);
        let mut served = 0;
        for now in 0..1000 {
            served += u64::from(polled.poll(now).is_some_and(|until| until == now + 5));
        }
        assert_eq!(served, 10);
        assert!(!polled.is_over(u64::MAX));
    }
}
