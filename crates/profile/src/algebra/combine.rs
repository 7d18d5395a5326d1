// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two profiles as one: one after the other, or both at once.

use crate::{BoxSteps, Fault, ProfileCell, ProfileHeader, Result, Step, Steps};

use super::clip::{clip_cell, clip_warning};
use crate::stream::{change_steps, no_warning};

/// The second begins where the first ends.
///
/// # Errors
/// They are not of the same CPUs.
pub fn append(first: BoxSteps, second: BoxSteps) -> Result<BoxSteps> {
    let (a, b) = (first.header(), second.header());
    let place = |cpu: &u32| b.cpus.iter().position(|c| c == cpu);
    let places: Option<Vec<usize>> = a.cpus.iter().map(place).collect();
    let Some(places) = places.filter(|places| places.len() == b.cpus.len()) else {
        return Err(Fault::OtherCpus {
            first: a.cpus.clone(),
            second: b.cpus.clone(),
        }
        .into());
    };
    let header = ProfileHeader {
        has_steal: a.has_steal || b.has_steal,
        ..a.clone()
    };
    Ok(Box::new(AppendSteps {
        header,
        first,
        second,
        places,
        begin_ns: 0,
        in_second: false,
        failed: false,
    }))
}

struct AppendSteps {
    header: ProfileHeader,
    first: BoxSteps,
    second: BoxSteps,
    /// Where each CPU stands in the second.
    places: Vec<usize>,
    /// Of the second.
    begin_ns: u64,
    in_second: bool,
    failed: bool,
}

