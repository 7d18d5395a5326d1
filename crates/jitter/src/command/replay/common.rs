// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every replay leaves, beside a program or inside it.

use std::fs;
use std::io;
use std::path::Path;

use crate::Trace;
use crate::replay::process::beside::{End, Held};
use sandbag_input::Existing;
use sandbag_run::{directory::FORMAT, machine::Machine};
use sandbag_stats::Verdict;
use sandbag_ui::output::RUN_JSON;
use sandbag_ui::text::visible;
use serde_json::{Map, Value, json};

use super::{ReplayArgs, Safeguard};
use sandbag_run::directory::RunDir;
use sandbag_run::program::words;
use sandbag_ui::exit::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;

/// What is known of any of them.
pub struct About<'a> {
    pub args: &'a ReplayArgs,
    pub trace: &'a Trace,
    pub started_at: String,
    pub machine: Machine,
    pub held: Held,
    /// With the figures that it is from.
    pub verdict: (Verdict, String),
    pub warnings: Vec<String>,
}

impl About<'_> {
    /// As run.json has it; `kind` tells records apart, `own` is what only this
    /// kind has.
    pub fn record(&self, kind: &str, own: Value) -> Value {
        let (args, plan) = (self.args, &self.args.plan);
        let known_ns: u64 = self.trace.cpus.iter().map(|cpu| cpu.known_ns()).sum();
        let events: usize = self.trace.cpus.iter().map(|cpu| cpu.events.len()).sum();
        let share = if args.guards(Safeguard::Share) {
            plan.share
        } else {
            1.0
        };
        let mut record = json!({
            "format": FORMAT,
            "kind": kind,
            "sandbag": env!("CARGO_PKG_VERSION"),
            "started_at": self.started_at,
            "arguments": sandbag_run::program::arguments(),
            "machine": self.machine,
            "trace": {
                "file": args.trace.display().to_string(),
                "recorder": self.trace.header.recorder,
                "cpus": self.trace.header.cpus,
                "known_s": seconds(known_ns),
                "events": events,
            },
            "seed": plan.seed,
            "share": share,
            "sync": plan.sync.to_string(),
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
            "paused_s": seconds(self.held.paused_ns),
            "without_jitter_s": seconds(self.held.without_ns),
            "command": self.command(),
            "verdict": self.verdict.0.to_string(),
            "verdict_because": self.verdict.1,
            "warnings": self.warnings,
        });
        if let (Some(all), Value::Object(own)) = (record.as_object_mut(), own) {
            all.extend::<Map<String, Value>>(own);
        }
        record
    }

    fn command(&self) -> Value {
        match self.held.end {
            End::Command(how) => json!({
                "arguments": words(&self.args.command),
                "exit_code": how.exit_code,
                "signal": how.signal,
                "wall_s": seconds(self.held.wall_ns),
                "user_s": how.user_s,
                "system_s": how.system_s,
            }),
            _ => Value::Null,
        }
    }
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Puts a record where it was asked for; `more` writes what is beside run.json.
/// Whether what was asked for by name could be written.
pub fn leave(
    args: &ReplayArgs,
    record: &Value,
    dir: Option<&RunDir>,
    more: impl FnOnce(&Path) -> io::Result<()>,
    messages: &Messages,
) -> bool {
    if let Some(dir) = dir {
        let path = dir.path().join(RUN_JSON);
        let written = output::put_json(&path, record, Existing::Replace);
        let written = written.and_then(|()| Ok(more(dir.path())?));
        dir.give();
        match written {
            Ok(()) => messages.say(&format!("Record: {}", path.display())),
            Err(error) => messages.warning(&error.line()),
        }
    }
    let Some(path) = &args.json else {
        return true;
    };
    let written = output::put_json(path, record, args.overwrite.existing());
    if let Err(error) = &written {
        messages.warning(&error.line());
    }
    written.is_ok()
}

/// What a run directory, or its run.json, has of a replay, for people; `None` if
/// it is of something else.
pub fn shown(path: &Path) -> Option<sandbag_ui::Result<String>> {
    let file = if path.is_dir() {
        path.join(RUN_JSON)
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).ok()?;
    let record: Value = serde_json::from_str(&text).ok()?;
    let body = match record["kind"].as_str()? {
        super::record::KIND => super::record::shown(&record),
        super::inside::record::KIND => super::inside::table::shown(&record, output::width()),
        _ => return None,
    };
    // Records of before have none.
    let verdict = record["verdict"]
        .as_str()
        .map_or_else(String::new, |verdict| {
            let because = record["verdict_because"].as_str().unwrap_or("?");
            format!("\nverdict: {}: {}\n", visible(verdict), visible(because))
        });
    let word = |value: &Value| visible(value.as_str().unwrap_or("?"));
    Some(
        body.map_err(|error| BadInput(format!("{}: {error}", file.display())).into())
            .map(|body| {
                format!(
                    "{} replayed by {}, {}, on {} ({})\n\n{body}\n{verdict}",
                    word(&record["trace"]["file"]),
                    word(&record["method"]["used"]),
                    word(&record["started_at"]),
                    word(&record["machine"]["host"]),
                    word(&record["machine"]["kernel"]),
                )
            }),
    )
}
