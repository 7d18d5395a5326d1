// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that throttles: follows the orders on the board and notes what
//! was taken.
//!
//! It wakes for what the throttle has to do, for each order's time, for each
//! boundary, and when an order is published; a pause it sees within
//! [`PAUSE_POLL_NS`]. In a pause the node is released, and `idle` on its slot
//! says so: only then may the supervisor stop the node's programs, or they
//! would be continued by the release.

use std::sync::atomic::Ordering;

use sandbag_linux::Error;
use sandbag_linux::clock::monotonic;

use super::BREATH_NS;
use super::worker::BurnWorker;
use crate::board::BOUNDARY_NS;
use crate::pacing::{LevelPlan, Orders as _};
use crate::throttle::Throttle;

/// How late a pause is seen, ns.
const PAUSE_POLL_NS: u64 = 20_000_000;

/// A throttle that follows orders. When it is dropped the node is released.
pub struct Follower<'w, 'b> {
    worker: &'w mut BurnWorker<'b>,
    throttle: Box<dyn Throttle>,
    plan: LevelPlan,
    planned: u64,
    released: bool,
    paused: bool,
}

impl<'w, 'b> Follower<'w, 'b> {
    /// Begins with level 0.
    pub fn new(worker: &'w mut BurnWorker<'b>, mut throttle: Box<dyn Throttle>) -> Self {
        // Who listens and is silent is taken for stuck.
        worker.note_taken(monotonic(), |at| throttle.taken_ns(at));
        worker.slot.listens.store(1, Ordering::SeqCst);
        Self {
            worker,
            throttle,
            plan: LevelPlan::default(),
            planned: monotonic(),
            released: true,
            paused: false,
        }
    }

    /// Does what is due and returns when to be called next at the latest.
    pub fn step(&mut self) -> Result<u64, Error> {
        let now = monotonic();
        let throttle = &mut self.throttle;
        self.worker.note_taken(now, |at| throttle.taken_ns(at));
        let slot = self.worker.slot;
        if self.worker.board.is_paused() {
            self.release()?;
            if !std::mem::replace(&mut self.paused, true) {
                self.throttle.pause(now)?;
            }
            self.planned = now;
            slot.idle.store(1, Ordering::Release);
            return Ok(now + PAUSE_POLL_NS);
        }
        if std::mem::replace(&mut self.paused, false) {
            self.throttle.resume(now)?;
        }
        slot.idle.store(0, Ordering::Release);
        // Up to now and not to the nanosecond before: an order that begins
        // now counts.
        self.plan.due(slot, self.planned, now + 1);
        self.planned = now + 1;
        let level = self.plan.level();
        let next = if level > 0.0 {
            self.released = false;
            let next = self.throttle.act(now, level)?;
            let spent = monotonic() - now;
            slot.active_ns.fetch_add(spent, Ordering::Relaxed);
            next
        } else {
            self.release()?;
            u64::MAX
        };
        let boundary = (now / BOUNDARY_NS + 1) * BOUNDARY_NS;
        let order = slot.order(self.plan.next()).map(|order| order.from_ns);
        Ok(next
            .min(boundary)
            .min(order.unwrap_or(u64::MAX))
            .min(now + PAUSE_POLL_NS))
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.released, true) {
            self.throttle.release(monotonic())?;
        }
        Ok(())
    }
}

impl Drop for Follower<'_, '_> {
    fn drop(&mut self) {
        // Undoing the journal does it again.
        let _ = self.throttle.release(monotonic());
    }
}

/// Serves orders for ever; returns only with an error, the node released.
pub fn run(worker: &mut BurnWorker<'_>, throttle: Box<dyn Throttle>) -> Result<(), Error> {
    let slot = worker.slot;
    let mut follower = Follower::new(worker, throttle);
    loop {
        let seen = slot.published();
        let wake = follower.step()?;
        // Also where a step takes longer than its interval: a real-time process that never
        // sleeps is killed (RLIMIT_RTTIME).
        slot.wait_for_order(seen, Some(wake.max(monotonic() + BREATH_NS)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;
    use std::rc::Rc;

    use nix::sys::resource::{UsageWho, getrusage};
    use sandbag_linux::clock::sleep_until;

    use super::*;
    use crate::board::{Board, LoadOrder};

    /// Takes longer than its interval, some times, and slows nothing.
    #[derive(Default)]
    struct Idle {
        times: u32,
        pauses: Rc<RefCell<Vec<bool>>>,
    }

    impl Throttle for Idle {
        fn act(&mut self, now: u64, _: f64) -> Result<u64, Error> {
            let over = || Error::Missing {
                what: "more to do".into(),
                remedy: String::new(),
            };
            self.times = self.times.checked_sub(1).ok_or_else(over)?;
            while monotonic() < now + 2_000_000 {}
            Ok(now + 1_000_000)
        }

        fn taken_ns(&mut self, _: u64) -> u64 {
            0
        }

        fn release(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }

        fn pause(&mut self, _: u64) -> Result<(), Error> {
            self.pauses.borrow_mut().push(true);
            Ok(())
        }

        fn resume(&mut self, _: u64) -> Result<(), Error> {
            self.pauses.borrow_mut().push(false);
            Ok(())
        }
    }

    fn worker(board: &Board) -> BurnWorker<'_> {
        let alarm = File::open("/dev/null").unwrap();
        BurnWorker::new(board, board.slot(0), alarm, 0)
    }

    #[test]
    fn one_that_listens_has_noted_the_time_before() {
        let board = Board::create(1).unwrap();
        let slot = board.slot(0);
        let mut worker = worker(&board);
        // It calibrates.
        let boundary = monotonic() / BOUNDARY_NS + 1;
        sleep_until(boundary * BOUNDARY_NS);
        assert_eq!(slot.listens.load(Ordering::SeqCst), 0);
        let _follower = Follower::new(&mut worker, Box::new(Idle::default()));
        assert_eq!(slot.listens.load(Ordering::SeqCst), 1);
        assert!(slot.boundary(boundary).is_some());
    }

    #[test]
    fn a_throttle_hears_once_of_each_pause_and_of_its_end() {
        let board = Board::create(1).unwrap();
        let mut worker = worker(&board);
        let idle = Idle::default();
        let pauses = Rc::clone(&idle.pauses);
        let mut follower = Follower::new(&mut worker, Box::new(idle));
        for paused in [false, true, true, false, false, true] {
            board.set_paused(paused);
            follower.step().unwrap();
        }
        assert_eq!(*pauses.borrow(), [true, false, true]);
    }

    #[test]
    fn one_that_is_always_late_sleeps_all_the_same() {
        let board = Board::create(1).unwrap();
        board.slot(0).publish(LoadOrder {
            from_ns: monotonic(),
            level: 0.5,
        });
        let mut worker = worker(&board);
        let sleeps = || {
            let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
            usage.voluntary_context_switches()
        };
        let before = sleeps();
        let idle = Idle {
            times: 40,
            ..Idle::default()
        };
        run(&mut worker, Box::new(idle)).unwrap_err();
        // A timer that expires at once is none.
        let sleeps = sleeps() - before;
        assert!(sleeps >= 20, "{sleeps}");
    }
}
