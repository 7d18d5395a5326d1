// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From traces to points.

use super::options::{PredictOptions, TraceSource};
use super::prediction::{Prediction, RankPrediction};
use super::threads::map_each;
use super::warnings::{warn_of_left_out, warn_of_long_events, warn_of_tail};
use super::working::Working;
use crate::Result;

/// A point for each number of ranks.
pub(super) fn predict_points(
    sources: &[TraceSource<'_>],
    options: &PredictOptions,
) -> Result<Prediction> {
    let mut working = Working::new(sources, options)?;
    let ranks = &options.ranks;
    let points: Vec<RankPrediction> = match &working.units {
        // The threads work on one point.
        Some(units) => ranks
            .iter()
            .map(|n| working.synchronised_point(units, *n))
            .collect(),
        None => map_each(options.threads, ranks.len(), |i| {
            working.unsynchronised_point(ranks[i])
        }),
    };
    warn_of_left_out(&points, options, &mut working.warnings);
    warn_of_long_events(sources, &points, options, &mut working.warnings);
    warn_of_tail(&points, &mut working.warnings);
    Ok(Prediction {
        points,
        tail: working.tail,
        noise_pct: working.noise_pct,
        warnings: working.warnings,
    })
}
