// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times as seconds, without loss.

use std::fmt;

use sandbag_input::number::NS_PER_S;

/// A time in nanoseconds that prints as seconds without loss: `1.5 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", plain_seconds(self.0))
    }
}

/// Seconds as a decimal number without loss and without trailing zeros.
pub(crate) fn plain_seconds(ns: u64) -> String {
    let (whole, part) = (ns / NS_PER_S, ns % NS_PER_S);
    if part == 0 {
        whole.to_string()
    } else {
        let text = format!("{whole}.{part:09}");
        text.trim_end_matches('0').to_owned()
    }
}
