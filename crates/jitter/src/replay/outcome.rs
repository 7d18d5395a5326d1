// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of the events that were asked for.
//!
//! Memory is bounded: so many events are kept one by one, all others are
//! counted by the size of their errors.

use sandbag_stats::quantile;
use serde::{Deserialize, Serialize};

use crate::replay::histogram::Histogram;

/// Why an event that was suffered did not begin when it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Nothing stood in its way: its error is the injector's own.
    Nothing,
    /// The one before it was still being suffered.
    Behind,
    /// Nobody was there to see to it: the host had the CPU, or the program
    /// did not ask.
    Away,
}

/// An event that was suffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// When it was to begin, ns since the beginning.
    pub due_ns: u64,
    /// For how long, ns.
    pub length_ns: u64,
    /// How much later it began, ns.
    pub start_error_ns: i64,
    /// How much longer it was, ns.
    pub length_error_ns: i64,
    /// Why it began late, if it did.
    pub cause: Cause,
}

/// Events by what became of them. `asked` is the sum of all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// That were due, or would have been.
    pub asked: u64,
    /// That were suffered, also late.
    pub injected: u64,
    /// Suffered as part of the one before: the gap was shorter than the
    /// timer's least interval.
    pub merged: u64,
    /// Shorter than what injecting costs by itself.
    pub below_floor: u64,
    /// Left out so that a part of the CPU remains to others.
    pub over_limit: u64,
    /// Suffered for a part of their length only, for the same reason.
    #[serde(default)]
    pub shortened: u64,
    /// Far too late.
    pub missed: u64,
    /// The run ended before.
    pub not_reached: u64,
    /// Of the injected: late because of the one before.
    pub behind: u64,
    /// Of the injected: late because nobody was there.
    pub away: u64,
}

impl EventCounts {
    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.injected += other.injected;
        self.merged += other.merged;
        self.below_floor += other.below_floor;
        self.over_limit += other.over_limit;
        self.shortened += other.shortened;
        self.missed += other.missed;
        self.not_reached += other.not_reached;
        self.behind += other.behind;
        self.away += other.away;
    }
}

/// What a rank suffered.
#[derive(Debug, Clone)]
pub struct RankOutcome {
    /// By what became of them.
    pub counts: EventCounts,
    kept: Vec<Injection>,
    room: usize,
    /// Size of the start errors of those with nothing in their way.
    start: Histogram,
    /// Size of the start errors of the others.
    start_late: Histogram,
    /// Size of the length errors of all.
    length: Histogram,
    /// How long all were to be, and how much longer they were.
    asked_ns: u64,
    suffered_ns: u64,
}

/// Errors of many events, ns. Of those kept one by one they are exact and
/// have a sign, else they are sizes to 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Of how many.
    pub count: u64,
    /// Half are not above it.
    pub p50_ns: i64,
    /// 90 % are not above it.
    pub p90_ns: i64,
    /// 99 % are not above it.
    pub p99_ns: i64,
    /// The largest.
    pub most_ns: i64,
}

impl Quantiles {
    /// Of these; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<i64>) -> Option<Self> {
        values.sort_unstable();
        let at = |part_pct| quantile(&values, part_pct);
        Some(Self {
            count: values.len() as u64,
            p50_ns: at(50.0)?,
            p90_ns: at(90.0)?,
            p99_ns: at(99.0)?,
            most_ns: at(100.0)?,
        })
    }

    fn of_sizes(sizes: &Histogram) -> Option<Self> {
        let at = |part_pct| sizes.quantile(part_pct).map(u64::cast_signed);
        Some(Self {
            count: sizes.count(),
            p50_ns: at(50.0)?,
            p90_ns: at(90.0)?,
            p99_ns: at(99.0)?,
            most_ns: sizes.most().cast_signed(),
        })
    }
}

/// Written into kept memory, so that its pages are there.
const TOUCH: Injection = Injection {
    due_ns: u64::MAX,
    length_ns: u64::MAX,
    start_error_ns: -1,
    length_error_ns: -1,
    cause: Cause::Nothing,
};

