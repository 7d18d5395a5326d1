// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that processes share, as words of 32 bits; and the processes.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sandbag_linux::child::{Reaped, die_with, reap};
use sandbag_linux::clock::monotonic;
use sandbag_linux::shared::{SharedMemory, wait_on, wake_all};
use sandbag_linux::{CpuList, sched};

use crate::{Error, Result};

/// Anonymous memory that a process shares with those it forks.
pub(super) struct Shared {
    memory: SharedMemory,
    words: usize,
}

fn call_error(call: &'static str) -> Error {
    Error::Call {
        call,
        cause: io::Error::last_os_error().to_string(),
    }
}

impl Shared {
    /// Words of 0, all touched, so that no page fault falls into a measurement.
    pub(super) fn new(words: usize) -> Result<Self> {
        let memory = SharedMemory::anonymous(words.max(1) * size_of::<AtomicU32>());
        Ok(Self {
            memory: memory.map_err(|_| call_error("mmap"))?,
            words: words.max(1),
        })
    }

    pub(super) fn words(&self) -> &[AtomicU32] {
        // SAFETY: this number of words is mapped, they are 0 at first, and are only accessed
        // as atomics.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast().as_ptr(), self.words) }
    }

    /// Stores a number in two words; [`take`](Self::take) sees all that was stored before.
    pub(super) fn put(&self, word: usize, value: u64) {
        self.words()[word].store(value as u32, Relaxed);
        self.words()[word + 1].store((value >> 32) as u32, Release);
    }

    /// Loads such a number.
    pub(super) fn take(&self, word: usize) -> u64 {
        let high = u64::from(self.words()[word + 1].load(Acquire));
        high << 32 | u64::from(self.words()[word].load(Relaxed))
    }

    /// Stores three numbers.
    pub(super) fn put_record(&self, word: usize, record: impl Into<[u64; 3]>) {
        for (number, value) in record.into().into_iter().enumerate() {
            self.put(word + 2 * number, value);
        }
    }

    /// Loads three numbers.
    pub(super) fn take_record<T: From<[u64; 3]>>(&self, word: usize) -> T {
        [0, 2, 4].map(|offset| self.take(word + offset)).into()
    }

    /// Sleeps while the word has this value: until a wake-up, or for 50 ms.
    pub(super) fn sleep_while(&self, word: usize, value: u32) {
        let until = monotonic() + 50_000_000;
        wait_on(self.words()[word].as_ptr(), value, Some(until));
    }

    /// Wakes all that sleep on the word.
    pub(super) fn wake_all(&self, word: usize) {
        wake_all(self.words()[word].as_ptr());
    }
}

/// Pins the calling thread to this CPU; if the CPU went offline, the thread runs anywhere.
pub(super) fn pin(cpu: u32) {
    let _ = sched::set_affinity(0, &CpuList::from_iter([cpu]));
}

/// Runs `work` of each number in a process of its own, and waits for all. A process ends with
/// its parent.
pub(super) fn fork_each(count: u32, work: &dyn Fn(u32)) -> Result<()> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(Error::Call {
            call: "fork",
            cause: format!("the process has {threads} threads, and a fork would have one"),
        });
    }
    let mut children = Vec::new();
    let parent = std::process::id();
    for number in 0..count {
        // SAFETY: there is one thread, so the child may do all that we may.
        match unsafe { libc::fork() } {
            -1 => {
                let error = call_error("fork");
                end(&children);
                return Err(error);
            }
            0 => {
                let work = std::panic::AssertUnwindSafe(|| work(number));
                let done = die_with(parent, libc::SIGKILL).is_ok()
                    && std::panic::catch_unwind(work).is_ok();
                // SAFETY: ends this process without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!done)) }
            }
            pid => children.push((number, pid.cast_unsigned())),
        }
    }
    let mut outcome = Ok(());
    while !children.is_empty() {
        let Reaped { pid, status, .. } = reap(None).map_err(|_| call_error("wait4"))?;
        // Others are children of a shell that became this process.
        let Some(place) = children.iter().position(|(_, child)| *child == pid) else {
            continue;
        };
        let (number, _) = children.swap_remove(place);
        if !status.success() && outcome.is_ok() {
            let how = match status.signal() {
                Some(signal) => format!("was killed by signal {signal}"),
                None => format!("ended with code {}", status.code().unwrap_or(0)),
            };
            outcome = Err(Error::Call {
                call: "a rank",
                cause: format!("the process of rank {number} {how}"),
            });
            // The others would wait for it at the barrier forever.
            end(&children);
        }
    }
    outcome
}

fn end(children: &[(u32, u32)]) {
    for (_, pid) in children {
        // SAFETY: children that were not waited for yet.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
}
