// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the predictor says, beside what was measured. Pure.

use sandbag_jitter::Trace;
use sandbag_scale::bench::Slowdown;
use sandbag_scale::predict::{self, Drift, Places, Point, Source, Spread, Starts, Sync};

use crate::BenchOptions;

/// How far ranks were apart that had begun together.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// At the end, from the first to the last, ns.
    pub end_ns: f64,
    /// After so many phases.
    pub phases: u64,
    /// Where in that they were, if it is known.
    pub places: Places,
}

/// For the ranks that were measured, whose work begins like this. `None` where it
/// needs what is not known.
#[must_use]
pub fn predicted(
    trace: &Trace,
    asked: &BenchOptions,
    found: &[Slowdown],
    starts: Starts,
    together: Option<Together>,
) -> Option<Vec<Point>> {
    let usual = predict::Options::default();
    let drift = |together: &Together, times: f64| Drift {
        end_ns: (together.end_ns * times) as u64,
        spread: Spread::Uniform,
    };
    let (starts, drift) = match asked.sync {
        Sync::None => (starts, None),
        // Each phase begins at a position by chance.
        Sync::Phases(1) => (Starts::Any, None),
        // Over a longer run, so that it is a mean: of the part of the drift that
        // there is at each phase the same is met.
        Sync::Once => (starts, Some(drift(together.as_ref()?, 1.0))),
        // So far without being set back, in as many phases.
        Sync::Phases(_) => {
            let together = together.as_ref()?;
            let longer = usual.phases as f64 / together.phases.max(1) as f64;
            (Starts::Any, Some(drift(together, longer)))
        }
    };
    let options = predict::Options {
        quantum_ns: sandbag_report::quantity::nanos(asked.quantum),
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
    let source = Source { trace, share: 1 };
    let prediction = predict::predict(&[source], &options).ok()?;
    Some(prediction.points)
}
