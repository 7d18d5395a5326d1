// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control socket of a running node.
//!
//! `/run/sandbag/nodes/NAME.sock` for root, `$XDG_RUNTIME_DIR/sandbag/nodes/`
//! for others. Other users cannot command a node, for three reasons,
//! each enough on its own: the directory has mode 0700 and is its owner's, the
//! socket has mode 0600, and the kernel tells the server who connected
//! (SO_PEERCRED, unix(7)): only the owner's user id and root are heard.
//!
//! The server lives in the supervisor, which must never wait: everything is
//! non-blocking, every buffer has a bound, and one [`turn`](Server::turn) does
//! a bounded amount of work whatever clients do.

mod client;
mod directory;
mod server;
impl ExitStatus for SocketError {
    fn exit_code(&self) -> u8 {
        match self {
            // A name that no node has, and one that another node has.
            Self::NotRunning { .. } => exit::USAGE,
            Self::Running { .. } => exit::NOT_POSSIBLE,
            _ => exit::FAILED,
        }
    }
}

#[cfg(test)]
mod tests;

use sandbag_ui::{ExitStatus, exit};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use client::{NodeEntry, ask, list, names};
pub use directory::Directory;
pub use server::{Peer, Server, sweep};

use crate::node::protocol::NotUnderstood;

/// What can go wrong at a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{path}: {why}: a node's socket is only made where other users cannot write; {remedy}")]
    Directory {
        path: PathBuf,
        why: String,
        remedy: &'static str,
    },
    #[error(
        "node `{name}` runs already, in process {pid}: take another name, or end it \
         (sandbag slow stop {name})"
    )]
    Running {
        name: String,
        /// Its supervisor.
        pid: String,
    },
    #[error("no node `{name}` runs here; {}", running(.others))]
    NotRunning { name: String, others: Vec<String> },
    #[error(
        "node `{name}` did not answer within {limit:?}: its supervisor is busy or stopped; try again"
    )]
    Silent { name: String, limit: Duration },
    /// It hung up before it answered: it just ended, or too many asked.
    #[error("node `{name}` hung up without an answer: it may have ended (sandbag slow list)")]
    HungUp { name: String },
    #[error("node `{name}` answered what is no reply: {cause}")]
    Garbled { name: String, cause: NotUnderstood },
    #[error("{path} is served by user {uid}, not by us or root; remove it")]
    Foreign { path: PathBuf, uid: u32 },
    #[error("{path}: {call}: {cause}")]
    Call {
        path: PathBuf,
        call: &'static str,
        cause: io::Error,
    },
}

fn running(others: &[String]) -> String {
    match others {
        [] => "there is none (sandbag slow list)".to_owned(),
        others => format!("running are {}", others.join(", ")),
    }
}
