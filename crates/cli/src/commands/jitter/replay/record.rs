// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay leaves: run.json and achieved.csv.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use sandbag_inject::Sync;
use sandbag_inject::process::Class;
use sandbag_inject::process::beside::{End, Held};
use sandbag_inject::process::team::{Ask, CpuOutcome};
use sandbag_jitter::Trace;
use sandbag_report::run::{FORMAT, Machine};
use sandbag_report::write::{ACHIEVED_CSV, RUN_JSON};
use serde_json::{Value, json};

use super::{ReplayArgs, Safeguard, class_name};

/// Tells it from a run of a load.
const KIND: &str = "jitter-replay";

/// All that is known of a run.
pub struct Run<'a> {
    pub started_at: String,
    pub machine: Machine,
    pub args: &'a ReplayArgs,
    pub trace: &'a Trace,
    pub asks: &'a [Ask],
    pub outcome: &'a [CpuOutcome],
    pub class: Class,
    pub why: Option<String>,
    pub held: Held,
    pub warnings: &'a [String],
}

impl Run<'_> {
    /// As run.json has it.
    pub fn json(&self) -> Value {
        let args = self.args;
        let plan = &args.plan;
        let known_ns: u64 = self.trace.cpus.iter().map(|cpu| cpu.known_ns()).sum();
        let events: usize = self.trace.cpus.iter().map(|cpu| cpu.events.len()).sum();
        json!({
            "format": FORMAT,
            "kind": KIND,
            "sandbag": env!("CARGO_PKG_VERSION"),
            "started_at": self.started_at,
            "arguments": crate::program::arguments(),
            "machine": self.machine,
            "trace": {
                "file": args.trace.display().to_string(),
                "recorder": self.trace.header.recorder,
                "cpus": self.trace.header.cpus,
                "known_s": seconds(known_ns),
                "events": events,
            },
            "method": {
                "asked": format!("{:?}", plan.method).to_lowercase(),
                "used": class_name(self.class),
                "priority": match self.class {
                    Class::Fifo { priority } => Some(priority),
                    Class::Fair => None,
                },
                "why": self.why,
            },
            "seed": plan.seed,
            "share": plan.share,
            "sync": match plan.sync {
                Sync::None => "none".to_owned(),
                Sync::Once => "once".to_owned(),
                Sync::Phases(every) => format!("every:{every}"),
            },
            "scale_factor": args.scale_factor,
            "safeguards": {
                "overhead": args.guards(Safeguard::Overhead),
                "interval": args.guards(Safeguard::Interval),
                "share": args.guards(Safeguard::Share),
            },
            "end": match self.held.end {
                End::UsedUp => "used-up",
                End::Duration => "duration",
                End::Command(_) => "command",
                End::Stopped => "stopped",
                End::Interrupted => "interrupted",
            },
            "wall_s": seconds(self.held.wall_ns),
            "without_jitter_s": seconds(self.held.without_ns),
            "cpus": self.cpus(),
            "command": match self.held.end {
                End::Command(how) => json!({
                    "arguments": self.words(),
                    "exit_code": how.exit_code,
                    "signal": how.signal,
                    "wall_s": seconds(self.held.wall_ns),
                    "user_s": how.user_s,
                    "system_s": how.system_s,
                }),
                _ => Value::Null,
            },
            "warnings": self.warnings,
        })
    }

    fn cpus(&self) -> Vec<Value> {
        let pairs = self.outcome.iter().zip(self.asks).enumerate();
        let one = |(place, (one, ask)): (usize, (&CpuOutcome, &Ask))| {
            let (asked_ns, suffered_ns) = one.outcome.taken_ns();
            json!({
                "cpu": one.cpu,
                "trace_cpu": self.args.plan.trace_cpu(self.trace, place),
                "offset_s": seconds(ask.portion.offset_ns()),
                "length_s": seconds(ask.portion.length_ns()),
                "ran_s": seconds(one.ran_ns),
                "measured": one.measured,
                "counts": one.outcome.counts,
                "left_out_by_limit": {
                    "events": one.left_out.events,
                    "s": seconds(one.left_out.ns),
                },
                "start_error": one.outcome.all_start_errors(),
                "start_error_undisturbed": one.outcome.start_errors(),
                "length_error": one.outcome.length_errors(),
                "injected_asked_s": seconds(asked_ns),
                "injected_got_s": seconds(suffered_ns),
                "health": one.health,
            })
        };
        pairs.map(one).collect()
    }

    fn words(&self) -> Vec<String> {
        let words = self.args.command.iter();
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes both files; of a portion that repeats achieved.csv has the first
/// time through.
pub fn write(dir: &Path, record: &Value, outcome: &[CpuOutcome]) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    fs::write(dir.join(RUN_JSON), text)?;
    let mut csv = BufWriter::new(File::create(dir.join(ACHIEVED_CSV))?);
    writeln!(
        csv,
        "cpu,due_ns,length_ns,start_error_ns,length_error_ns,cause"
    )?;
    for one in outcome {
        for event in one.outcome.kept() {
            writeln!(
                csv,
                "{},{},{},{},{},{}",
                one.cpu,
                event.due_ns,
                event.length_ns,
                event.start_error_ns,
                event.length_error_ns,
                format!("{:?}", event.cause).to_lowercase()
            )?;
        }
    }
    csv.flush()
}
