// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of a replay: what a rank suffered of the events that it was to
//! suffer. A rank is a CPU beside a program, or a process or thread inside it.
//!
//! Memory is bounded: a fixed number of events is kept one by one; of the others
//! the errors are counted by size.

use sandbag_stats::quantile;
use serde::{Deserialize, Serialize};

use crate::replay::histogram::Histogram;
use crate::replay::touched;

/// Why an injected event did not begin when it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// No delay but the injector's own.
    Nothing,
    /// The event before it was still being injected.
    Behind,
    /// The injector did not run: another task or the host had the CPU, or the
    /// program did not poll.
    Away,
}

/// An injected event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// Due time, ns since the beginning.
    pub due_ns: u64,
    pub length_ns: u64,
    /// Begin less due time, ns.
    pub start_error_ns: i64,
    /// Measured less requested length, ns.
    pub length_error_ns: i64,
    pub cause: Cause,
}

/// Number of events by what became of them. `asked` is the sum of `injected`,
/// `merged`, `below_floor`, `over_limit`, `shortened`, `missed` and `not_reached`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Due, or due had the run gone on.
    pub asked: u64,
    pub injected: u64,
    /// Injected together with the event before: the gap was shorter than the
    /// timer's least interval.
    pub merged: u64,
    /// Left out: not longer than the overhead of an injection.
    pub below_floor: u64,
    /// Left out to keep a part of the CPU free for others.
    pub over_limit: u64,
    /// Injected for a part of the length, for the same reason.
    #[serde(default)]
    pub shortened: u64,
    /// Left out: far too late.
    pub missed: u64,
    /// The run ended before.
    pub not_reached: u64,
    /// Of the injected: late because of the event before.
    pub behind: u64,
    /// Of the injected: late because the injector did not run.
    pub away: u64,
    /// Of the injected, inside a program: for the rest of the length only.
    #[serde(skip)]
    pub cut: u64,
    /// Left out, inside a program: out of the plan's range.
    #[serde(skip)]
    pub invalid: u64,
    /// Inside a program: system calls that were interrupted and restarted.
    #[serde(skip)]
    pub waits: u64,
    /// Inside a program: phases that began at a common position.
    #[serde(skip)]
    pub phases: u64,
}

impl EventCounts {
    fn each(&mut self) -> [&mut u64; 14] {
        [
            &mut self.asked,
            &mut self.injected,
            &mut self.merged,
            &mut self.below_floor,
            &mut self.over_limit,
            &mut self.shortened,
            &mut self.missed,
            &mut self.not_reached,
            &mut self.behind,
            &mut self.away,
            &mut self.cut,
            &mut self.invalid,
            &mut self.waits,
            &mut self.phases,
        ]
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (count, more) in self.each().into_iter().zip(other.each()) {
            *count = count.saturating_add(*more);
        }
    }

    /// Counts the events that were merged with one that was left out, shortened, late or not
    /// reached as what that one became. Which they are is not known, so this is in proportion.
    pub fn share_merged(&mut self) {
        // One may be under way when the run ends.
        let not_reached = self.not_reached.saturating_sub(1);
        let planned = self.injected + self.over_limit + self.shortened + self.missed + not_reached;
        let (planned, merged) = (u128::from(planned.max(1)), u128::from(self.merged));
        let part = |count: u64| (merged * u128::from(count) / planned) as u64;
        self.away += part(self.away);
        for (more, count) in [
            (part(self.over_limit), &mut self.over_limit),
            (part(self.shortened), &mut self.shortened),
            (part(self.missed), &mut self.missed),
            (part(not_reached), &mut self.not_reached),
        ] {
            *count += more;
            self.merged -= more;
        }
    }

    /// Events that were decided upon: those that were asked for and reached.
    pub fn decided(&self) -> u64 {
        let left_out = self.below_floor + self.over_limit + self.shortened + self.missed;
        self.injected + self.merged + left_out
    }
}

