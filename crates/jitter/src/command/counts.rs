// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `show` and `compare` for files that hold counts, not events.

use std::fmt::Write as _;

use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;
use sandbag_ui::text::visible;

use super::bars::decades;
use crate::import::JitterRecording;
use crate::stats::{CountSample, QUANTILES_PCT, binned_distances};
use crate::tables::{TextTable, cell, quantile_name, time_cell};
use crate::{CpuCounts, CpuTrace, Distribution, Error, Fault, Quantity};

/// The text of `show`.
pub(super) fn text(all: &Distribution, name: &str) -> String {
    let mut text = format!(
        "{}: counted by {}; no single events\n\n{}\n\n{}\n",
        visible(name),
        visible(&all.recorder),
        table(&all.series).terminal(),
        resolution(&all.series)
    );
    let causes = causes(&all.series);
    if !causes.is_empty() {
        let _ = writeln!(text, "\nOccurrences of causes\n{}", causes.terminal());
    }
    for quantity in quantities(&all.series) {
        let series = || {
            all.series
                .iter()
                .filter(move |one| one.quantity.is_as(quantity))
        };
        if series().all(|one| one.bins.is_empty()) {
            continue;
        }
        let bins = series().flat_map(|one| &one.bins);
        let bins = bins.map(|bin| (bin.until_ns - 1, bin.count));
        let beyond = series().filter_map(|one| one.beyond);
        let bars = decades(bins.chain(beyond.map(|beyond| (beyond.from_ns, beyond.count))));
        let _ = writeln!(
            text,
            "\nCounted: {quantity}, by the end of their bin\n{bars}"
        );
    }
    text
}

/// The quantities of all series, each once.
fn quantities<'a>(series: impl IntoIterator<Item = &'a CpuCounts>) -> Vec<Quantity> {
    let mut all: Vec<Quantity> = Vec::new();
    for one in series {
        if !all.iter().any(|quantity| quantity.is_as(one.quantity)) {
            all.push(one.quantity);
        }
    }
    all
}

fn short(quantity: Quantity) -> String {
    match quantity {
        Quantity::Length => "length".to_owned(),
        Quantity::InterruptLatency => "interrupt late".to_owned(),
        Quantity::ThreadLatency => "thread late".to_owned(),
        Quantity::ProgramLatency => "program late".to_owned(),
        Quantity::Noise { quantum_ns } => format!("noise in {}", time(quantum_ns as f64)),
    }
}

/// A share, or its bounds.
fn share((least, most): (f64, f64)) -> String {
    if least == most {
        format!("{least:.4}")
    } else {
        format!("{least:.4} to {most:.4}")
    }
}

fn table(series: &[CpuCounts]) -> TextTable {
    let is_noise = |one: &CpuCounts| matches!(one.quantity, Quantity::Noise { .. });
    // Noise of a quantum is the sum of several events.
    let longest_event = |one: &CpuCounts| one.longest_ns.filter(|_| is_noise(one));
    let names_event = series.iter().any(|one| longest_event(one).is_some());
    let mut heads = ["CPU", "of", "known", "count", "noise %"]
        .map(str::to_owned)
        .to_vec();
    heads.extend(QUANTILES_PCT.map(quantile_name));
    heads.extend(names_event.then(|| "longest event".to_owned()));
    let mut table = TextTable::new(heads);
    for one in series {
        let is_counted = !one.bins.is_empty() || one.beyond.is_some();
        let mut row = vec![
            cell(one.cpu),
            Some(short(one.quantity)),
            one.known_ns.and_then(time_cell),
            is_counted.then(|| one.count().to_string()),
            one.noise_pct().map(share),
        ];
        row.extend(QUANTILES_PCT.map(|part| match one.longest_ns {
            Some(ns) if part == 100.0 && !is_noise(one) => time_cell(ns),
            _ => one.quantile(part).map(|quantile| quantile.to_string()),
        }));
        if names_event {
            row.push(longest_event(one).and_then(time_cell));
        }
        table.add(row);
    }
    table
}

fn resolution(series: &[CpuCounts]) -> String {
    let widths = series.iter().filter_map(CpuCounts::resolution_ns);
    let widths = widths.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let Some((narrowest, widest)) = widths else {
        return "The file holds totals only: no quantiles.".to_owned();
    };
    let width = if narrowest == widest {
        time(widest as f64)
    } else {
        format!("{} to {}", time(narrowest as f64), time(widest as f64))
    };
    let mut text = format!("Bins are {width} wide: a quantile is given as the end of its bin (<).");
    let beyond = series.iter().filter_map(|one| one.beyond);
    let beyond = beyond
        .map(|beyond| beyond.count)
        .fold(0, u64::saturating_add);
    if beyond > 0 {
        let _ = write!(text, "\n{beyond} values lie above the last bin (>=).");
    }
    text
}

