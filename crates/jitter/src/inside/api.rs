// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For Rust programs that suffer jitter by asking: c/sandbag_jitter.h, word
//! for word. Not started by `sandbag jitter replay --inside`, the calls do
//! nothing.
//!
//! ```
//! use sandbag_jitter::inside::api;
//!
//! api::init();
//! for phase in 0..3 {
//!     api::phase(phase);
//!     // A step of the program's own work, and then, as often as possible:
//!     api::poll();
//! }
//! assert!(api::report().is_none());
//! ```

/// What the calling thread suffered so far; times in ns.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SufferReport {
    /// Events.
    pub injected: u64,
    /// Their lengths together.
    pub asked_ns: u64,
    /// What they took.
    pub taken_ns: u64,
    /// Not injected: not longer than an injection costs.
    pub too_short: u64,
    /// Not injected: the thread did not run then.
    pub passed: u64,
    /// Injected, without the gap before.
    pub merged: u64,
    /// Median of how much too late events began.
    pub start_ns: u64,
    /// Median of how much too long events were.
    pub length_ns: u64,
}

mod c {
    use super::SufferReport;

    unsafe extern "C" {
        pub fn sandbag_jitter_init() -> i32;
        pub fn sandbag_jitter_poll() -> u64;
        pub fn sandbag_jitter_phase(phase: u64);
        pub fn sandbag_jitter_report(report: *mut SufferReport, size: usize) -> i32;
    }
}

/// Begins. Whether this thread suffers events from now on; not if sandbag did
/// not start the program, or did not mean it. Again is harmless.
pub fn init() -> bool {
    // SAFETY: no arguments; what it reads from the environment it checks.
    unsafe { c::sandbag_jitter_init() != 0 }
}

/// Suffers what is due, if the plan is one for programs that ask. How long it
/// took, ns; mostly 0.
pub fn poll() -> u64 {
    // SAFETY: works on the calling thread's own state.
    unsafe { c::sandbag_jitter_poll() }
}

/// The compute part of a phase begins; phases are counted from 0.
pub fn phase(phase: u64) {
    // SAFETY: works on the calling thread's own state.
    unsafe { c::sandbag_jitter_phase(phase) }
}

/// What this thread suffered; `None` if it never began.
pub fn report() -> Option<SufferReport> {
    let mut report = SufferReport::default();
    // SAFETY: writes no more than the size that it is given.
    let any = unsafe { c::sandbag_jitter_report(&raw mut report, size_of::<SufferReport>()) };
    (any != 0).then_some(report)
}
