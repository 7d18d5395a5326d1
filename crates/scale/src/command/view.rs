// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a prediction's output: on the terminal, as a page or as a file.

use maud::{Markup, html};
use sandbag_ui::quantity::{percent, time};
use sandbag_ui::table::{name_columns, plain};
use sandbag_ui::text::visible;

use crate::predict::{Cost, Estimate, PredictOptions, Prediction, RankPrediction, Sync};

/// The prediction for a trace, or a mix of traces, and a synchronisation.
pub(super) struct Curve {
    pub name: String,
    pub traces: Vec<String>,
    pub sync: Sync,
    pub prediction: Prediction,
}

/// The costs of classes of events in a trace, or a mix of traces.
pub(super) struct Classes {
    pub name: String,
    pub costs: Vec<Cost>,
}

/// All of a prediction.
pub(super) struct ScaleView<'a> {
    pub curves: &'a [Curve],
    pub classes: &'a [Classes],
    /// Numbers of ranks for which classes are compared.
    pub class_ranks: &'a [u64],
    pub options: &'a PredictOptions,
}

impl ScaleView<'_> {
    /// All points of all curves.
    pub(super) fn points(&self) -> impl Iterator<Item = &RankPrediction> {
        self.curves
            .iter()
            .flat_map(|curve| &curve.prediction.points)
    }

    /// The traces or mixes of which classes have costs.
    pub(super) fn with_costs(&self) -> impl Iterator<Item = &Classes> {
        self.classes
            .iter()
            .filter(|classes| !classes.costs.is_empty())
    }
}

/// A table of the output. Lines of a head are separated by `\n`.
pub(super) struct Rows {
    /// The first column holds names.
    named: bool,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// For the terminal.
    pub(super) fn text(&self) -> String {
        let mut table = plain(&self.head);
        for row in &self.rows {
            table.add_row(row);
        }
        name_columns(table).to_string()
    }

    fn class(&self, column: usize) -> Option<&'static str> {
        (self.named && column == 0).then_some("text")
    }

    /// For the page.
    pub(super) fn html(&self) -> Markup {
        html! {
            div .table {
                table {
                    thead { tr {
                        @for (i, head) in self.head.iter().enumerate() {
                            @let mut lines = head.lines();
                            th class=[self.class(i)] {
                                (lines.next().unwrap_or_default())
                                @for line in lines { small { (line) } }
                            }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    td class=[self.class(i)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The points of one curve, with the distribution over phases.
pub(super) fn prediction_rows(points: &[RankPrediction]) -> Rows {
    let barrier = points.iter().any(|point| point.barrier_ns > 0.0);
    let tails = points.iter().any(|point| point.tail.is_some());
    let mut head = vec!["ranks", "slowdown %", "50 %", "90 %", "99 %", "99.9 %"];
    head.extend(barrier.then_some("barrier"));
    head.extend(tails.then_some("with a tail %"));
    let row = |point: &RankPrediction| {
        let mut row = vec![point.ranks.to_string(), mean(point)];
        row.extend(point.phases_pct.map(percent));
        row.extend(barrier.then(|| time(point.barrier_ns)));
        if tails {
            let tail = point.tail.as_ref();
            row.push(tail.map_or_else(|| "-".to_owned(), with_interval));
        }
        row
    };
    Rows {
        named: false,
        head: head.into_iter().map(str::to_owned).collect(),
        rows: points.iter().map(row).collect(),
    }
}

/// Several curves, a column each.
pub(super) fn comparison_rows(shown: &ScaleView<'_>) -> Rows {
    let names = shown.curves.iter().map(|curve| visible(&curve.name));
    let names = names.map(|name| name.replace(", ", ",\n"));
    let row = |(i, ranks): (usize, &u64)| {
        let points = shown.curves.iter().map(|c| &c.prediction.points[i]);
        std::iter::once(ranks.to_string())
            .chain(points.map(mean))
            .collect()
    };
    Rows {
        named: false,
        head: std::iter::once("ranks".to_owned()).chain(names).collect(),
        rows: shown.options.ranks.iter().enumerate().map(row).collect(),
    }
}

/// Costs of classes, in the order of [`by_cost`].
pub(super) fn cost_rows(costs: &[Cost], ranks: &[u64]) -> Rows {
    let mut head = ["class", "of the\nnoise %", "place by\nnoise"]
        .map(str::to_owned)
        .to_vec();
    head.extend(ranks.iter().map(|n| format!("{n}\nranks")));
    let row = |cost: &Cost| {
        let mut row = vec![visible(&cost.class), percent(cost.noise_pct)];
        row.push(place_by_noise(costs, cost).to_string());
        row.extend(cost.saves_points.iter().map(|points| percent(*points)));
        row
    };
    Rows {
        named: true,
        head,
        rows: by_cost(costs).into_iter().map(row).collect(),
    }
}

fn mean(point: &RankPrediction) -> String {
    let bound = if point.saturated { ">= " } else { "" };
    format!("{bound}{}", with_interval(&point.mean))
}

fn with_interval(estimate: &Estimate) -> String {
    let mean = percent(estimate.slowdown_pct);
    match estimate.interval_pct {
        Some((low, high)) => format!("{mean} ({}-{})", percent(low), percent(high)),
        None => mean,
    }
}

/// Place of a class by its share of the noise, from 1.
pub(super) fn place_by_noise(costs: &[Cost], cost: &Cost) -> usize {
    let more = costs
        .iter()
        .filter(|other| other.noise_pct > cost.noise_pct);
    more.count() + 1
}

/// By descending cost at the most ranks.
pub(super) fn by_cost(costs: &[Cost]) -> Vec<&Cost> {
    let at_most = |cost: &Cost| cost.saves_points.last().copied().unwrap_or(0.0);
    let mut order: Vec<_> = costs.iter().collect();
    order.sort_by(|a, b| at_most(b).total_cmp(&at_most(a)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_expensive_class_need_not_have_the_most_noise() {
        let cost = |class: &str, noise_pct, saves| Cost {
            class: class.to_owned(),
            noise_pct,
            saves_points: vec![0.1, saves],
        };
        let rows = cost_rows(&[cost("tick", 70.0, 1.0), cost("disk", 30.0, 9.0)], &[1, 9]);
        let places = rows.rows.iter().map(|row| (&row[0][..], &row[2][..]));
        assert_eq!(places.collect::<Vec<_>>(), [("disk", "2"), ("tick", "1")]);
    }
}
