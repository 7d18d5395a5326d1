// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The prediction for the ranks that were measured. Pure.

use sandbag_jitter::JitterTrace;
use sandbag_ui::quantity::nanos;

use super::BenchOptions;
use crate::bench::{CommonStart, Slowdown};
use crate::predict::{
    self, Drift, Places, PredictOptions, RankPrediction, Spread, Starts, Sync, TraceSource,
};

/// The prediction for the ranks that were measured.
#[derive(Debug, Clone, Default)]
pub struct RankModel {
    /// In the order of the slowdowns; `None` if there is no prediction, which `remarks` explain.
    pub points: Option<Vec<RankPrediction>>,
    /// Warnings, in sentences.
    pub remarks: Vec<String>,
}

impl RankModel {
    fn none(why: &str) -> Self {
        Self {
            points: None,
            remarks: vec![format!("none: {why}")],
        }
    }
}

/// Predicts for ranks that were measured. `starts`: when work begins if ranks are not
/// synchronised. `together`: how far they spread after a common start, if that is known.
pub fn rank_model(
    trace: &JitterTrace,
    asked: &BenchOptions,
    found: &[Slowdown],
    starts: Starts,
    together: Option<CommonStart>,
) -> RankModel {
    let usual = PredictOptions::default();
    // The drift after `usual.phases` phases: a mean over a longer run than the measured one.
    let drift = together.as_ref().map(|together| {
        let times = match asked.sync {
            Sync::Phases(_) => usual.phases as f64 / together.phases.max(1) as f64,
            _ => 1.0,
        };
        Drift {
            end_ns: (together.end_ns * times) as u64,
            spread: Spread::Uniform,
        }
    });
    let (starts, drift) = match (asked.sync, drift) {
        (Sync::None, _) => (starts, None),
        // Each phase begins at a random position.
        (Sync::Phases(1), _) => (Starts::Any, None),
        (_, None) => {
            return RankModel::none("how far the ranks drifted apart was not measured");
        }
        (Sync::Once, drift) => (starts, drift),
        (Sync::Phases(_), drift) => (Starts::Any, drift),
    };
    let options = PredictOptions {
        quantum_ns: nanos(asked.quantum),
        ranks: found.iter().map(|one| u64::from(one.ranks)).collect(),
        sync: asked.sync,
        group: asked.group,
        in_turn: asked.sync == Sync::None,
        starts,
        drift,
        places: together.map_or_else(Places::new, |together| together.places),
        seed: asked.seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..usual
    };
    match predict::predict(&[TraceSource { trace, share: 1 }], &options) {
        Ok(prediction) => RankModel {
            points: Some(prediction.points),
            remarks: prediction.warnings,
        },
        Err(error) => RankModel::none(&error.to_string()),
    }
}
