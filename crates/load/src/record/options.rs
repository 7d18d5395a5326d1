// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is recorded, and for how long.

use sandbag_linux::CpuList;

use crate::record::{Error, Result};

/// The shortest interval: ten ticks of `/proc/stat`.
pub const MIN_INTERVAL_NS: u64 = 100_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// Length of a row; at least [`MIN_INTERVAL_NS`].
    pub interval_ns: u64,
    /// Length of the recording; without it, until stopped. A rest shorter
    /// than [`MIN_INTERVAL_NS`] becomes part of the last row.
    pub duration_ns: Option<u64>,
    /// The CPUs that get a column, online or not; without it, those online
    /// at the beginning.
    pub cpus: Option<CpuList>,
    /// Steal counts as load: a row is then the share of all time in which the
    /// CPU was not to be had.
    pub steal_as_load: bool,
    pub host: Option<String>,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            interval_ns: 1_000_000_000,
            duration_ns: None,
            cpus: None,
            steal_as_load: false,
            host: None,
        }
    }
}

impl RecordOptions {
    pub(crate) fn check(&self) -> Result<()> {
        if self.interval_ns < MIN_INTERVAL_NS {
            return Err(Error::Interval(self.interval_ns / 1_000_000));
        }
        match self.duration_ns {
            Some(ns) if ns < MIN_INTERVAL_NS => Err(Error::Duration(ns / 1_000_000)),
            _ => Ok(()),
        }
    }
}