impl RankOutcome {
    /// Room for so many events, touched now: what comes later neither
    /// allocates nor faults.
    #[must_use]
    pub fn with_room(room: usize) -> Self {
        let mut kept = vec![TOUCH; room];
        kept.clear();
        Self {
            counts: EventCounts::default(),
            kept,
            room,
            start: Histogram::default(),
            start_late: Histogram::default(),
            length: Histogram::default(),
            asked_ns: 0,
            suffered_ns: 0,
        }
    }

    /// Notes an event that was suffered; counts it as asked, too.
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

    /// Adds events of which only counts are known, and the sizes of their
    /// errors: start errors of those with nothing in their way, of the others,
    /// and length errors; and how long all of them were to be, and were, ns.
    pub fn note_later(
        &mut self,
        counts: &EventCounts,
        [start, late, length]: [&Histogram; 3],
        (asked_ns, suffered_ns): (u64, u64),
    ) {
        self.asked_ns += asked_ns;
        self.suffered_ns += suffered_ns;
        self.counts.add(counts);
        self.start.merge(start);
        self.start_late.merge(late);
        self.length.merge(length);
    }

    /// Those that are kept one by one, in their order.
    #[must_use]
    pub fn kept(&self) -> &[Injection] {
        &self.kept
    }

    /// Whether all are.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.kept.len() as u64 == self.counts.injected
    }

    /// How long all injected events were to be, and how long they were, ns.
    #[must_use]
    pub fn taken_ns(&self) -> (u64, u64) {
        (self.asked_ns, self.suffered_ns)
    }

    /// Start errors of those that nothing stood in the way of.
    #[must_use]
    pub fn start_errors(&self) -> Option<Quantiles> {
        if self.all_kept() {
            let clean = self.kept.iter().filter(|e| e.cause == Cause::Nothing);
            Quantiles::of(clean.map(|e| e.start_error_ns).collect())
        } else {
            Quantiles::of_sizes(&self.start)
        }
    }

    /// Start errors of all.
    #[must_use]
    pub fn all_start_errors(&self) -> Option<Quantiles> {
        if self.all_kept() {
            Quantiles::of(self.kept.iter().map(|e| e.start_error_ns).collect())
        } else {
            let mut all = self.start.clone();
            all.merge(&self.start_late);
            Quantiles::of_sizes(&all)
        }
    }

    /// Length errors of all.
    #[must_use]
    pub fn length_errors(&self) -> Option<Quantiles> {
        if self.all_kept() {
            Quantiles::of(self.kept.iter().map(|e| e.length_error_ns).collect())
        } else {
            Quantiles::of_sizes(&self.length)
        }
    }

    /// Share of the events with nothing in their way that began within so
    /// much of their due time, 0 to 1; `None` without any.
    #[must_use]
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

    #[test]
    fn errors_are_exact_while_all_are_kept() {
        let mut outcome = RankOutcome::with_room(200);
        (1..=100).for_each(|error| outcome.note(event(error, Cause::Nothing)));
        outcome.note(event(5_000, Cause::Away));
        let clean = outcome.start_errors().unwrap();
        assert_eq!(
            (
                clean.count,
                clean.p50_ns,
                clean.p90_ns,
                clean.p99_ns,
                clean.most_ns
            ),
            (100, 50, 90, 99, 100)
        );
        assert_eq!(outcome.all_start_errors().unwrap().most_ns, 5_000);
        assert_eq!(outcome.length_errors().unwrap().p50_ns, -3);
        assert_eq!(outcome.taken_ns(), (101_000, 101_000 - 303));
        assert_eq!((outcome.counts.injected, outcome.counts.away), (101, 1));
        assert!((outcome.share_within(10).unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn beyond_the_room_they_are_counted() {
        let mut outcome = RankOutcome::with_room(10);
        (1..=1000).for_each(|error| outcome.note(event(error, Cause::Behind)));
        assert_eq!((outcome.kept().len(), outcome.all_kept()), (10, false));
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
