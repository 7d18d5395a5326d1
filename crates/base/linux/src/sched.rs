// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scheduling class, slice, affinity.
//!
//! `sched_setattr` is not in libc. What the kernel kept is always read back:
//! kernels clamp and ignore silently (a slice on a kernel before 6.12 reads
//! back as 0; 1 s reads back as 100 ms).

use std::io;

use serde::{Deserialize, Serialize};

use crate::{CpuList, Error, Result};

/// Scheduling attributes of a task (sched(7), `struct sched_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attributes {
    /// SCHED_OTHER with a nice value, and a custom slice in nanoseconds where
    /// it is not 0 (EEVDF, Linux 6.12 and later).
    Fair {
        /// -20 to 19.
        nice: i32,
        /// Slice, ns; 0 leaves it to the kernel.
        slice_ns: u64,
    },
    /// SCHED_FIFO at a priority of 1 to 99.
    Fifo {
        /// 1 (lowest) to 99.
        priority: u32,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// Budget per period, ns.
        runtime_ns: u64,
        /// Period and relative deadline, ns.
        period_ns: u64,
    },
    /// Any other class, read only (SCHED_BATCH, SCHED_IDLE, ...).
    Other {
        /// The policy number.
        policy: u32,
    },
}

impl Attributes {
    /// Of a class whose tasks run before all ordinary ones, by priority.
    pub fn is_real_time(self) -> bool {
        let round_robin = Self::Other {
            policy: libc::SCHED_RR.cast_unsigned(),
        };
        matches!(self, Self::Fifo { .. }) || self == round_robin
    }
}

/// `struct sched_attr`, first published size.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl From<Attributes> for RawAttributes {
    fn from(attributes: Attributes) -> Self {
        let mut raw = Self {
            size: size_of::<Self>() as u32,
            ..Self::default()
        };
        match attributes {
            Attributes::Fair { nice, slice_ns } => {
                raw.policy = libc::SCHED_OTHER as u32;
                raw.nice = nice;
                raw.runtime = slice_ns;
            }
            Attributes::Fifo { priority } => {
                raw.policy = libc::SCHED_FIFO as u32;
                raw.priority = priority;
            }
            Attributes::Deadline {
                runtime_ns,
                period_ns,
            } => {
                raw.policy = libc::SCHED_DEADLINE as u32;
                raw.runtime = runtime_ns;
                raw.deadline = period_ns;
                raw.period = period_ns;
            }
            Attributes::Other { policy } => raw.policy = policy,
        }
        raw
    }
}

impl From<RawAttributes> for Attributes {
    fn from(raw: RawAttributes) -> Self {
        match raw.policy.cast_signed() {
            libc::SCHED_OTHER => Self::Fair {
                nice: raw.nice,
                slice_ns: raw.runtime,
            },
            libc::SCHED_FIFO => Self::Fifo {
                priority: raw.priority,
            },
            libc::SCHED_DEADLINE => Self::Deadline {
                runtime_ns: raw.runtime,
                period_ns: raw.period,
            },
            _ => Self::Other { policy: raw.policy },
        }
    }
}

/// Sets the attributes of a task (0: the calling thread) and returns what the
/// kernel kept.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, EBUSY where admission refuses a deadline task.
pub fn set_attributes(pid: u32, attributes: Attributes) -> Result<Attributes> {
    set_raw(pid, attributes.into())?;
    attributes_of(pid)
}

fn set_raw(pid: u32, raw: RawAttributes) -> Result<()> {
    // SAFETY: `raw` is a sched_attr of the size that it states.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const raw, 0) };
    match failed {
        0 => Ok(()),
        _ => Err(Error::last_call(
            "sched_setattr",
            format!("{pid}, {:?}", Attributes::from(raw)),
        )),
    }
}

/// SCHED_FLAG_RESET_ON_FORK of `<linux/sched.h>`.
const RESET_ON_FORK: u64 = 1;

/// The calling thread is real-time for as long as this lives; what it starts is not.
#[derive(Debug)]
pub struct RealTime {
    /// As the kernel gave them: [`Attributes`] do not have all of every class.
    before: RawAttributes,
}

