// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one list of signals that ask a program to end.

use nix::sys::signal::Signal;

/// Signals by which a user or a terminal asks a program to end: Ctrl-C, kill,
/// a closed terminal, Ctrl-\. Whatever must be written or undone at the end
/// happens for all of them.
pub const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];
