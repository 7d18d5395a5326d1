// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting processes of our own: this same program under a hidden verb.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

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
#[must_use]
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
    let inherit = inherit.to_vec();
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls on values made before the fork.
    unsafe {
        command.pre_exec(move || {
            // Out of the terminal's reach: Ctrl-C is the supervisor's.
            libc::setsid();
            empty_signal_mask();
            if die_with_us {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // It may have died before the call.
                if libc::getppid().unsigned_abs() != parent {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            close_across_exec();
            inherit.iter().try_for_each(|fd| keep_across_exec(*fd))
        });
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

/// Clears close-on-exec. Async-signal-safe.
pub fn keep_across_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: changes flags of a descriptor, touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The supervisor blocks the signals that it reads from a descriptor; its
/// children must not inherit that. Async-signal-safe.
pub fn empty_signal_mask() {
    // SAFETY: a zeroed sigset is valid memory for sigemptyset.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
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
