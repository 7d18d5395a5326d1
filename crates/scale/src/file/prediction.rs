// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the predictor says, beside what was measured. Pure.

use crate::bench::Slowdown;
use crate::predict::{self, Drift, Places, RankPrediction, Spread, Starts, Sync, TraceSource};
use sandbag_jitter::JitterTrace;

use crate::file::BenchOptions;

/// How far ranks were apart that had begun together.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonStart {
    /// At the end, from the first to the last, ns.
    pub end_ns: f64,
    /// After so many phases.
    pub phases: u64,
    /// Where in that they were, if it is known.
    pub places: Places,
}

/// What is predicted for the ranks that were measured.
#[derive(Debug, Clone, Default)]
pub struct RankModel {
    /// In their order; `None` if that could not be, which `remarks` tell why.
    pub points: Option<Vec<RankPrediction>>,
    /// What is to be said of it, in sentences.
    pub remarks: Vec<String>,
}

/// For the ranks that were measured, whose work begins like this.
#[must_use]
pub fn rank_model(
    trace: &JitterTrace,
    asked: &BenchOptions,
    found: &[Slowdown],
    starts: Starts,
    together: Option<CommonStart>,
) -> RankModel {
    let usual = predict::PredictOptions::default();
    let drift = |together: &CommonStart, times: f64| Drift {
        end_ns: (together.end_ns * times) as u64,
        spread: Spread::Uniform,
    };
    let (starts, drift) = match asked.sync {
        Sync::None => (starts, None),
        // Each phase begins at a position by chance.
        Sync::Phases(1) => (Starts::Any, None),
        // Over a longer run, so that it is a mean: of the part of the drift that
        // there is at each phase the same is met.
        Sync::Once => (starts, together.as_ref().map(|t| drift(t, 1.0))),
        // So far without being set back, in as many phases.
        Sync::Phases(_) => {
            let longer = |t: &CommonStart| usual.phases as f64 / t.phases.max(1) as f64;
            (Starts::Any, together.as_ref().map(|t| drift(t, longer(t))))
        }
    };
    if drift.is_none() && !matches!(asked.sync, Sync::None | Sync::Phases(1)) {
        return RankModel {
            points: None,
            remarks: vec!["none, for how far the ranks drifted apart was not measured".to_owned()],
        };
    }
    let options = predict::PredictOptions {
        quantum_ns: sandbag_ui::quantity::nanos(asked.quantum),
        ranks: found.iter().map(|one| u64::from(one.ranks)).collect(),
        sync: asked.sync,
        group: asked.group,
        starts,
        drift,
        places: together.map_or_else(Places::new, |together| together.places),
        seed: asked.seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..usual
    };
    let source = TraceSource { trace, share: 1 };
    match predict::predict(&[source], &options) {
        Ok(prediction) => RankModel {
            points: Some(prediction.points),
            remarks: prediction.warnings,
        },
        Err(error) => RankModel {
            points: None,
            remarks: vec![format!("none: {error}")],
        },
    }
}
