// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ratio of the rates of two traces of which one has too few events to draw samples
//! from: see [`likeness`](super::likeness()).
//!
//! Of events at random times, the number in one trace is binomial, given the sum of both
//! (Przyborowski and Wilenski 1940); the interval is that of Clopper and Pearson (1934).
//! Events come in bursts, so the numbers are divided by their index of dispersion, which
//! makes them numbers of bursts, and rounded away from each other.

use super::blocks::TimeBlock;
use super::likeness::{
    BEYOND_LIMIT, Interval, LEAST_BLOCKS, LEAST_EVENTS, LikenessVerdict, Measure, RESOLUTION,
};

/// Rates that differ by less are not told apart, logarithm of their ratio.
const LIMIT: f64 = RESOLUTION[1];
/// Logarithms of odds lie within this.
const MOST_LN_ODDS: f64 = 50.0;

/// Events in a known time.
#[derive(Clone, Copy)]
struct EventCount {
    events: f64,
    known_ns: f64,
}

impl EventCount {
    fn of(blocks: &[TimeBlock]) -> Self {
        Self {
            events: blocks.iter().map(|block| block.events).sum(),
            known_ns: blocks.iter().map(|block| block.known_ns).sum(),
        }
    }
}

/// Judges the rate of B against that of A by their numbers of events, with an interval of
/// 99 %: it differs if the whole interval is beyond 10 %.
pub(super) fn judge_counts(a: &[TimeBlock], b: &[TimeBlock]) -> Measure {
    let dispersion = dispersion(a).max(dispersion(b));
    let (a, b) = (EventCount::of(a), EventCount::of(b));
    let difference = interval(a, b, dispersion);
    let verdict = if a.events + b.events == 0.0 {
        LikenessVerdict::Same
    } else if difference.least() > LIMIT {
        LikenessVerdict::Differs
    } else {
        LikenessVerdict::Undecided
    };
    Measure {
        difference,
        limit: LIMIT,
        resolution: LIMIT,
        verdict,
    }
}

/// The sentence behind a verdict on the numbers of events of A and B.
pub(super) fn counts_reason(verdict: LikenessVerdict, events: [f64; 2]) -> String {
    let [a, b] = events;
    match verdict {
        LikenessVerdict::Same => "neither of them has an event".to_owned(),
        LikenessVerdict::Differs => {
            format!("the rates differ by more than 10 %: A has {a} events, and B {b}")
        }
        LikenessVerdict::Undecided => {
            let (name, least) = if a < LEAST_EVENTS as f64 {
                ("A", a)
            } else {
                ("B", b)
            };
            format!(
                "{name} has only {least} events; {LEAST_EVENTS} are the least where the rates \
                 alone do not tell them apart"
            )
        }
    }
}

/// Of the logarithm of the ratio of B's rate to A's.
fn interval(a: EventCount, b: EventCount, dispersion: f64) -> Interval {
    let ln_times = (a.known_ns / b.known_ns).ln();
    let (bursts_a, bursts_b) = (a.events / dispersion, b.events / dispersion);
    Interval {
        value: b.events.ln() - a.events.ln() + ln_times,
        low: ln_least_odds(bursts_b.floor(), bursts_a.ceil()) + ln_times,
        high: -ln_least_odds(bursts_a.floor(), bursts_b.ceil()) + ln_times,
    }
}

/// Variance of the number of events in a block relative to its mean, at least 1: of the
/// blocks and of parts of about a tenth, where bursts are longer than blocks.
fn dispersion(blocks: &[TimeBlock]) -> f64 {
    let all = EventCount::of(blocks);
    let of_parts = |length: usize| {
        let parts: Vec<EventCount> = blocks.chunks(length).map(EventCount::of).collect();
        let count = parts.len() as f64;
        let squares = parts.iter().map(|part| {
            let expected = all.events * part.known_ns / all.known_ns;
            (part.events - expected).powi(2)
        });
        squares.sum::<f64>() / all.events * count / (count - 1.0)
    };
    // Not a number without events.
    [1, blocks.len().div_ceil(LEAST_BLOCKS)]
        .map(of_parts)
        .into_iter()
        .fold(1.0, f64::max)
}

