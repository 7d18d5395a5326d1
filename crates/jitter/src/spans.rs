// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans of time, and sets of them. In all lists spans ascend and do not overlap.

use serde::{Deserialize, Serialize};

/// A stretch of time, its end excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Begin.
    pub from_ns: u64,
    /// End; not before `from_ns`.
    pub until_ns: u64,
}

impl Span {
    /// From then until then, ns.
    pub const fn new(from_ns: u64, until_ns: u64) -> Self {
        Self { from_ns, until_ns }
    }

    /// The span `ns` earlier, cut off at 0.
    pub(crate) fn moved_back(self, ns: u64) -> Self {
        Self::new(
            self.from_ns.saturating_sub(ns),
            self.until_ns.saturating_sub(ns),
        )
    }

    /// How long it is.
    pub fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// The intersection of two lists.
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

/// The span without `gaps`, which may be in any order and overlap.
pub(crate) fn without(whole: Span, mut gaps: Vec<Span>) -> Vec<Span> {
    gaps.sort_unstable_by_key(|gap| gap.from_ns);
    gaps.push(Span::new(whole.until_ns, whole.until_ns));
    let mut from_ns = whole.from_ns;
    let mut left = Vec::new();
    for gap in gaps {
        let part = Span::new(from_ns, gap.from_ns.min(whole.until_ns));
        if part.length_ns() > 0 {
            left.push(part);
        }
        from_ns = from_ns.max(gap.until_ns);
    }
    left
}

/// From the first begin to the last end of spans in any order; `None` without any.
pub(crate) fn extent(spans: impl IntoIterator<Item = Span>) -> Option<Span> {
    spans
        .into_iter()
        .reduce(|a, b| Span::new(a.from_ns.min(b.from_ns), a.until_ns.max(b.until_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_subtracted() {
        let span = Span::new;
        let gaps = vec![span(30, 40), span(0, 12), span(35, 50), span(95, 120)];
        let left = without(span(10, 100), gaps);
        assert_eq!(left, [span(12, 30), span(50, 95)]);
        assert_eq!(without(span(5, 5), vec![]), []);
    }
}
