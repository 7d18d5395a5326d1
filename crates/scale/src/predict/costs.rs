// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of classes of events: the prediction without each of them.

use sandbag_jitter::{CpuTrace, JitterTrace};

use super::Sync;
use super::classes::{Cost, EventClass};
use super::options::{PredictOptions, TraceSource};
use super::working::Working;
use crate::Result;

pub(super) fn costs(
    sources: &[TraceSource<'_>],
    options: &PredictOptions,
    classes: &[EventClass],
) -> Result<Vec<Cost>> {
    let options = PredictOptions {
        sync: Sync::None,
        intervals: false,
        tail: false,
        ..options.clone()
    };
    let slowdowns = |sources: &[TraceSource<'_>]| -> Result<Vec<f64>> {
        let found = Working::new(sources, &options)?.prediction()?;
        Ok(found.points.iter().map(|p| p.mean.slowdown_pct).collect())
    };
    let whole = slowdowns(sources)?;
    let all = sources.iter().flat_map(|source| &source.trace.cpus);
    let noise_ns: u64 = all.map(CpuTrace::noise_ns).sum();
    let mut costs = Vec::new();
    for class in classes {
        let mut gone_ns = 0;
        let without: Vec<JitterTrace> = sources
            .iter()
            .map(|source| {
                let cpu = |cpu: &CpuTrace| match class.remove(cpu) {
                    Some((without, ns)) => {
                        gone_ns += ns;
                        without
                    }
                    None => cpu.clone(),
                };
                JitterTrace {
                    cpus: source.trace.cpus.iter().map(cpu).collect(),
                    header: source.trace.header.clone(),
                    notes: source.trace.notes.clone(),
                    attribution: None,
                    warnings: Vec::new(),
                }
            })
            .collect();
        if gone_ns == 0 {
            continue;
        }
        let left: Vec<TraceSource<'_>> = without
            .iter()
            .zip(sources)
            .map(|(trace, source)| TraceSource { trace, ..*source })
            .collect();
        let left = slowdowns(&left)?;
        costs.push(Cost {
            class: class.name.clone(),
            noise_pct: gone_ns as f64 / noise_ns.max(1) as f64 * 100.0,
            saves_points: whole.iter().zip(left).map(|(a, b)| a - b).collect(),
        });
    }
    Ok(costs)
}
