// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps of equal length.

use crate::model::Mean;
use crate::{BoxSteps, Fault, ProfileHeader, Result, Step, Steps};
use sandbag_ui::quantity::{Seconds, plain_seconds};

/// Replaces the steps by ones of `step_ns`, each with the mean of what it
/// covers, weighted with the delivered time. The end stays where it is, so
/// the last step may be shorter. Where only part of a step is known, that
/// part speaks for it.
///
/// # Errors
/// `step_ns` is 0. Later, that there are more than a hundred million of them.
pub fn resample(steps: BoxSteps, step_ns: u64) -> Result<BoxSteps> {
    let mut resample = Resample::new(steps, step_ns)?;
    resample.most = MOST_PIECES;
    Ok(Box::new(resample))
}

/// The most pieces, three years in seconds: of more, a length or a stamp is wrong, and the
/// work would not end.
const MOST_PIECES: u64 = 100_000_000;

/// Says what became of unknown time beside known time.
fn covered_warning(covered_ns: u64) -> Option<String> {
    (covered_ns > 0).then(|| {
        format!(
            "{} s (summed over the CPUs) of unknown load lies in steps of which a part is known; \
             that part was taken for all (--gaps zero makes it 0 before)",
            plain_seconds(covered_ns)
        )
    })
}

/// The work behind [`resample`], over any stream.
pub(crate) struct Resample<S> {
    inner: S,
    step_ns: u64,
    /// The most pieces that are made.
    most: u64,
    /// The step below that covers `at_ns`, as far as one was read.
    current: Option<Step>,
    at_ns: u64,
    /// Unknown time, summed over the CPUs, of steps that are known in part.
    covered_ns: u64,
}

impl<S: Steps> Resample<S> {
    pub(crate) fn new(inner: S, step_ns: u64) -> Result<Self> {
        if step_ns == 0 {
            return Err(Fault::argument("step length", "0", "longer than 0").into());
        }
        Ok(Self {
            inner,
            step_ns,
            most: u64::MAX,
            current: None,
            at_ns: 0,
            covered_ns: 0,
        })
    }

    /// Goes on with the last piece of the step below if that covered all of the piece before:
    /// those in between are equal to it.
    pub(crate) fn skip_equal(&mut self) {
        let Some(step) = &self.current else { return };
        if step.start_ns.saturating_add(self.step_ns) <= self.at_ns {
            let last_ns = (step.end_ns - 1) / self.step_ns * self.step_ns;
            self.at_ns = self.at_ns.max(last_ns);
        }
    }

    /// Refuses a profile that reaches beyond the pieces that are made of one.
    fn check_pieces(&self) -> Result<()> {
        let end_ns = self.current.as_ref().map_or(0, |step| step.end_ns);
        if end_ns / self.step_ns > self.most {
            return Err(Fault::TooManyPieces(Seconds(end_ns)).into());
        }
        Ok(())
    }
}

impl<S: Steps> Steps for Resample<S> {
    fn header(&self) -> &ProfileHeader {
        self.inner.header()
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        let start_ns = self.at_ns;
        let end_ns = start_ns.saturating_add(self.step_ns);
        let mut means = vec![Mean::default(); self.header().cpus.len()];
        while self.at_ns < end_ns {
            if self.current.as_ref().is_none_or(|s| s.end_ns <= self.at_ns) {
                self.current = self.inner.next_step()?;
                self.check_pieces()?;
            }
            let Some(step) = &self.current else { break };
            let until = step.end_ns.min(end_ns);
            for (mean, cell) in means.iter_mut().zip(&step.cells) {
                mean.add(*cell, until - self.at_ns);
            }
            self.at_ns = until;
        }
        let cells: Vec<_> = means.iter().map(Mean::cell).collect();
        let known = means.iter().zip(&cells).filter(|(_, cell)| cell.is_some());
        let covered_ns: u64 = known.map(|(mean, _)| mean.unknown_ns).sum();
        self.covered_ns = self.covered_ns.saturating_add(covered_ns);
        Ok((self.at_ns > start_ns).then_some(Step {
            start_ns,
            end_ns: self.at_ns,
            cells,
        }))
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = self.inner.warnings();
        all.extend(covered_warning(self.covered_ns));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_profile, assert_sound, at, profile};
    use crate::{Profile, summarise};
    use proptest::prelude::*;