/// Logarithm of the least odds of an event for the first trace with which it has `first`
/// of the events or more in half of [`BEYOND_LIMIT`] of all cases, `second` being the others.
fn ln_least_odds(first: f64, second: f64) -> f64 {
    if first == 0.0 {
        return f64::NEG_INFINITY;
    }
    let all = first + second;
    let at_least = |odds: f64| {
        // The sum with fewer terms.
        if first <= second {
            1.0 - at_most(first - 1.0, all, odds)
        } else {
            at_most(second, all, 1.0 / odds)
        }
    };
    let (mut low, mut high) = (-MOST_LN_ODDS, MOST_LN_ODDS);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if at_least(middle.exp()) > BEYOND_LIMIT / 2.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// Probability of at most `count` of `all` events of these odds.
fn at_most(count: f64, all: f64, odds: f64) -> f64 {
    let mut term = (-all * odds.ln_1p()).exp();
    let mut sum = term;
    for i in 0..count as u64 {
        let i = i as f64;
        term *= (all - i) / (i + 1.0) * odds;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: f64 = 1e9;

    fn blocks(events: &[f64]) -> Vec<TimeBlock> {
        let block = |events: &f64| TimeBlock {
            known_ns: SECOND_NS,
            noise_ns: 0.0,
            events: *events,
            histogram: Vec::new(),
            spread: Vec::new(),
        };
        events.iter().map(block).collect()
    }

    #[test]
    fn the_interval_is_that_of_clopper_and_pearson() {
        // Of 3 of 10: 0.0370 to 0.7351 (99 %); of 0 of 10: 0 to 0.4113.
        let odds = |p: f64| (p / (1.0 - p)).ln();
        assert!((ln_least_odds(3.0, 7.0) - odds(0.0370)).abs() < 2e-3);
        assert!((-ln_least_odds(7.0, 3.0) - odds(0.7351)).abs() < 2e-3);
        assert!((-ln_least_odds(10.0, 0.0) - odds(0.4113)).abs() < 2e-3);
        assert_eq!(ln_least_odds(0.0, 10.0), f64::NEG_INFINITY);
        // 5 against many is nearly a Poisson number: 1.078 is the least (99 %).
        let many = ln_least_odds(5.0, 1e9) + 1e9f64.ln();
        assert!((many - 1.078f64.ln()).abs() < 1e-3, "{many}");
    }

    #[test]
    fn known_times_count() {
        // The same rate, a tenth of the time.
        let one = judge_counts(&blocks(&[5.0; 100]), &blocks(&[5.0; 10]));
        assert!(one.difference.value.abs() < 1e-12);
        assert_eq!(one.verdict, LikenessVerdict::Undecided);
        let fewer = judge_counts(&blocks(&[5.0; 100]), &blocks(&[0.0; 10]));
        assert_eq!(fewer.verdict, LikenessVerdict::Differs, "{fewer:?}");
    }

    #[test]
    fn a_burst_counts_once() {
        let quiet = blocks(&[0.0; 10]);
        let mut burst = vec![0.0; 10];
        burst[3] = 5000.0;
        let one = judge_counts(&quiet, &blocks(&burst));
        assert_eq!(one.verdict, LikenessVerdict::Undecided, "{one:?}");
        // Longer than a block, shorter than a tenth.
        let mut burst = vec![0.0; 50];
        burst[10..15].fill(1000.0);
        let one = judge_counts(&blocks(&[0.0; 50]), &blocks(&burst));
        assert_eq!(one.verdict, LikenessVerdict::Undecided, "{one:?}");
        let steady = judge_counts(&quiet, &blocks(&[500.0; 10]));
        assert_eq!(steady.verdict, LikenessVerdict::Differs, "{steady:?}");
    }
}
