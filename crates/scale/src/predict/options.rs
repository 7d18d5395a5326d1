// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked.

use sandbag_jitter::replay::Sync;
use sandbag_jitter::{JitterTrace, Span};

use super::barrier::BarrierModel;
use super::drift::{Drift, Places};
use super::waiting::Starts;
use crate::{Error, Result};

/// A number of phases: `100000`, `1e5`.
///
/// # Errors
/// It is none, or nobody has so many.
pub fn phases(text: &str) -> std::result::Result<u64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1.0..=MOST_PHASES as f64).contains(&value) => Ok(value as u64),
        _ => Err("expected 1 to 1e8 phases".to_owned()),
    }
}

/// A trace, and its share of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct TraceSource<'a> {
    /// Of one node.
    pub trace: &'a JitterTrace,
    /// Nodes that are like it, compared with the others'.
    pub share: u64,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictOptions {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    /// For how many ranks.
    pub ranks: Vec<u64>,
    pub sync: Sync,
    /// Ranks of a node, whose noise was recorded together.
    pub group: u32,
    pub barrier: BarrierModel,
    pub starts: Starts,
    /// How far ranks drift apart.
    pub drift: Option<Drift>,
    /// Where in it they are, if that was measured; else as it is spread.
    pub places: Places,
    /// Phases of a run.
    pub phases: u64,
    /// Of all chance.
    pub seed: u64,
    /// Threads, at most.
    pub threads: usize,
    /// Compute intervals.
    pub intervals: bool,
    /// Fit a tail.
    pub tail: bool,
}

/// Ranks, at most: the numbers are exact beyond, but nobody has them.
pub const MOST_RANKS: u64 = 1_000_000_000;
/// Phases, at most.
const MOST_PHASES: u64 = 100_000_000;

impl Default for PredictOptions {
    fn default() -> Self {
        Self {
            quantum_ns: 1_000_000,
            ranks: (0..=20).map(|power| 1 << power).collect(),
            sync: Sync::None,
            group: 1,
            barrier: BarrierModel::Ideal,
            starts: Starts::Waiting,
            drift: None,
            places: Places::new(),
            phases: 100_000,
            seed: 0,
            threads: 1,
            intervals: true,
            tail: false,
        }
    }
}

impl PredictOptions {
    pub(super) fn check(&self, sources: &[TraceSource<'_>]) -> Result<()> {
        let wrong = |what, found: String, expected| {
            Err(Error::Option {
                what,
                found,
                expected,
            })
        };
        if self.quantum_ns == 0 {
            return wrong("the quantum", "0".to_owned(), "longer than 0");
        }
        if let Some(ranks) = self.ranks.iter().find(|n| !(1..=MOST_RANKS).contains(*n)) {
            return wrong("the number of ranks", ranks.to_string(), "1 to 10^9");
        }
        if self.ranks.is_empty() {
            return wrong("the number of ranks", "none".to_owned(), "1 to 10^9");
        }
        if self.group == 0 {
            return wrong("the group", "0".to_owned(), "1 or more");
        }
        if !(1..=MOST_PHASES).contains(&self.phases) {
            return wrong("the number of phases", self.phases.to_string(), "1 to 10^8");
        }
        if self.sync == Sync::Phases(0) {
            return wrong("--sync every", "0".to_owned(), "1 phase or more");
        }
        if let BarrierModel::Dissemination(cost) | BarrierModel::Binomial(cost) = self.barrier {
            let all = [cost.l_ns, cost.o_ns, cost.g_ns, cost.g_byte_ns];
            if let Some(one) = all.iter().find(|ns| !(0.0..=1e12).contains(*ns)) {
                return wrong("a LogGP parameter", one.to_string(), "a time");
            }
        }
        if sources.is_empty() || sources.iter().any(|source| source.share == 0) {
            return wrong("the share of a trace", "0".to_owned(), "1 or more");
        }
        if sources.len() > 1 && self.sync != Sync::None {
            return Err(Error::NothingCommon);
        }
        let drifts = !matches!(self.sync, Sync::None | Sync::Phases(1));
        if drifts && self.drift.is_none() {
            return Err(Error::NoDrift);
        }
        sources
            .iter()
            .try_for_each(|source| self.check_trace(source.trace))
    }

    fn check_trace(&self, trace: &JitterTrace) -> Result<()> {
        let detectable_ns = trace.detectable_ns().unwrap_or(0.0);
        if (self.quantum_ns as f64) < detectable_ns {
            return Err(Error::BelowDetectable {
                quantum_ns: self.quantum_ns,
                detectable_ns,
            });
        }
        let known = trace.cpus.iter().flat_map(|cpu| &cpu.known);
        let longest_ns = known.map(Span::length_ns).max().unwrap_or(0);
        if longest_ns <= self.quantum_ns {
            return Err(Error::TooShort {
                what: "a quantum",
                needed_ns: self.quantum_ns,
                longest_ns,
            });
        }
        let held = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).count();
        if self.group as usize > held {
            return Err(Error::Group {
                group: self.group,
                held,
            });
        }
        Ok(())
    }
}
