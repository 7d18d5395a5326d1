// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statistics of a profile as tables.

use std::fmt::Write as _;

use comfy_table::Table;
use sandbag_ui::quantity::Seconds;
use sandbag_ui::table::{name_columns, plain};

use crate::statistics::{LAGS, MOST_CORRELATED, ProfileStatistics, QUANTILES_PCT};

/// More CPUs than this do not fit beside each other.
const MATRIX: usize = 16;

pub(super) fn text(statistics: &ProfileStatistics) -> String {
    let mut text = format!(
        "\nIn {} pieces of {}:\n{}\n",
        statistics.steps,
        Seconds(statistics.step_ns),
        spread(statistics)
    );
    let _ = writeln!(text, "\nAutocorrelation\n{}", autocorrelation(statistics));
    let count = statistics.cpus.len();
    if (2..=MATRIX).contains(&count) {
        let _ = writeln!(
            text,
            "\nCorrelation between CPUs\n{}",
            correlation(statistics)
        );
    } else if count > MOST_CORRELATED {
        let _ = writeln!(
            text,
            "\nCorrelation between CPUs: left out above {MOST_CORRELATED} CPUs; select some \
             (--select)"
        );
    } else if count > MATRIX {
        let all: Vec<f64> = (0..count)
            .flat_map(|i| (0..i).filter_map(move |j| statistics.correlation[i][j]))
            .collect();
        if !all.is_empty() {
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let least = all.iter().copied().fold(1.0, f64::min);
            let most = all.iter().copied().fold(-1.0, f64::max);
            let _ = writeln!(
                text,
                "\nCorrelation between CPUs: {mean:.2} in the mean, {least:.2} to {most:.2}"
            );
        }
    }
    text
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn table(header: Vec<String>, rows: Vec<Vec<String>>) -> Table {
    let mut table = plain(header);
    table.add_rows(rows);
    name_columns(table)
}

fn spread(statistics: &ProfileStatistics) -> Table {
    let mut header: Vec<String> = ["CPU", "mean of pieces %", "sd"]
        .map(str::to_owned)
        .to_vec();
    header.extend(QUANTILES_PCT.map(|part| format!("p{part} %")));
    let rows = statistics.cpus.iter().map(|cpu| {
        let mut row = vec![
            cpu.cpu.to_string(),
            number(cpu.mean_pct, 2),
            number(cpu.sd_points, 2),
        ];
        for i in 0..QUANTILES_PCT.len() {
            row.push(number(cpu.quantiles_pct.map(|all| all[i]), 1));
        }
        row
    });
    table(header, rows.collect())
}

fn autocorrelation(statistics: &ProfileStatistics) -> Table {
    let mut header = vec!["CPU".to_owned()];
    header
        .extend(LAGS.map(|lag| Seconds(statistics.step_ns.saturating_mul(lag as u64)).to_string()));
    let rows = statistics.cpus.iter().map(|cpu| {
        let mut row = vec![cpu.cpu.to_string()];
        row.extend(cpu.autocorrelation.map(|r| number(r, 2)));
        row
    });
    table(header, rows.collect())
}

fn correlation(statistics: &ProfileStatistics) -> Table {
    let mut header = vec!["CPU".to_owned()];
    header.extend(statistics.cpus.iter().map(|cpu| cpu.cpu.to_string()));
    let count = statistics.cpus.len();
    let rows = statistics.cpus.iter().enumerate().map(|(i, cpu)| {
        let mut cells = vec![cpu.cpu.to_string()];
        let of = |j: usize| statistics.correlation[i.max(j)][i.min(j)];
        cells.extend((0..count).map(|j| number(of(j), 2)));
        cells
    });
    table(header, rows.collect())
}
