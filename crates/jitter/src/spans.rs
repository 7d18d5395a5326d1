// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stretches of time against each other.

use crate::Span;

/// What lies in both; each is ascending and without overlap, and so is the
/// result.
#[must_use]
pub fn common(a: &[Span], b: &[Span]) -> Vec<Span> {
    let (mut i, mut j) = (0, 0);
    let mut all = Vec::new();
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let both = Span::new(x.from_ns.max(y.from_ns), x.until_ns.min(y.until_ns));
        if both.from_ns < both.until_ns {
            all.push(both);
        }
        if x.until_ns <= y.until_ns {
            i += 1
        } else {
            j += 1
        }
    }
    all
}
