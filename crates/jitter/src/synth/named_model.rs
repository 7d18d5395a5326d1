// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces with the statistics that De, Kothari and Mann published of theirs
//! (2007, 2008). The traces themselves are not public; these are synthetic.
//!
//! Published are, of each: how many events are short; how many a process meets
//! in a phase of 1 ms; how much longer such phases are on 2048 processes, each
//! of which is somewhere else in the trace (99 and 20 %), and how much longer
//! where all are at the same place (0.7 and 0.9 %, the share of noise). The
//! lengths of the few long events are chosen such that the greatest noise of
//! 2048 phases is what was published: beyond the bound they are exponential,
//! and of the N long ones that 2048 phases have the longest is in the mean
//! `bound + mean (ln N + 0.577)`.

use super::component::{Arrivals, Component};
use super::lengths::Lengths;

/// A model by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedModel {
    /// What it is called.
    pub name: &'static str,
    /// What it has of the published.
    pub has: &'static str,
    /// What it has not.
    pub has_not: &'static str,
    per_s: f64,
    /// Median of the short ones, and standard deviation of the logarithm.
    short_ns: (f64, f64),
    /// Between the short and the long.
    bound_ns: f64,
    short_share: f64,
    /// Mean of what the long ones are longer than the bound.
    long_ns: f64,
}

/// All of them.
pub const LIKE: [NamedModel; 2] = [
    NamedModel {
        name: "linux-2007",
        has: "98 % of the events are shorter than 14 us; 0.6 events and 7 us of noise (0.7 %) in \
              a millisecond; the greatest noise of 2048 such stretches is 0.99 ms in the mean",
        has_not: "times are random (Poisson) and CPUs independent: the periods of the original, \
                  and how the slowdown falls when processes begin together (13 %), are not in it; \
                  the shapes of the short and of the long lengths are assumed",
        per_s: 600.0,
        short_ns: (6_000.0, 0.5),
        bound_ns: 14_000.0,
        short_share: 0.98,
        long_ns: 258_000.0,
    },
    NamedModel {
        name: "bgl-io-2007",
        has: "99.5 % of the events are shorter than 5 us; 1.04 events in a millisecond; the \
              greatest noise of 2048 such stretches is 0.2 ms in the mean",
        has_not: "the published 0.9 % of noise cannot be had with the other figures (it would take \
                  long events of 0.8 ms in the mean, and the greatest of 2048 would be longer than \
                  published): it has 0.4 %; times are random (Poisson) and CPUs independent: the \
                  periods of the original, and how the slowdown falls when processes begin \
                  together (6 %), are not in it; the shapes of the lengths are assumed",
        per_s: 1040.0,
        short_ns: (3_500.0, 0.25),
        bound_ns: 5_000.0,
        short_share: 0.995,
        long_ns: 66_000.0,
    },
];

/// Shorter ones no collector of the time saw.
const LEAST_NS: f64 = 300.0;

impl NamedModel {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        LIKE.into_iter().find(|like| like.name == name)
    }

    /// What it is made of.
    pub fn components(&self) -> Vec<Component> {
        let (median_ns, sigma) = self.short_ns;
        let short = Lengths::Within {
            least_ns: LEAST_NS,
            below_ns: self.bound_ns,
            of: Box::new(Lengths::lognormal(median_ns, sigma)),
        };
        let long = Lengths::exponential(self.bound_ns, self.long_ns);
        let shares = (self.short_share, 1.0 - self.short_share);
        let lengths = Lengths::Mixed(vec![(shares.0, short), (shares.1, long)]);
        vec![Component::new(
            Arrivals::Poisson { per_s: self.per_s },
            lengths,
        )]
    }
}
