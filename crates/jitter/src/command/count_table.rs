// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter compare` where a file holds counts, not events.

use std::fmt::Write as _;

use crate::import::JitterRecording;
use crate::stats::{CountSample, QUANTILES_PCT, QuantileBound, binned_distances};
use crate::{CpuCounts, CpuTrace, Error, Fault, Quantity};
use comfy_table::Table;
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{plain, right};

use super::distribution::{quantities, share};
use crate::tables::quantile_name;

/// What is counted in both, quantity after quantity; the share of noise, where
/// both have one, in any case.
pub(super) fn compare(a: &JitterRecording, b: &JitterRecording, above_ns: u64) -> Result<String> {
    let noise = noise_pct(a).zip(noise_pct(b));
    let (all_a, all_b) = (counted_in(a), counted_in(b));
    let common: Vec<Quantity> = all_a
        .iter()
        .copied()
        .filter(|one| all_b.iter().any(|other| other.is_as(*one)))
        .collect();
    let mut text = String::new();
    if let Some((a, b)) = noise {
        let _ = writeln!(text, "noise %  A {}, B {}", share(Some(a)), share(Some(b)));
    }
    if common.is_empty() {
        let why = format!(
            "A holds {}; B holds {}",
            quantity_names(a, &all_a),
            quantity_names(b, &all_b)
        );
        if noise.is_none() {
            return Err(Error::from(Fault::NotComparable(why)).into());
        }
        let _ = writeln!(
            text,
            "\nNothing else can be held against each other: {why}."
        );
    }
    for quantity in common {
        let one = |side: &JitterRecording| side_of(side, quantity, above_ns).map_err(Error::from);
        let (a, b) = (one(a)?, one(b)?);
        let d = binned_distances(&a, &b).map_err(Error::from)?;
        let js = d
            .js_bits
            .map_or_else(|| "-".to_owned(), |js| format!("{js:.4} bits"));
        let _ = writeln!(
            text,
            "\n{quantity}\n{}\n\n\
             of their distributions, as far as the bins tell: at least\n\
             Jensen-Shannon divergence    {js}\n\
             Kolmogorov-Smirnov distance  {:.4}",
            figures(&a, &b),
            d.ks
        );
    }
    Ok(text)
}

/// What has counts; a trace has the lengths of its events.
fn counted_in(recording: &JitterRecording) -> Vec<Quantity> {
    match recording {
        JitterRecording::Trace(_) => vec![Quantity::Length],
        JitterRecording::Distribution(all) => {
            let series: Vec<CpuCounts> = all
                .series
                .iter()
                .filter(|one| one.count() > 0)
                .cloned()
                .collect();
            quantities(&series)
        }
    }
}

fn quantity_names(recording: &JitterRecording, all: &[Quantity]) -> String {
    if all.is_empty() {
        let totals = matches!(recording, JitterRecording::Distribution(_));
        return if totals { "totals only" } else { "nothing" }.to_owned();
    }
    let names: Vec<String> = all.iter().map(Quantity::to_string).collect();
    names.join(", ")
}

fn side_of(
    recording: &JitterRecording,
    quantity: Quantity,
    above_ns: u64,
) -> Result<CountSample, Fault> {
    let counted = match recording {
        JitterRecording::Trace(trace) => {
            let events = trace.cpus.iter().flat_map(|cpu| &cpu.events);
            CountSample::of_lengths(events.map(|event| event.length_ns).collect())
        }
        JitterRecording::Distribution(all) => CountSample::of_series(&all.series, quantity),
    };
    match above_ns {
        0 => Ok(counted),
        ns => counted.above(ns),
    }
}

/// The share of the known time that was taken, of all CPUs together, at least
/// and at most, percent.
fn noise_pct(recording: &JitterRecording) -> Option<(f64, f64)> {
    let parts: Vec<(u64, (u64, u64))> = match recording {
        JitterRecording::Trace(trace) => {
            let noise = |cpu: &CpuTrace| (cpu.known_ns(), (cpu.noise_ns(), cpu.noise_ns()));
            trace.cpus.iter().map(noise).collect()
        }
        JitterRecording::Distribution(all) => {
            let noise = |one: &CpuCounts| one.known_ns.zip(one.noise_bounds_ns());
            all.series.iter().map(noise).collect::<Option<_>>()?
        }
    };
    let sum = |of: fn(&(u64, (u64, u64))) -> u64| parts.iter().map(|part| of(part) as f64).sum();
    let known_ns: f64 = sum(|part| part.0);
    let pct = |ns: f64| ns / known_ns * 100.0;
    let (least, most) = (sum(|part| part.1.0), sum(|part| part.1.1));
    (known_ns > 0.0).then(|| (pct(least), pct(most)))
}

fn figures(a: &CountSample, b: &CountSample) -> Table {
    let mut table = plain(["", "A", "B"]);
    table.add_row([
        "count".to_owned(),
        a.count().to_string(),
        b.count().to_string(),
    ]);
    let (a, b) = (a.quantiles(&QUANTILES_PCT), b.quantiles(&QUANTILES_PCT));
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        let of = |all: &Option<Vec<QuantileBound>>| match all.as_ref().map(|all| all[i]) {
            None => "-".to_owned(),
            Some(QuantileBound::Is(ns)) => time(ns as f64),
            Some(QuantileBound::Below(ns)) => format!("< {}", time(ns as f64)),
            Some(QuantileBound::NotBelow(ns)) => format!(">= {}", time(ns as f64)),
        };
        table.add_row([quantile_name(*part), of(&a), of(&b)]);
    }
    right(table)
}
