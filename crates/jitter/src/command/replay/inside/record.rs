// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay within a program leaves: run.json.

use crate::inside::outcome::{Ended, Outcome, Slot, Suffered};
use crate::inside::overhead::Overhead;
use serde_json::{Value, json};

use super::super::common::{About, seconds};

/// Tells it from a replay beside the program.
pub const KIND: &str = "jitter-replay-inside";

/// As run.json has it.
pub fn json(about: &About<'_>, outcome: &Outcome, overhead: Option<Overhead>) -> Value {
    let args = about.args;
    let own = json!({
        "method": {
            "used": if overhead.is_some() { "timer" } else { "polled" },
            "per_thread": args.inside.per_thread,
            "forks": !args.inside.no_fork,
        },
        "measured": overhead.map(|overhead| json!({
            "overhead_ns": overhead.injection_ns,
            "exit_ns": overhead.exit_ns,
            "lead_ns": overhead.lead_ns,
            "start_p50_ns": overhead.start_ns,
            "start_p90_ns": overhead.start_90_ns,
            "least_gap_ns": overhead.least_gap_ns(),
            "events": overhead.events,
        })),
        "all": suffered(&outcome.total()),
        "processes": outcome.slots.iter().map(process).collect::<Vec<_>>(),
        "processes_summed_up": {
            "count": outcome.recycled,
            "suffered": suffered(&outcome.gone),
        },
        "without": without(outcome),
    });
    about.record(KIND, own)
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
    let quantiles = |histogram: &crate::inside::outcome::Histogram| {
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
