// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which values of a factor were measured, the defaults among them. Pure.

use super::factor::{Case, Factor, PERIOD, SLICE, WEIGHT};
use crate::row::{Row, grouped};

/// The figure that says how well a load is held.
pub const ERROR: &str = "mean_abs_points";
/// And the one that says how long others wait.
pub const LATENCY: &str = "p99_us";

/// Defaults of methods: the factor, the value by order and by name.
pub const DEFAULTS: [(&str, &str, f64, &str); 5] = [
    // At the 50 % of the base case; it follows the level.
    ("pace", PERIOD, 10.0, "10"),
    ("pace", WEIGHT, f64::INFINITY, "headroom"),
    ("pace", SLICE, 100.0, "100"),
    ("quota", PERIOD, 20.0, "20"),
    ("hogs", PERIOD, 10.0, "10"),
];

pub fn of<'a>(rows: &'a [Row], key: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.cell == key).collect()
}

/// A value of a factor that was measured with a method.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    pub order: f64,
    pub label: String,
    pub key: String,
}

/// Those there are, ascending. Where the method's own value was measured in the
/// base case only, that is one of them.
pub fn levels(rows: &[Row], factor: &Factor, method: &str) -> Vec<Level> {
    let mut levels: Vec<Level> = grouped(rows, |row| row.cell.clone())
        .iter()
        .filter_map(|(key, _)| Case::of(key))
        .filter(|case| case.factor == factor.name && case.method == method)
        .map(|case| Level {
            order: case.value,
            label: factor.label(case.value),
            key: case.key(),
        })
        .collect();
    let own = DEFAULTS
        .iter()
        .find(|(m, f, ..)| *m == method && *f == factor.name);
    if let Some((_, _, order, label)) = own {
        let key = Case::base(method).key();
        let there = levels.iter().any(|level| level.label == *label);
        // Alone it is no figure against anything.
        if !there && !levels.is_empty() && rows.iter().any(|row| row.cell == key) {
            levels.push(Level {
                order: *order,
                label: (*label).to_owned(),
                key,
            });
        }
    }
    levels.sort_by(|a, b| a.order.total_cmp(&b.order));
    levels
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::factor::factor;
    use super::*;
    use crate::row::tests::row;

    pub(crate) fn measured(cell: &str, error: f64, p99: f64) -> Row {
        let mut row = row(0, 0.0, 4.0);
        row.cell = cell.to_owned();
        if error > 0.0 {
            row.figures.insert(ERROR.to_owned(), error);
        }
        row.figures.insert(LATENCY.to_owned(), p99);
        row
    }

    #[test]
    fn the_own_value_of_a_method_is_taken_from_the_base_case_once() {
        let mut rows = vec![
            measured("load/50/pace", 0.01, 40.0),
            measured("slice/0/pace", 0.01, 3900.0),
        ];
        let labels = |rows: &[Row]| -> Vec<String> {
            let levels = levels(rows, factor(SLICE).unwrap(), "pace");
            levels.into_iter().map(|level| level.key).collect()
        };
        assert_eq!(labels(&rows), ["slice/0/pace", "load/50/pace"]);
        rows.push(measured("slice/100/pace", 0.01, 40.0));
        assert_eq!(labels(&rows), ["slice/0/pace", "slice/100/pace"]);
        assert!(levels(&rows, factor(WEIGHT).unwrap(), "pace").is_empty());
    }
}
