// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests share that need more than a process of their own: root, the
//! real group trees of this machine, or a guest.
//!
//! - [`case`]: tests that may be unable to run here, and say so.
//! - [`guest`]: a virtual machine with a kernel of its own (cgroup v2, CFS),
//!   bare or with systemd as PID 1.
//! - [`spinner`]: the competitor that measures what is left for it.
//! - [`stat`]: CPU times as the kernel counts them.
//! - [`state`]: the machine before and after.
//! - [`ours`]: sandbag's processes and what each is for.
//! - [`blow`]: any signal to any of them in any part of a run's life.
//! - [`killing`]: kill -9 of two of them, and whether all is as before.
//!
//! The tests themselves are in `tests/`, what they run inside a guest in
//! `tests/guest/` of the repository; `docs/testing.md` is the overview.

pub mod blow;
pub mod case;
pub mod guest;
pub mod killing;
pub mod ours;
pub mod spinner;
pub mod stat;
pub mod state;
