// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of one kind, and when they come.

use sandbag_stats::Chance;

use super::lengths::Lengths;
use crate::{Fault, TraceEvent};

/// From the end of a random event to the next of its component at least, ns.
const APART_NS: f64 = 1_000.0;

/// When the events of a component come.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Periodic {
        /// From one to the next, ns.
        period_ns: f64,
        /// The first, ns; `None`: at random within a period.
        phase_ns: Option<f64>,
        /// Standard deviation of each from where it is due, ns (normal).
        jitter_ns: f64,
        /// The share of periods that have their event, 0 to 1.
        share: f64,
    },
    /// At random, one independent of the other.
    Poisson {
        /// In a second.
        per_s: f64,
    },
}

impl Arrivals {
    /// In every period, the first at random within a period.
    pub const fn periodic(period_ns: f64, jitter_ns: f64) -> Self {
        Self::Periodic {
            period_ns,
            phase_ns: None,
            jitter_ns,
            share: 1.0,
        }
    }
}

/// Events of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    pub arrivals: Arrivals,
    pub lengths: Lengths,
    /// The same events at the same times on all its CPUs; else each CPU has
    /// its own.
    pub common: bool,
    /// Kernel numbers of its CPUs; `None`: all of the trace.
    pub cpus: Option<Vec<u32>>,
}

impl Component {
    /// On all CPUs, on each its own.
    pub fn new(arrivals: Arrivals, lengths: Lengths) -> Self {
        Self {
            arrivals,
            lengths,
            common: false,
            cpus: None,
        }
    }

    pub(super) fn is_on(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|all| all.contains(&cpu))
    }

    /// Mean number of events in this time.
    pub(super) fn expected(&self, seconds: f64) -> f64 {
        match self.arrivals {
            Arrivals::Periodic { period_ns, .. } => seconds * 1e9 / period_ns,
            Arrivals::Poisson { per_s } => seconds * per_s,
        }
    }

    /// The share of its CPUs that it asks for in the mean; 1 or more is all of
    /// them. `None` where the mean of its lengths is not known.
    pub fn asks_for(&self) -> Option<f64> {
        let comes = match self.arrivals {
            Arrivals::Periodic { share, .. } => share,
            Arrivals::Poisson { .. } => 1.0,
        };
        Some(self.expected(1.0) * comes * self.lengths.mean_ns()? / 1e9)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let ok = match self.arrivals {
            Arrivals::Periodic {
                period_ns,
                phase_ns,
                jitter_ns,
                share,
            } => {
                let phase_ok = phase_ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0);
                period_ns.is_finite()
                    && period_ns >= 1.0
                    && jitter_ns.is_finite()
                    && jitter_ns >= 0.0
                    && phase_ok
                    && (0.0..=1.0).contains(&share)
            }
            Arrivals::Poisson { per_s } => per_s.is_finite() && per_s >= 0.0,
        };
        if ok {
            Ok(())
        } else {
            Err(Fault::Impossible("times of events that cannot be"))
        }
    }

    /// Its events within `until_ns`, in the order in which they are drawn.
    pub(super) fn events(&self, chance: &mut Chance, until_ns: u64, into: &mut Vec<TraceEvent>) {
        let until = until_ns as f64;
        let mut put = |at: f64, chance: &mut Chance| {
            let length_ns = self.lengths.draw(chance);
            if at >= 0.0 && at < until {
                into.push(TraceEvent::new(at as u64, length_ns));
            }
            length_ns
        };
        match self.arrivals {
            Arrivals::Periodic {
                period_ns,
                phase_ns,
                jitter_ns,
                share,
            } => {
                let random = chance.uniform() * period_ns;
                let phase = phase_ns.unwrap_or(random);
                let count = ((until - phase) / period_ns).ceil().max(0.0) as u64;
                for i in 0..count {
                    // Drawn whether it comes or not: one more period changes
                    // nothing before it.
                    let (comes, late) = (chance.uniform() < share, chance.normal() * jitter_ns);
                    if comes {
                        let _ = put(phase + i as f64 * period_ns + late, chance);
                    }
                }
            }
            Arrivals::Poisson { per_s } if per_s > 0.0 => {
                let mean = 1e9 / per_s;
                let mut at = chance.exponential(mean);
                let mut free = 0.0;
                while at < until {
                    let start = at.max(free);
                    let length_ns = put(start, chance);
                    free = start + length_ns as f64 + APART_NS;
                    at += chance.exponential(mean);
                }
            }
            Arrivals::Poisson { .. } => {}
        }
    }
}
