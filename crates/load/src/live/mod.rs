// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runs of this machine do right now, seen from outside: for `status`, `top` and
//! the metrics. Loads are read from the memory that a run's burners share, and speeds from
//! a node itself; no run is stopped or asked to work for it.

mod kernel;
mod program;
mod reading;
mod watch;
pub mod words;

pub use program::used_ns;
pub use reading::{CpuReading, Reading};
pub use watch::{Watch, WatchedRun};
