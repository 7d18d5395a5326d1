// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a timer of a CPU last expired while the CPU was idle.
//!
//! The kernel's trace event `timer:hrtimer_expire_entry` is written into a ring that we only
//! read, and only while the idle task is the current one: a busy CPU pays for the comparison, at
//! each timer. `power:cpu_idle` would cost more: a CPU leaves its idle states more often than a
//! timer of it expires. There are CPUs whose idle task leaves no record (CPU 1 of one virtual
//! machine, Linux 6.18): until the first comes, nothing is known.
//!
//! Source: perf_event_open(2), include/trace/events/timer.h, kernel/time/hrtimer.c.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ANY_TASK, Attributes, FLAG_FD_CLOEXEC, open_event};
use crate::clock::Nanos;
use crate::shared::SharedMemory;
use crate::tracefs::TraceFs;
use crate::{Error, Result, Root};

const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
/// `use_clockid` in the bits of the attributes.
const USE_CLOCKID: u64 = 1 << 25;
/// `_IOW('$', 6, char *)`, as x86 and Arm number it.
const SET_FILTER: libc::c_ulong = 0x4008_2406;
/// Each CPU's idle task has the number 0.
const OF_IDLE: &CStr = c"common_pid == 0";
/// Where `struct perf_event_mmap_page` has `data_head`.
const HEAD_AT: usize = 1024;
/// A record: its header (type, flags, size), and a time.
const RECORD_BYTES: usize = 16;
const RECORD_SAMPLE: u64 = 9;

/// The timers that expired on one idle CPU, the last of them kept.
#[derive(Debug)]
pub struct IdleTimers {
    _event: File,
    /// A page of the kernel's, and one of records.
    ring: SharedMemory,
    page_bytes: usize,
}

impl IdleTimers {
    /// Begins to watch a CPU.
    ///
    /// # Errors
    /// [`Error::Missing`] as of [`TraceFs::open`]; [`Error::Read`] where the kernel has no such
    /// event; [`Error::Call`] where perf events are refused: EACCES or EPERM without CAP_PERFMON.
    pub fn open(root: &Root, cpu: u32) -> Result<Self> {
        let id = TraceFs::open(root)?.event_id("timer", "hrtimer_expire_entry")?;
        let refused = |call| {
            move |cause| Error::Call {
                call,
                arguments: format!("timer:hrtimer_expire_entry on CPU {cpu}"),
                cause,
            }
        };
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id.into(),
            sample_period: 1,
            sample_type: SAMPLE_TIME,
            bits: USE_CLOCKID,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let event = open_event(&attributes, ANY_TASK, cpu, FLAG_FD_CLOEXEC)
            .map_err(refused("perf_event_open"))?;
        // SAFETY: an event of ours, and a string that ends.
        if unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER as _, OF_IDLE.as_ptr()) } != 0 {
            return Err(refused("ioctl")(std::io::Error::last_os_error()));
        }
        // SAFETY: no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // Read-only, so that the kernel overwrites the oldest record and loses none of the last.
        let ring =
            SharedMemory::of_file(&event, 2 * page_bytes, false, true).map_err(refused("mmap"))?;
        Ok(Self {
            _event: event,
            ring,
            page_bytes,
        })
    }

    /// When one last did, CLOCK_MONOTONIC; 0 if none did. To be called on that CPU, which is not
    /// idle meanwhile.
    pub fn last(&self) -> Nanos {
        // SAFETY: aligned, and within the first page.
        let word = |at: usize| unsafe { self.ring.start().add(at).cast::<AtomicU64>().as_ref() };
        let head = word(HEAD_AT).load(Ordering::Acquire) as usize;
        let Some(record) = head.checked_sub(RECORD_BYTES) else {
            return 0;
        };
        // Both sizes are powers of two, so that no record is in two pieces.
        let at = self.page_bytes + record % self.page_bytes;
        let header = word(at).load(Ordering::Relaxed);
        let is_sample = header & 0xffff_ffff == RECORD_SAMPLE && header >> 48 == 16;
        if is_sample {
            word(at + 8).load(Ordering::Relaxed)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::clock::{monotonic, sleep_until};
    use crate::{CpuList, sched};

    const SLEEP_NS: Nanos = 5_000_000;

    /// Whether the CPU was idle at the end of one of the sleeps.
    fn was_idle(timers: &IdleTimers, sleeps: usize) -> bool {
        (0..sleeps).any(|_| {
            let deadline = monotonic() + SLEEP_NS;
            sleep_until(deadline);
            timers.last() >= deadline
        })
    }

    /// The first CPU whose idle task leaves records, with the calling thread on it. Of other tests
    /// some may keep a CPU busy.
    fn watched() -> Option<(CpuList, IdleTimers)> {
        let cpus = sched::affinity(0).unwrap();
        cpus.iter().find_map(|cpu| {
            let here = CpuList::from_iter([cpu]);
            sched::set_affinity(0, &here).unwrap();
            let timers = IdleTimers::open(&Root::default(), cpu).ok()?;
            was_idle(&timers, 1000).then_some((here, timers))
        })
    }

    #[test]
    #[ignore = "needs root and tracing; make unit runs it"]
    fn a_sleeper_sees_whether_its_cpu_was_idle() {
        let Some((here, timers)) = watched() else {
            eprintln!(
                "skipped a_sleeper_sees_whether_its_cpu_was_idle: no tracing, or no idle task that \
                 leaves records"
            );
            return;
        };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched::set_affinity(0, &here).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            sleep_until(monotonic() + SLEEP_NS);
            let found = was_idle(&timers, 20);
            stop.store(true, Ordering::Relaxed);
            assert!(!found);
        });
    }
}
