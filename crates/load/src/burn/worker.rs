// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every burner has: its slot on the board, its clocks, its notes.
//!
//! At each boundary (100 ms) it notes its clocks. A burner that does not run
//! at a boundary notes them when it runs next; its CPU clock stood in
//! between, so the note is exact all the same.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use sandbag_linux::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_linux::procstat::ProcStat;
use sandbag_linux::{CpuList, Error, Root, container, sched};

use crate::board::{BOUNDARY_NS, Board, Boundary, Slot};
use crate::pacing::{LevelPlan, Orders as _};
use crate::watchdog::Watchdog;

/// A CPU that is gone is looked for this often.
const AWAY_POLL_NS: u64 = 20_000_000;
/// Time away from the CPU that is worth asking the kernel about, ns.
const GAP_NS: u64 = 20_000;

/// How long a light burner runs before it lets the scheduler choose anew, ns. A task that
/// wakes up preempts it; once that one sleeps the burner would have the CPU until its
/// burst is over, though other tasks of the program wait: their group has had more than
/// its share, and is not eligible for some microseconds.
const CHOICE_NS: u64 = 50_000;

/// Counters of the time in which a thread does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// Time spent runnable but not running, ns.
    delay_ns: u64,
    /// Times that it gave up the CPU itself, or was made to (SIGSTOP, freezer).
    sleeps: u64,
}

/// The part of `away_ns` that the hypervisor had. Away from the CPU is a
/// thread that spins either because another task had it (run delay), because
/// it was stopped (it slept, though it does not by itself), or because of the
/// hypervisor, of which it counts nothing. One that was stopped owes what was
/// due meanwhile, so that then nothing counts as stolen.
fn stolen_ns(away_ns: u64, before: Waits, after: Waits) -> u64 {
    if after.delay_ns == 0 || after.sleeps > before.sleeps {
        return 0;
    }
    away_ns.saturating_sub(after.delay_ns - before.delay_ns)
}

/// Whether a hypervisor can have the CPU. Where none can, what a thread is away for is
/// interrupts, which some kernels leave out of its time (CONFIG_IRQ_TIME_ACCOUNTING).
fn is_stolen_from(root: &Root) -> bool {
    let has_stolen = || {
        let mut stat = ProcStat::open(root)?;
        let counted = stat.sample()?.cpus.iter();
        Ok::<_, Error>(counted.map(|(_, times)| times.steal).sum::<u64>() > 0)
    };
    container::hypervisor(root).is_some() || has_stolen().unwrap_or(true)
}

fn sleeps() -> u64 {
    // SAFETY: a zeroed rusage is valid memory for the call to fill.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw.cast_unsigned()
}

/// A burner's place and clocks.
pub struct BurnWorker<'a> {
    pub board: &'a Board,
    pub slot: &'a Slot,
    alarm: File,
    pub watchdog: Option<Watchdog>,
    cpu: u32,
    schedstat: Option<File>,
    stolen_ns: u64,
    noted: u64,
    away: bool,
}

impl<'a> BurnWorker<'a> {
    pub fn new(board: &'a Board, slot: &'a Slot, alarm: File, cpu: u32) -> Self {
        Self {
            board,
            slot,
            alarm,
            watchdog: None,
            cpu,
            schedstat: is_stolen_from(&Root::default())
                .then(|| File::open("/proc/thread-self/schedstat").ok())
                .flatten(),
            stolen_ns: 0,
            noted: monotonic() / BOUNDARY_NS,
            away: false,
        }
    }

