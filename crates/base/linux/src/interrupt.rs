// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and its relatives become an error of whatever is waited for, so that
//! every guard on the way out is dropped.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::signals::ENDING;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: std::ffi::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Notes the signals of [`ENDING`] from now on.
pub fn watch() -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    for s in ENDING {
        // SAFETY: the handler does nothing but store to an atomic.
        let before = unsafe { sigaction(s, &action) }?;
        // As nohup wants it.
        if matches!(before.handler(), SigHandler::SigIgn) {
            // SAFETY: what was in force before.
            unsafe { sigaction(s, &before) }?;
        }
    }
    Ok(())
}

pub fn came() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// An error once a signal has come.
pub fn check() -> io::Result<()> {
    if came() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
    }
    Ok(())
}

/// Sleeps until `until`, or fails when a signal comes.
pub fn sleep_until(until: Instant) -> io::Result<()> {
    wait_for(until, || false).map(drop)
}

/// Waits until `ready` says so (true) or `until` has come (false); fails when
/// a signal comes. Looks twenty times a second.
pub fn wait_for(until: Instant, mut ready: impl FnMut() -> bool) -> io::Result<bool> {
    loop {
        check()?;
        if ready() {
            return Ok(true);
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(rest.min(Duration::from_millis(50)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_event_or_with_time() {
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(wait_for(soon, || true).unwrap());
        assert!(!wait_for(soon, || false).unwrap());
        assert!(Instant::now() >= soon);
    }
}
