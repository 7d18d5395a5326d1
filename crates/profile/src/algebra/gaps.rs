// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands where the load is unknown.

use std::ops::Range;
use std::str::FromStr;

use crate::{BoxSteps, Error, Fault, ProfileCell, Result};
use sandbag_ui::quantity::Seconds;

use crate::stream::change_steps;

/// What to do with unknown loads: holes of a recording, CPUs that were
/// offline, empty cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// Leave them unknown. The default of reading: converting and showing
    /// lose nothing that way.
    #[default]
    Keep,
    /// The last known load of the CPU goes on; 0 before the first.
    Hold,
    /// No load.
    Zero,
    /// Each step in which a load is unknown is left out, for all CPUs, and
    /// what follows moves up. Steps before the first known one move the begin
    /// of the recording.
    Cut,
    /// Refuse, naming the first one: for commands that act on a profile, unless
    /// the user chose another treatment.
    Error,
}

impl FromStr for Gaps {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "keep" => Self::Keep,
            "hold" => Self::Hold,
            "zero" => Self::Zero,
            "cut" => Self::Cut,
            "error" => Self::Error,
            _ => return Err(Fault::NoSuchGaps(text.to_owned()).into()),
        })
    }
}

/// Applies a treatment to all unknown loads.
pub fn fill_gaps(steps: BoxSteps, gaps: Gaps) -> BoxSteps {
    fill_gaps_of_part(steps, gaps, 0..u64::MAX)
}

/// The same where a part of a file is used, by its times there, ns. [`Gaps::Hold`] comes before
/// the cut, because the load that goes on may be older; its warning counts the part only. The
/// others come after the cut, and an error has the times of the file.
pub fn fill_gaps_of_part(mut steps: BoxSteps, gaps: Gaps, part: Range<u64>) -> BoxSteps {
    if gaps == Gaps::Keep {
        return steps;
    }
    let mut header = steps.header().clone();
    let cpus = header.cpus.clone();
    // What goes on in a hole.
    let mut last = vec![ProfileCell::default(); cpus.len()];
    let mut cut_ns = 0;
    let mut kept = false;
    // The first step that is left, or what stands in its place.
    let mut first = None;
    if gaps == Gaps::Cut {
        first = Some(loop {
            match steps.next_step() {
                Ok(Some(step)) if step.cells.iter().any(Option::is_none) => {
                    cut_ns += step.length_ns();
                }
                other => break other,
            }
        });
        header.begins_at = header.begins_at.and_then(|begin| begin.later(cut_ns));
    }
    let mut cut_before_ns = cut_ns;
    let warning = move |ns| gap_warning(gaps, ns);
    change_steps(steps, header, warning, move |inner, told_ns| {
        *told_ns = told_ns.saturating_add(std::mem::take(&mut cut_before_ns));
        while let Some(mut step) = first.take().unwrap_or_else(|| inner.next_step())? {
            step.start_ns -= cut_ns;
            step.end_ns -= cut_ns;
            let Some(hole) = step.cells.iter().position(Option::is_none) else {
                if gaps == Gaps::Hold {
                    last.clear();
                    last.extend(step.cells.iter().flatten());
                }
                kept = true;
                return Ok(Some(step));
            };
            if gaps == Gaps::Error {
                return Err(Fault::Hole {
                    cpu: cpus[hole],
                    from: Seconds(part.start + step.start_ns),
                    to: Seconds(part.start + step.end_ns),
                }
                .into());
            }
            let counted = match gaps {
                Gaps::Hold => {
                    let (from, to) = (step.start_ns.max(part.start), step.end_ns.min(part.end));
                    to.saturating_sub(from)
                }
                _ => step.length_ns(),
            };
            *told_ns = told_ns.saturating_add(counted);
            if gaps == Gaps::Cut {
                cut_ns += step.length_ns();
                continue;
            }
            for (cell, last) in step.cells.iter_mut().zip(&mut last) {
                // With `zero` the last one stays what it was at first: no load.
                let now = *cell.get_or_insert(*last);
                if gaps == Gaps::Hold {
                    *last = now;
                }
            }
            kept = true;
            return Ok(Some(step));
        }
        if cut_ns > 0 && !kept {
            return Err(Fault::NothingLeft { end: Seconds(0) }.into());
        }
        Ok(None)
    })
}

