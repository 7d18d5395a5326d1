// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runs of this machine do right now, seen from outside: for `status`, `top` and
//! the metrics. Loads and speeds are read from the memory that a run's burners share; a node
//! is asked once for its name, and no run is stopped for it.

mod kernel;
mod program;
mod reading;
mod watch;
pub mod words;

pub use kernel::SPAN;
pub use program::used_ns;
pub use reading::{CpuReading, Reading};
pub use watch::{Watch, WatchedRun};
