// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of a load as one row: its figures by name. Errors are points, shares
//! percent.
//!
//! `mean_abs`, `sd`, `worst` and `windows` with `_1s`, `_100ms` and `_step` are of the
//! windows of that length, and of the seconds that begin 100 ms after a change.

use sandbag_load::report::Run;
use sandbag_load::report::achieved::AchievedRow as Window;
use sandbag_load::report::run::CpuResult;
use sandbag_stats::ErrorStats;

use super::benchmark::value_name;
use super::cells::{Cell, Disturbance};
use super::closing::{Closing, worst};
use super::windows::{errors, resolution_ms, step_response};
use crate::row::Row;

/// A row that has only the names of its run.
pub fn new(cell: &Cell, round: u32) -> Row {
    let mut row = Row::new(&cell.id(), round);
    row.say("method", cell.method.name());
    row.say("kind", value_name(&cell.kind));
    row.say("place", cell.place.to_string());
    row.put("asked_pct", cell.asked_pct);
    row.put("count", cell.count as f64);
    row
}

pub fn line(row: &Row) -> String {
    match (row.get("mean_abs_1s"), row.get("worst_1s")) {
        (Some(mean), Some(worst)) => {
            let closing = crate::table::number(row.get("closing"), 2);
            let verdict = row.text("verdict");
            format!("mean abs {mean:.3}, worst {worst:+.2}, {verdict}, closing {closing}")
        }
        _ => row.line(),
    }
}

/// Adds what the run recorded.
pub fn take_run(row: &mut Row, cell: &Cell, run: &Run, seconds: &[Window], tenths: &[Window]) {
    let per_second = errors(seconds, 1.0);
    put_errors(row, "1s", per_second.stats);
    row.put("stolen_1s", per_second.stolen as f64);
    row.put("holes_1s", per_second.holes as f64);
    let per_tenth = errors(tenths, 0.1);
    // Without the windows themselves, sandbag's own statistics of them.
    let recorded = run.error_100ms.filter(|_| tenths.is_empty());
    put_errors(row, "100ms", per_tenth.stats.or(recorded));
    row.put("stolen_100ms", per_tenth.stolen as f64);
    row.put("resolution_ms", resolution_ms(tenths).map(f64::from));
    if cell.disturbance == Disturbance::Steps {
        put_errors(row, "step", step_response(tenths));
    }
    let mean =
        |of: fn(&CpuResult) -> f64| run.cpus.iter().map(of).sum::<f64>() / run.cpus.len() as f64;
    row.put("got_pct", mean(|cpu| cpu.got_pct));
    row.put("steal_pct", mean(|cpu| cpu.steal_pct));
    row.say("verdict", run.verdict.to_string());
    let supervisor = &run.supervisor;
    row.put("supervisor_pct", supervisor.pct_per_cpu);
    row.put("wakeups_per_s", supervisor.wakeups as f64 / run.length_s);
    for (name, kib) in [
        ("resident", supervisor.resident_kib),
        ("burner", supervisor.burner_private_kib),
    ] {
        row.put(format!("{name}_kib"), kib as f64);
        row.put(format!("{name}_mb"), kib as f64 * 1024.0 / 1e6);
    }
}

fn put_errors(row: &mut Row, windows: &str, stats: Option<ErrorStats>) {
    if let Some(stats) = stats {
        for (name, value) in [
            ("windows", stats.windows as f64),
            ("mean_abs", stats.mean_abs_points),
            ("sd", stats.sd_points),
            ("worst", stats.worst_points),
        ] {
            row.put(format!("{name}_{windows}"), value);
        }
    }
}

/// Adds the closing errors of the CPUs; none where the run was not verified. While other
/// processes come and go the sums cannot close, so `quiet_*` is of runs without these.
pub fn take_closings(row: &mut Row, closings: &[Closing], strangers: Option<u64>) {
    let all = || closings.iter();
    let sum: f64 = all().map(|c| c.closing_points).sum();
    row.put("strangers", strangers.map(|count| count as f64));
    row.put("closing", worst(all().map(|c| c.closing_points)));
    row.put("closing_all", sum / closings.len() as f64);
    row.put("unseen", worst(all().filter_map(|c| c.unseen_points)));
    row.put("nobody", worst(all().filter_map(|c| c.nobody_points)));
    row.put("claim", worst(all().filter_map(|c| c.claim_points)));
    if strangers == Some(0) {
        row.put("quiet_closing", row.get("closing"));
        row.put("quiet_closing_all", row.get("closing_all"));
    }
    row.details = serde_json::to_value(closings).unwrap_or_default();
}
