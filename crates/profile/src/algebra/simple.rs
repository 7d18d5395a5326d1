// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations that look at one step at a time.

use crate::{BoxSteps, Fault, ProfileCell, ProfileHeader, Result, Step};
use sandbag_ui::quantity::Seconds;

use super::clip::{clip_cell, clip_warning};
use crate::stream::{change_steps, no_warning};

/// Leaves what lies between two times; it begins at 0 again. A `to_ns` beyond
/// the end is the end.
///
/// # Errors
/// `from_ns` is not before `to_ns`; in the stream: it is not before the end.
pub fn cut(steps: BoxSteps, from_ns: u64, to_ns: u64) -> Result<BoxSteps> {
    if from_ns >= to_ns {
        return Err(
            Fault::argument("end of the cut", Seconds(to_ns), "later than its begin").into(),
        );
    }
    let mut header = steps.header().clone();
    header.begins_at = header.begins_at.and_then(|b| b.later(from_ns));
    let mut any = false;
    let next = move |inner: &mut BoxSteps, _: &mut u64| {
        let mut end = 0;
        while let Some(step) = inner.next_step()? {
            end = step.end_ns;
            if step.end_ns <= from_ns {
                continue;
            }
            if step.start_ns >= to_ns {
                // The rest is not read: a fault beyond the cut is none of it.
                return Ok(None);
            }
            any = true;
            return Ok(Some(Step {
                start_ns: step.start_ns.max(from_ns) - from_ns,
                end_ns: step.end_ns.min(to_ns) - from_ns,
                cells: step.cells,
            }));
        }
        if any {
            Ok(None)
        } else {
            Err(Fault::NothingLeft { end: Seconds(end) }.into())
        }
    };
    Ok(change_steps(steps, header, no_warning, next))
}

/// Multiplies each load; what comes out above 100 is clipped and counted.
///
/// # Errors
/// The factor is negative or not finite.
pub fn scale_load(steps: BoxSteps, factor: f64) -> Result<BoxSteps> {
    if !(factor >= 0.0 && factor.is_finite()) {
        return Err(Fault::argument("load factor", factor, "0 or more").into());
    }
    let header = steps.header().clone();
    Ok(change_steps(
        steps,
        header,
        clip_warning,
        move |inner, clips| {
            let mut step = inner.next_step()?;
            for cell in step.iter_mut().flat_map(|s| &mut s.cells).flatten() {
                cell.load_pct *= factor;
                *cell = clip_cell(*cell, clips);
            }
            Ok(step)
        },
    ))
}

/// A day becomes a tenth of a second, or some centuries: beyond that no step is
/// left, or nanoseconds do not fit into 64 bits.
const TIME_FACTORS: std::ops::RangeInclusive<f64> = 1e-6..=1e5;

/// Multiplies each time: 0.1 replays in a tenth of the time. Steps that
/// become shorter than a nanosecond vanish.
///
/// # Errors
/// The factor is not one of [`TIME_FACTORS`].
pub fn scale_time(steps: BoxSteps, factor: f64) -> Result<BoxSteps> {
    if !TIME_FACTORS.contains(&factor) {
        return Err(Fault::argument("time factor", factor, "between 0.000001 and 100000").into());
    }
    // Begin and end are scaled from the original, so nothing accumulates and
    // neighbours stay contiguous.
    let scaled = move |ns: u64| (ns as f64 * factor).round() as u64;
    let header = steps.header().clone();
    Ok(change_steps(steps, header, no_warning, move |inner, _| {
        while let Some(step) = inner.next_step()? {
            let (start_ns, end_ns) = (scaled(step.start_ns), scaled(step.end_ns));
            if end_ns > start_ns {
                return Ok(Some(Step {
                    start_ns,
                    end_ns,
                    cells: step.cells,
                }));
            }
        }
        Ok(None)
    }))
}

