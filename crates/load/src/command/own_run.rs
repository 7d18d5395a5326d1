// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of sandbag in a process of its own, which belongs to this one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::child::ChildSetup as _;
use sandbag_run::journal::{PART_BEGINS, PART_OF};
use sandbag_ui::ensure;
use sandbag_ui::failure::{Context as _, Result};
use serde::de::DeserializeOwned;

/// Dropping it ends it.
pub struct OwnRun {
    child: Child,
    /// Reaped; its process id may be reused.
    ended: Option<ExitStatus>,
    /// Its record, once it ended; gone with us, whatever ends us.
    json: File,
}

impl OwnRun {
    /// Starts sandbag with these words; its report goes to `out`. A `part` of this run may
    /// use its CPUs.
    pub fn start(words: &[OsString], out: Option<PathBuf>, part: bool) -> Result<Self> {
        Self::start_at(words, out, part, None)
    }

    /// The same; a part begins at this time of CLOCK_MONOTONIC, ns, if it is given.
    pub fn start_at(
        words: &[OsString],
        out: Option<PathBuf>,
        part: bool,
        begins_ns: Option<u64>,
    ) -> Result<Self> {
        let json = memfd_create("sandbag", MFdFlags::MFD_CLOEXEC).context("memfd_create")?;
        let json_fd = json.as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command.arg0("sandbag").arg("-q").args(words);
        if part {
            command.env(PART_OF, std::process::id().to_string());
            command.envs(begins_ns.map(|ns| (PART_BEGINS, ns.to_string())));
        }
        match out {
            // The directory above was asked about.
            Some(out) => command.arg("--force").arg("--out").arg(out),
            None => command.arg("--no-out"),
        };
        command.arg(format!("--json=/proc/self/fd/{json_fd}"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .keep_open(json_fd)
            // Ctrl-C is for the programs; this ends when those have ended, or
            // when we are gone.
            .process_group(0)
            // By which it is ended, whatever our caller ignores.
            .reset_signal(libc::SIGTERM)
            .program_dies_with_us(libc::SIGTERM)
            .spawn()
            .context("start sandbag")?;
        Ok(Self {
            child,
            ended: None,
            json: json.into(),
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did; as a success where that is not known any more.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.ended = self.ended.or_else(|| match self.child.try_wait() {
            Ok(status) => status,
            // ECHILD: a supervisor in this process, which reaps every child, was first.
            Err(_) => Some(ExitStatus::from_raw(0)),
        });
        self.ended
    }

    pub fn ask_to_end(&mut self) {
        if self.ended().is_none() {
            signal(self.child.id(), Signal::SIGTERM);
            // One that was paused would never hear of it.
            signal(self.child.id(), Signal::SIGCONT);
        }
    }

    /// One that was paused goes on.
    pub fn wake(&mut self) {
        if self.ended().is_none() {
            signal(self.child.id(), Signal::SIGCONT);
        }
    }

    pub fn wait(&mut self) {
        self.ended = self.ended.or_else(|| self.child.wait().ok());
    }

    /// Its record, after its end.
    ///
    /// # Errors
    /// It left none.
    pub fn record<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut text = Vec::new();
        // It wrote through a duplicate, which has the same position.
        self.json.rewind().context("its record")?;
        self.json.read_to_end(&mut text).context("its record")?;
        ensure!(!text.is_empty(), "it left no record");
        serde_json::from_slice(&text).context("its record")
    }
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        self.ask_to_end();
        self.wait();
    }
}

/// To a child of ours that was not reaped, so the number is its own.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_linux::child::reap;

    #[test]
    fn one_that_another_part_of_us_reaped_has_ended() {
        let child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let mut run = OwnRun {
            child,
            ended: None,
            json: tempfile::tempfile().unwrap(),
        };
        // By its number: other tests have children, too.
        reap(Some(run.pid())).unwrap();
        assert!(run.ended().is_some());
        // Returns at once: there is nothing to wait for.
        run.wait();
    }
}
