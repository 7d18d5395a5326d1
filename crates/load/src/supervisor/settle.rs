// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before the run: the first level is held, signals are answered already.

use jiff::Timestamp;
use nix::sys::signal::Signal;
use sandbag_linux::clock;

use super::SupervisedRun;
use super::burner::Common;
use super::cpu::CALIBRATES;
use super::meter::BurnerTime;
use crate::board::{BOUNDARY_NS, LoadOrder};
use crate::burn::Duty;
use sandbag_linux::signals::{ENDING, went_to_group};
use sandbag_run::error::Result;
use sandbag_ui::units::ASK_LIMIT;

const SETTLE_NS: u64 = 2_000_000_000;
/// An answer may come this long after the beginning.
const ANSWERS_NS: u64 = 500_000_000;
/// The first level is held when what was taken between two boundaries is this close.
const SETTLED_POINTS: f64 = 5.0;

/// What was asked for the beginning of a run.
pub(super) struct Limits {
    pub settle: bool,
    pub start_at: Option<StartAt>,
    pub supervisor_cpu: Option<u32>,
}

/// A time at which a run is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAt {
    /// On CLOCK_MONOTONIC, ns: this is waited for.
    pub at_ns: u64,
    /// On the wall clock, by which it was asked for; `None` for a part, which follows its run.
    pub wall: Option<Timestamp>,
}

impl StartAt {
    /// What to say of a beginning at `zero_ns` (monotonic), which is `began` on the wall clock,
    /// if it is more than 100 ms off. The monotonic clock stands still while the machine is
    /// suspended, and is not set.
    pub(super) fn missed_by(self, zero_ns: u64, began: Timestamp) -> Option<String> {
        let late_ns = i128::from(zero_ns) - i128::from(self.at_ns);
        let by_wall = |asked: Timestamp| began.as_nanosecond() - asked.as_nanosecond();
        let off_ns = self.wall.map_or(late_ns, by_wall);
        let is_far = |ns: i128| ns.unsigned_abs() > u128::from(BOUNDARY_NS);
        let why = if is_far(off_ns - late_ns) {
            "the machine was suspended, or its clock was set, meanwhile"
        } else if is_far(late_ns) {
            "it was not ready before"
        } else {
            return None;
        };
        let side = if off_ns < 0 { "before" } else { "after" };
        Some(format!(
            "--at: the run begins {:.1} s {side} that time: {why}",
            off_ns.unsigned_abs() as f64 / 1e9
        ))
    }
}

/// What a signal means before the run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    GoOn,
    /// We were stopped: what was ordered is past.
    Again,
    End,
}

