// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is computed from traces once, and what each point takes from it.

use sandbag_jitter::replay::Sync;

use super::cells::ANY;
use super::drift::Units;
use super::noise::Noise;
use super::options::{PredictOptions, TraceSource};
use super::positions::positions;
use super::prediction::{Estimate, PHASES_PCT, RankPrediction};
use super::stretches::{Stretches, unseen_pct};
use super::sweep::{SourceSweep, units};
use super::tail::{SHARE, Tail};
use super::warnings::{UNSEEN_PCT, most_noise, warn, warn_of_unseen};
use crate::Result;

/// Kinds of units at most, where ranks take them in turn: each needs some 10 MB.
const MOST_KINDS: usize = 16;

/// What is computed once for all numbers of ranks.
pub(super) struct Working<'a> {
    pub options: &'a PredictOptions,
    pub shares: Vec<u64>,
    pub swept: Vec<SourceSweep>,
    pub units: Option<Units>,
    /// Those of synchronised ranks; `None` without unknown time between them.
    pub stretches: Option<Stretches>,
    /// Share of the noise that no phase shows, because of unknown time, percent.
    pub unseen_pct: f64,
    pub tail: Option<Tail>,
    pub noise_pct: f64,
    pub warnings: Vec<String>,
}

impl<'a> Working<'a> {
    pub(super) fn new(sources: &[TraceSource<'_>], options: &'a PredictOptions) -> Result<Self> {
        let mut warnings = Vec::new();
        for source in sources {
            warn(source.trace, options, &mut warnings);
        }
        let noise = sources.iter().map(|source| most_noise(source.trace));
        let noise_pct = noise.map(|(_, pct)| pct).fold(0.0, f64::max);
        let (mut swept, mut shares) = (Vec::new(), Vec::new());
        for source in sources {
            let units = units(source.trace, options.group);
            let kinds = if options.in_turn {
                units.len().min(MOST_KINDS)
            } else {
                1
            };
            for kind in 0..kinds {
                let own: Vec<_> = units.iter().skip(kind).step_by(kinds).cloned().collect();
                let times = if options.in_turn { own.len() as u64 } else { 1 };
                shares.push(source.share * times);
                swept.push(SourceSweep::new(source.trace, &own, options)?);
            }
        }
        let single = match &swept[..] {
            [one] if options.sync == Sync::None => Some(one),
            _ => None,
        };
        let fitted = single.filter(|_| options.tail);
        let tail = fitted.and_then(|one| Tail::fit(&one.work.noise(&ANY), SHARE));
        if options.tail && tail.is_none() {
            let why = match single {
                Some(_) => {
                    "no tail could be fitted: the greatest hundredth of the noise has too few \
                     different values"
                }
                None => {
                    "no tail is fitted: it needs a single trace, and ranks that are not \
                     synchronised"
                }
            };
            warnings.push(why.to_owned());
        }
        let (mut common, mut stretches) = (None, None);
        if options.sync != Sync::None {
            let trace = sources[0].trace;
            common = Some(positions(trace, options)?);
            let cpus = units(trace, options.group).into_iter().flatten();
            stretches = Stretches::new(cpus, options.quantum_ns);
        }
        let unseen = sources.iter();
        let unseen =
            unseen.map(|source| unseen_pct(source.trace, options.quantum_ns, options.threads));
        let unseen_pct = unseen.fold(0.0, f64::max);
        warn_of_unseen(unseen_pct, &mut warnings);
        Ok(Self {
            stretches,
            unseen_pct,
            shares,
            options,
            swept,
            units: common,
            tail,
            noise_pct,
            warnings,
        })
    }

    /// Whether unknown time hides more of the noise than chance alone does: figures are too low.
    pub(super) fn hides_noise(&self) -> bool {
        self.unseen_pct >= UNSEEN_PCT
    }

    /// Duration of a phase without noise, ns.
    pub(super) fn quiet_ns(&self, ranks: u64) -> f64 {
        self.options.quantum_ns as f64 + self.options.barrier.quiet_ns(ranks)
    }

    pub(super) fn nodes(&self, ranks: u64) -> u64 {
        ranks.div_ceil(u64::from(self.options.group))
    }

    pub(super) fn estimate(
        &self,
        ranks: u64,
        noise_ns: f64,
        ratio: Option<(f64, f64)>,
    ) -> Estimate {
        let slowdown_pct = noise_ns / self.quiet_ns(ranks) * 100.0;
        Estimate {
            slowdown_pct,
            interval_pct: ratio.map(|(low, high)| (slowdown_pct * low, slowdown_pct * high)),
        }
    }

    pub(super) fn point(
        &self,
        ranks: u64,
        noise: &Noise,
        ratio: Option<(f64, f64)>,
    ) -> RankPrediction {
        let quiet_ns = self.quiet_ns(ranks);
        let noise_ns = noise.mean();
        RankPrediction {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(|part| noise.quantile(part / 100.0) / quiet_ns * 100.0),
            noise_ns,
            barrier_ns: self.options.barrier.quiet_ns(ranks),
            saturated: false,
            tail: None,
            gone_through: None,
        }
    }
}
