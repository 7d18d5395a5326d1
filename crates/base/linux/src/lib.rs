// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Typed access to the Linux interfaces that sandbag uses, without policy.
//!
//! Every path hangs on a [`Root`], so that tests run on trees of files that
//! they wrote themselves. Every error says which path (or system call), which
//! value and which cause. What is changed can be read first and put back:
//! readers and writers come in pairs.

pub mod autogroup;
pub mod capability;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod command_clock;
pub mod container;
pub mod counter;
pub mod cpufreq;
pub mod cpuidle;
pub mod cpulist;
pub mod error;
pub mod file_limit;
pub mod interrupt;
pub mod interrupts;
pub mod launcher;
pub mod machine;
pub mod memory;
pub mod mountinfo;
pub mod notify;
pub mod perf;
pub mod pidfd;
pub mod process;
pub mod procstat;
pub mod root;
pub mod sched;
pub mod shared;
pub mod signals;
pub mod stop_signals;
pub mod sysctl;
pub mod topology;
pub mod tracefs;
pub mod user;

#[cfg(test)]
extern crate self as sandbag_linux;
#[cfg(test)]
#[path = "../tests/support/machine.rs"]
mod fake_machine;
#[cfg(test)]
#[path = "../tests/support/unprivileged.rs"]
mod unprivileged;

pub use cpulist::CpuList;
pub use error::{Error, Result};
pub use root::Root;
