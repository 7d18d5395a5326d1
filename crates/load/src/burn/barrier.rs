// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU-Hogs as published (Buchert et al. 2011, section III): every hog spins
//! its part of the period, waits at a barrier for the others, and sleeps for
//! the rest, so that all CPUs are free at the same time. The sleep is relative,
//! as in the paper; wake-ups that are late make the period of all hogs longer.

use sandbag_linux::Error;
use sandbag_linux::clock::{monotonic, sleep_until};

use super::worker::BurnWorker;
use crate::pacing::LevelPlan;

pub fn run(worker: &mut BurnWorker<'_>, period_ns: u64, parties: u32) -> Result<(), Error> {
    let mut plan = LevelPlan::default();
    let mut planned = monotonic();
    loop {
        let now = monotonic();
        worker.note_boundaries(now);
        if worker.board.is_paused() {
            worker.stand_still();
            planned = monotonic();
            continue;
        }
        worker.stay_on_cpu();
        plan.due(worker.slot, planned, now);
        planned = now;
        // One without a load waits with the others all the same: they would
        // never get past the barrier without it.
        let busy = (plan.level() * period_ns as f64) as u64;
        let (begin, waits) = (worker.held_ns(), worker.waits());
        worker.spin_over_boundaries((now + busy).min(plan.end_ns(worker.slot, now)), waits);
        let held = worker.held_ns();
        worker.show(monotonic() - now, begin, held);
        let spun = monotonic();
        worker.board.barrier().wait(parties, spun + 2 * period_ns);
        // Who had less to spin waited for the others; that was free time.
        let waited = monotonic() - spun;
        let rest = (period_ns - busy).saturating_sub(waited);
        sleep_until(monotonic() + rest);
    }
}
