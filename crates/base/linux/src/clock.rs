// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks, in nanoseconds. `CLOCK_MONOTONIC` is the one clock of a run.

use std::io;

/// Nanoseconds on a clock.
pub type Nanos = u64;

fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for writing; the clocks used here always exist, so
    // the call cannot fail, and if it did `t` would still be initialised.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec as Nanos * 1_000_000_000 + t.tv_nsec as Nanos
}

/// Time since an arbitrary point; stands still during suspend, never jumps.
pub fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// For how long the machine was suspended since it booted.
pub fn suspended() -> Nanos {
    read(libc::CLOCK_BOOTTIME).saturating_sub(monotonic())
}

/// The same as [`monotonic`], not adjusted by NTP.
pub fn monotonic_raw() -> Nanos {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// A clock that measuring code is given, in tests one that they set.
pub trait Clock {
    /// The time since a fixed point; it never goes back.
    fn now_ns(&self) -> Nanos;
}

/// `CLOCK_MONOTONIC`: 20 to 50 ns a reading, without a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> Nanos {
        monotonic()
    }
}

/// The clock of a test, or of a program.
impl<F: Fn() -> Nanos> Clock for F {
    #[inline]
    fn now_ns(&self) -> Nanos {
        self()
    }
}

/// CPU time of the calling thread. The kernel's task clock: it leaves out
/// what the hypervisor stole where the kernel has steal-time accounting.
pub fn thread_cpu() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

pub fn process_cpu() -> Nanos {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of another process, all its threads, by that process's clock:
/// nanoseconds, not the 10 ms ticks of `/proc/PID/stat`. Also answers for a
/// process that has ended and was not yet waited for.
pub fn process_cpu_of(pid: u32) -> io::Result<Nanos> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for writing.
    let failed = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for writing.
    if unsafe { libc::clock_gettime(clock, &raw mut t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(t.tv_sec as Nanos * 1_000_000_000 + t.tv_nsec as Nanos)
}

/// Sleeps until `deadline` on the monotonic clock; a signal does not end the
/// sleep early.
pub fn sleep_until(deadline: Nanos) {
    let t = libc::timespec {
        tv_sec: (deadline / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `t` is a valid timespec, no remainder is asked for.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const t,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_does_not_end_before_the_deadline() {
        let deadline = monotonic() + 2_000_000;
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
    }

    #[test]
    fn cpu_time_does_not_pass_while_asleep() {
        let before = thread_cpu();
        sleep_until(monotonic() + 30_000_000);
        assert!(thread_cpu() - before < 20_000_000);
    }

    #[test]
    fn our_own_clock_is_the_same_from_outside() {
        let outside = process_cpu_of(std::process::id()).unwrap();
        assert!(process_cpu() >= outside);
        assert!(process_cpu_of(4_194_303).is_err());
    }
}
