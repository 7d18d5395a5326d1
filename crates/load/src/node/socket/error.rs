// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong at a socket.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sandbag_ui::{ExitStatus, exit};

use crate::node::protocol::NotUnderstood;

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
    #[error("node `{name}` stands still: let it go on first (sandbag set {name} --resume)")]
    Stopped { name: String },
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
