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
const NS_PER_MS: u64 = 1_000_000;
const MODES: [&str; 3] = ["user", "idle", "steal"];

/// Counters of one CPU: a point for the begin of what is known and for each
/// known step's end.
#[derive(Default)]
struct SeriesWriter {
    /// By their stamps.
    points: Vec<(u64, [f64; 2])>,
    /// Where they begin anew.
    begins_ns: Vec<u64>,
}

/// Whether two moments have one stamp: Prometheus itself keeps milliseconds.
fn is_same(a_ns: u64, b_ns: u64) -> bool {
    a_ns / NS_PER_MS == b_ns / NS_PER_MS
}

impl SeriesWriter {
    /// Of two points with one stamp the last one counts. Returns how many it replaced.
    fn push(&mut self, ns: u64, counters: [f64; 2]) -> u64 {
        let replaced = self.points.pop_if(|(last_ns, _)| is_same(*last_ns, ns));
        self.points.push((ns, counters));
        u64::from(replaced.is_some())
    }
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
    let (mut unknown_ns, mut replaced) = (0u64, 0);
    while let Some(step) = steps.next_step()? {
        let [start_ns, end_ns] = [step.start_ns, step.end_ns].map(|ns| begin_ns.saturating_add(ns));
        let length_s = step.length_ns() as f64 / NS_PER_S as f64;
        for (cell, counters) in step.cells.iter().zip(&mut all) {
            let Some(cell) = cell else {
                unknown_ns = unknown_ns.saturating_add(step.length_ns());
                continue;
            };
            let last = match counters.points.last() {
                Some((until_ns, last)) if is_same(*until_ns, start_ns) => *last,
                _ => {
                    replaced += counters.push(start_ns, [0.0; 2]);
                    counters.begins_ns.push(start_ns);
                    [0.0; 2]
                }
            };
            let stolen_s = length_s * cell.steal_pct / 100.0;
            let busy_s = (length_s - stolen_s) * cell.load_pct / 100.0;
            let now = [last[0] + busy_s, last[1] + stolen_s];
            replaced += counters.push(end_ns, now);
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
    if replaced > 0 {
        report.lost.push(format!(
            "stamps are kept to the millisecond: {replaced} points were left out, because a later \
             one of the same CPU has their stamp"
        ));
    }
    report
        .lost
        .push("all that was busy is mode user; the other modes were not recorded".into());
    let out = &mut BufWriter::with_capacity(64 << 10, out);
    series(out, &cpus, &all, steal, host.as_deref()).map_err(io)?;
    Ok(report)
}

fn series(
    out: &mut dyn Write,
    cpus: &[u32],
    all: &[SeriesWriter],
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
                while let Some(anew) = begins.next_if(|anew| anew <= ns) {
                    begin = anew;
                }
                let value = match *mode {
                    "user" => *busy_s,
                    "steal" => *stolen_s,
                    _ => ((ns - begin) as f64 / NS_PER_S as f64 - busy_s - stolen_s).max(0.0),
                };
                // A microsecond is far below a tick.
                let stamp = plain_seconds(ns / NS_PER_MS * NS_PER_MS);
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
