// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of processes that dies with the process that started it, however that ends.
//!
//! `PR_SET_PDEATHSIG` holds for the child alone and not for what the child
//! starts. Here the child, leader of a group of its own, asks the kernel for a
//! signal to the whole group when the other end of a pipe is closed (`F_SETOWN`,
//! `F_SETSIG` and `O_ASYNC`, fcntl(2)): the signal is SIGKILL, and our end closes
//! when we are killed. Who leaves the group, or closes every descriptor that he
//! was not given a use for in the whole group, gets away.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::RawFd;

use sandbag_linux::child::keep_across_exec;

/// As the kernel has it; not in every version of libc.
const F_SETSIG: libc::c_int = 10;

/// Our end, which holds them, and theirs.
pub fn pair() -> io::Result<(PipeWriter, PipeReader)> {
    let (end, held) = io::pipe()?;
    Ok((held, end))
}

/// Ties the calling process and all of its group; to be called by the leader,
/// after a fork and before it gives up privileges. Async-signal-safe.
pub fn tie(end: RawFd) -> io::Result<()> {
    // SAFETY: flags and an owner of a descriptor of ours; no memory.
    let failed = unsafe {
        libc::fcntl(end, libc::F_SETOWN, -libc::getpid()) != 0
            || libc::fcntl(end, F_SETSIG, libc::SIGKILL) != 0
            || libc::fcntl(end, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        keep_across_exec(end)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use sandbag_linux::child::ChildSetup as _;

    use super::*;

    #[test]
    fn what_the_child_started_dies_too() {
        let (held, end) = pair().unwrap();
        let fd = end.as_raw_fd();
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "sleep 1000 | sleep 1000 & echo; wait"])
            .stdout(Stdio::piped());
        // SAFETY: only async-signal-safe calls.
        unsafe { shell.own_session().pre_exec(move || tie(fd)) };
        let mut child = shell.spawn().unwrap();
        drop(end);
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0]).unwrap();
        drop(held);
        // All of them hold this pipe, too.
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
    }
}
