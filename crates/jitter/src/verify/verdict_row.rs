// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A row of the paper's table: recorded events compared with those that were due.

use crate::stats::{Distances, Grid, QUANTILES_PCT, distances, quantiles};
use serde::{Deserialize, Serialize};

use crate::replay::PlannedEvent;
use crate::replay::outcome::Quantiles;
use crate::verify::matching::{Matches, Tolerance, match_events, without_host};

/// Events of one CPU; due times count from the beginning of each recording.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Due.
    pub asked: &'a [PlannedEvent],
    /// Recorded during the replay.
    pub seen: &'a [PlannedEvent],
    /// Recorded on the host alone, before and after.
    pub host: [&'a [PlannedEvent]; 2],
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictRow {
    /// Events that were due.
    pub asked: u64,
    /// Of those, recorded with the same begin and length, percent.
    pub reproduced_pct: Option<f64>,
    /// Recorded with the same begin, percent.
    pub on_time_pct: Option<f64>,
    /// With the same begin and length as noise of the host: matches by chance,
    /// percent.
    pub by_chance_pct: Option<f64>,
    /// Of those with the same begin.
    pub start_error: Option<Quantiles>,
    /// Of those with the same begin.
    pub length_error: Option<Quantiles>,
    /// Distances of the lengths, without the noise of the host.
    pub distances: Option<Distances>,
    /// Lengths that were due, at [`QUANTILES_PCT`].
    pub asked_ns: Option<[u64; QUANTILES_PCT.len()]>,
    /// Recorded lengths, without the noise of the host.
    pub seen_ns: Option<[u64; QUANTILES_PCT.len()]>,
}

/// Compares the events of all CPUs. All times are divided by the `factor` of the replay.
/// `times`: length of the replay relative to both recordings of the host together.
pub fn judge(cpus: &[Evidence<'_>], tolerance: Tolerance, factor: f64, times: f64) -> VerdictRow {
    let (mut all, mut same, mut on_time, mut chance) = (0, 0, 0, 0.0);
    let (mut late, mut longer) = (Vec::new(), Vec::new());
    let (mut asked_ns, mut seen_ns) = (Vec::new(), Vec::new());
    for Evidence { asked, seen, host } in cpus {
        let least_ns = least_ns(asked);
        let long = |events: &[PlannedEvent]| -> Vec<PlannedEvent> {
            let long = events.iter().filter(|event| event.length_ns >= least_ns);
            long.copied().collect()
        };
        let seen = &long(seen);
        let host = &host.map(long);
        let matches = match_events(asked, seen, tolerance);
        all += asked.len();
        same += matches.same.len();
        on_time += matches.same.len() + matches.other_length.len();
        for host in host {
            // In as much of the host as the replay took.
            chance += match_events(asked, host, tolerance).same.len() as f64 * times;
        }
        for (a, s) in matches.pairs() {
            late.push(signed(seen[s].due_ns, asked[a].due_ns, factor));
            longer.push(signed(seen[s].length_ns, asked[a].length_ns, factor));
        }
        asked_ns.extend(asked.iter().map(|event| unscale(event.length_ns, factor)));
        let own = without_host(&rest(&matches, seen), &lengths(host), times);
        let found = matches.pairs().map(|(_, s)| seen[s].length_ns);
        seen_ns.extend(own.into_iter().chain(found).map(|ns| unscale(ns, factor)));
    }
    let distances = distances(&asked_ns, &seen_ns, Grid::standard());
    asked_ns.sort_unstable();
    seen_ns.sort_unstable();
    let pct = |part: f64| (all > 0).then(|| part / all as f64 * 100.0);
    VerdictRow {
        asked: all as u64,
        reproduced_pct: pct(same as f64),
        on_time_pct: pct(on_time as f64),
        by_chance_pct: pct(chance),
        start_error: Quantiles::of(late),
        length_error: Quantiles::of(longer),
        distances,
        asked_ns: quantiles(&asked_ns),
        seen_ns: quantiles(&seen_ns),
    }
}

/// Half of the shortest event that was due, ns: what is shorter is the host's. A host that
/// stops for 140 ns, 40 000 times a second, does so a little more or less often from one
/// recording to the next, and what subtraction leaves would be most of what was seen.
fn least_ns(asked: &[PlannedEvent]) -> u64 {
    let shortest = asked.iter().map(|event| event.length_ns).min();
    shortest.map_or(0, |ns| ns / 2)
}

fn signed(a: u64, b: u64, factor: f64) -> i64 {
    (a.wrapping_sub(b).cast_signed() as f64 / factor) as i64
}

fn unscale(ns: u64, factor: f64) -> u64 {
    (ns as f64 / factor) as u64
}

fn rest(matches: &Matches, seen: &[PlannedEvent]) -> Vec<u64> {
    matches.rest.iter().map(|i| seen[*i].length_ns).collect()
}

fn lengths(host: &[Vec<PlannedEvent>; 2]) -> Vec<u64> {
    let both = host.iter().flat_map(|one| one.iter());
    both.map(|event| event.length_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pairs: &[(u64, u64)], factor: u64) -> Vec<PlannedEvent> {
        pairs
            .iter()
            .map(|(due_ns, length_ns)| PlannedEvent::new(due_ns * factor, length_ns * factor))
            .collect()
    }

    const ASKED: [(u64, u64); 3] = [
        (1_000_000, 20_000),
        (2_000_000, 80_000),
        (3_000_000, 300_000),
    ];
    const HOST: [(u64, u64); 2] = [(500_000, 7_000), (2_500_000, 7_100)];

    #[test]
    fn a_replay_on_a_noisy_host_is_judged_without_the_host() {
        let asked = events(&ASKED, 1);
        let mut seen = events(&[ASKED[0], HOST[0], ASKED[1], HOST[1], ASKED[2]], 1);
        seen.sort_by_key(|event| event.due_ns);
        let host = events(&HOST, 1);
        let evidence = Evidence {
            asked: &asked,
            seen: &seen,
            host: [&host, &host],
        };
        let judged = judge(&[evidence], Tolerance::default(), 1.0, 0.5);
        assert_eq!((judged.asked, judged.reproduced_pct), (3, Some(100.0)));
        assert_eq!(judged.by_chance_pct, Some(0.0));
        assert!(judged.distances.unwrap().ks < 1e-9, "{judged:?}");
        assert_eq!(judged.seen_ns, judged.asked_ns);
        assert_eq!(judged.start_error.unwrap().most_ns, 0);
    }

    #[test]
    fn what_is_far_shorter_than_all_that_was_due_is_the_host_s() {
        let asked = events(&ASKED, 1);
        // Far more often than in the recordings of the host alone, and where events were due.
        let short = (0..40_000).map(|nth| PlannedEvent::new(nth * 100, 140));
        let mut seen: Vec<PlannedEvent> = short.chain(events(&ASKED[..2], 1)).collect();
        seen.sort_by_key(|event| event.due_ns);
        let host: Vec<PlannedEvent> = seen.iter().step_by(2).copied().collect();
        let evidence = Evidence {
            asked: &asked,
            seen: &seen,
            host: [&host[..100], &host[..100]],
        };
        let judged = judge(&[evidence], Tolerance::default(), 1.0, 0.5);
        assert_eq!(judged.on_time_pct, judged.reproduced_pct);
        assert!((judged.on_time_pct.unwrap() - 200.0 / 3.0).abs() < 1e-9);
        assert_eq!(judged.seen_ns.unwrap()[0], 20_000);
    }

    #[test]
    fn a_factor_is_divided_out() {
        let (asked, seen) = (events(&ASKED, 3), events(&ASKED, 3));
        let evidence = Evidence {
            asked: &asked,
            seen: &seen,
            host: [&[], &[]],
        };
        let judged = judge(&[evidence], Tolerance::default(), 3.0, 1.0);
        assert_eq!(judged.asked_ns.unwrap()[5], 300_000);
        assert_eq!(judged.seen_ns.unwrap()[5], 300_000);
    }

    /// In a third of the replay's time the host alone matched one of three.
    #[test]
    fn chance_is_that_of_the_whole_replay() {
        let (asked, seen) = (events(&ASKED, 3), events(&ASKED, 3));
        let host = events(&ASKED[..1], 3);
        let evidence = Evidence {
            asked: &asked,
            seen: &seen,
            host: [&host, &host],
        };
        let judged = judge(&[evidence], Tolerance::default(), 3.0, 1.5);
        assert_eq!(judged.by_chance_pct, Some(100.0));
    }

    #[test]
    fn nothing_at_all_is_no_figure() {
        let judged = judge(&[], Tolerance::default(), 1.0, 1.0);
        assert_eq!((judged.reproduced_pct, judged.distances), (None, None));
    }
}
