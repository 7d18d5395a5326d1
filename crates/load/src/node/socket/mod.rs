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
mod error;
mod server;
#[cfg(test)]
mod tests;

pub use client::{NodeEntry, ask, list, names};
pub use directory::Directory;
pub use error::SocketError;
pub use server::{Peer, Server, sweep};
