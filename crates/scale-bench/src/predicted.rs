// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the predictor says, beside what was measured. Pure.

use sandbag_jitter::Trace;
use sandbag_scale::bench::Slowdown;
use sandbag_scale::predict::{self, Point, Source, Starts, Sync};

use crate::BenchOptions;

/// For the ranks that were measured, whose work begins like this. `None` where it
/// needs what is not known.
#[must_use]
pub fn predicted(
    trace: &Trace,
    asked: &BenchOptions,
    found: &[Slowdown],
    starts: Starts,
) -> Option<Vec<Point>> {
    let starts = match asked.sync {
        Sync::None => starts,
        // Each phase begins at a position by chance.
        Sync::Phases(1) => Starts::Any,
        _ => return None,
    };
    let options = predict::Options {
        quantum_ns: sandbag_report::quantity::nanos(asked.quantum),
        ranks: found.iter().map(|one| u64::from(one.ranks)).collect(),
        sync: asked.sync,
        group: asked.group,
        starts,
        seed: asked.seed,
        ..predict::Options::default()
    };
    let source = Source { trace, share: 1 };
    let prediction = predict::predict(&[source], &options).ok()?;
    Some(prediction.points)
}
