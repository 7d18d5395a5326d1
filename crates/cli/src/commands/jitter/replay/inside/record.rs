// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay within a program leaves: run.json.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbag_inject::Sync;
use sandbag_inside::outcome::{Ended, Outcome, Slot, Suffered};
use sandbag_report::run::{FORMAT, Machine};
use sandbag_report::write::RUN_JSON;
use serde_json::{Value, json};

use super::super::Safeguard;
use super::{End, Made};

/// Tells it from a replay beside the program.
const KIND: &str = "jitter-replay-inside";

/// All that is known of a run.
pub fn json(made: &Made<'_>, started_at: &str, machine: &Machine) -> Value {
    let args = made.args;
    let known_ns: u64 = made.trace.cpus.iter().map(|cpu| cpu.known_ns()).sum();
    let events: usize = made.trace.cpus.iter().map(|cpu| cpu.events.len()).sum();
    json!({
        "format": FORMAT,
        "kind": KIND,
        "sandbag": env!("CARGO_PKG_VERSION"),
        "started_at": started_at,
        "arguments": crate::program::arguments(),
        "machine": machine,
        "trace": {
            "file": args.trace.display().to_string(),
            "recorder": made.trace.header.recorder,
            "cpus": made.trace.header.cpus,
            "known_s": seconds(known_ns),
            "events": events,
        },
        "method": {
            "used": if made.overhead.is_some() { "timer" } else { "polled" },
            "per_thread": args.inside.per_thread,
            "forks": !args.inside.no_fork,
        },
        "measured": made.overhead.map(|overhead| json!({
            "overhead_ns": overhead.injection_ns,
            "exit_ns": overhead.exit_ns,
            "lead_ns": overhead.lead_ns,
            "start_p50_ns": overhead.start_ns,
            "start_p90_ns": overhead.start_90_ns,
            "least_gap_ns": overhead.least_gap_ns(),
            "events": overhead.events,
        })),
        "seed": args.plan.seed,
        "share": args.plan.share,
        "sync": match args.plan.sync {
            Sync::None => "none".to_owned(),
            Sync::Once => "once".to_owned(),
            Sync::Phases(every) => format!("every:{every}"),
        },
        "safeguards": {
            "overhead": args.guards(Safeguard::Overhead),
            "interval": args.guards(Safeguard::Interval),
            "share": args.guards(Safeguard::Share),
        },
        "end": match made.held.end {
            End::Command(_) => "command",
            End::Interrupted => "interrupted",
        },
        "wall_s": seconds(made.held.wall_ns),
        "without_jitter_s": seconds(made.held.without_ns),
        "all": suffered(&made.outcome.total()),
        "processes": made.outcome.slots.iter().map(process).collect::<Vec<_>>(),
        "processes_summed_up": {
            "count": made.outcome.recycled,
            "suffered": suffered(&made.outcome.gone),
        },
        "without": without(&made.outcome),
        "command": match made.held.end {
            End::Command(how) => json!({
                "arguments": args.command.iter()
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect::<Vec<_>>(),
                "exit_code": how.exit_code,
                "signal": how.signal,
                "wall_s": seconds(made.held.wall_ns),
                "user_s": how.user_s,
                "system_s": how.system_s,
            }),
            End::Interrupted => Value::Null,
        },
        "warnings": made.warnings,
    })
}

fn process(slot: &Slot) -> Value {
    json!({
        "name": slot.name,
        "pid": slot.pid,
        "tid": slot.tid,
        "rank": slot.rank,
        "portion": slot.portion,
        "signal": slot.signal,
        "ended": match slot.ended {
            Ended::NotSaid => "not-said",
            Ended::Exit => "exit",
            Ended::Exhausted => "used-up",
            Ended::Conflict => "signal-in-use",
            Ended::Seccomp => "seccomp",
            Ended::Stopped => "stopped",
            Ended::Timer => "timer-refused",
            Ended::Unknown(_) => "unknown",
        },
        "suffered": suffered(&slot.suffered),
    })
}

/// Those that never began, by reason.
fn without(outcome: &Outcome) -> Value {
    let refused = outcome.refused;
    json!({
        "not_meant": refused.not_meant,
        "no_slot": refused.no_slot,
        "no_signal": refused.no_signal,
        "no_timer": refused.no_timer,
        "seccomp": refused.seccomp,
        "no_room": refused.no_room,
    })
}

fn suffered(suffered: &Suffered) -> Value {
    let quantiles = |histogram: &sandbag_inside::outcome::Histogram| {
        json!({
            "count": histogram.count(),
            "p50_ns": histogram.quantile_ns(50.0),
            "p90_ns": histogram.quantile_ns(90.0),
            "p99_ns": histogram.quantile_ns(99.0),
            "most_ns": histogram.quantile_ns(100.0),
        })
    };
    json!({
        "injected": suffered.injected,
        "merged": suffered.merged,
        "behind": suffered.behind,
        "cut": suffered.cut,
        "short": suffered.short,
        "passed": suffered.passed,
        "invalid": suffered.invalid,
        "waits": suffered.waits,
        "phases": suffered.phases,
        "injected_asked_s": seconds(suffered.asked_ns),
        "injected_got_s": seconds(suffered.taken_ns),
        "start_error": quantiles(&suffered.start),
        "length_error": quantiles(&suffered.length),
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes it.
pub fn write(dir: &Path, record: &Value) -> io::Result<PathBuf> {
    let path = dir.join(RUN_JSON);
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    fs::write(&path, text)?;
    Ok(path)
}