/// Counts steal as load: the load becomes the share of the wall time in which
/// the CPU was busy or withheld, and no steal is left.
pub fn steal_as_load(steps: BoxSteps) -> BoxSteps {
    let header = ProfileHeader {
        has_steal: false,
        ..steps.header().clone()
    };
    change_steps(steps, header, no_warning, |inner, _| {
        let mut step = inner.next_step()?;
        for cell in step.iter_mut().flat_map(|s| &mut s.cells).flatten() {
            let delivered = 1.0 - cell.steal_pct / 100.0;
            *cell = ProfileCell::load((cell.load_pct * delivered + cell.steal_pct).min(100.0));
        }
        Ok(step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::testing::{any_profile, assert_sound, at, profile};
    use proptest::prelude::*;

    #[test]
    fn arguments_that_make_no_sense() {
        let p = || profile(&[0], &[(10, &[Some(50.0)])]).into_steps();
        assert!(cut(p(), 5, 5).is_err());
        assert!(Profile::collect(cut(p(), 10, 20).unwrap()).is_err());
        for factor in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(scale_load(p(), factor).is_err());
            assert!(scale_time(p(), factor).is_err());
        }
        for factor in [0.0, 1e-300, 1e300] {
            assert!(scale_time(p(), factor).is_err(), "{factor}");
        }
    }

    #[test]
    fn a_cut_begins_later() {
        let mut p = profile(&[0], &[(10 * crate::NS_PER_S, &[Some(50.0)])]);
        for (begin, later) in [
            ("2026-11-21T01:10:52Z", "2026-11-21T01:10:55Z"),
            ("2026-11-21T23:59:58", "2026-11-22T00:00:01"),
        ] {
            p.header.begins_at = begin.parse().ok();
            let part = cut(p.clone().into_steps(), 3 * crate::NS_PER_S, u64::MAX).unwrap();
            assert_eq!(part.header().begins_at.unwrap().to_string(), later);
        }
    }

    #[test]
    fn a_clip_is_told() {
        let p = profile(&[0, 1], &[(10, &[Some(60.0), Some(50.0)])]);
        let scaled = Profile::collect(scale_load(p.into_steps(), 2.0).unwrap()).unwrap();
        assert_eq!(
            scaled.steps[0].cells,
            [
                Some(ProfileCell::load(100.0)),
                Some(ProfileCell::load(100.0))
            ]
        );
        assert_eq!(scaled.warnings.len(), 1);
        assert!(scaled.warnings[0].starts_with("1 loads"));
    }

    #[test]
    fn steal_added_to_the_load() {
        let mut p = profile(&[0], &[(10, &[Some(50.0)])]);
        p.steps[0].cells[0].as_mut().unwrap().steal_pct = 20.0;
        let p = Profile::collect(steal_as_load(p.into_steps())).unwrap();
        assert_eq!(p.steps[0].cells[0], Some(ProfileCell::load(60.0)));
    }

    proptest! {
        #[test]
        fn a_cut_shows_what_was_there(p in any_profile(), a in 0u64..600, length in 1u64..600) {
            prop_assume!(a < p.end_ns());
            let b = a + length;
            let part = Profile::collect(cut(p.clone().into_steps(), a, b).unwrap()).unwrap();
            assert_sound(&part);
            prop_assert_eq!(part.end_ns(), p.end_ns().min(b) - a);
            for t in 0..part.end_ns() {
                prop_assert_eq!(at(&part, t), at(&p, a + t));
            }
        }

        #[test]
        fn scaling_the_load_there_and_back(p in any_profile()) {
            let half = scale_load(p.clone().into_steps(), 0.5).unwrap();
            let back = Profile::collect(scale_load(half, 2.0).unwrap()).unwrap();
            prop_assert_eq!(back, p);
        }

        #[test]
        fn scaled_time_stays_contiguous(p in any_profile(), factor in 0.001f64..10.0) {
            let scaled = Profile::collect(scale_time(p.clone().into_steps(), factor).unwrap()).unwrap();
            assert_sound(&scaled);
            let end = (p.end_ns() as f64 * factor).round() as u64;
            prop_assert_eq!(scaled.end_ns(), end);
        }
    }
}
