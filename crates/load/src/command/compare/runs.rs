// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run in a process of its own: its clocks begin at zero, it may be
//! interrupted without us, and what the program prints goes into a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork};
use sandbag_linux::child::{close_on_exec, die_with};
use sandbag_linux::signals::ENDING;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::text::visible;

use sandbag_ui::exit;

pub const OUTPUT: &str = "output.txt";

/// The signals of this process, read instead of obeyed: what has been
/// measured so far is still to be written.
pub struct RunWatch {
    fd: SignalFd,
    before: SigSet,
    /// A signal asked us to end.
    pub interrupted: bool,
}

impl RunWatch {
    pub fn take() -> Result<Self> {
        let mut set: SigSet = ENDING.into_iter().collect();
        set.add(Signal::SIGCHLD);
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
        Ok(Self {
            fd,
            before,
            interrupted: false,
        })
    }

    pub fn run(&mut self, dir: &Path, work: impl FnOnce() -> Result<u8>) -> Result<u8> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let path = dir.join(OUTPUT);
        let output = sandbag_run::directory::create(&path)?;
        let nothing = File::open("/dev/null").context("/dev/null")?;
        let parent = std::process::id();
        io::stdout().flush()?;
        // SAFETY: this process has one thread, so that no lock of another can
        // be held for ever in the child.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Parent { child } => self.wait_for(child),
            ForkResult::Child => {
                let code = match attach(&output, &nothing, parent) {
                    Err(_) => exit::FAILED,
                    Ok(stderr) => work().unwrap_or_else(|error| {
                        let _ = writeln!(&stderr, "sandbag: {}", visible(&format!("{error:#}")));
                        error.exit_code(false)
                    }),
                };
                std::process::exit(i32::from(code))
            }
        }
    }

    fn wait_for(&mut self, child: Pid) -> Result<u8> {
        loop {
            let Some(info) = self.fd.read_signal().context("signalfd")? else {
                continue;
            };
            let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed()) else {
                continue;
            };
            if signal != Signal::SIGCHLD {
                self.interrupted = true;
                // A terminal sent it to the child as well.
                if info.ssi_code <= 0 {
                    let _ = kill(child, signal);
                }
                continue;
            }
            match waitpid(child, Some(WaitPidFlag::WNOHANG)).context("waitpid")? {
                WaitStatus::Exited(_, code) => {
                    return Ok(u8::try_from(code).unwrap_or(exit::OUR_FAILURE));
                }
                WaitStatus::Signaled(..) => return Ok(exit::OUR_FAILURE),
                _ => {}
            }
        }
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

/// The child's side: no input, output into the file, and an end when the
/// parent ends. Returns the stderr that it had, for our own words.
fn attach(output: &File, nothing: &File, parent: u32) -> io::Result<File> {
    let stderr = File::from(nix::unistd::dup(io::stderr())?);
    close_on_exec(stderr.as_raw_fd())?;
    dup2_stdin(nothing)?;
    dup2_stdout(output)?;
    dup2_stderr(output)?;
    die_with(parent, libc::SIGTERM)?;
    Ok(stderr)
}
