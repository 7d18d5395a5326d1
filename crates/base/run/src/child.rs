// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting processes of our own: this same program under a hidden verb.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use sandbag_linux::child::ChildSetup as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// First argument of a burner process.
pub const BURNER_VERB: &str = "__burner";
/// First argument of a guardian process.
pub const GUARDIAN_VERB: &str = "__guardian";
/// First argument of the process that becomes the wrapped command.
pub const EXEC_VERB: &str = "__exec";

/// The arguments of such a process: plain data.
pub fn to_args(setup: &impl Serialize) -> Vec<String> {
    // Plain data: it cannot fail.
    vec![serde_json::to_string(setup).unwrap_or_default()]
}

/// From the arguments of [`to_args`].
pub fn from_args<T: DeserializeOwned>(args: &[String]) -> Option<T> {
    let [text] = args else {
        return None;
    };
    serde_json::from_str(text).ok()
}

/// This program under a hidden verb, with `inherit` and nothing else left open
/// across the exec: a process that waits for the end of a pipe shared with us
/// must not have to wait for a guardian. Its standard input is a pipe of ours
/// (the gate), its output is discarded, its standard error is kept for us.
pub fn own(verb: &str, arguments: &[String], inherit: &[RawFd], die_with_us: bool) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("sandbag")
        .arg(verb)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // Out of the terminal's reach: Ctrl-C is the supervisor's, and so are the
    // signals that it reads from a descriptor.
    command.own_session().unblock_signals();
    if die_with_us {
        command.program_dies_with_us(libc::SIGKILL);
    }
    // SAFETY: only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            close_across_exec();
            Ok(())
        });
    }
    for fd in inherit {
        command.keep_open(*fd);
    }
    command
}

/// Marks everything but the standard streams close-on-exec. Kernels before
/// 5.11 cannot, and leave open what our caller left open. Async-signal-safe.
fn close_across_exec() {
    let first: libc::c_uint = 3;
    // SAFETY: changes flags of descriptors, touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// Lets a child that waits at its gate go on.
pub fn open_gate(child: &mut Child) -> io::Result<()> {
    match &mut child.stdin {
        Some(gate) => gate.write_all(b"."),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// What a child that ended wrote about it; empty if nothing.
pub fn last_words(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        use std::os::fd::OwnedFd;
        // Without waiting: a grandchild may hold the other end open.
        let fd = OwnedFd::from(stderr);
        // SAFETY: sets a flag on a descriptor of ours.
        unsafe {
            use std::os::fd::AsRawFd as _;
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
        }
        let _ = File::from(fd).take(4096).read_to_string(&mut text);
    }
    text.trim().to_owned()
}