/// What a rank suffered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankOutcome {
    pub counts: EventCounts,
    /// The first injected events, at most `room`.
    pub kept: Vec<Injection>,
    /// Number of events that are kept; not the vector's capacity, which a clone has not.
    pub room: usize,
    /// Sizes of start errors without a cause outside of the injector, ns.
    pub start: Histogram,
    /// Sizes of the other start errors, ns.
    pub start_late: Histogram,
    /// Sizes of length errors, ns.
    pub length: Histogram,
    /// Requested length of the injected events together, ns.
    pub asked_ns: u64,
    /// Their measured length together, ns.
    pub suffered_ns: u64,
}

/// Errors of events, ns. With a sign where all events are kept, else sizes to 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of events.
    pub count: u64,
    pub p50_ns: i64,
    pub p90_ns: i64,
    pub p99_ns: i64,
    /// The largest.
    pub most_ns: i64,
}

impl Quantiles {
    /// Of these; `None` if there are none.
    pub fn of(mut values: Vec<i64>) -> Option<Self> {
        values.sort_unstable();
        Self::at(values.len() as u64, |pct| quantile(&values, pct))
    }

    fn of_sizes(sizes: &Histogram) -> Option<Self> {
        Self::at(sizes.count(), |pct| {
            sizes.quantile(pct).map(u64::cast_signed)
        })
    }

    fn at(count: u64, quantile: impl Fn(f64) -> Option<i64>) -> Option<Self> {
        Some(Self {
            count,
            p50_ns: quantile(50.0)?,
            p90_ns: quantile(90.0)?,
            p99_ns: quantile(99.0)?,
            most_ns: quantile(100.0)?,
        })
    }
}

/// Written into the memory of kept events, so that its pages are present.
const TOUCH: Injection = Injection {
    due_ns: u64::MAX,
    length_ns: u64::MAX,
    start_error_ns: -1,
    length_error_ns: -1,
    cause: Cause::Nothing,
};

impl RankOutcome {
    /// Keeps up to `room` events; [`note`](Self::note) neither allocates nor faults.
    pub fn with_room(room: usize) -> Self {
        Self {
            kept: touched(TOUCH, room),
            room,
            start: Histogram::allocated(),
            start_late: Histogram::allocated(),
            length: Histogram::allocated(),
            ..Self::default()
        }
    }

    /// Notes an injected event; counts it as asked, too.
    pub fn note(&mut self, event: Injection) {
        self.counts.asked += 1;
        self.counts.injected += 1;
        let late = event.start_error_ns.unsigned_abs();
        match event.cause {
            Cause::Nothing => self.start.add(late),
            Cause::Behind => {
                self.counts.behind += 1;
                self.start_late.add(late);
            }
            Cause::Away => {
                self.counts.away += 1;
                self.start_late.add(late);
            }
        }
        self.length.add(event.length_error_ns.unsigned_abs());
        self.asked_ns += event.length_ns;
        let suffered = event.length_ns.saturating_add_signed(event.length_error_ns);
        self.suffered_ns += suffered;
        if self.kept.len() < self.room {
            self.kept.push(event);
        }
    }

