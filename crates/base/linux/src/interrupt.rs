// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and its relatives become an error of whatever is waited for, so that
//! every guard on the way out is dropped.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::signals::{ENDING, PASSED};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: std::ffi::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Those of [`PASSED`] that came, a bit each.
static PASSED_CAME: AtomicU64 = AtomicU64::new(0);

extern "C" fn note_passed(signal: std::ffi::c_int) {
    PASSED_CAME.fetch_or(1 << signal, Ordering::Relaxed);
}

/// The next one that came and is to be passed on to a child.
pub fn take_passed() -> Option<Signal> {
    let bit = |signal: &Signal| 1u64 << (*signal as i32);
    let came =
        |signal: &Signal| PASSED_CAME.fetch_and(!bit(signal), Ordering::Relaxed) & bit(signal) != 0;
    PASSED.into_iter().find(came)
}

/// Notes the signals of [`ENDING`] from now on.
pub fn watch() -> io::Result<()> {
    handle(&ENDING, note)
}

/// Notes those of [`PASSED`], too, for [`take_passed`].
pub fn watch_passed() -> io::Result<()> {
    handle(&PASSED, note_passed)
}

fn handle(signals: &[Signal], handler: extern "C" fn(std::ffi::c_int)) -> io::Result<()> {
    let handler = SigHandler::Handler(handler);
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    for s in signals.iter().copied() {
        // SAFETY: the handlers do nothing but store to an atomic.
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