impl SupervisedRun<'_> {
    /// Holds the first level; returns the start (monotonic), `None` if interrupted.
    pub(super) fn settle(
        &mut self,
        common: &Common<'_>,
        first_pct: &[f64],
        limits: &Limits,
    ) -> Result<Option<u64>> {
        // One that is past already is late as it is.
        let start_at_ns = limits.start_at.map(|start| start.at_ns);
        let start_at_ns =
            start_at_ns.filter(|at| at.next_multiple_of(BOUNDARY_NS) > clock::monotonic());
        // Nothing burns while a start at a given time is still far. A request shortly before it
        // is answered then.
        let patience_ns = ASK_LIMIT.as_nanos() as u64 - ANSWERS_NS;
        for (before_ns, listens) in [(patience_ns, true), (SETTLE_NS, false)] {
            let until = start_at_ns.map_or(0, |at| at.saturating_sub(before_ns));
            self.listen(listens && clock::monotonic() < until);
            while clock::monotonic() < until {
                self.wait_until(until);
                if self.answer_early(common)? == Early::End || listens && self.serve_early() {
                    return Ok(None);
                }
            }
        }
        // What a program does beside it would be measured as well.
        let give_up = clock::monotonic() + CALIBRATES * BOUNDARY_NS;
        while !self.cpus.iter().all(|cpu| cpu.listens(common)) && clock::monotonic() < give_up {
            self.wait_until(clock::monotonic() + BOUNDARY_NS / 10);
            if self.answer_early(common)? == Early::End {
                return Ok(None);
            }
        }
        let wanted = limits.settle && first_pct.iter().any(|pct| *pct > 0.0);
        if !wanted && start_at_ns.is_none() {
            let soon = clock::monotonic() + BOUNDARY_NS / 5;
            return Ok(Some(soon.next_multiple_of(BOUNDARY_NS)));
        }
        let mut from_ns = self.order_first(common, first_pct)?;
        let mut number = from_ns / BOUNDARY_NS;
        let mut is_held = false;
        loop {
            self.wait_until(clock::monotonic() + BOUNDARY_NS / 10);
            let _ = self.alarm.read();
            match self.answer_early(common)? {
                Early::GoOn => {}
                Early::End => return Ok(None),
                Early::Again => {
                    from_ns = self.order_first(common, first_pct)?;
                    number = from_ns / BOUNDARY_NS;
                    is_held = false;
                }
            }
            let now = clock::monotonic();
            // A burner that has not begun is idle, which counts as a note.
            let is_over = now >= (number + 1) * BOUNDARY_NS;
            if is_over && self.cpus.iter().all(|cpu| cpu.has_note(common, number + 1)) {
                let method = self.method;
                is_held = self.workers().iter_mut().zip(first_pct).all(|(cpu, pct)| {
                    let level = method.serves(pct / 100.0);
                    is_close(method.duty, cpu.taken(common, number, number + 1), level)
                });
                number += 1;
            }
            for cpu in &mut self.cpus {
                cpu.called(common)?;
            }
            if start_at_ns.is_none() && is_held {
                return Ok(Some((now + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS)));
            }
            // Early enough to publish the profile before it begins.
            let soon = now + BOUNDARY_NS / 5;
            let begins_at = start_at_ns.map(|at| at.next_multiple_of(BOUNDARY_NS));
            if soon >= begins_at.unwrap_or(from_ns + SETTLE_NS) {
                if wanted && !is_held {
                    self.observer.warning(
                        "the first level was not held before the start; going on".to_owned(),
                    );
                }
                let at = begins_at.filter(|at| *at > now);
                return Ok(Some(at.unwrap_or(soon.next_multiple_of(BOUNDARY_NS))));
            }
        }
    }

    /// Orders the first level; returns from when on it is to be held.
    pub(super) fn order_first(&mut self, common: &Common<'_>, first_pct: &[f64]) -> Result<u64> {
        let from_ns = (clock::monotonic() + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS);
        for (cpu, pct) in self.cpus.iter_mut().zip(first_pct) {
            let level = self.method.serves(pct / 100.0);
            cpu.make_room(common, &mut self.journal, level)?;
            cpu.void_orders(common);
            cpu.order(common, LoadOrder { from_ns, level });
        }
        Ok(from_ns)
    }

    /// Whether a signal asks for the end; others are lost.
    pub(super) fn is_to_end(&mut self) -> bool {
        std::iter::from_fn(|| self.signals.next()).any(|arrived| ENDING.contains(&arrived.signal))
    }

    /// Answers signals before the run begins, while the command's process waits at its
    /// gate. What is to be passed on is kept until then.
    pub(super) fn answer_early(&mut self, common: &Common<'_>) -> Result<Early> {
        let mut early = Early::GoOn;
        while let Some(arrived) = self.signals.next() {
            match arrived.signal {
                Signal::SIGCHLD => {
                    self.reap_all(common)?;
                    self.beside.all_are_there()?;
                }
                Signal::SIGTSTP => {
                    self.board.set_paused(true);
                    // Returns when we are continued.
                    self.signals.stand_still();
                    self.board.set_paused(false);
                    early = Early::Again;
                }
                signal if ENDING.contains(&signal) => return Ok(Early::End),
                // One to the group ends the process at its gate, as it would
                // end most commands.
                signal if !went_to_group(self.root, arrived) => self.early.push(signal),
                _ => {}
            }
        }
        Ok(early)
    }
}

/// Whether a level was held between two boundaries. Burners count what is stolen from them as
/// taken; what limits one that only spins does not.
fn is_close(duty: Duty, taken: BurnerTime, level: f64) -> bool {
    let held_ns = match duty {
        Duty::Spin => taken.ns,
        _ => taken.ns + taken.stolen_ns,
    };
    (held_ns as f64 / BOUNDARY_NS as f64 - level).abs() * 100.0 <= SETTLED_POINTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_held_by_what_the_burner_paces_by() {
        let is_held = |duty, ns, stolen_ns| {
            let taken = BurnerTime {
                ns,
                stolen_ns,
                hole: false,
            };
            is_close(duty, taken, 0.5)
        };
        let ms = 1_000_000;
        assert!(is_held(Duty::Burst, 40 * ms, 10 * ms));
        assert!(!is_held(Duty::Burst, 40 * ms, 0));
        assert!(!is_held(Duty::Burst, 50 * ms, 10 * ms));
        assert!(is_held(Duty::Spin, 50 * ms, 10 * ms));
    }

    #[test]
    fn a_beginning_at_another_time_than_asked_is_named_with_its_cause() {
        let second = |s: i64| Timestamp::from_second(1_900_000_000 + s).unwrap();
        let s = 1_000_000_000;
        let start = StartAt {
            at_ns: 50 * s,
            wall: Some(second(0)),
        };
        // (monotonic, wall clock, both in seconds after the time that was asked)
        let said = |late_s: u64, off_s: i64| start.missed_by((50 + late_s) * s, second(off_s));
        assert_eq!(said(0, 0), None);
        assert_eq!(start.missed_by(50 * s + BOUNDARY_NS - 1, second(0)), None);
        let suspended = "the machine was suspended, or its clock was set, meanwhile";
        for (late_s, off_s, expected) in [
            (
                3,
                3,
                "3.0 s after that time: it was not ready before".to_owned(),
            ),
            (0, 28_800, format!("28800.0 s after that time: {suspended}")),
            (0, -60, format!("60.0 s before that time: {suspended}")),
            (3, 63, format!("63.0 s after that time: {suspended}")),
        ] {
            let expected = format!("--at: the run begins {expected}");
            assert_eq!(said(late_s, off_s), Some(expected));
        }
        // A part does not know the wall clock.
        let part = StartAt {
            wall: None,
            ..start
        };
        assert_eq!(part.missed_by(50 * s, second(9)), None);
        assert!(part.missed_by(53 * s, second(9)).unwrap().contains("3.0 s"));
    }
}