impl RealTime {
    /// SCHED_FIFO at the lowest priority.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE, or in a group without a real-time budget (cgroup v1).
    pub fn begin() -> Result<Self> {
        let before = raw_of(0)?;
        let fifo = RawAttributes {
            flags: RESET_ON_FORK,
            ..Attributes::Fifo { priority: 1 }.into()
        };
        set_raw(0, fifo)?;
        Ok(Self { before })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // A lower class is always allowed, but without CAP_SYS_NICE only with the flag that
        // was set.
        let flagged = RawAttributes {
            flags: self.before.flags | RESET_ON_FORK,
            ..self.before
        };
        let _ = set_raw(0, self.before).or_else(|_| set_raw(0, flagged));
    }
}

/// The attributes of a task (0: the calling thread).
pub fn attributes_of(pid: u32) -> Result<Attributes> {
    raw_of(pid).map(Attributes::from)
}

fn raw_of(pid: u32) -> Result<RawAttributes> {
    let mut raw = RawAttributes::default();
    // SAFETY: the kernel writes at most the size that is passed.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            pid,
            &raw mut raw,
            size_of::<RawAttributes>(),
            0,
        )
    };
    match failed {
        0 => Ok(raw),
        _ => Err(Error::last_call("sched_getattr", pid)),
    }
}

/// Restricts a task (0: the calling thread) to some CPUs, with a mask as long
/// as the largest number needs: libc's own set ends at 1024 CPUs.
pub fn set_affinity(pid: u32, cpus: &CpuList) -> Result<()> {
    let bytes = cpus.mask();
    let words = bytes.as_chunks::<8>().0.iter();
    let mask: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
    // SAFETY: `mask` is valid for the length that is passed.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            pid,
            size_of_val(mask.as_slice()),
            mask.as_ptr(),
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(Error::last_call(
            "sched_setaffinity",
            format!("{pid}, {cpus}"),
        )),
    }
}

/// The CPUs a task (0: the calling thread) may run on.
pub fn affinity(pid: u32) -> Result<CpuList> {
    // The kernel refuses masks shorter than its own (EINVAL).
    for words in [16usize, 128, 1024] {
        let mut mask = vec![0u64; words];
        // SAFETY: `mask` is valid for the length that is passed.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                pid,
                size_of_val(mask.as_slice()),
                mask.as_mut_ptr(),
            )
        };
        if bytes >= 0 {
            return Ok((0..words as u32 * 64)
                .filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
                .collect());
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(Error::last_call("sched_getaffinity", pid))
}

/// The CPU that the calling thread runs on right now.
pub fn current_cpu() -> u32 {
    // SAFETY: no arguments; cannot fail on Linux.
    unsafe { libc::sched_getcpu() }.unsigned_abs()
}

/// Lets the calling thread's sleeps end as exactly as the hardware can: the
/// default slack of a SCHED_OTHER task is 50 us.
pub fn set_least_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one number; it cannot fail for our own
    // thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_reads_back() {
        let all = affinity(0).unwrap();
        let one: CpuList = all.iter().take(1).collect();
        std::thread::spawn(move || {
            set_affinity(0, &one).unwrap();
            assert_eq!(affinity(0).unwrap(), one);
            assert!(one.contains(current_cpu()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn no_such_cpu_is_an_error_that_names_it() {
        let beyond: CpuList = [60_000].into_iter().collect();
        let error = set_affinity(0, &beyond).unwrap_err().to_string();
        assert!(error.contains("60000"), "{error}");
    }

    #[test]
    fn a_thread_has_its_class_back_after_real_time_also_without_privilege() {
        let class = |policy: i32, nice, priority| RawAttributes {
            policy: policy.cast_unsigned(),
            nice,
            priority,
            ..RawAttributes::default()
        };
        for (before, is_privileged) in [
            (class(libc::SCHED_BATCH, 10, 0), true),
            (class(libc::SCHED_BATCH, 10, 0), false),
            (class(libc::SCHED_RR, 0, 1), true),
        ] {
            let after = std::thread::spawn(move || {
                // Refused to an ordinary user, and in a group without a budget.
                set_raw(0, before).ok()?;
                let real_time = RealTime::begin().ok()?;
                if !is_privileged {
                    crate::unprivileged::give_up_nice();
                }
                drop(real_time);
                raw_of(0).ok()
            });
            let Some(after) = after.join().unwrap() else {
                continue;
            };
            let kept = |raw: RawAttributes| (raw.policy, raw.nice, raw.priority);
            assert_eq!(kept(after), kept(before), "{is_privileged}");
        }
    }

    #[test]
    fn our_own_class_is_fair() {
        assert!(matches!(
            attributes_of(0).unwrap(),
            Attributes::Fair { .. } | Attributes::Other { .. }
        ));
    }
}
