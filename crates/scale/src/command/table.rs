// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prediction on the terminal.

use std::fmt::Write as _;

use sandbag_ui::quantity::{percent, time};
use sandbag_ui::text::visible;

use super::view::{
    ScaleView, by_cost, comparison_rows, cost_rows, place_by_noise, prediction_rows,
};

/// Numbers of ranks for which classes of events are compared, at most.
const FEW: usize = 5;

/// Some of the numbers of ranks: first and last, and evenly between them.
pub(super) fn some_ranks(all: &[u64]) -> Vec<u64> {
    let last = all.len().saturating_sub(1);
    let steps = FEW.min(all.len()).saturating_sub(1).max(1);
    let mut some: Vec<u64> = (0..=steps)
        .filter_map(|i| all.get(i * last / steps).copied())
        .collect();
    some.dedup();
    some
}

pub(super) fn text(shown: &ScaleView<'_>) -> String {
    let mut text = format!(
        "Slowdown in percent, mean of all phases of {} (95 % interval)\n",
        time(shown.options.quantum_ns as f64)
    );
    if shown.curves.len() == 1 {
        text.push_str("50 % to 99.9 %: percentiles of the slowdown over the phases\n");
    }
    let rows = match shown.curves {
        [one] => prediction_rows(&one.prediction.points),
        _ => comparison_rows(shown),
    };
    let _ = writeln!(text, "\n{}", rows.text());
    if shown.points().any(|point| point.saturated) {
        text.push_str(
            "\n>= the trace is too short to show the longest times: the figure rests on few long\n\
             events of it. It is mostly too low, and not a bound. Record for longer, or\n\
             extrapolate with --tail.\n",
        );
    }
    if let Some(tail) = shown.curves.iter().find_map(|curve| curve.prediction.tail) {
        let _ = writeln!(
            text,
            "\nTail above {} (shape {:.2}): an extrapolation of the greatest {} % of the noise.",
            time(tail.above_ns),
            tail.shape,
            percent(tail.share * 100.0),
        );
    }
    for classes in shown.with_costs() {
        let _ = writeln!(
            text,
            "\nPoints saved without a class of events (nothing synchronised): {}\n{}",
            visible(&classes.name),
            cost_rows(&classes.costs, shown.class_ranks).text()
        );
        let first = by_cost(&classes.costs).into_iter().next();
        if let Some((cost, ranks)) = first.zip(shown.class_ranks.last())
            && let Some(points) = cost.saves_points.last()
            && *points > 0.0
        {
            let _ = writeln!(
                text,
                "At {ranks} ranks {} cost most:\nwithout them {} points are saved. By mean noise \
                 their place is {} of {}.",
                visible(&cost.class),
                percent(*points),
                place_by_noise(&classes.costs, cost),
                classes.costs.len()
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_ranks() {
        let all: Vec<u64> = (0..=20).map(|power| 1 << power).collect();
        assert_eq!(some_ranks(&all), [1, 32, 1024, 32_768, 1_048_576]);
        assert_eq!(some_ranks(&[16]), [16]);
        assert_eq!(some_ranks(&[1, 2]), [1, 2]);
    }
}
