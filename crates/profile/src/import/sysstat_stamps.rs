// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stamps in sysstat's JSON documents, which `sadf` and `mpstat` write each
//! in its way.

use serde::Deserialize;

use crate::{Fault, Format};

/// How one of the programs writes its stamps.
pub(super) trait StampReader: Default + Send {
    const FORMAT: Format;
    /// How to get rows of single CPUs.
    const NEED_P_ALL: &'static str;
    /// A stamp as it stands in the document.
    type Written<'a>: Deserialize<'a>;

    fn stamp_value(&mut self, written: &Self::Written<'_>) -> Result<StampValue, Fault>;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StampValue {
    /// On which clock.
    pub(super) clock: StampZero,
    pub(super) end_ns: i64,
    /// `None` if it does not say.
    pub(super) interval_ns: Option<i64>,
}

/// Where the zero of a stamp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampZero {
    /// 1970.
    Utc,
    /// 1970 by the clock on the machine's wall.
    Local,
    /// Midnight of the host's date, by the same clock.
    OfDay,
}
