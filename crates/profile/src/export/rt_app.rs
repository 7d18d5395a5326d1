// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads of rt-app (doc/tutorial.txt there): a task pinned to each CPU
//! that runs for a part of every period and sleeps until the next.
//!
//! rt-app's tasks are ordinary ones: what they get beside a busy program is the
//! scheduler's to say, unlike the loads that sandbag holds.

use std::io::{BufWriter, Write};

use serde_json::{Map, Value, json};

use crate::number::plain_seconds;
use crate::{Result, Steps};

use super::{ExportReport, io};

/// The period of a task, us, where a step is a multiple of it; as `pace`.
const PERIOD_US: f64 = 20_000.0;

/// A stretch of equal load on one CPU.
struct Phase {
    length_us: f64,
    load_pct: f64,
}

pub(super) fn write(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let mut report = ExportReport::default();
    let mut phases: Vec<Vec<Phase>> = cpus.iter().map(|_| Vec::new()).collect();
    let (mut unknown_ns, mut end_ns) = (0u64, 0);
    while let Some(step) = steps.next_step()? {
        end_ns = step.end_ns;
        let length_us = step.length_ns() as f64 / 1e3;
        for (cell, phases) in step.cells.iter().zip(&mut phases) {
            if cell.is_none() {
                unknown_ns = unknown_ns.saturating_add(step.length_ns());
            }
            let load_pct = cell.map_or(0.0, |cell| cell.load_pct);
            match phases.last_mut() {
                Some(last) if last.load_pct == load_pct => last.length_us += length_us,
                _ => {
                    report.steps += 1;
                    phases.push(Phase {
                        length_us,
                        load_pct,
                    });
                }
            }
        }
    }
    if unknown_ns > 0 {
        report.lost.push(format!(
            "{} s (summed over the CPUs) of unknown load were written as sleep",
            plain_seconds(unknown_ns)
        ));
    }
    if steps.header().has_steal {
        report.lost.push("steal is not written".into());
    }
    report.lost.push(
        "rt-app computes for a share of each period of its own speed: calibrate it on the CPUs \
         that it is to load"
            .into(),
    );
    let tasks: Map<String, Value> = cpus
        .iter()
        .zip(&phases)
        .map(|(cpu, phases)| (format!("cpu{cpu}"), task(*cpu, phases)))
        .collect();
    let all = json!({
        "tasks": tasks,
        "global": {
            "duration": end_ns.div_ceil(crate::NS_PER_S),
            "default_policy": "SCHED_OTHER",
            "calibration": format!("CPU{}", cpus.first().copied().unwrap_or(0)),
        },
    });
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &all).map_err(|e| io(e.into()))?;
    writeln!(out).and_then(|()| out.flush()).map_err(io)?;
    Ok(report)
}

fn task(cpu: u32, phases: &[Phase]) -> Value {
    let each = phases.iter().enumerate().map(|(i, phase)| {
        let name = format!("p{i}");
        let length_us = phase.length_us.round();
        if phase.load_pct == 0.0 {
            return (name, json!({"loop": 1, "sleep": length_us as u64}));
        }
        // Whole periods, as near to the usual one as the length allows.
        let loops = (length_us / PERIOD_US).round().max(1.0);
        let period_us = length_us / loops;
        let run_us = (period_us * phase.load_pct / 100.0).round().max(1.0);
        (
            name,
            json!({
                "loop": loops as u64,
                "run": run_us as u64,
                "timer": {"ref": "unique", "period": period_us.round().max(1.0) as u64},
            }),
        )
    });
    json!({
        "instance": 1,
        "cpus": [cpu],
        "loop": 1,
        "phases": each.collect::<Map<String, Value>>(),
    })
}