fn gap_warning(gaps: Gaps, ns: u64) -> Option<String> {
    let time = Seconds(ns);
    let text = match gaps {
        Gaps::Cut => format!("{time} with an unknown load were cut out"),
        Gaps::Hold => format!("in {time} an unknown load was taken to be the last known one"),
        Gaps::Zero => format!("in {time} an unknown load was taken to be 0"),
        Gaps::Keep | Gaps::Error => return None,
    };
    (ns > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::testing::{any_profile, assert_sound, profile};
    use proptest::prelude::*;

    /// End of a step and the loads of the two CPUs.
    type Row = (u64, Option<f64>, Option<f64>);

    fn fill(gaps: &str) -> Result<Vec<Row>> {
        let p = profile(
            &[0, 3],
            &[
                (10, &[None, Some(20.0)]),
                (20, &[Some(30.0), Some(40.0)]),
                (30, &[None, Some(50.0)]),
                (40, &[None, None]),
            ],
        );
        let p = Profile::collect(fill_gaps(p.into_steps(), gaps.parse()?))?;
        assert_eq!(p.warnings.len(), usize::from(gaps != "keep"));
        let load = |c: Option<ProfileCell>| c.map(|c| c.load_pct);
        Ok(p.steps
            .iter()
            .map(|s| (s.end_ns, load(s.cells[0]), load(s.cells[1])))
            .collect())
    }

    #[test]
    fn each_treatment() {
        assert_eq!(fill("keep").unwrap()[3], (40, None, None));
        assert_eq!(
            fill("hold").unwrap(),
            [
                (10, Some(0.0), Some(20.0)),
                (20, Some(30.0), Some(40.0)),
                (30, Some(30.0), Some(50.0)),
                (40, Some(30.0), Some(50.0)),
            ]
        );
        assert_eq!(fill("zero").unwrap()[2], (30, Some(0.0), Some(50.0)));
        assert_eq!(fill("cut").unwrap(), [(10, Some(30.0), Some(40.0))]);
        let e = fill("error").unwrap_err();
        assert!(matches!(*e.fault, Fault::Hole { cpu: 0, .. }));
        assert!(fill("guess").is_err());
    }

    #[test]
    fn steps_that_are_cut_out_first_move_the_begin() {
        const HOLE: &[Option<f64>] = &[None];
        const KNOWN: &[Option<f64>] = &[Some(50.0)];
        for (loads, begin) in [
            ([HOLE, HOLE, KNOWN], "01:11:12"),
            ([KNOWN, HOLE, KNOWN], "01:10:52"),
        ] {
            let ends = [10, 20, 30].map(|end_s| end_s * crate::NS_PER_S);
            let steps: Vec<_> = ends.into_iter().zip(loads).collect();
            let mut p = profile(&[0], &steps);
            p.header.begins_at = "2026-11-21T01:10:52".parse().ok();
            let p = Profile::collect(fill_gaps(p.into_steps(), Gaps::Cut)).unwrap();
            let expected = format!("2026-11-21T{begin}");
            assert_eq!(p.header.begins_at.unwrap().to_string(), expected);
        }
    }

    #[test]
    fn a_profile_of_holes_cannot_be_cut() {
        let p = profile(&[0], &[(10, &[None])]);
        assert!(Profile::collect(fill_gaps(p.into_steps(), Gaps::Cut)).is_err());
    }

    proptest! {
        #[test]
        fn nothing_unknown_is_left(p in any_profile()) {
            for gaps in [Gaps::Hold, Gaps::Zero, Gaps::Cut, Gaps::Error] {
                if let Ok(p) = Profile::collect(fill_gaps(p.clone().into_steps(), gaps)) {
                    assert_sound(&p);
                    prop_assert!(p.steps.iter().all(|s| s.cells.iter().all(Option::is_some)));
                }
            }
        }
    }
}
