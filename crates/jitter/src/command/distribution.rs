// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A distribution as `sandbag jitter show` shows it.

use std::fmt::Write as _;

use crate::stats::QUANTILES_PCT;
use crate::{CpuCounts, Distribution, Quantile, Quantity};
use comfy_table::Table;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{plain, right};
use sandbag_ui::text::visible;

use super::bars::decades;
use crate::tables::quantile_name;

/// The whole text.
pub(super) fn text(all: &Distribution, name: &str) -> String {
    let mut text = format!(
        "{}: counted by {}; no single events\n\n{}\n",
        visible(name),
        visible(&all.recorder),
        table(&all.series)
    );
    let _ = writeln!(text, "\n{}", resolution(&all.series));
    if let Some(causes) = causes(&all.series) {
        let _ = writeln!(text, "\nCauses that were seen\n{causes}");
    }
    for quantity in quantities(&all.series) {
        let these = || {
            all.series
                .iter()
                .filter(move |one| one.quantity.is_as(quantity))
        };
        if these().all(|one| one.bins.is_empty()) {
            continue;
        }
        let bins = these().flat_map(|one| &one.bins);
        let bins = bins.map(|bin| (bin.until_ns - 1, bin.count));
        let beyond = these().filter_map(|one| one.beyond);
        let beyond = beyond.map(|beyond| (beyond.from_ns, beyond.count));
        let bars = decades(bins.chain(beyond));
        let _ = writeln!(
            text,
            "\nCounted: {quantity}, by the end of their bin\n{bars}"
        );
    }
    text
}

/// What is counted, each once.
pub(super) fn quantities(series: &[CpuCounts]) -> Vec<Quantity> {
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

/// A share that may be known only to lie between two.
pub(super) fn share(bounds: Option<(f64, f64)>) -> String {
    match bounds {
        None => "-".to_owned(),
        Some((least, most)) if least == most => format!("{least:.4}"),
        Some((least, most)) => format!("{least:.4} to {most:.4}"),
    }
}

fn table(series: &[CpuCounts]) -> Table {
    let mut header = ["CPU", "of", "known", "count", "noise %"]
        .map(str::to_owned)
        .to_vec();
    let quantiles = || QUANTILES_PCT.iter().filter(|part| **part < 100.0);
    header.extend(quantiles().map(|part| quantile_name(*part)));
    header.push("longest".to_owned());
    // Noise of a stretch of time is that of several events.
    let of_event = |one: &CpuCounts| {
        let is_noise = matches!(one.quantity, Quantity::Noise { .. });
        one.longest_ns.filter(|_| is_noise)
    };
    let names_event = series.iter().any(|one| of_event(one).is_some());
    if names_event {
        header.push("longest event".to_owned());
    }
    let shown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
    let mut table = plain(header);
    for one in series {
        // Totals alone count nothing that could be shown.
        let counted = !one.bins.is_empty() || one.beyond.is_some();
        let mut row = vec![
            one.cpu.to_string(),
            short(one.quantity),
            shown(one.known_ns),
            if counted {
                one.count().to_string()
            } else {
                "-".to_owned()
            },
            share(one.noise_pct()),
        ];
        row.extend(quantiles().map(|part| quantile(one.quantile(*part))));
        row.push(match one.longest_ns {
            Some(ns) if of_event(one).is_none() => time(ns as f64),
            _ => quantile(one.quantile(100.0)),
        });
        if names_event {
            row.push(shown(of_event(one)));
        }
        table.add_row(row);
    }
    right(table)
}

fn quantile(quantile: Option<Quantile>) -> String {
    match quantile {
        None => "-".to_owned(),
        Some(Quantile::Within(bin)) => format!("< {}", time(bin.until_ns as f64)),
        Some(Quantile::NotBelow(ns)) => format!(">= {}", time(ns as f64)),
    }
}

fn resolution(series: &[CpuCounts]) -> String {
    let widths = series.iter().filter_map(CpuCounts::resolution_ns);
    let widths = widths.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let Some((narrowest, widest)) = widths else {
        return "The file holds totals only: no quantiles.".to_owned();
    };
    let mut text = if narrowest == widest {
        format!("Bins are {} wide", time(widest as f64))
    } else {
        format!(
            "Bins are {} to {} wide",
            time(narrowest as f64),
            time(widest as f64)
        )
    };
    text += ": a quantile is given as the end of its bin (<).";
    let beyond = series
        .iter()
        .filter_map(|one| one.beyond)
        .map(|beyond| beyond.count);
    let beyond = beyond.fold(0, u64::saturating_add);
    if beyond > 0 {
        let _ = write!(
            text,
            "\nBeyond the last bin are {beyond}, of which no more is known (>=)."
        );
    }
    text
}

fn causes(series: &[CpuCounts]) -> Option<Table> {
    let mut table = plain(["CPU", "hardware", "NMI", "IRQ", "softirq", "thread"]);
    let mut any = false;
    for one in series {
        if let Some(causes) = one.causes {
            any = true;
            let counts = [
                u64::from(one.cpu),
                causes.hardware,
                causes.nmi,
                causes.irq,
                causes.softirq,
                causes.thread,
            ];
            table.add_row(counts.map(|n| n.to_string()));
        }
    }
    any.then(|| right(table))
}
