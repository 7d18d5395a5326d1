// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Periodic components and correlation of CPUs, as tables and JSON.

use std::fmt::Write as _;

use crate::stats::{
    Correlation, FALSE_ALARM, MOST_CORRELATED, Spectrum, TraceSummary, correlations, spectrum,
    summarise,
};
use crate::{CpuTrace, JitterTrace, tables};
use sandbag_ui::quantity::time;
use serde::Serialize;

/// Pairs of CPUs that are listed: those that differ most from chance.
const MOST_PAIRS: usize = 10;

/// Periodic components and correlations of a trace.
pub(super) struct Periods {
    /// In the order of its CPUs.
    pub(super) spectra: Vec<Option<Spectrum>>,
    pub(super) pairs: Vec<Correlation>,
}

impl Periods {
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
            let table = tables::components(&self.spectra);
            let _ = writeln!(
                text,
                "\nPeriodic components, {} to {} (probability of a false one per CPU: {FALSE_ALARM})",
                time(one.shortest_ns),
                time(one.longest_ns),
            );
            let _ = if table.is_empty() {
                writeln!(text, "  none")
            } else {
                writeln!(text, "{}", table.terminal())
            };
        }
        if !self.pairs.is_empty() {
            let _ = writeln!(
                text,
                "\nCorrelation of CPUs (by chance: range that covers 99 %)\n{}",
                pairs(&self.pairs)
            );
        } else if self.spectra.len() > MOST_CORRELATED {
            let _ = writeln!(
                text,
                "\nCorrelation of CPUs: omitted above {MOST_CORRELATED} CPUs; select some (--cpus)"
            );
        }
        text
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
