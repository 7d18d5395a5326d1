// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay beside a program leaves: run.json and achieved.csv.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::replay::process::Class;
use crate::replay::process::team::{Ask, CpuOutcome};
use sandbag_run::directory::ACHIEVED_CSV;
use serde_json::{Value, json};

use super::common::{About, seconds};
use super::{class_name, table};
use sandbag_ui::output;

/// Tells it from a run of a load.
pub const KIND: &str = "jitter-replay";

/// What a replay beside a program has of its own.
pub struct Run<'a> {
    pub about: &'a About<'a>,
    pub asks: &'a [Ask],
    pub outcome: &'a [CpuOutcome],
    pub class: Class,
    pub why: Option<String>,
}

impl Run<'_> {
    /// As run.json has it.
    pub fn json(&self) -> Value {
        let args = self.about.args;
        let own = json!({
            "method": {
                "asked": args.plan.method.name(),
                "used": class_name(self.class),
                "priority": match self.class {
                    Class::Fifo { priority } => Some(priority),
                    Class::Fair => None,
                },
                "why": self.why,
            },
            "scale_factor": args.scale_factor,
            "cpus": self.cpus(),
        });
        self.about.record(KIND, own)
    }

    fn cpus(&self) -> Vec<Value> {
        let pairs = self.outcome.iter().zip(self.asks).enumerate();
        let one = |(place, (one, ask)): (usize, (&CpuOutcome, &Ask))| {
            let (asked_ns, suffered_ns) = one.outcome.taken_ns();
            json!({
                "cpu": one.cpu,
                "trace_cpu": self.about.args.plan.trace_cpu(self.about.trace, place),
                "offset_s": seconds(ask.portion.offset_ns()),
                "length_s": seconds(ask.portion.length_ns()),
                "ran_s": seconds(one.ran_ns),
                "measured": one.measured,
                "counts": one.outcome.counts,
                "left_out_by_limit": {
                    "events": one.left_out.events,
                    "shortened": one.left_out.shortened,
                    "s": seconds(one.left_out.ns),
                },
                "start_error": one.outcome.all_start_errors(),
                "start_error_undisturbed": one.outcome.start_errors(),
                "length_error": one.outcome.length_errors(),
                "injected_asked_s": seconds(asked_ns),
                "injected_got_s": seconds(suffered_ns),
                "health": one.health,
                "stood_s": seconds(one.stood_ns),
            })
        };
        pairs.map(one).collect()
    }
}

/// Writes achieved.csv; of a portion that repeats it has the first time through.
pub fn write(dir: &Path, outcome: &[CpuOutcome]) -> io::Result<()> {
    let file = sandbag_run::directory::create(&dir.join(ACHIEVED_CSV));
    let mut csv = BufWriter::new(file.map_err(io::Error::other)?);
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

/// The CPUs of such a record, for people.
pub fn shown(record: &Value) -> serde_json::Result<String> {
    let cpus: Vec<table::Cpu> = serde_json::from_value(record["cpus"].clone())?;
    let measured: String = cpus.iter().map(|cpu| cpu.measured() + "\n").collect();
    Ok(format!(
        "{measured}\n{}",
        table::outcome(&cpus, output::width())
    ))
}
