// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of jitter on a kernel of Debian's, which has tracefs.

use anyhow::{Context as _, ensure};
use sandbag_machine_tests::case;
use sandbag_machine_tests::guest::Outcome;
use serde_json::Value;

use super::Look::{self, Facts};

pub const CASES: &[(&str, Look)] = &[
    (
        "jitter_is_blamed_on_the_task_beside",
        Facts(|outcome| {
            for name in ["unmounted", "mounted"] {
                status(outcome, name)?;
                blamed(outcome, name)?;
            }
            Ok(())
        }),
    ),
    ("jitter_of_a_user_has_counts", Facts(counted)),
    ("jitter_leaves_no_instance", Facts(nothing_left)),
];

/// Of all noise, percent: an emulated kernel is slow, and the emulator itself
/// takes the CPU away.
const SHARE_PCT: f64 = 30.0;

fn status(outcome: &Outcome, name: &str) -> anyhow::Result<()> {
    let status: i32 = outcome.result(&format!("status-{name}"))?;
    ensure!(
        status == 0,
        "{name}: exit status {status}: {}",
        outcome.said()
    );
    Ok(())
}

fn blamed(outcome: &Outcome, name: &str) -> anyhow::Result<()> {
    let figures: Value = outcome.result(name)?;
    let cpus = figures.as_array().context("no CPUs")?;
    let cpu = cpus
        .iter()
        .find(|cpu| cpu["cpu"] == 1)
        .context("no CPU 1")?;
    let rows = cpu["causes"].as_array().context("no causes")?;
    let share = |name: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row["who"]["known"]["name"] == name);
        row.map_or(0.0, |row| row["share_pct"].as_f64().unwrap_or(0.0))
    };
    let (spinner, timer) = (share("spinner"), share("local_timer"));
    case::note(&format!(
        "{name}: of the noise spinner has {spinner:.1} %, the timer {timer:.1} %"
    ));
    ensure!(spinner > SHARE_PCT && timer > 0.0, "{name}: {rows:#?}");
    Ok(())
}

fn counted(outcome: &Outcome) -> anyhow::Result<()> {
    status(outcome, "user")?;
    let figures: Value = outcome.result("user")?;
    let counters = &figures[0]["counters"];
    let interrupts = counters["interrupts"].as_array().context("no counters")?;
    ensure!(!interrupts.is_empty(), "no interrupts: {counters}");
    ensure!(figures[0]["causes"].is_null(), "causes without tracefs");
    Ok(())
}

fn nothing_left(outcome: &Outcome) -> anyhow::Result<()> {
    let count = |name| outcome.result::<u32>(name);
    ensure!(count("instances-left")? == 0, "after a recording");
    ensure!(count("instances-killed")? == 1, "after kill -9");
    ensure!(count("instances-restored")? == 0, "after restore");
    Ok(())
}
