// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run on this machine: the groups of its processes, its command, the journal
//! of what it changed, the registry of runs, and what undoes it all.
//!
//! ```text
//!   a run --journal--> /run/sandbag <--registry-- status, stop, restore
//!     |
//!     `--pipe--> guardian --journal--> undo, when the pipe closes
//! ```

pub mod awake;
pub mod changes;
pub mod child;
pub mod command;
pub mod directory;
pub mod error;
pub mod failure;
pub mod guardian;
pub mod journal;
pub mod layout;
pub mod leash;
pub mod lock;
pub mod machine;
pub mod members;
pub mod node_group;
pub mod online;
pub mod other_users;
mod private;
pub mod process_identity;
pub mod program;
pub mod realtime;
pub mod registry;
pub mod run_process;
mod systemd;
#[cfg(test)]
mod testing;
pub mod trace_instance;
pub mod undo;
pub mod wrapped_command;

pub use error::{Error, Result};