    /// Makes sure that we are on our CPU. Off it the burner sleeps, because
    /// to take another CPU's time would be a lie, and returns when it is back.
    /// Whether it was away; that is noted, and nothing is owed for it.
    pub fn stay_on_cpu(&mut self) -> bool {
        if sched::current_cpu() == self.cpu {
            return false;
        }
        self.away = true;
        if self.back_on_cpu() {
            self.slot.moves.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let mut since = monotonic();
        while !self.back_on_cpu() {
            sleep_until(monotonic() + AWAY_POLL_NS);
            let now = monotonic();
            self.slot.away_ns.fetch_add(now - since, Ordering::Relaxed);
            since = now;
            self.note_boundaries(now);
            self.away = true;
        }
        true
    }

    /// Sets our affinity again, which a cpuset or taskset changed, if the CPU is there.
    fn back_on_cpu(&self) -> bool {
        sched::set_affinity(0, &CpuList::from_iter([self.cpu])).is_ok()
            && sched::current_cpu() == self.cpu
    }

    /// What the kernel counts of the time in which we do not run.
    pub fn waits(&self) -> Waits {
        Waits {
            delay_ns: self.run_delay(),
            sleeps: sleeps(),
        }
    }

    /// Spins until `until`, then books what was stolen meanwhile. `waits` is
    /// what was counted before; returns it as it is after.
    pub fn spin(&mut self, until: u64, waits: Waits) -> Waits {
        let (wall, cpu) = (monotonic(), thread_cpu());
        let choice_ns = if self.is_light() { CHOICE_NS } else { u64::MAX };
        let mut chosen = wall;
        loop {
            let now = monotonic();
            if now >= until {
                break;
            }
            if now - chosen >= choice_ns {
                std::thread::yield_now();
                chosen = now;
            }
            std::hint::spin_loop();
        }
        let away = (monotonic() - wall).saturating_sub(thread_cpu() - cpu);
        if away < GAP_NS {
            return waits;
        }
        let after = self.waits();
        self.stolen_ns += stolen_ns(away, waits, after);
        after
    }

    /// The same over boundaries, which are noted when they are passed.
    pub fn spin_over_boundaries(&mut self, until: u64, mut waits: Waits) {
        loop {
            let edge = (monotonic() / BOUNDARY_NS + 1) * BOUNDARY_NS;
            waits = self.spin(edge.min(until), waits);
            let now = monotonic();
            self.note_boundaries(now);
            if now >= until {
                break;
            }
        }
    }

    /// Time spent runnable but not running, ns; 0 where the kernel does not say.
    pub fn run_delay(&self) -> u64 {
        let mut text = [0; 96];
        self.schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .and_then(|n| std::str::from_utf8(&text[..n]).ok())
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    }

    pub fn held_ns(&self) -> u64 {
        thread_cpu() + self.stolen_ns
    }

    /// Shows the clock to readers from outside, and what was taken between
    /// `begin` (of [`BurnWorker::held`]) and `held` in `active_ns` of wall time.
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
            away: std::mem::take(&mut self.away),
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
                away: false,
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

    /// Whether it has so little weight that programs are served before it.
    pub fn is_light(&self) -> bool {
        self.slot.light.load(Ordering::Relaxed) != 0
    }

    /// Level 0: no burner. Sleeps until the next order comes into force, or
    /// until one is published.
    pub fn sleep_idle(&mut self, plan: &LevelPlan) {
        let seen = self.slot.published();
        let until = plan.load_ns(self.slot);
        self.slot.idle.store(1, Ordering::Release);
        // What is known may be void before it comes: the load is set anew.
        let until = until.map(|from_ns| from_ns.min(monotonic() + 10 * BOUNDARY_NS));
        self.slot.wait_for_order(seen, until);
        self.slot.idle.store(0, Ordering::Release);
    }

    pub fn stand_still(&mut self) {
        self.slot.idle.store(1, Ordering::Release);
        self.board.wait_while_paused();
        self.slot.idle.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_not_steal_where_there_is_no_hypervisor() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let root = Root::at(dir.path());
        for (flags, steal, is_stolen) in
            [("sse", 0, false), ("sse", 3, true), ("hypervisor", 0, true)]
        {
            let cpus = format!("flags\t\t: fpu {flags}\n");
            let stat = format!("cpu  1 0 0 9 0 0 0 {steal} 0 0\ncpu0 1 0 0 9 0 0 0 {steal} 0 0\n");
            std::fs::write(dir.path().join("proc/cpuinfo"), cpus).unwrap();
            std::fs::write(dir.path().join("proc/stat"), stat).unwrap();
            assert_eq!(is_stolen_from(&root), is_stolen, "{flags} {steal}");
        }
    }

    #[test]
    fn a_stop_is_not_steal() {
        let waits = |delay_ns, sleeps| Waits { delay_ns, sleeps };
        let before = waits(1_000, 7);
        // Preempted for 300 of 1000 ns; the rest had the hypervisor.
        assert_eq!(stolen_ns(1_000, before, waits(1_300, 7)), 700);
        assert_eq!(stolen_ns(3_000_000_000, before, waits(1_300, 8)), 0);
        // A kernel that counts nothing.
        assert_eq!(stolen_ns(1_000, waits(0, 7), waits(0, 7)), 0);
    }
}