impl Steps for AppendSteps {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.failed {
            return Ok(None);
        }
        if !self.in_second {
            match self.first.next_step() {
                Ok(Some(step)) => {
                    self.begin_ns = step.end_ns;
                    return Ok(Some(step));
                }
                Ok(None) => self.in_second = true,
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
        let Some(step) = self.second.next_step()? else {
            return Ok(None);
        };
        Ok(Some(Step {
            start_ns: self.begin_ns.saturating_add(step.start_ns),
            end_ns: self.begin_ns.saturating_add(step.end_ns),
            cells: self.places.iter().map(|at| step.cells[*at]).collect(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = self.first.warnings();
        all.extend(self.second.warnings());
        all
    }
}

/// Both at once, from the same beginning: loads are added and clipped at 100,
/// steal as well. A CPU that one of them does not have, or that comes after
/// its end, has no load of it. What is unknown in one is unknown in the sum.
pub fn add(first: BoxSteps, second: BoxSteps) -> BoxSteps {
    let (a, b) = (first.header(), second.header());
    let mut cpus: Vec<u32> = a.cpus.iter().chain(&b.cpus).copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    let header = ProfileHeader {
        cpus,
        has_steal: a.has_steal || b.has_steal,
        ..a.clone()
    };
    let sides = [first, second].map(|steps| Side {
        places: header
            .cpus
            .iter()
            .map(|cpu| steps.header().cpus.iter().position(|c| c == cpu))
            .collect(),
        steps,
        now: None,
        ended: false,
    });
    Box::new(SumSteps {
        header,
        sides,
        at_ns: 0,
        clips: 0,
        failed: false,
    })
}

struct SumSteps {
    header: ProfileHeader,
    sides: [Side; 2],
    at_ns: u64,
    clips: u64,
    failed: bool,
}

struct Side {
    steps: BoxSteps,
    /// Where each CPU of the sum stands in it.
    places: Vec<Option<usize>>,
    /// The step at the moment that has been reached.
    now: Option<Step>,
    ended: bool,
}

impl Side {
    /// The end of the step at `at_ns`; `None` after the last.
    fn advance(&mut self, at_ns: u64) -> Result<Option<u64>> {
        if self.now.as_ref().is_some_and(|step| step.end_ns <= at_ns) {
            self.now = None;
        }
        if self.now.is_none() && !self.ended {
            self.now = self.steps.next_step()?;
            self.ended = self.now.is_none();
        }
        Ok(self.now.as_ref().map(|step| step.end_ns))
    }

    fn cell(&self, cpu: usize) -> Option<ProfileCell> {
        match (&self.now, self.places[cpu]) {
            (Some(step), Some(at)) => step.cells[at],
            _ => Some(ProfileCell::default()),
        }
    }
}

impl Steps for SumSteps {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        let mut ends = [None; 2];
        if self.failed {
            return Ok(None);
        }
        for (end, side) in ends.iter_mut().zip(&mut self.sides) {
            let advanced = side.advance(self.at_ns);
            self.failed = advanced.is_err();
            *end = advanced?;
        }
        let Some(end_ns) = ends.into_iter().flatten().min() else {
            return Ok(None);
        };
        let start_ns = std::mem::replace(&mut self.at_ns, end_ns);
        let [first, second] = &self.sides;
        let clips = &mut self.clips;
        let sum = |cpu| {
            let (a, b) = first.cell(cpu).zip(second.cell(cpu))?;
            let sum = ProfileCell {
                load_pct: a.load_pct + b.load_pct,
                steal_pct: (a.steal_pct + b.steal_pct).min(100.0),
            };
            Some(clip_cell(sum, clips))
        };
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells: (0..self.header.cpus.len()).map(sum).collect(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        let [first, second] = &self.sides;
        let mut all = first.steps.warnings();
        all.extend(second.steps.warnings());
        all.extend(clip_warning(self.clips));
        all
    }
}

/// The profile begins so much earlier, with time in which no CPU has a load;
/// what was recorded stays at its time of day.
pub fn delay(steps: BoxSteps, ns: u64) -> BoxSteps {
    if ns == 0 {
        return steps;
    }
    let mut header = steps.header().clone();
    header.begins_at = header.begins_at.and_then(|begin| begin.earlier(ns));
    let mut idle = Some(Step {
        start_ns: 0,
        end_ns: ns,
        cells: vec![Some(ProfileCell::default()); header.cpus.len()],
    });
    change_steps(steps, header, no_warning, move |inner, _| {
        if let Some(idle) = idle.take() {
            return Ok(Some(idle));
        }
        Ok(inner.next_step()?.map(|step| Step {
            start_ns: step.start_ns.saturating_add(ns),
            end_ns: step.end_ns.saturating_add(ns),
            cells: step.cells,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::testing::{any_profile, assert_sound, at, profile};
    use proptest::prelude::*;

    fn collect(steps: BoxSteps) -> Profile {
        let p = Profile::collect(steps).unwrap();
        assert_sound(&p);
        p
    }

    #[test]
    fn one_after_the_other_whatever_the_order_of_the_cpus() {
        let a = profile(&[0, 3], &[(10, &[Some(1.0), Some(2.0)])]);
        let b = profile(&[3, 0], &[(5, &[Some(4.0), None])]);
        let sum = collect(append(a.clone().into_steps(), b.into_steps()).unwrap());
        assert_eq!(sum.end_ns(), 15);
        assert_eq!(sum.steps[1].cells, [None, Some(ProfileCell::load(4.0))]);
        let other = profile(&[0], &[(5, &[Some(4.0)])]);
        let e = append(a.into_steps(), other.into_steps()).err().unwrap();
        assert!(e.to_string().contains("CPUs 0,3"), "{e}");
    }

    #[test]
    fn both_at_once_are_added_and_clipped() {
        let a = profile(&[0, 1], &[(10, &[Some(60.0), Some(5.0)])]);
        let b = profile(
            &[0, 2],
            &[(4, &[Some(50.0), Some(7.0)]), (12, &[None, Some(8.0)])],
        );
        let sum = collect(add(a.into_steps(), b.into_steps()));
        let loads = |i: usize| -> Vec<Option<f64>> {
            let cells = &sum.steps[i].cells;
            cells.iter().map(|c| c.map(|c| c.load_pct)).collect()
        };
        assert_eq!(sum.header.cpus, [0, 1, 2]);
        assert_eq!(loads(0), [Some(100.0), Some(5.0), Some(7.0)]);
        assert_eq!(loads(1), [None, Some(5.0), Some(8.0)]);
        assert_eq!(loads(2), [None, Some(0.0), Some(8.0)]);
        let ends: Vec<u64> = sum.steps.iter().map(|step| step.end_ns).collect();
        assert_eq!(ends, [4, 10, 12]);
        assert_eq!(sum.warnings.len(), 1);
    }

    #[test]
    fn a_delay_is_idle() {
        let mut a = profile(&[0], &[(10, &[Some(60.0)])]);
        a.header.begins_at = Some("2026-11-21T01:10:52.000000005Z".parse().unwrap());
        let later = collect(delay(a.into_steps(), 5));
        // What was recorded stays at its time of day.
        let begins = later.header.begins_at.unwrap().to_string();
        assert_eq!(begins, "2026-11-21T01:10:52Z");
        assert_eq!(later.steps[0].cells, [Some(ProfileCell::default())]);
        assert_eq!((later.steps[1].start_ns, later.steps[1].end_ns), (5, 15));
    }

    proptest! {
        #[test]
        fn a_sum_is_the_sum_at_every_moment(a in any_profile(), b in any_profile()) {
            let sum = collect(add(a.clone().into_steps(), b.clone().into_steps()));
            prop_assert_eq!(sum.end_ns(), a.end_ns().max(b.end_ns()));
            for ns in (0..sum.end_ns()).step_by(7) {
                for (i, cpu) in sum.header.cpus.iter().enumerate() {
                    let of = |p: &Profile| {
                        let place = p.header.cpus.iter().position(|c| c == cpu);
                        match (place, at(p, ns)) {
                            (Some(place), Some(cells)) => cells[place].map(|c| c.load_pct),
                            _ => Some(0.0),
                        }
                    };
                    let expected = of(&a).zip(of(&b)).map(|(x, y)| (x + y).min(100.0));
                    let got = at(&sum, ns).unwrap()[i].map(|c| c.load_pct);
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}
