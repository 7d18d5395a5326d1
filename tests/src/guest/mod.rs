// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine that runs scenarios and says what they printed.
//!
//! # Problem
//! The schedulers and group layouts that sandbag must get right are more than
//! those of the machine at hand: CFS and EEVDF, cgroup v2 from the root down,
//! more CPUs than there are, systemd as PID 1.
//!
//! # Approach
//! QEMU, emulating in software (it works in any container and under any
//! hypervisor), boots one of Debian's kernel packages with an initial RAM file system
//! as its only root: busybox and an `/init` for a [`GuestKind::Bare`] guest, a
//! small Debian with systemd for [`GuestKind::Systemd`]. A scenario is a shell
//! script; its output goes over a second serial line, so that no message of
//! the kernel can run into it. Everything that is downloaded or built lies
//! in one [`cache`] directory; nothing is installed.
//!
//! What the scripts say, line by line (`tests/guest/run.sh` writes the first
//! and the last two, `result` of `tests/guest/lib.sh` the second):
//!
//! ```text
//! @begin SECONDS_SINCE_BOOT
//! @result NAME JSON
//! anything else
//! @end EXIT_STATUS (of each scenario)
//! @over
//! ```
//!
//! The emulated CPUs are threads of this machine. Where they outnumber its
//! own CPUs they interrupt each other in ways that the guest cannot see (no
//! steal time), so shares of a CPU measured inside are good to a few points.

mod cache;
mod debian;
mod host;
mod image;
mod kernel;
mod outcome;
mod packages;
mod qemu;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::case;

pub use kernel::Kernel;
pub use outcome::Outcome;

/// What the guest is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestKind {
    /// busybox; the controllers `cpu` and `cpuset` enabled in the root group.
    Bare,
    /// Debian 12 with systemd as PID 1 and D-Bus; a service runs the scenarios.
    Systemd,
}

/// A guest to be.
#[derive(Debug, Clone)]
pub struct Guest {
    /// What it is made of.
    pub kind: GuestKind,
    /// What it runs.
    pub kernel: Kernel,
    /// Number of CPUs.
    pub cpus: u32,
    /// Wall time after which it is killed, boot included.
    pub timeout: Duration,
    /// Programs put into `/usr/bin`, with the libraries they need.
    pub programs: Vec<PathBuf>,
    /// More words of the kernel's command line.
    pub parameters: Vec<String>,
}

impl Guest {
    /// Boots, runs the scenarios one after another, and gives back what each said.
    ///
    /// # Errors
    /// Where something is missing that [`prepare`] would have named, if the
    /// guest does not boot, is not done in time, or ends without `@over`; the
    /// error carries the last lines that it printed. A scenario that ends
    /// with a status other than 0 is no error here.
    pub fn run(&self, scenarios: &[PathBuf]) -> anyhow::Result<Vec<Outcome>> {
        let kernel = self.kernel.find_or_fetch()?;
        let base = match self.kind {
            GuestKind::Bare => None,
            GuestKind::Systemd => Some(debian::find_or_build()?),
        };
        let mut boots_left = AGAIN;
        loop {
            let work = tempfile::tempdir_in(cache::directory()?)?;
            let initrd = image::build(self, scenarios, base.as_deref(), work.path())
                .context("cannot build the guest's file system")?;
            let failed = match qemu::run(self, &kernel, &initrd, work.path()) {
                // Once, and at the first boot: the second has to be right.
                Err(error) if qemu::stood_still(&error) && boots_left == AGAIN => {
                    boots_left = 0;
                    error
                }
                Err(error)
                    if !qemu::stood_still(&error) && kernel_broke(&error) && boots_left > 0 =>
                {
                    boots_left -= 1;
                    error
                }
                outcome => return outcome,
            };
            case::note(&format!(
                "the emulated kernel failed, another boot: {failed:#}"
            ));
        }
    }
}

/// Times that a guest is booted again whose kernel panics or hangs: QEMU's emulation of
/// several CPUs breaks newer kernels now and then, on any of their instructions.
/// What sandbag would do to a kernel it would do each time.
const AGAIN: u32 = 4;

fn kernel_broke(error: &anyhow::Error) -> bool {
    format!("{error:#}").lines().any(qemu::is_broken)
}

/// Gets everything that such a guest needs: finds the tools, fetches
/// the kernel, builds the systemd root, each unless it is in the cache.
///
/// # Errors
/// What is missing and which package has it, in one line.
pub fn prepare(kind: GuestKind, kernel: Kernel) -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the guest is x86_64, this build is not".to_owned());
    }
    qemu::program()
        .and_then(|_| image::tools())
        .and_then(|()| kernel.find_or_fetch().map(drop))
        .and_then(|()| match kind {
            GuestKind::Bare => Ok(()),
            GuestKind::Systemd => debian::find_or_build().map(drop),
        })
        .map_err(|error| format!("{error:#}"))
}

/// The sandbag to be tested: `SANDBAG_BIN`, or the release build in Cargo's
/// target directory.
///
/// # Errors
/// Says where it was looked for.
pub fn sandbag() -> Result<PathBuf, String> {
    let path = match std::env::var_os("SANDBAG_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from)
            .join("release/sandbag"),
    };
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!(
            "no sandbag at {}: `cargo build --release`, or set SANDBAG_BIN",
            path.display()
        ))
    }
}

/// Debian's rtla (Linux' tools/tracing/rtla).
///
/// # Errors
/// The package that has it.
pub fn rtla() -> Result<PathBuf, String> {
    cache::tool("rtla", "rtla").map_err(|error| error.to_string())
}

/// A file of `tests/guest/`.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    repository().join("tests/guest").join(name)
}

fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map(Path::to_owned).unwrap_or_default()
}
