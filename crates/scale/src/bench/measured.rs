// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured of ranks that met, whatever they are.

/// Phases in a row, all with jitter or all without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Jitter was injected.
    pub jitter: bool,
    /// How long the work took: phase by phase, rank by rank, ns.
    pub qt_ns: Vec<u32>,
    /// How long the rank then waited, ns.
    pub bt_ns: Vec<u32>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Ranks.
    pub ranks: u32,
    /// There were more ranks than CPUs: they waited for CPUs as well.
    pub oversubscribed: bool,
    /// Iterations of the work.
    pub iterations: u64,
    /// How long they took at least when they were calibrated, ns.
    pub calibrated_ns: u64,
    /// In the order in which they ran.
    pub segments: Vec<Segment>,
}
