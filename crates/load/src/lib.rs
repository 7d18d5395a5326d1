// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Produces a load and holds it: methods, burners, the supervisor, and what
//! makes sure that nothing is left behind.
//!
//! ```text
//!   supervisor --orders--> board <--boundaries-- burner (one or more per CPU)
//!       |  \                                        |
//!       |   `--weights, caps--> group per burner <--'
//!       |--gate--> command, in a group of its own
//!       `--pipe--> guardian --journal--> undo, when the pipe closes
//! ```

mod barrier;
pub mod board;
pub mod burn;
pub mod command;
mod frequencies;
pub mod live;
pub mod method;
pub mod metrics;
pub mod node;
pub mod pacing;
mod probe;
mod record;
pub mod report;
mod supervisor;
pub mod throttle;
mod watchdog;

#[cfg(test)]
#[path = "../../base/linux/tests/support/machine.rs"]
mod fake_machine;

pub use sandbag_run::{Error, Result};
