// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows for people.

use super::cell::NodeCell;
use super::pair::NodeRow;
use sandbag_stats::{median, range};

use super::work::WorkKind;

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
pub(super) fn line(cell: &NodeCell, rows: &[&NodeRow]) -> Vec<String> {
    let all = |of: fn(&NodeRow) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(|row| of(row)).collect()
    };
    let off = |ratios: &[f64]| spread(ratios, |ratio| (ratio / cell.speed - 1.0) * 100.0);
    let rates = all(|row| row.rate);
    let mut line = vec![
        cell.method.clone(),
        cell.cpus.to_string(),
        cell.speed.to_string(),
        match cell.kind {
            WorkKind::Sleep => "compute, sleep, compute".to_owned(),
            kind => format!("{} {}", cell.tasks, kind.name()),
        },
        median(&rates).map_or_else(|| "-".to_owned(), |r| format!("{r:.4}")),
        off(&rates),
        off(&all(|row| row.cpu)),
        off(&all(|row| row.left)),
        spread(&all(|row| row.others), |share| share * 100.0),
    ];
    if let Some(failed) = rows.iter().find_map(|row| row.failed.as_ref()) {
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
