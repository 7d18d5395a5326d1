// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes again and again, and what CPUs have in common, as tables.

use std::fmt::Write as _;

use crate::stats::{
    Correlation, FALSE_ALARM, MOST_CORRELATED, Spectrum, TraceSummary, correlations, spectrum,
    summarise,
};
use crate::{CpuTrace, JitterTrace, tables};
use sandbag_ui::quantity::time;
use serde::Serialize;

/// Pairs of CPUs that are listed; those furthest beyond chance.
const MOST_PAIRS: usize = 10;

/// What was found in a trace.
pub(super) struct Periods {
    /// In the order of its CPUs.
    pub(super) spectra: Vec<Option<Spectrum>>,
    /// All pairs.
    pub(super) pairs: Vec<Correlation>,
}

impl Periods {
    /// Looks for it.
    pub(super) fn of(trace: &JitterTrace) -> Self {
        Self {
            spectra: trace.cpus.iter().map(spectrum).collect(),
            pairs: correlations(&trace.cpus),
        }
    }

    /// Two tables.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(one) = self.spectra.iter().flatten().next() {
            let _ = writeln!(
                text,
                "\nPeriodic, {} to {} (on a CPU without any, one would be found with a \
                 probability of {FALSE_ALARM})\n{}",
                time(one.shortest_ns),
                time(one.longest_ns),
                components(&self.spectra)
            );
        }
        if !self.pairs.is_empty() {
            let _ = writeln!(
                text,
                "\nWhat CPUs have in common (by chance: 99 times in 100)\n{}",
                pairs(&self.pairs)
            );
        } else if self.spectra.len() > MOST_CORRELATED {
            let _ = writeln!(
                text,
                "\nWhat CPUs have in common: left out above {MOST_CORRELATED} CPUs; select some \
                 (--cpus)"
            );
        }
        text
    }
}

fn components(spectra: &[Option<Spectrum>]) -> String {
    let table = tables::components(spectra);
    if table.rows() == 0 {
        "  none".to_owned()
    } else {
        table.terminal().to_string()
    }
}

fn pairs(all: &[Correlation]) -> String {
    let beyond = |one: &Correlation| {
        let chance = &one.chance_pct;
        (one.together_pct - chance.mean).abs() / (chance.most - chance.least).max(1e-9)
    };
    let mut shown: Vec<&Correlation> = all.iter().collect();
    shown.sort_by(|a, b| beyond(b).total_cmp(&beyond(a)));
    shown.truncate(MOST_PAIRS);
    shown.sort_by_key(|one| (one.a, one.b));
    let mut text = tables::pairs(shown.iter().copied()).terminal().to_string();
    if shown.len() < all.len() {
        let _ = write!(text, "\n  ... {} more pairs", all.len() - shown.len());
    }
    text
}

/// The figures of a CPU, for JSON.
#[derive(Serialize)]
pub(super) struct CpuFigures<'a> {
    #[serde(flatten)]
    summary: TraceSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    periodic: Option<&'a Spectrum>,
    /// With the CPUs after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_common: Vec<&'a Correlation>,
}

/// The figures of all.
pub(super) fn figures<'a>(trace: &JitterTrace, found: Option<&'a Periods>) -> Vec<CpuFigures<'a>> {
    let of = |(i, cpu): (usize, &CpuTrace)| CpuFigures {
        summary: summarise(cpu),
        periodic: found.and_then(|found| found.spectra[i].as_ref()),
        in_common: found.map_or_else(Vec::new, |found| {
            let pairs = found.pairs.iter();
            pairs.filter(|one| one.a == cpu.cpu).collect()
        }),
    };
    trace.cpus.iter().enumerate().map(of).collect()
}
