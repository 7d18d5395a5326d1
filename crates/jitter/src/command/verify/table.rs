// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's table of a verification.

use std::fmt::Write as _;

use crate::replay::outcome::Quantiles;
use crate::stats::QUANTILES_PCT;
use crate::verify::HostNoise;
use crate::verify::matching::Tolerance;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{fit, plain, right};

use super::super::replay::{noise_text, signed};
use super::{EXACT_NS, VerifyRow};
use crate::tables::quantile_name;

/// All tables, for a screen of `width` columns.
pub fn text(
    rows: &[VerifyRow],
    tolerance: Tolerance,
    host: [&HostNoise; 2],
    width: Option<usize>,
) -> String {
    let mut text = String::new();
    let mut said = Vec::new();
    for row in rows {
        for (cpu, figures) in &row.measured {
            if !said.contains(cpu) {
                said.push(*cpu);
                let _ = writeln!(text, "CPU {cpu}, {}: {}", row.method, noise_text(*figures));
            }
        }
    }
    if let Some(inside) = rows.iter().find_map(|row| row.inside) {
        let _ = writeln!(
            text,
            "inside a program: injecting costs {} (nothing shorter can be injected), events begin \
             {} late (p50), {} (p90)",
            time(inside.injection_ns as f64),
            time(inside.start_ns as f64),
            time(inside.start_90_ns as f64),
        );
    }
    let _ = writeln!(
        text,
        "An event is reproduced if it begins no later than {} (nor earlier than {}) and its \
         length is right to {} or {} %.\nNothing shorter than {} can be seen.\n",
        time(tolerance.late_ns as f64),
        time(tolerance.early_ns as f64),
        time(tolerance.length_ns as f64),
        tolerance.length_share * 100.0,
        time(host[0].threshold_ns.max(host[1].threshold_ns)),
    );
    let _ = writeln!(text, "{}\n", fit(&match_table(rows), 1, width));
    let _ = writeln!(
        text,
        "Lengths, the host's own taken off\n{}\n",
        fit(&lengths(rows), 2, width)
    );
    let _ = writeln!(
        text,
        "By the injectors' own clocks, events with nothing in their way (inside: all)\n{}\n",
        fit(&injector_table(rows), 2, width)
    );
    for (name, host) in ["before", "after"].iter().zip(host) {
        let events: usize = host.cpus.iter().map(|(_, seen)| seen.len()).sum();
        let _ = writeln!(
            text,
            "The host alone, {name}: {events} events, {:.3} % of the time",
            host.pct()
        );
    }
    text
}

fn match_table(rows: &[VerifyRow]) -> comfy_table::Table {
    const HEAD: &str = ",asked,injected,merged,short,reproduced %,on time %,by chance %,late p50,\
                        p90,p99,longer p50,p90,p99,KL bits,KL back,JS bits,KS";
    let mut table = plain(HEAD.split(','));
    for row in rows {
        let j = &row.judged;
        let pct = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        let mut cells = vec![
            row.name.clone(),
            j.asked.to_string(),
            row.counts.injected.to_string(),
            row.counts.merged.to_string(),
            row.counts.below_floor.to_string(),
            pct(j.reproduced_pct),
            pct(j.on_time_pct),
            pct(j.by_chance_pct),
        ];
        for errors in [j.start_error, j.length_error] {
            let of: [fn(Quantiles) -> i64; 3] = [|q| q.p50_ns, |q| q.p90_ns, |q| q.p99_ns];
            cells.extend(of.map(|of| signed(errors, of)));
        }
        let d = j.distances;
        cells.extend([
            pct(d.map(|d| d.kl_bits)),
            pct(d.map(|d| d.kl_back_bits)),
            pct(d.map(|d| d.js_bits)),
            pct(d.map(|d| d.ks)),
        ]);
        table.add_row(cells);
    }
    right(table)
}

fn injector_table(rows: &[VerifyRow]) -> comfy_table::Table {
    let within = format!("within {}", time(EXACT_NS as f64));
    let mut header = ["", "CPU", "events", "late p50", "p90", "p99", "worst"]
        .map(str::to_owned)
        .to_vec();
    header.push(format!("{within} %"));
    header.extend(["longer p50", "p99"].map(str::to_owned));
    let mut table = plain(header);
    for row in rows {
        for one in &row.own {
            let count = one.start_error.map_or(0, |all| all.count);
            let mut cells = vec![row.name.clone(), one.cpu.to_string(), count.to_string()];
            let of: [fn(Quantiles) -> i64; 4] =
                [|q| q.p50_ns, |q| q.p90_ns, |q| q.p99_ns, |q| q.most_ns];
            cells.extend(of.map(|of| signed(one.start_error, of)));
            let exact = one.exact_pct.map(|pct| format!("{pct:.2}"));
            cells.push(exact.unwrap_or_else(|| "-".to_owned()));
            cells.push(signed(one.length_error, |q| q.p50_ns));
            cells.push(signed(one.length_error, |q| q.p99_ns));
            table.add_row(cells);
        }
    }
    right(table)
}

fn lengths(rows: &[VerifyRow]) -> comfy_table::Table {
    let mut header = vec![String::new(); 2];
    header.extend(QUANTILES_PCT.map(quantile_name));
    let mut table = plain(header);
    for row in rows {
        let sides = [("asked", row.judged.asked_ns), ("seen", row.judged.seen_ns)];
        for (side, quantiles) in sides {
            let mut cells = vec![row.name.clone(), side.to_owned()];
            match quantiles {
                Some(all) => cells.extend(all.map(|ns| time(ns as f64))),
                None => cells.extend(QUANTILES_PCT.map(|_| "-".to_owned())),
            }
            table.add_row(cells);
        }
    }
    right(table)
}