fn causes(series: &[CpuCounts]) -> TextTable {
    let mut table = TextTable::new(["CPU", "hardware", "NMI", "IRQ", "softirq", "thread"]);
    for one in series {
        if let Some(of) = one.causes {
            let counts = [of.hardware, of.nmi, of.irq, of.softirq, of.thread];
            table.add([u64::from(one.cpu)].into_iter().chain(counts).map(cell));
        }
    }
    table
}

/// The text of `compare`: the share of noise, where both have one, and each quantity that
/// both count.
pub(super) fn compare(a: &JitterRecording, b: &JitterRecording, above_ns: u64) -> Result<String> {
    let noise = noise_pct(a, above_ns).zip(noise_pct(b, above_ns));
    let (counted_a, counted_b) = (counted_in(a), counted_in(b));
    let is_in_b = |one: &&Quantity| counted_b.iter().any(|other| other.is_as(**one));
    let common: Vec<&Quantity> = counted_a.iter().filter(is_in_b).collect();
    let mut text = String::new();
    if let Some((a, b)) = noise {
        let _ = writeln!(text, "noise %  A {}, B {}", share(a), share(b));
    }
    if common.is_empty() {
        let names = |all: &[Quantity]| match all {
            [] => "totals only".to_owned(),
            all => all
                .iter()
                .map(Quantity::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let why = format!(
            "A holds {}; B holds {}",
            names(&counted_a),
            names(&counted_b)
        );
        if noise.is_none() {
            return Err(Error::from(Fault::NotComparable(why)).into());
        }
        let _ = writeln!(text, "\nNothing else can be compared: {why}.");
    }
    for quantity in common {
        let one = |side: &JitterRecording| sample(side, *quantity, above_ns);
        let (a, b) = (one(a).map_err(Error::from)?, one(b).map_err(Error::from)?);
        let d = binned_distances(&a, &b).map_err(Error::from)?;
        let js = d
            .js_bits
            .map_or_else(|| "-".to_owned(), |js| format!("{js:.4} bits"));
        let _ = writeln!(
            text,
            "\n{quantity}\n{}\n\n\
             lower bounds of the distances of their distributions\n\
             Jensen-Shannon divergence    {js}\n\
             Kolmogorov-Smirnov distance  {:.4}",
            figures(&a, &b).terminal(),
            d.ks
        );
    }
    Ok(text)
}

/// The quantities with counts; a trace has the lengths of its events.
fn counted_in(recording: &JitterRecording) -> Vec<Quantity> {
    match recording {
        JitterRecording::Trace(_) => vec![Quantity::Length],
        JitterRecording::Distribution(all) => {
            quantities(all.series.iter().filter(|one| one.count() > 0))
        }
    }
}

fn sample(
    recording: &JitterRecording,
    quantity: Quantity,
    above_ns: u64,
) -> Result<CountSample, Fault> {
    let sample = match recording {
        JitterRecording::Trace(trace) => CountSample::of_lengths(trace.lengths_ns()),
        JitterRecording::Distribution(all) => CountSample::of_series(&all.series, quantity),
    };
    match above_ns {
        0 => Ok(sample),
        ns => sample.above(ns),
    }
}

/// Bounds of the noise of all CPUs together, percent of the known time; of a trace, whose
/// shorter events are no longer there, and of counts by what is at least `above_ns` long.
fn noise_pct(recording: &JitterRecording, above_ns: u64) -> Option<(f64, f64)> {
    let parts: Vec<(u64, (u64, u64))> = match recording {
        JitterRecording::Trace(trace) => {
            let noise = |cpu: &CpuTrace| (cpu.known_ns(), (cpu.noise_ns(), cpu.noise_ns()));
            trace.cpus.iter().map(noise).collect()
        }
        JitterRecording::Distribution(all) => {
            let noise = |one: &CpuCounts| one.known_ns.zip(one.above(above_ns)?.noise_bounds_ns());
            all.series.iter().map(noise).collect::<Option<_>>()?
        }
    };
    let sum = |of: fn(&(u64, (u64, u64))) -> u64| -> f64 {
        parts.iter().map(|part| of(part) as f64).sum()
    };
    let known_ns = sum(|part| part.0);
    let pct = |ns: f64| ns / known_ns * 100.0;
    (known_ns > 0.0).then(|| (pct(sum(|part| part.1.0)), pct(sum(|part| part.1.1))))
}

fn figures(a: &CountSample, b: &CountSample) -> TextTable {
    let mut table = TextTable::new(["", "A", "B"]);
    table.add([cell("count"), cell(a.count()), cell(b.count())]);
    let (a, b) = (a.quantiles(&QUANTILES_PCT), b.quantiles(&QUANTILES_PCT));
    for (i, part) in QUANTILES_PCT.iter().enumerate() {
        let of = |all: &Option<Vec<_>>| all.as_ref().and_then(|all| cell(all[i]));
        table.add([Some(quantile_name(*part)), of(&a), of(&b)]);
    }
    table
}
