// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds that are changed while they are held; see the module above for how
//! a change reaches the burners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbag_kernel::CpuList;
use sandbag_profile::{BoxSteps, Header, Step, Steps};

use super::{Read, cells, header};
use crate::ratios::Ratios;

#[derive(Debug)]
struct Shared {
    /// How often the speeds were set.
    generation: AtomicU64,
    /// What was set last.
    speeds: Mutex<Ratios>,
}

/// The handle by which speeds are changed; any number of clones of it.
#[derive(Debug, Clone)]
pub struct Live {
    shared: Arc<Shared>,
    cpus: CpuList,
}

/// Speeds for other CPUs than the node has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("speeds of CPUs {given} cannot be set on a node of CPUs {node}: give each of those one")]
pub struct OtherCpus {
    /// CPUs of the speeds.
    pub given: CpuList,
    /// CPUs of the node.
    pub node: CpuList,
}

impl Live {
    /// Speeds that hold until they are changed, in pieces of `piece_ns`
    /// ([`OPEN_END_NS`](super::OPEN_END_NS) where the reader asks
    /// [`LiveSteps::changed`]).
    #[must_use]
    pub fn constant(speeds: Ratios, piece_ns: u64) -> (Self, LiveSteps) {
        Self::new(speeds, None, piece_ns)
    }

    /// A course of loads ([`slowed`](super::slowed)) that is followed until
    /// speeds are set, which then hold for good. `first` are the speeds at its
    /// beginning, for whoever asks before anything was read.
    #[must_use]
    pub fn over(course: BoxSteps, first: Ratios, piece_ns: u64) -> (Self, LiveSteps) {
        Self::new(first, Some(course), piece_ns)
    }

    fn new(speeds: Ratios, course: Option<BoxSteps>, piece_ns: u64) -> (Self, LiveSteps) {
        let steps_header = course.as_ref().map(|course| course.header().clone());
        let live = Self {
            cpus: speeds.cpus(),
            shared: Arc::new(Shared {
                generation: AtomicU64::new(0),
                speeds: Mutex::new(speeds.clone()),
            }),
        };
        let steps = LiveSteps {
            header: steps_header.unwrap_or_else(|| header(&speeds)),
            shared: Arc::clone(&live.shared),
            seen: 0,
            course,
            rest: None,
            over: false,
            at_ns: 0,
            piece_ns: piece_ns.max(1),
            warnings: Vec::new(),
        };
        (live, steps)
    }

    /// From now on these speeds. Takes no longer than a copy; whoever holds
    /// the speeds does the rest.
    ///
    /// # Errors
    /// [`OtherCpus`]; nothing is changed.
    pub fn set(&self, speeds: Ratios) -> Result<(), OtherCpus> {
        if speeds.cpus() != self.cpus {
            return Err(OtherCpus {
                given: speeds.cpus(),
                node: self.cpus.clone(),
            });
        }
        *lock(&self.shared.speeds) = speeds;
        self.shared.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The speeds that were set last, or those of the beginning.
    #[must_use]
    pub fn speeds(&self) -> Ratios {
        lock(&self.shared.speeds).clone()
    }

    /// How often they were set.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }
}

/// The load that leaves the speeds of a [`Live`] handle.
pub struct LiveSteps {
    header: Header,
    shared: Arc<Shared>,
    /// Generation of the last piece.
    seen: u64,
    /// Followed until the first change, or to its end.
    course: Option<BoxSteps>,
    /// What is left of the course's step; it may be longer than a piece.
    rest: Option<Step>,
    /// The course ended by itself.
    over: bool,
    /// Where the next piece begins.
    at_ns: u64,
    piece_ns: u64,
    /// Of a course that is no longer followed.
    warnings: Vec<String>,
}

impl LiveSteps {
    /// Whether speeds were set of which no piece was read yet.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.shared.generation.load(Ordering::Acquire) != self.seen
    }

    /// After a change: what was read and begins at `run_ns` or later is void,
    /// and what contains it ends there. The next piece begins there, with the
    /// speeds that were set last. Without a change nothing happens, because a
    /// course cannot be read again.
    pub fn restart_at(&mut self, run_ns: u64) {
        if self.changed() {
            self.at_ns = run_ns;
        }
    }

    /// The next step of the course; `None` when nobody follows one any more.
    fn follow(&mut self) -> Read {
        if self.rest.is_none()
            && let Some(course) = &mut self.course
        {
            self.rest = course.next_step()?;
            if self.rest.is_none() {
                self.leave_course();
                self.over = true;
            }
        }
        Ok(self.rest.take())
    }

    fn leave_course(&mut self) {
        self.rest = None;
        if let Some(course) = self.course.take() {
            self.warnings = course.warnings();
        }
    }
}