    #[test]
    fn a_mean_of_what_is_covered() {
        let p = profile(
            &[0],
            &[(10, &[Some(100.0)]), (40, &[Some(0.0)]), (45, &[None])],
        );
        let r = Profile::collect(resample(p.into_steps(), 20).unwrap()).unwrap();
        let loads: Vec<_> = r
            .steps
            .iter()
            .map(|s| s.cells[0].map(|c| c.load_pct))
            .collect();
        assert_eq!(loads, [Some(50.0), Some(0.0), None]);
        assert_eq!(r.end_ns(), 45);
        assert!(r.warnings.is_empty());
        let p = profile(&[0], &[(10, &[Some(100.0)]), (40, &[None])]);
        let r = Profile::collect(resample(p.into_steps(), 20).unwrap()).unwrap();
        assert!(r.warnings[0].starts_with("0.00000001 s (summed"), "{r:?}");
    }

    #[test]
    fn no_length() {
        let p = profile(&[0], &[(10, &[Some(100.0)])]);
        assert!(resample(p.into_steps(), 0).is_err());
    }

    #[test]
    fn more_pieces_than_anyone_wants() {
        // Of a series whose first stamp is 0 and whose second is of 2026.
        let end_ns = 1_790_000_000_000_000_000;
        let of = |step_ns| {
            let p = profile(&[0], &[(end_ns, &[Some(100.0)])]);
            resample(p.into_steps(), step_ns).unwrap().next_step()
        };
        let error = of(1_000_000_000).unwrap_err().to_string();
        assert!(error.contains("reaches to 1790000000 s"), "{error}");
        assert!(of(100_000_000_000).is_ok());
    }

    proptest! {
        #[test]
        fn the_mean_stays_and_the_end_too(p in any_profile(), step in 1u64..300) {
            // With holes the mean need not stay: a step that is known in part
            // is known afterwards.
            let mut p = p;
            for cell in p.steps.iter_mut().flat_map(|s| &mut s.cells) {
                cell.get_or_insert_default();
            }
            let before = summarise(&mut *p.clone().into_steps()).unwrap();
            let r = Profile::collect(resample(p.into_steps(), step).unwrap()).unwrap();
            assert_sound(&r);
            for s in &r.steps[..r.steps.len() - 1] {
                prop_assert_eq!(s.length_ns(), step);
            }
            let after = summarise(&mut *r.into_steps()).unwrap();
            prop_assert_eq!(before.end_ns, after.end_ns);
            for (b, a) in before.cpus.iter().zip(&after.cpus) {
                // Without delivered time there is nothing to weigh with.
                if b.mean_steal_pct.unwrap() < 99.9 {
                    prop_assert!((b.mean_load_pct.unwrap() - a.mean_load_pct.unwrap()).abs() < 1e-6);
                }
                prop_assert!((b.mean_steal_pct.unwrap() - a.mean_steal_pct.unwrap()).abs() < 1e-6);
            }
        }

        #[test]
        fn what_is_skipped_is_equal(p in any_profile(), step in 1u64..30) {
            let all = Profile::collect(resample(p.clone().into_steps(), step).unwrap()).unwrap();
            let mut some = Resample::new(p.into_steps(), step).unwrap();
            let (mut cells, mut end_ns) = (Vec::new(), 0);
            for piece in all.steps {
                if piece.start_ns == some.at_ns {
                    let found = some.next_step().unwrap().unwrap();
                    prop_assert_eq!(&found, &piece);
                    (cells, end_ns) = (found.cells, found.end_ns);
                    some.skip_equal();
                } else {
                    prop_assert_eq!(&cells, &piece.cells);
                }
            }
            prop_assert_eq!(some.next_step().unwrap(), None);
            prop_assert_eq!(some.at_ns, end_ns);
        }

        #[test]
        fn one_nanosecond_changes_nothing(p in any_profile()) {
            let r = Profile::collect(resample(p.clone().into_steps(), 1).unwrap()).unwrap();
            for t in 0..p.end_ns() {
                prop_assert_eq!(at(&r, t), at(&p, t));
            }
        }
    }
}
