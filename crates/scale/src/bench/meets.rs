// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Noise met by work that begins at a position of a plan's column, event by event. Pure.

use sandbag_jitter::replay::{PlanColumn, ReplayPlan};

use crate::predict::SATURATED_PCT;

/// Begin of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkStart {
    /// At this position; inside an event it meets the rest of it.
    At(u64),
    /// When the work before it ended, about here; if that is inside an event, at its end.
    After(u64),
}

/// Whether an event is under way at a position.
pub(super) fn is_inside(column: &PlanColumn, at_ns: u64) -> bool {
    let next = column
        .events
        .partition_point(|event| event.end_ns() <= at_ns);
    let event = column.events.get(next);
    event.is_some_and(|event| event.due_ns <= at_ns)
}

/// Share of noise in the column with the most, percent.
pub(super) fn most_noise_pct(plan: &ReplayPlan) -> f64 {
    let columns = (0..plan.columns() as u64).map(|rank| plan.column(rank));
    let shares = columns.map(|column| {
        let known_ns = column.known_ns.max(1) as f64;
        column.noise_ns() as f64 / known_ns * 100.0
    });
    shares.fold(0.0, f64::max)
}

/// Whether noise leaves hardly any time of a column, so that a replay is meaningless.
pub(super) fn is_full(plan: &ReplayPlan) -> bool {
    most_noise_pct(plan) >= SATURATED_PCT
}

/// Noise met, ns. At the column's end the work continues at its begin, as in a portion that
/// repeats. The column has to leave time between its events, else no work ends.
pub(super) fn met_ns(column: &PlanColumn, begin: WorkStart, work_ns: u64) -> u64 {
    let PlanColumn { known_ns, events } = column;
    if events.is_empty() {
        return 0;
    }
    let (WorkStart::At(at_ns) | WorkStart::After(at_ns)) = begin;
    let mut now_ns = at_ns % known_ns;
    let mut next = events.partition_point(|event| event.end_ns() <= now_ns);
    if let (WorkStart::After(_), Some(event)) = (begin, events.get(next))
        && event.due_ns <= now_ns
    {
        now_ns = event.end_ns();
    }
    let (began_ns, mut lap_ns, mut left_ns) = (now_ns, 0, work_ns);
    loop {
        let Some(event) = events.get(next) else {
            next = 0;
            lap_ns += known_ns;
            continue;
        };
        let free_ns = (lap_ns + event.due_ns).saturating_sub(now_ns);
        if free_ns >= left_ns && free_ns > 0 {
            return now_ns + left_ns - began_ns - work_ns;
        }
        left_ns -= free_ns;
        now_ns = now_ns.max(lap_ns + event.end_ns());
        next += 1;
    }
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::replay::PlannedEvent;

    use super::*;

    fn column(known_ns: u64, events: &[(u64, u64)]) -> PlanColumn {
        let planned = |(due_ns, length_ns): &(u64, u64)| PlannedEvent::new(*due_ns, *length_ns);
        PlanColumn {
            known_ns,
            events: events.iter().map(planned).collect(),
        }
    }

    #[test]
    fn work_meets_what_comes_before_it_ends() {
        let column = column(1000, &[(100, 50), (200, 30), (900, 10)]);
        let at = |ns, work| met_ns(&column, WorkStart::At(ns), work);
        assert_eq!(at(0, 100), 0);
        assert_eq!(at(0, 101), 50);
        // 100 before the first, 50 to the second.
        assert_eq!(at(0, 150), 50);
        assert_eq!(at(0, 151), 80);
        // Inside an event; or when it was over.
        assert_eq!(at(120, 10), 30);
        assert_eq!(met_ns(&column, WorkStart::After(120), 10), 0);
        assert_eq!(met_ns(&column, WorkStart::After(120), 51), 30);
        assert_eq!(met_ns(&column, WorkStart::After(99), 2), 50);
        // Around the end, also more than once.
        assert_eq!(at(950, 160), 50);
        assert_eq!(at(1950, 160), 50);
        assert_eq!(at(0, 910 * 3), 90 * 3);
    }

    #[test]
    fn without_events_nothing_is_met() {
        let column = column(1000, &[]);
        assert_eq!(met_ns(&column, WorkStart::At(5), 5000), 0);
        assert!(!is_inside(&column, 5));
    }

    #[test]
    fn inside_is_from_its_begin_to_its_end() {
        let column = column(1000, &[(100, 50), (150, 30)]);
        let inside = [99, 100, 149, 150, 179, 180].map(|at_ns| is_inside(&column, at_ns));
        assert_eq!(inside, [false, true, true, true, true, false]);
    }
}
