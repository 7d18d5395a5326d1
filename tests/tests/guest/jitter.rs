// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of jitter on a kernel of Debian's, which has tracefs.

use anyhow::{Context as _, ensure};
use sandbag_machine_tests::case;
use sandbag_machine_tests::guest::Outcome;
use serde_json::Value;

use super::Look::{self, Facts, Figures};

pub const CASES: &[(&str, Look)] = &[
    ("jitter_is_blamed_on_the_task_beside", Facts(blamed)),
    ("jitter_of_a_user_has_counts", Facts(counted)),
    ("jitter_leaves_no_instance", Facts(nothing_left)),
];

pub const OSNOISE: &[(&str, Look)] = &[
    ("jitter_is_what_osnoise_sees", Figures(as_osnoise)),
    ("jitter_of_osnoise_has_its_causes", Facts(traced)),
];

/// By how much the rate of events may differ from what the kernel's tracer sees of
/// the same CPU a few seconds later: emulated CPUs share few real ones. Their share of
/// time is the host's doing more than the guest's, and only shown.
const AS_OSNOISE: f64 = 2.0;

fn median(mut three: [f64; 3]) -> f64 {
    three.sort_by(f64::total_cmp);
    three[1]
}

/// The collector's figures and rtla's, in turn on one CPU, the middle of three.
fn as_osnoise(outcome: &Outcome, _: u32) -> anyhow::Result<()> {
    let mut rates = [[0.0; 3]; 2];
    let mut shares = [[0.0; 3]; 2];
    for turn in 0..3 {
        let of = |name: &str| -> anyhow::Result<Value> {
            outcome.result(&format!("{name}-{}", turn + 1))
        };
        ensure!(of("rtla-status")? == 0, "rtla failed: {}", outcome.said());
        let (ours, rtla) = (of("ours")?, of("rtla")?);
        let number = |value: &Value| value.as_f64().context("no number");
        for (place, figures) in [&ours[0], &rtla].into_iter().enumerate() {
            rates[place][turn] = number(&figures["rate_per_s"])?;
            shares[place][turn] = number(&figures["noise_pct"])?;
        }
    }
    let [ours, rtla] = shares;
    case::note(&format!("noise, percent: {ours:.1?}, by rtla {rtla:.1?}"));
    let [ours, rtla] = rates;
    case::note(&format!("events a second: {ours:.0?}, by rtla {rtla:.0?}"));
    let ratio = median(ours) / median(rtla);
    ensure!(
        (1.0 / AS_OSNOISE..AS_OSNOISE).contains(&ratio),
        "events a second: {ours:?}, by rtla {rtla:?}"
    );
    Ok(())
}

/// What the tracer wrote down is a trace, and its timer has its share.
fn traced(outcome: &Outcome) -> anyhow::Result<()> {
    status(outcome, "converted")?;
    let figures: Value = outcome.result("traced")?;
    let causes = figures[0]["causes"].as_array().context("no causes")?;
    ensure!(!causes.is_empty(), "{figures:#}");
    Ok(())
}

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

/// With tracefs not mounted and mounted.
fn blamed(outcome: &Outcome) -> anyhow::Result<()> {
    for name in ["unmounted", "mounted"] {
        status(outcome, name)?;
        blamed_when(outcome, name)?;
    }
    Ok(())
}

fn blamed_when(outcome: &Outcome, name: &str) -> anyhow::Result<()> {
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
    ensure!(count("instances-running")? == 1, "during a recording");
    ensure!(
        count("instances-restored")? == 0,
        "after kill -9 and restore"
    );
    Ok(())
}
