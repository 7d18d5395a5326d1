// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a prediction shows, on the terminal, as a page or as a file.

use crate::predict::{Cost, PredictOptions, Prediction, RankPrediction, Sync};

/// A trace and a synchronisation, or a mix of traces.
pub(super) struct Curve {
    /// What it is called.
    pub name: String,
    /// The trace or traces.
    pub traces: Vec<String>,
    pub sync: Sync,
    /// What was found.
    pub prediction: Prediction,
}

/// What classes of events cost in a trace.
pub(super) struct Classes {
    /// The trace or traces.
    pub name: String,
    pub costs: Vec<Cost>,
}

/// All that there is to show.
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
}

/// Each text once, in the order of their first places.
pub(super) fn first_of_each<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut each: Vec<&str> = Vec::new();
    for text in all {
        if !each.contains(&text.as_str()) {
            each.push(text);
        }
    }
    each
}
