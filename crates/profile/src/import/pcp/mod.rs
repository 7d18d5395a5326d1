// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exports of Performance Co-Pilot: `pmrep -o csv`, `pcp2json` and
//! `pmdumplog`.
//!
//! All three hold values of `kernel.percpu.cpu.*`, instances `cpu0`, `cpu1`
//! ..., either the counters themselves (ms since boot) or their rates (ms/s).
//! Each format is a stream of [`records`]; [`passes`] makes samples of them.
//! What is in common: `docs/reference/formats/pcp.md`.

mod loads;
mod passes;
pub(super) mod pcp2json;
pub(super) mod pmdumplog;
pub(super) mod pmrep;
mod reading;
mod records;
mod stamp;
#[cfg(test)]
mod tests;
