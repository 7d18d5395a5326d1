// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenMetrics text with time stamps: the counters that node_exporter would
//! have shown, as `promtool tsdb create-blocks-from openmetrics` takes them.
//!
//! Only three of its modes are known of a profile: user is all that was busy,
//! idle what was not, and steal. The points of a series stand together
//! (OpenMetrics 1.0, "Metric"), so the counters are collected first, 24 bytes
//! per step and CPU.
//!
//! Where a load is unknown there are no points, and the counters of that CPU
//! begin at 0 again after it, which a reader takes for a restart.

use std::io::{BufWriter, Write};

use crate::number::NS_PER_S;
use crate::{Begin, Result, Steps};
use sandbag_ui::quantity::plain_seconds;

use super::report::{ExportReport, io};

const FAMILY: &str = "node_cpu_seconds";
const MODES: [&str; 3] = ["user", "idle", "steal"];

/// Counters of one CPU: a point for the begin of what is known and for each
/// known step's end.
#[derive(Default)]
struct SeriesWriter {
    points: Vec<(u64, [f64; 2])>,
    /// Where they begin anew.
    begins_ns: Vec<u64>,
}

pub(super) fn write(steps: &mut dyn Steps, out: &mut dyn Write) -> Result<ExportReport> {
    let cpus = steps.header().cpus.clone();
    let steal = steps.header().has_steal;
    let host = steps.header().host.clone();
    let mut report = ExportReport::default();
    let begin_ns = match steps.header().begins_at {
        Some(Begin::Utc(at)) => u64::try_from(at.as_nanosecond()).unwrap_or(0),
        begin => {
            report.lost.push(match begin {
                Some(_) => "the zone of its begin is not known: stamps begin at 0, 1970".into(),
                None => "when it began is not known: stamps begin at 0, 1970".into(),
            });
            0
        }
    };
    let mut all: Vec<SeriesWriter> = cpus.iter().map(|_| SeriesWriter::default()).collect();
    let mut unknown_ns = 0u64;
    while let Some(step) = steps.next_step()? {
        let length_s = step.length_ns() as f64 / NS_PER_S as f64;
        for (cell, counters) in step.cells.iter().zip(&mut all) {
            let Some(cell) = cell else {
                unknown_ns = unknown_ns.saturating_add(step.length_ns());
                continue;
            };
            let last = match counters.points.last() {
                Some((until_ns, last)) if *until_ns == step.start_ns => *last,
                _ => {
                    counters.points.push((step.start_ns, [0.0; 2]));
                    counters.begins_ns.push(step.start_ns);
                    [0.0; 2]
                }
            };
            let stolen_s = length_s * cell.steal_pct / 100.0;
            let busy_s = (length_s - stolen_s) * cell.load_pct / 100.0;
            let now = [last[0] + busy_s, last[1] + stolen_s];
            counters.points.push((step.end_ns, now));
            report.steps += 1;
        }
    }
    if unknown_ns > 0 {
        report.lost.push(format!(
            "{} s (summed over the CPUs) of unknown load have no points; the counters begin \
             anew after them",
            plain_seconds(unknown_ns)
        ));
    }
    report
        .lost
        .push("all that was busy is mode user; the other modes were not recorded".into());
    let out = &mut BufWriter::with_capacity(64 << 10, out);
    series(out, &cpus, &all, begin_ns, steal, host.as_deref()).map_err(io)?;
    Ok(report)
}

fn series(
    out: &mut dyn Write,
    cpus: &[u32],
    all: &[SeriesWriter],
    begin_ns: u64,
    steal: bool,
    host: Option<&str>,
) -> std::io::Result<()> {
    writeln!(out, "# HELP {FAMILY} Seconds the CPUs spent in each mode.")?;
    writeln!(out, "# TYPE {FAMILY} counter")?;
    writeln!(out, "# UNIT {FAMILY} seconds")?;
    let instance = host.map_or(String::new(), |host| {
        format!(",instance=\"{}\"", escaped(host))
    });
    for (cpu, counters) in cpus.iter().zip(all) {
        for mode in MODES.iter().filter(|mode| steal || **mode != "steal") {
            let mut begins = counters.begins_ns.iter().copied().peekable();
            let mut begin = 0;
            for (ns, [busy_s, stolen_s]) in &counters.points {
                if let Some(anew) = begins.next_if_eq(ns) {
                    begin = anew;
                }
                let value = match *mode {
                    "user" => *busy_s,
                    "steal" => *stolen_s,
                    _ => ((ns - begin) as f64 / NS_PER_S as f64 - busy_s - stolen_s).max(0.0),
                };
                // A microsecond is far below a tick, a millisecond is what
                // Prometheus itself keeps of a stamp.
                let stamp = plain_seconds(begin_ns.saturating_add(*ns) / 1_000_000 * 1_000_000);
                writeln!(
                    out,
                    "{FAMILY}_total{{cpu=\"{cpu}\",mode=\"{mode}\"{instance}}} {value:.6} {stamp}"
                )?;
            }
        }
    }
    writeln!(out, "# EOF")?;
    out.flush()
}

/// As a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
