// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prediction on the terminal.

use std::fmt::Write as _;

use crate::predict::{Cost, Estimate, RankPrediction};
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::{percent, time};
use sandbag_ui::table::{name_columns, plain};
use sandbag_ui::text::visible;

use super::view::ScaleView;
use sandbag_ui::output;

/// Numbers of ranks for which classes of events are compared, at most.
const FEW: usize = 5;

/// Some of them: first and last, and between them evenly.
pub(super) fn some_ranks(all: &[u64]) -> Vec<u64> {
    let last = all.len().saturating_sub(1);
    let steps = FEW.min(all.len()).saturating_sub(1).max(1);
    let mut some: Vec<u64> = (0..=steps)
        .filter_map(|i| all.get(i * last / steps).copied())
        .collect();
    some.dedup();
    some
}

/// Writes it to standard output.
pub(super) fn print(shown: &ScaleView<'_>) -> Result<()> {
    Ok(output::print(text(shown))?)
}

fn text(shown: &ScaleView<'_>) -> String {
    let mut text = format!(
        "Slowdown in percent, mean of all phases of {} (95 % interval)\n",
        time(shown.options.quantum_ns as f64)
    );
    if shown.curves.len() == 1 {
        text.push_str("50 % to 99.9 %: so many of the phases are slowed down by no more\n");
    }
    text.push('\n');
    text += &match shown.curves {
        [one] => prediction_table(&one.prediction.points),
        _ => comparison_table(shown),
    };
    text.push('\n');
    if shown.points().any(|point| point.saturated) {
        text.push_str(
            "\n>= at least: so many ranks meet the greatest noise of the trace in nearly\nevery \
             phase, and it is too short to say what is rarer. Record for longer,\nor extrapolate \
             with --tail.\n",
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
    for classes in shown
        .classes
        .iter()
        .filter(|classes| !classes.costs.is_empty())
    {
        let _ = write!(
            text,
            "\nPoints saved without a class of events (nothing synchronised): {}\n{}\n",
            visible(&classes.name),
            costs(shown, &classes.costs)
        );
    }
    text
}

fn estimate(point: &RankPrediction) -> String {
    let least = if point.saturated { ">= " } else { "" };
    format!("{least}{}", with_interval(&point.mean))
}

fn with_interval(estimate: &Estimate) -> String {
    let mean = percent(estimate.slowdown_pct);
    match estimate.interval_pct {
        Some((low, high)) => format!("{mean} ({}-{})", percent(low), percent(high)),
        None => mean,
    }
}

/// One curve, with the distribution over phases.
fn prediction_table(points: &[RankPrediction]) -> String {
    let barrier = points.iter().any(|point| point.barrier_ns > 0.0);
    let tails = points.iter().any(|point| point.tail.is_some());
    let mut header = vec!["ranks", "slowdown %"];
    header.extend(["50 %", "90 %", "99 %", "99.9 %"]);
    header.extend(barrier.then_some("barrier"));
    header.extend(tails.then_some("with a tail %"));
    let mut table = plain(header);
    for point in points {
        let mut row = vec![point.ranks.to_string(), estimate(point)];
        row.extend(point.phases_pct.map(percent));
        row.extend(barrier.then(|| time(point.barrier_ns)));
        if tails {
            let tail = point.tail.as_ref();
            row.push(tail.map_or_else(|| "-".to_owned(), with_interval));
        }
        table.add_row(row);
    }
    name_columns(table).to_string()
}

/// Several, one column each.
fn comparison_table(shown: &ScaleView<'_>) -> String {
    let mut header = vec!["ranks".to_owned()];
    header.extend(
        shown
            .curves
            .iter()
            .map(|curve| visible(&curve.name).replace(", ", ",\n")),
    );
    let mut table = plain(header);
    for (i, ranks) in shown.options.ranks.iter().enumerate() {
        let mut row = vec![ranks.to_string()];
        let points = shown.curves.iter().map(|c| &c.prediction.points[i]);
        row.extend(points.map(estimate));
        table.add_row(row);
    }
    name_columns(table).to_string()
}

/// The class that costs most at the most ranks first; beside it its place by mean
/// noise.
fn costs(shown: &ScaleView<'_>, costs: &[Cost]) -> String {
    let fixed = ["class", "of the\nnoise %", "place by\nnoise"];
    let mut header = fixed.map(str::to_owned).to_vec();
    header.extend(shown.class_ranks.iter().map(|n| format!("{n}\nranks")));
    let mut table = plain(header);
    let ordered = output_order(costs);
    for cost in &ordered {
        let mut row = vec![visible(&cost.class), percent(cost.noise_pct)];
        row.push(place_by_noise(costs, cost).to_string());
        row.extend(cost.saves_points.iter().map(|points| percent(*points)));
        table.add_row(row);
    }
    let mut text = name_columns(table).to_string();
    let first = ordered.first().zip(shown.class_ranks.last());
    if let Some((cost, ranks)) = first
        && let Some(points) = cost.saves_points.last()
        && *points > 0.0
    {
        let _ = write!(
            text,
            "\nAt {ranks} ranks {} cost most:\nwithout them {} points are saved. By mean noise their \
             place is {} of {}.",
            visible(&cost.class),
            percent(*points),
            place_by_noise(costs, cost),
            costs.len()
        );
    }
    text
}

/// Which it is by its share of the noise, from 1.
pub(super) fn place_by_noise(costs: &[Cost], cost: &Cost) -> usize {
    let more = costs
        .iter()
        .filter(|other| other.noise_pct > cost.noise_pct);
    more.count() + 1
}

/// By what they cost at the most ranks.
pub(super) fn output_order(costs: &[Cost]) -> Vec<&Cost> {
    let at_most = |cost: &Cost| cost.saves_points.last().copied().unwrap_or(0.0);
    let mut order: Vec<_> = costs.iter().collect();
    order.sort_by(|a, b| at_most(b).total_cmp(&at_most(a)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_costs_most_need_not_take_most() {
        let cost = |class: &str, noise_pct, saves| Cost {
            class: class.to_owned(),
            noise_pct,
            saves_points: vec![0.1, saves],
        };
        let all = [cost("tick", 70.0, 1.0), cost("disk", 30.0, 9.0)];
        let order = output_order(&all);
        assert_eq!(order[0].class, "disk");
        let places = order.iter().map(|cost| place_by_noise(&all, cost));
        assert_eq!(places.collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn some_of_many_ranks() {
        let all: Vec<u64> = (0..=20).map(|power| 1 << power).collect();
        assert_eq!(some_ranks(&all), [1, 32, 1024, 32_768, 1_048_576]);
        assert_eq!(some_ranks(&[16]), [16]);
        assert_eq!(some_ranks(&[1, 2]), [1, 2]);
    }
}
