// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Child processes that do not outlive the benchmark.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::place::Group;
use sandbag_linux::interrupt;

/// How long a child may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A child in a session of its own (one autogroup, and deaf to the terminal's
/// Ctrl-C, which reaches it through us). Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    done: Option<ExitStatus>,
}

impl Running {
    /// Starts `command`; the kernel sends it `if_we_die` should we die. With
    /// `group` it is in that group before its program begins. To be called
    /// on the main thread: the kernel watches the calling thread.
    pub fn start(mut command: Command, if_we_die: Signal, group: Option<&Group>) -> Result<Self> {
        let entrance = group
            .map(|g| {
                let path = g.entrance();
                File::options()
                    .write(true)
                    .open(&path)
                    .with_context(|| format!("open {}", path.display()))
            })
            .transpose()?;
        // SAFETY: setsid, prctl and write are async-signal-safe, and the
        // closure allocates nothing.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::setsid()?;
                nix::sys::prctl::set_pdeathsig(if_we_die)?;
                if let Some(mut file) = entrance.as_ref() {
                    file.write_all(b"0")?;
                }
                Ok(())
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self { child, done: None })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended; asks without waiting.
    pub fn has_ended(&mut self) -> bool {
        if self.done.is_none() {
            self.done = self.child.try_wait().ok().flatten();
        }
        self.done.is_some()
    }

    /// Waits for its end; `None` if it still runs at `until`.
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<ExitStatus>> {
        interrupt::wait_for(until, || self.has_ended())?;
        Ok(self.done)
    }

    /// Ends it: SIGTERM, some grace, SIGKILL.
    pub fn end(&mut self) {
        let give_up = Instant::now() + GRACE;
        // It has not been waited for, so the number is still its own.
        if !self.has_ended() {
            let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        }
        while !self.has_ended() {
            if Instant::now() > give_up {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_child_has_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let running = Running::start(command, Signal::SIGKILL, None).unwrap();
        let pid = Pid::from_raw(running.pid() as i32);
        let begun = Instant::now();
        drop(running);
        assert!(begun.elapsed() < GRACE);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let e =
            Running::start(Command::new("/no/such/program"), Signal::SIGKILL, None).unwrap_err();
        assert!(e.to_string().contains("/no/such/program"));
    }
}
