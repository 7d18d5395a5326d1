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

pub mod barrier;
pub mod board;
pub mod burn;
pub mod changes;
pub mod child;
pub mod command;
pub mod error;
pub mod frequencies;
pub mod guardian;
pub mod journal;
pub mod layout;
pub mod leash;
mod lock;
mod members;
pub mod method;
pub mod named;
pub mod node_group;
pub mod pacing;
mod private;
pub mod probe;
pub mod realtime;
pub mod registry;
pub mod run_process;
pub mod signals;
pub mod supervisor;
mod systemd;
pub mod throttle;
pub mod undo;
pub mod wrapped;

pub use error::{Error, Result};
