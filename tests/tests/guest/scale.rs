// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks at `scale.sh`: that all of it runs on another kernel, and what comes out is
//! possible. How right it is, is measured on real CPUs.

use anyhow::{Context as _, ensure};
use sandbag_machine_tests::case;
use sandbag_machine_tests::guest::Outcome;
use serde_json::Value;

use super::Look::{self, Facts};

pub const CASES: &[(&str, Look)] = &[
    ("scale_predicts_from_a_trace_of_its_own", Facts(predicted)),
    ("scale_benchmark_of_ranks_that_meet", Facts(met)),
    (
        "scale_benchmark_of_ranks_one_after_another",
        Facts(virtually),
    ),
];

fn figures(outcome: &Outcome, name: &str) -> anyhow::Result<Value> {
    let status: i32 = outcome.result(&format!("status-{name}"))?;
    ensure!(status == 0, "{name}: status {status}\n{}", outcome.said());
    outcome.result(name)
}

/// Numbers of a list, by the path to each.
fn numbers(list: &Value, path: &str) -> anyhow::Result<Vec<f64>> {
    let all = list.as_array().context("no list")?.iter();
    all.map(|one| {
        one.pointer(path)
            .and_then(Value::as_f64)
            .context("no number")
    })
    .collect()
}

/// More ranks never lose less.
fn predicted(outcome: &Outcome) -> anyhow::Result<()> {
    let figures = figures(outcome, "predicted")?;
    let curve = &figures["curves"][0];
    let ranks = numbers(&curve["points"], "/ranks")?;
    let slowdown = numbers(&curve["points"], "/mean/slowdown_pct")?;
    case::note(&format!("{ranks:?} ranks: {slowdown:.1?} %"));
    ensure!(ranks.len() == 13 && slowdown[0] > 0.0, "{curve:#}");
    ensure!(slowdown.is_sorted(), "{slowdown:?}");
    Ok(())
}

/// What the ranks lost to the trace; there is no such figure where no jitter was injected.
fn suffered(figures: &Value) -> anyhow::Result<()> {
    let noise_pct = figures["load"]["noise_pct"].as_f64();
    let noise_pct = noise_pct.with_context(|| format!("no noise: {figures:#}"))?;
    case::note(&format!("jitter took {noise_pct:.1} % of the ranks"));
    ensure!(noise_pct > 0.0, "nothing was suffered: {figures:#}");
    Ok(())
}

/// Phases were made, with jitter and without.
fn met(outcome: &Outcome) -> anyhow::Result<()> {
    let figures = figures(outcome, "met")?;
    let phases = figures["slowdown"]["phases"]
        .as_array()
        .context("no phases")?;
    let all_made = phases.iter().all(|count| count.as_u64() > Some(0));
    ensure!(phases.len() == 2 && all_made, "{figures:#}");
    let each = numbers(&figures["per_rank"], "/qt_ns")?;
    ensure!(
        each.len() == 2 && each.iter().all(|ns| *ns > 0.0),
        "{figures:#}"
    );
    suffered(&figures)?;
    case::note(&format!("{}", figures["slowdown"]));
    Ok(())
}

/// Each number of ranks has its row.
fn virtually(outcome: &Outcome) -> anyhow::Result<()> {
    let figures = figures(outcome, "virtual")?;
    let slowest = numbers(&figures["slowdowns"], "/jitter_ns")?;
    let quiet = numbers(&figures["slowdowns"], "/quiet_ns")?;
    case::note(&format!(
        "slowest of 1, 2, 4, ...: {slowest:.0?} ns, without jitter {quiet:.0?}"
    ));
    ensure!(slowest.len() == 5, "{figures:#}");
    suffered(&figures)?;
    Ok(())
}