    /// Adds the counts and sizes of another; its kept events are not taken over.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.start.merge(&other.start);
        self.start_late.merge(&other.start_late);
        self.length.merge(&other.length);
        self.asked_ns = self.asked_ns.saturating_add(other.asked_ns);
        self.suffered_ns = self.suffered_ns.saturating_add(other.suffered_ns);
    }

    /// Errors of the kept events if all are kept, else their sizes.
    fn errors(
        &self,
        of: impl Fn(&Injection) -> Option<i64>,
        sizes: &Histogram,
    ) -> Option<Quantiles> {
        if self.kept.len() as u64 == self.length.count() {
            Quantiles::of(self.kept.iter().filter_map(of).collect())
        } else {
            Quantiles::of_sizes(sizes)
        }
    }

    /// Start errors without a cause outside of the injector.
    pub fn start_errors(&self) -> Option<Quantiles> {
        let clean =
            |event: &Injection| (event.cause == Cause::Nothing).then_some(event.start_error_ns);
        self.errors(clean, &self.start)
    }

    /// All start errors.
    pub fn all_start_errors(&self) -> Option<Quantiles> {
        let mut all = self.start.clone();
        all.merge(&self.start_late);
        self.errors(|event| Some(event.start_error_ns), &all)
    }

    /// All length errors.
    pub fn length_errors(&self) -> Option<Quantiles> {
        self.errors(|event| Some(event.length_error_ns), &self.length)
    }

    /// Share (0 to 1) of the [`start_errors`](Self::start_errors) of at most
    /// `ns`; `None` without any.
    pub fn share_within(&self, ns: u64) -> Option<f64> {
        let all = self.start.count();
        (all > 0).then(|| self.start.up_to(ns) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start_error_ns: i64, cause: Cause) -> Injection {
        Injection {
            due_ns: 0,
            length_ns: 1000,
            start_error_ns,
            length_error_ns: -3,
            cause,
        }
    }

    /// 100 000 events in 7000 lumps, of which 400 were left out or shortened.
    #[test]
    fn merged_events_share_the_fate_of_the_others() {
        let mut counts = EventCounts {
            asked: 100_000,
            injected: 6_600,
            merged: 93_000,
            over_limit: 300,
            shortened: 100,
            away: 66,
            ..EventCounts::default()
        };
        let decided = counts.decided();
        counts.share_merged();
        assert_eq!(counts.decided(), decided);
        assert_eq!((counts.over_limit, counts.shortened), (4_285, 1_428));
        assert_eq!((counts.merged, counts.away), (87_687, 942));
        // As many lumps, of which the injector did not get to a tenth.
        let mut behind = EventCounts {
            asked: 100_000,
            injected: 6_300,
            merged: 93_000,
            not_reached: 700,
            ..EventCounts::default()
        };
        behind.share_merged();
        assert_eq!((behind.merged, behind.not_reached), (83_712, 9_988));
        let mut none = EventCounts::default();
        none.share_merged();
        assert_eq!(none, EventCounts::default());
    }

    #[test]
    fn errors_are_exact_while_all_are_kept() {
        let mut outcome = RankOutcome::with_room(200);
        (1..=100).for_each(|error| outcome.note(event(error, Cause::Nothing)));
        outcome.note(event(5_000, Cause::Away));
        let clean = outcome.start_errors().unwrap();
        let expected = Quantiles {
            count: 100,
            p50_ns: 50,
            p90_ns: 90,
            p99_ns: 99,
            most_ns: 100,
        };
        assert_eq!(clean, expected);
        assert_eq!(outcome.all_start_errors().unwrap().most_ns, 5_000);
        assert_eq!(outcome.length_errors().unwrap().p50_ns, -3);
        assert_eq!(
            (outcome.asked_ns, outcome.suffered_ns),
            (101_000, 101_000 - 303)
        );
        assert_eq!((outcome.counts.injected, outcome.counts.away), (101, 1));
        assert!((outcome.share_within(10).unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn beyond_the_room_they_are_counted() {
        let mut outcome = RankOutcome::with_room(10);
        (1..=1000).for_each(|error| outcome.note(event(error, Cause::Behind)));
        assert_eq!(outcome.kept.len(), 10);
        assert_eq!(outcome.start_errors(), None);
        let all = outcome.all_start_errors().unwrap();
        assert!((500..=516).contains(&all.p50_ns), "{all:?}");
        assert_eq!((all.count, all.most_ns), (1000, 1000));
        assert_eq!(outcome.counts.behind, 1000);
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let outcome = RankOutcome::with_room(0);
        assert_eq!(outcome.start_errors(), None);
        assert_eq!(outcome.share_within(10), None);
        assert_eq!(Quantiles::of(Vec::new()), None);
    }
}
