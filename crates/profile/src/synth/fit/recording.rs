// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What recording does to on/off: in means over steps, states shorter than
//! half a step are not seen, those beside them look like one, and steps in
//! which the state changes are between the levels.

use crate::{BoxSteps, Result, algebra};

use super::levels::{Levels, Times, times, two_levels};
use crate::synth::{OnOff, on_off};

/// Cycles of the chain by which it is found out.
const CYCLES: f64 = 1500.0;
/// Of that chain at most; enough for those cycles, as `SEEN_STEPS` has it.
const MOST_STEPS: f64 = 2e6;
/// Longer times, in steps, act on the others as if they had this length:
/// recording changes them in proportion, and their ends by less than a permille.
const SEEN_STEPS: f64 = 1000.0;
/// Rounds until a chain is found; each takes away most of what is left.
const ROUNDS: usize = 8;
/// Times of this length, in steps, are recorded to within 0.5 %.
const LONG_STEPS: f64 = 200.0;
/// A time is corrected to a third at most: times hardly longer than a step leave
/// no trace, and a load that alternates by the step is no chain.
const MOST: f64 = 3.0;

/// The levels and times of the chain that has these ones when it is recorded in
/// steps of `step_ns`.
///
/// # Errors
/// A step of length 0.
pub fn before_recording(levels: Levels, seen: Times, step_ns: u64) -> Result<(Levels, Times)> {
    let step_s = step_ns as f64 / 1e9;
    if seen.on_s.min(seen.off_s) > LONG_STEPS * step_s {
        return Ok((levels, seen));
    }
    let mut before = seen;
    let mut parts = (0.0, 1.0);
    for _ in 0..ROUNDS {
        let Some(what) = effect(before, step_ns)? else {
            break;
        };
        let corrected = |seen: f64, factor: f64| seen / factor.clamp(1.0, MOST);
        before.on_s = corrected(seen.on_s, what.on);
        before.off_s = corrected(seen.off_s, what.off);
        parts = what.parts;
    }
    // off + (on - off) * part is seen.
    let apart = (levels.on_pct - levels.off_pct) / (parts.1 - parts.0);
    let off_pct = levels.off_pct - apart * parts.0;
    let levels = Levels {
        off_pct: off_pct.clamp(0.0, 100.0),
        on_pct: (off_pct + apart).clamp(0.0, 100.0),
        ..levels
    };
    Ok((levels, before))
}

struct Effect {
    /// By which times on and off become longer.
    on: f64,
    off: f64,
    /// Where the levels are seen between off, 0, and on, 1.
    parts: (f64, f64),
}

/// A chain on which recording has the same effect.
fn short(chain: Times, step_ns: u64) -> Times {
    let most_s = SEEN_STEPS * step_ns as f64 / 1e9;
    Times {
        on_s: chain.on_s.min(most_s),
        off_s: chain.off_s.min(most_s),
        ..chain
    }
}

/// Against the times that the same chain really had, so that chance is in both.
fn effect(chain: Times, step_ns: u64) -> Result<Option<Effect>> {
    let chain = short(chain, step_ns);
    let step_s = step_ns as f64 / 1e9;
    let length_s = (CYCLES * (chain.on_s + chain.off_s)).min(MOST_STEPS * step_s);
    let model = OnOff {
        on_pct: 100.0,
        off_pct: 0.0,
        on_s: chain.on_s,
        off_s: chain.off_s,
        seed: 1,
    };
    let exact = || on_off(model, &[0], (length_s * 1e9) as u64);
    let recorded = || -> Result<BoxSteps> { algebra::resample(exact()?, step_ns) };
    let Some(levels) = two_levels(recorded()?)? else {
        return Ok(None);
    };
    let real = times(exact()?, 50.0)?;
    let seen = times(recorded()?, levels.threshold_pct)?;
    Ok(real.zip(seen).map(|(real, seen)| Effect {
        on: seen.on_s / real.on_s,
        off: seen.off_s / real.off_s,
        parts: (levels.off_pct / 100.0, levels.on_pct / 100.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NS_PER_S;

    const S: u64 = NS_PER_S;

    #[test]
    fn a_recorded_chain_gives_its_parameters_back() {
        for (on_s, off_s) in [(20.0, 60.0), (5.0, 5.0), (2.0, 2.0), (1.5, 6.0)] {
            let model = OnOff {
                on_pct: 80.0,
                off_pct: 10.0,
                on_s,
                off_s,
                seed: 3,
            };
            let recorded = || {
                let whole = on_off(model, &[0, 1], 100_000 * S).unwrap();
                algebra::resample(whole, S).unwrap()
            };
            let levels = two_levels(recorded()).unwrap().unwrap();
            let seen = times(recorded(), levels.threshold_pct).unwrap().unwrap();
            let (levels, before) = before_recording(levels, seen, S).unwrap();
            // Four standard deviations of the mean of that number of exponential times,
            // here and in the chain that it was compared with.
            let within = 4.0 / (seen.changes as f64 / 2.0).sqrt() + 0.03;
            for (got, expected) in [(before.on_s, on_s), (before.off_s, off_s)] {
                assert!(
                    (got / expected - 1.0).abs() < within,
                    "{model:?} {seen:?} {before:?}"
                );
            }
            // Half of it is what the split makes of steps in between.
            assert!((levels.on_pct - 80.0).abs() < 1.5, "{model:?} {levels:?}");
            assert!((levels.off_pct - 10.0).abs() < 1.5, "{model:?} {levels:?}");
        }
    }

    #[test]
    fn a_long_time_beside_a_short_one_needs_no_long_chain() {
        let chain = Times {
            on_s: 2.0,
            off_s: 86_400.0,
            changes: 9,
        };
        let made = short(chain, S);
        assert!(CYCLES * (made.on_s + made.off_s) <= MOST_STEPS);
        // As of a chain whose time off is not shortened.
        let long = effect(chain, S).unwrap().unwrap();
        let whole = Times {
            off_s: SEEN_STEPS,
            ..chain
        };
        let same = effect(whole, S).unwrap().unwrap();
        assert_eq!((long.on, long.off), (same.on, same.off));
        let less = Times {
            off_s: SEEN_STEPS / 3.0,
            ..chain
        };
        let less = effect(less, S).unwrap().unwrap();
        // Chance of 1500 cycles is in both.
        for (a, b) in [(long.on, less.on), (long.off, less.off)] {
            assert!((a / b - 1.0).abs() < 0.05, "{a} {b}");
        }
    }

    #[test]
    fn long_times_are_left_alone_and_short_ones_have_a_limit() {
        let levels = Levels {
            off_pct: 10.0,
            on_pct: 90.0,
            threshold_pct: 50.0,
        };
        let of = |on_s, off_s| {
            let seen = Times {
                on_s,
                off_s,
                changes: 9,
            };
            before_recording(levels, seen, S).unwrap()
        };
        assert_eq!(of(300.0, 400.0).1.on_s, 300.0);
        let (levels, times) = of(1.0, 1.0);
        assert!(times.on_s >= 1.0 / MOST && times.off_s >= 1.0 / MOST);
        assert!((0.0..=100.0).contains(&levels.off_pct) && levels.on_pct <= 100.0);
    }
}
