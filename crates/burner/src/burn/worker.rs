// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every burner has: its slot on the board, its clocks, its notes.
//!
//! At each boundary (100 ms) it notes its clocks. A burner that does not run
//! at a boundary notes them when it runs next; its CPU clock stood in
//! between, so the note is exact all the same.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use sandbag_kernel::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_kernel::{CpuList, sched};

use crate::board::{BOUNDARY_NS, Board, Boundary, Slot};
use crate::pacing::Plan;

/// A pause in the run and a wait for the first order are looked at this often.
const PAUSE_POLL_NS: u64 = 20_000_000;
/// Time away from the CPU that is worth asking the kernel about, ns.
const GAP_NS: u64 = 20_000;

/// A burner's place and clocks.
pub struct Worker<'a> {
    /// The memory shared with the supervisor.
    pub board: &'a Board,
    /// Our part of it.
    pub slot: &'a Slot,
    alarm: File,
    cpu: u32,
    schedstat: Option<File>,
    stolen_ns: u64,
    /// Number of the last boundary that was noted.
    noted: u64,
}

impl<'a> Worker<'a> {
    /// A worker that has noted nothing yet.
    pub fn new(board: &'a Board, slot: &'a Slot, alarm: File, cpu: u32) -> Self {
        Self {
            board,
            slot,
            alarm,
            cpu,
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            stolen_ns: 0,
            noted: monotonic() / BOUNDARY_NS,
        }
    }

    /// Makes sure that we are on our CPU. Hot-unplugged, it never returns:
    /// the load of this CPU ends; taking another CPU's time would be a lie.
    pub fn stay_on_cpu(&self) {
        if sched::current_cpu() == self.cpu || self.back_on_cpu() {
            return;
        }
        self.slot.displaced.store(1, Ordering::Release);
        loop {
            sleep_until(monotonic() + 10 * BOUNDARY_NS);
        }
    }

    /// Somebody changed our affinity (a cpuset, taskset), or the CPU is gone.
    fn back_on_cpu(&self) -> bool {
        sched::set_affinity(0, &CpuList::from_iter([self.cpu])).is_ok()
            && sched::current_cpu() == self.cpu
    }

    /// Spins until `until`, then books what was stolen meanwhile. `delay` is
    /// the run delay before; returns the one after.
    pub fn spin(&mut self, until: u64, delay: u64) -> u64 {
        let (wall, cpu) = (monotonic(), thread_cpu());
        while monotonic() < until {
            std::hint::spin_loop();
        }
        let away = (monotonic() - wall).saturating_sub(thread_cpu() - cpu);
        if away < GAP_NS {
            return delay;
        }
        // Away from the CPU either because another task had it (the kernel
        // counts that as run delay) or because the hypervisor had it.
        let after = self.run_delay();
        if after > 0 {
            self.stolen_ns += away.saturating_sub(after - delay);
        }
        after
    }

    /// Time spent runnable but not running, ns; 0 where the kernel does not
    /// say (then stolen time is repaid).
    pub fn run_delay(&self) -> u64 {
        let mut text = [0; 96];
        self.schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .and_then(|n| std::str::from_utf8(&text[..n]).ok())
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    }

    /// CPU time plus stolen time, ns.
    pub fn held(&self) -> u64 {
        thread_cpu() + self.stolen_ns
    }

    /// Shows the clock to readers from outside, and what was taken between
    /// `begin` (of [`Worker::held`]) and `held` in `active_ns` of wall time.
    pub fn show(&self, active_ns: u64, begin: u64, held: u64) {
        self.slot.active_ns.fetch_add(active_ns, Ordering::Relaxed);
        self.slot
            .taken_ns
            .fetch_add(held - begin, Ordering::Relaxed);
        self.slot
            .cpu_ns
            .store(held - self.stolen_ns, Ordering::Relaxed);
    }

    /// Notes the clocks at all boundaries up to `now` that are not noted yet.
    pub fn note_boundaries(&mut self, now: u64) {
        let last = now / BOUNDARY_NS;
        if last == self.noted {
            return;
        }
        let boundary = Boundary {
            cpu_ns: thread_cpu(),
            stolen_ns: self.stolen_ns,
        };
        let ring = crate::board::BOUNDARIES as u64;
        for number in (self.noted + 1).max(last.saturating_sub(ring - 1))..=last {
            self.slot.note_boundary(number, boundary);
        }
        self.noted = last;
    }

    /// Notes what was taken from a node at all boundaries up to `now` that
    /// are not noted yet; `taken_ns` is asked about a moment's time.
    pub fn note_taken(&mut self, now: u64, mut taken_ns: impl FnMut(u64) -> u64) {
        let last = now / BOUNDARY_NS;
        let ring = crate::board::BOUNDARIES as u64;
        for number in (self.noted + 1).max(last.saturating_sub(ring - 1))..=last {
            let cpu_ns = taken_ns(number * BOUNDARY_NS);
            self.slot.cpu_ns.store(cpu_ns, Ordering::Relaxed);
            let boundary = Boundary {
                cpu_ns,
                stolen_ns: 0,
            };
            self.slot.note_boundary(number, boundary);
        }
        self.noted = last;
    }

    /// Asks the supervisor for a larger weight, once until it answers.
    pub fn call_for_headroom(&mut self) {
        if self.slot.alarm.swap(1, Ordering::AcqRel) == 0 {
            use std::io::Write as _;
            // A lost call is made up for by the supervisor's next look.
            let _ = self.alarm.write(&1u64.to_ne_bytes());
        }
    }

    /// Level 0: no burner. Sleeps until the next order comes into force, or
    /// until one is published.
    pub fn sleep_idle(&mut self, plan: &Plan) {
        let seen = self.slot.published();
        let until = self.slot.order(plan.next()).map(|order| order.from_ns);
        self.slot.idle.store(1, Ordering::Release);
        match until {
            Some(from_ns) => sleep_until(from_ns.min(monotonic() + 10 * BOUNDARY_NS)),
            None => self.slot.wait_for_order(seen, None),
        }
        self.slot.idle.store(0, Ordering::Release);
    }

    /// Waits for the end of a pause.
    pub fn stand_still(&mut self) {
        self.slot.idle.store(1, Ordering::Release);
        while self.board.paused() {
            sleep_until(monotonic() + PAUSE_POLL_NS);
        }
        self.slot.idle.store(0, Ordering::Release);
    }
}
