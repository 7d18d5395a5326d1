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
            self.planned = now;
            slot.idle.store(1, Ordering::Release);
            return Ok(now + PAUSE_POLL_NS);
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
        if wake > monotonic() {
            slot.wait_for_order(seen, Some(wake));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use sandbag_linux::clock::sleep_until;

    use super::*;
    use crate::board::Board;

    /// Does nothing.
    struct Idle;

    impl Throttle for Idle {
        fn act(&mut self, _: u64, _: f64) -> Result<u64, Error> {
            Ok(u64::MAX)
        }

        fn taken_ns(&mut self, _: u64) -> u64 {
            0
        }

        fn release(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn one_that_listens_has_noted_the_time_before() {
        let board = Board::create(1).unwrap();
        let slot = board.slot(0);
        let alarm = File::open("/dev/null").unwrap();
        let mut worker = BurnWorker::new(&board, slot, alarm, 0);
        // It calibrates.
        let boundary = monotonic() / BOUNDARY_NS + 1;
        sleep_until(boundary * BOUNDARY_NS);
        assert_eq!(slot.listens.load(Ordering::SeqCst), 0);
        let _follower = Follower::new(&mut worker, Box::new(Idle));
        assert_eq!(slot.listens.load(Ordering::SeqCst), 1);
        assert!(slot.boundary(boundary).is_some());
    }
}
