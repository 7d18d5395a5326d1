// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests that sandbag brings along, and the process that runs them.
//!
//! # One process, a thread for each run
//! All CPUs are given the same work on the same memory: pages of one process,
//! the same for every CPU, so that huge pages, cache colours and the luck of an
//! allocation are no difference between CPUs. A run is a new thread pinned to
//! its CPU: its times begin at 0, which matters where the kernel divides time
//! into user and system by ticks counted over a thread's life. The thread reads
//! the clocks itself, right around its loop. Another thread has warmed the CPU,
//! its caches and its frequency before.
//!
//! The process gets its orders by standard input, a line of JSON each, and
//! sleeps in between.

mod bench;
mod combined;
mod compute;
mod io;
mod memory;
mod order;
mod process;
mod run;
mod syscall;
mod test_work;

pub use order::{Answer, Spec, WORK_VERB, WorkOrder, unit};
pub use process::work;
pub use run::RunFigures;
pub use test_work::WorkFault;