impl Steps for LiveSteps {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_step(&mut self) -> Read {
        // The number before the speeds: a change between the two is seen
        // twice and never lost.
        let generation = self.shared.generation.load(Ordering::Acquire);
        if generation != self.seen {
            self.seen = generation;
            self.over = false;
            self.leave_course();
        }
        let Some(end_ns) = self.at_ns.checked_add(self.piece_ns) else {
            return Ok(None);
        };
        let mut step = match self.follow()? {
            Some(step) => step,
            None if self.over => return Ok(None),
            None => Step {
                start_ns: self.at_ns,
                end_ns,
                cells: cells(&lock(&self.shared.speeds)),
            },
        };
        if step.end_ns > end_ns {
            self.rest = Some(Step {
                start_ns: end_ns,
                ..step.clone()
            });
            step.end_ns = end_ns;
        }
        self.at_ns = step.end_ns;
        Ok(Some(step))
    }

    fn warnings(&self) -> Vec<String> {
        match &self.course {
            Some(course) => course.warnings(),
            None => self.warnings.clone(),
        }
    }
}

/// A panic elsewhere cannot leave half of an assignment.
fn lock(speeds: &Mutex<Ratios>) -> MutexGuard<'_, Ratios> {
    speeds.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{AtEnd, OPEN_END_NS, slowed};
    use proptest::prelude::*;

    fn ratios(a: f64, b: f64) -> Ratios {
        Ratios::new(vec![(0, a), (1, b)])
    }

    fn next(steps: &mut LiveSteps) -> (u64, u64, Vec<f64>) {
        let step = steps.next_step().unwrap().unwrap();
        let loads = step.cells.iter().map(|cell| cell.unwrap().load_pct);
        (step.start_ns, step.end_ns, loads.collect())
    }

    #[test]
    fn a_change_is_in_the_next_piece() {
        let (live, mut steps) = Live::constant(ratios(1.0, 0.5), 20);
        assert_eq!(next(&mut steps), (0, 20, vec![0.0, 50.0]));
        live.set(ratios(0.25, 0.5)).unwrap();
        assert!(steps.changed());
        assert_eq!(next(&mut steps), (20, 40, vec![75.0, 50.0]));
        assert!(!steps.changed());
        assert_eq!((live.speeds(), live.generation()), (ratios(0.25, 0.5), 1));
    }

    #[test]
    fn a_change_can_begin_in_the_middle_of_what_was_read() {
        let (live, mut steps) = Live::constant(ratios(1.0, 0.5), OPEN_END_NS);
        assert_eq!(next(&mut steps).1, OPEN_END_NS);
        steps.restart_at(7);
        assert_eq!(next(&mut steps).0, OPEN_END_NS, "nothing changed");
        live.set(ratios(0.5, 0.5)).unwrap();
        steps.restart_at(1_000);
        assert_eq!(
            next(&mut steps),
            (1_000, 1_000 + OPEN_END_NS, vec![50.0, 50.0])
        );
    }

    #[test]
    fn a_course_is_followed_until_it_is_overruled() {
        let course = |at_end| slowed(sandbag_profile::constant(&[0, 1], 80.0, 50), at_end);
        let (live, mut steps) = Live::over(course(AtEnd::Hold), ratios(0.8, 0.8), 30);
        assert_eq!(next(&mut steps), (0, 30, vec![20.0, 20.0]));
        assert_eq!(next(&mut steps), (30, 50, vec![20.0, 20.0]));
        assert_eq!(next(&mut steps), (50, 80, vec![20.0, 20.0]));
        live.set(ratios(1.0, 0.1)).unwrap();
        assert_eq!(next(&mut steps), (80, 110, vec![0.0, 90.0]));

        let (_live, mut steps) = Live::over(course(AtEnd::End), ratios(0.8, 0.8), 100);
        assert_eq!(next(&mut steps).1, 50);
        assert!(steps.next_step().unwrap().is_none());
        assert!(steps.next_step().unwrap().is_none());
    }

    #[test]
    fn speeds_of_other_cpus_are_refused() {
        let (live, steps) = Live::constant(ratios(1.0, 0.5), 20);
        let other = Ratios::new(vec![(1, 0.5)]);
        let error = live.set(other).unwrap_err().to_string();
        assert!(
            error.contains("CPUs 1 ") && error.contains("CPUs 0,1"),
            "{error}"
        );
        assert!(!steps.changed());
    }

    proptest! {
        #[test]
        fn pieces_have_no_gaps(
            piece in 1u64..50,
            sets in prop::collection::vec(any::<bool>(), 1..30),
            course in any::<bool>(),
        ) {
            let (live, mut steps) = match course {
                false => Live::constant(ratios(0.5, 0.5), piece),
                true => Live::over(
                    slowed(sandbag_profile::constant(&[0, 1], 50.0, 70), AtEnd::Hold),
                    ratios(0.5, 0.5),
                    piece,
                ),
            };
            let mut at = 0;
            for set in sets {
                if set {
                    live.set(ratios(0.5, 0.4)).unwrap();
                }
                let (start, end, loads) = next(&mut steps);
                prop_assert_eq!(start, at);
                prop_assert!(end > start && end - start <= piece);
                let expected = if live.generation() > 0 { 60.0 } else { 50.0 };
                prop_assert!((loads[1] - expected).abs() < 1e-9);
                at = end;
            }
        }
    }
}
