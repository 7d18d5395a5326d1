// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads of rt-app (doc/tutorial.txt there): a task pinned to each CPU
//! that runs for a part of every period and sleeps until the next.
//!
//! rt-app's tasks are ordinary ones: what they get beside a busy program is the
//! scheduler's to say, unlike the loads that sandbag holds.

use std::io::{BufWriter, Write};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{Result, Steps};
use sandbag_ui::quantity::plain_seconds;

use super::report::{ExportReport, io};

/// The period of a task, us, where a step is a multiple of it; as `pace`.
const PERIOD_US: f64 = 20_000.0;

/// Idle time is written in pieces of this length at most, us: rt-app keeps an `int`.
const MOST_US: f64 = 1e9;

/// A stretch of equal load on one CPU.
struct RtAppPhase {
    length_us: f64,
    load_pct: f64,
}

pub(super) fn write(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let mut report = ExportReport::default();
    let mut phases: Vec<Vec<RtAppPhase>> = cpus.iter().map(|_| Vec::new()).collect();
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
                    phases.push(RtAppPhase {
                        length_us,
                        load_pct,
                    });
                }
            }
        }
    }
    if unknown_ns > 0 {
        report.lost.push(format!(
            "{} s (summed over the CPUs) of unknown load were written as idle",
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
    let all = RtAppFile {
        tasks: Tasks {
            cpus: &cpus,
            phases: &phases,
        },
        global: json!({
            "duration": end_ns.div_ceil(crate::NS_PER_S),
            "default_policy": "SCHED_OTHER",
            "calibration": format!("CPU{}", cpus.first().copied().unwrap_or(0)),
        }),
    };
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &all).map_err(|e| io(e.into()))?;
    writeln!(out).and_then(|()| out.flush()).map_err(io)?;
    Ok(report)
}

/// The file. Its phases become JSON one by one, as they are written.
#[derive(Serialize)]
struct RtAppFile<'a> {
    tasks: Tasks<'a>,
    global: Value,
}

struct Tasks<'a> {
    cpus: &'a [u32],
    phases: &'a [Vec<RtAppPhase>],
}

impl Serialize for Tasks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.cpus.iter().zip(self.phases).map(|(cpu, phases)| {
            let task = Task {
                instance: 1,
                cpus: [*cpu],
                loops: 1,
                phases: Phases(phases),
            };
            (format!("cpu{cpu}"), task)
        }))
    }
}

#[derive(Serialize)]
struct Task<'a> {
    instance: u32,
    cpus: [u32; 1],
    #[serde(rename = "loop")]
    loops: u32,
    phases: Phases<'a>,
}

struct Phases<'a>(&'a [RtAppPhase]);

impl Serialize for Phases<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let phases = self.0.iter().enumerate();
        to.collect_map(phases.map(|(i, phase)| (format!("p{i}"), phase.json())))
    }
}

impl RtAppPhase {
    fn json(&self) -> Value {
        let length_us = self.length_us.round();
        if self.load_pct == 0.0 {
            // By the timer of the busy phases: a sleep would leave that behind, and the next
            // period be as long as its run only.
            let loops = (length_us / MOST_US).ceil().max(1.0);
            let period_us = (length_us / loops).round().max(1.0);
            return json!({
                "loop": loops as u64,
                "timer": {"ref": "unique", "period": period_us as u64},
            });
        }
        // Whole periods, as near to the usual one as the length allows.
        let loops = (length_us / PERIOD_US).round().max(1.0);
        let period_us = length_us / loops;
        let run_us = (period_us * self.load_pct / 100.0).round().max(1.0);
        json!({
            "loop": loops as u64,
            "run": run_us as u64,
            "timer": {"ref": "unique", "period": period_us.round().max(1.0) as u64},
        })
    }
}
