// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a prediction.

use sandbag_jitter::replay::Sync;
use sandbag_jitter::{JitterTrace, Span};

use super::barrier::BarrierModel;
use super::drift::{Drift, Places};
use super::waiting::Starts;
use crate::{Error, Result};

/// Parses a number of phases: `100000`, `1e5`.
pub fn phases(text: &str) -> std::result::Result<u64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1.0..=MOST_PHASES as f64).contains(&value) => Ok(value as u64),
        _ => Err("expected 1 to 1e8 phases".to_owned()),
    }
}

/// A trace of one node, and the share of nodes that are like it.
#[derive(Debug, Clone, Copy)]
pub struct TraceSource<'a> {
    pub trace: &'a JitterTrace,
    /// Relative to the shares of the other sources.
    pub share: u64,
}

/// Options of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictOptions {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    /// Numbers of ranks.
    pub ranks: Vec<u64>,
    pub sync: Sync,
    /// Ranks of a node, whose noise was recorded together.
    pub group: u32,
    /// Ranks that are not synchronised take the CPUs (or nodes) of the trace in turn; else each
    /// is on any. Of more than 16 CPUs some are taken together.
    pub in_turn: bool,
    pub barrier: BarrierModel,
    pub starts: Starts,
    /// How far synchronised ranks drift apart.
    pub drift: Option<Drift>,
    /// Measured positions within the drift; empty: by the drift's `spread`.
    pub places: Places,
    /// Phases of a run.
    pub phases: u64,
    pub seed: u64,
    /// Threads, at most.
    pub threads: usize,
    /// Compute intervals.
    pub intervals: bool,
    /// Fit a tail.
    pub tail: bool,
}

/// The most ranks that can be predicted.
pub const MOST_RANKS: u64 = 1_000_000_000;
/// The most phases of a run.
const MOST_PHASES: u64 = 100_000_000;

impl Default for PredictOptions {
    fn default() -> Self {
        Self {
            quantum_ns: 1_000_000,
            ranks: (0..=20).map(|power| 1 << power).collect(),
            sync: Sync::None,
            group: 1,
            in_turn: false,
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
        let ranks = self.ranks.iter().find(|n| !(1..=MOST_RANKS).contains(*n));
        let ranks = match ranks {
            None if self.ranks.is_empty() => Some("none".to_owned()),
            ranks => ranks.map(u64::to_string),
        };
        let cost_ns = match self.barrier {
            BarrierModel::Ideal => Vec::new(),
            BarrierModel::Dissemination(cost) | BarrierModel::Binomial(cost) => {
                vec![cost.l_ns, cost.o_ns, cost.g_ns, cost.g_byte_ns]
            }
        };
        let cost_ns = cost_ns.iter().find(|ns| !(0.0..=1e12).contains(*ns));
        let zero = |is_zero: bool| is_zero.then(|| "0".to_owned());
        let too_many = !(1..=MOST_PHASES).contains(&self.phases);
        let no_share = sources.is_empty() || sources.iter().any(|source| source.share == 0);
        for (what, found, expected) in [
            ("the quantum", zero(self.quantum_ns == 0), "longer than 0"),
            ("the number of ranks", ranks, "1 to 10^9"),
            ("the group", zero(self.group == 0), "1 or more"),
            (
                "the number of phases",
                too_many.then(|| self.phases.to_string()),
                "1 to 10^8",
            ),
            (
                "--sync every",
                zero(self.sync == Sync::Phases(0)),
                "1 phase or more",
            ),
            ("a LogGP parameter", cost_ns.map(f64::to_string), "a time"),
            ("the share of a trace", zero(no_share), "1 or more"),
        ] {
            if let Some(found) = found {
                return Err(Error::Option {
                    what,
                    found,
                    expected,
                });
            }
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
