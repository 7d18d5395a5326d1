// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows for people.

use super::pair::Row;
use sandbag_stats::{median, range};

use super::work::Kind;

/// Headings of [`line`].
pub(super) const HEADER: [&str; 9] = [
    "method",
    "CPUs",
    "speed",
    "program",
    "rate, slowed to unslowed",
    "off proportional by work, %",
    "by CPU time, %",
    "left by the method, off asked, %",
    "others, points",
];

/// What a cell came to.
pub(super) fn line(row: &Row) -> Vec<String> {
    let cell = &row.cell;
    let off = |ratios: &[f64]| spread(ratios, |ratio| (ratio / cell.speed - 1.0) * 100.0);
    let mut line = vec![
        cell.method.clone(),
        cell.cpus.to_string(),
        cell.speed.to_string(),
        match cell.kind {
            Kind::Processes => format!("{} processes", cell.tasks),
            Kind::Threads => format!("{} threads", cell.tasks),
            Kind::Sleep => "compute, sleep, compute".to_owned(),
        },
        median(&row.rate).map_or_else(|| "-".to_owned(), |r| format!("{r:.4}")),
        off(&row.rate),
        off(&row.cpu),
        off(&row.left),
        spread(&row.others, |share| share * 100.0),
    ];
    if let Some(failed) = &row.failed {
        line[4] = format!("failed: {failed}");
    }
    line
}

/// Median, least and greatest.
fn spread(values: &[f64], figure: impl Fn(f64) -> f64) -> String {
    let values: Vec<f64> = values.iter().copied().map(figure).collect();
    let Some(middle) = median(&values) else {
        return "-".to_owned();
    };
    let (least, most) = range(&values).unwrap_or((middle, middle));
    format!("{middle:+.2} ({least:+.2}..{most:+.2})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_with_its_spread() {
        let text = spread(&[0.5, 0.49, 0.52], |ratio| (ratio / 0.5 - 1.0) * 100.0);
        assert_eq!(text, "+0.00 (-2.00..+4.00)");
        assert_eq!(spread(&[], |x| x), "-");
    }
}
