// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands where the load is unknown.

use std::str::FromStr;

use crate::{BoxSteps, Error, Fault, ProfileCell, ProfileHeader, Result, Seconds, Step, Steps};

use super::warnings_and;

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
    /// what follows moves up.
    Cut,
    /// Refuse, naming the first one. Whoever acts on a profile should use
    /// this unless the user chose one of the above.
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
#[must_use]
pub fn fill_gaps(steps: BoxSteps, gaps: Gaps) -> BoxSteps {
    if gaps == Gaps::Keep {
        return steps;
    }
    Box::new(GapSteps {
        last: vec![ProfileCell::default(); steps.header().cpus.len()],
        inner: steps,
        gaps,
        cut_ns: 0,
        filled_ns: 0,
        kept: false,
    })
}

struct GapSteps {
    inner: BoxSteps,
    gaps: Gaps,
    /// What goes on in a hole.
    last: Vec<ProfileCell>,
    cut_ns: u64,
    filled_ns: u64,
    kept: bool,
}

impl Steps for GapSteps {
    fn header(&self) -> &ProfileHeader {
        self.inner.header()
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        while let Some(mut step) = self.inner.next_step()? {
            step.start_ns -= self.cut_ns;
            step.end_ns -= self.cut_ns;
            let Some(hole) = step.cells.iter().position(Option::is_none) else {
                if self.gaps == Gaps::Hold {
                    self.last.clear();
                    self.last.extend(step.cells.iter().flatten());
                }
                self.kept = true;
                return Ok(Some(step));
            };
            match self.gaps {
                Gaps::Cut => {
                    self.cut_ns += step.length_ns();
                    continue;
                }
                Gaps::Error => {
                    return Err(Fault::Hole {
                        cpu: self.inner.header().cpus[hole],
                        from: Seconds(step.start_ns),
                        to: Seconds(step.end_ns),
                    }
                    .into());
                }
                Gaps::Keep | Gaps::Hold | Gaps::Zero => {}
            }
            self.filled_ns = self.filled_ns.saturating_add(step.length_ns());
            for (cell, last) in step.cells.iter_mut().zip(&mut self.last) {
                // With `zero` the last one stays what it was at first: no load.
                let now = *cell.get_or_insert(*last);
                if self.gaps == Gaps::Hold {
                    *last = now;
                }
            }
            self.kept = true;
            return Ok(Some(step));
        }
        if self.cut_ns > 0 && !self.kept {
            self.kept = true;
            return Err(Fault::NothingLeft { end: Seconds(0) }.into());
        }
        Ok(None)
    }

    fn warnings(&self) -> Vec<String> {
        let own = match self.gaps {
            Gaps::Cut if self.cut_ns > 0 => Some(format!(
                "{} with an unknown load were cut out",
                Seconds(self.cut_ns)
            )),
            Gaps::Hold if self.filled_ns > 0 => Some(format!(
                "in {} an unknown load was taken to be the last known one",
                Seconds(self.filled_ns)
            )),
            Gaps::Zero if self.filled_ns > 0 => Some(format!(
                "in {} an unknown load was taken to be 0",
                Seconds(self.filled_ns)
            )),
            _ => None,
        };
        warnings_and(&self.inner, own)
    }
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
