// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter record` by the kernel's trace events: who is blamed, and
//! what is left.

use sandbag_linux::tracefs::TraceFs;

use crate::prelude::*;

cases! { CASES: traced;
    a_task_beside_the_loop_is_blamed_for_what_it_took,
    a_task_with_an_escape_in_its_name_is_shown_escaped,
    a_recorder_that_is_asked_to_end_leaves_no_instance,
    a_killed_recorder_s_instance_is_removed_by_restore,
}

/// Of all noise, what a spinner takes at least; alone with the loop it is some
/// 95 %, beside builds and real-time loops of others it was 4.
const SHARE_PCT: f64 = 1.0;

fn traced() -> Result<(), String> {
    root()?;
    TraceFs::open(&Root::default())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Our instances.
fn instances() -> Result<Vec<String>> {
    let mut all = TraceFs::open(&Root::default())?.instances()?;
    all.retain(|name| name.starts_with("sandbag-"));
    Ok(all)
}

fn a_task_with_an_escape_in_its_name_is_shown_escaped(place: &MachinePlace) -> Result<()> {
    let program = place.path("\u{1b}[31mred\nX");
    std::fs::copy("/bin/sh", &program)?;
    let mut beside = place.program("taskset", ["-c", "0"]);
    beside.arg(&program).args(["-c", "while :; do :; done"]);
    let mut beside = beside.spawn()?;
    let record = "jitter record --attribute tracefs --cpus 0 -d 2s -o a.sbj -q";
    let recorded = place.run(record);
    beside.kill()?;
    beside.wait()?;
    recorded?.expect(0)?;
    for words in ["jitter show a.sbj", "jitter show --json a.sbj"] {
        let shown = place.run(words)?.expect(0)?.out;
        ensure!(shown.contains(r"\u001b[31mred\nX"), "{shown}");
        ensure!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    Ok(())
}

fn a_task_beside_the_loop_is_blamed_for_what_it_took(place: &MachinePlace) -> Result<()> {
    let mut beside = place.program(SPINNER, ["4", "0"]).spawn()?;
    let record = "jitter record --attribute tracefs --cpus 0 -d 2s -o a.sbj -q";
    place.run(record)?.expect(0)?;
    beside.wait()?;
    let shown = place.run("jitter show --json a.sbj")?.expect(0)?;
    let figures = shown.json()?;
    let rows = figures[0]["causes"].as_array().context("no causes")?;
    let net = |name: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row["who"]["known"]["name"] == name);
        row.map_or(0.0, |row| row["share_pct"].as_f64().unwrap_or(0.0))
    };
    let (spinner, timer) = (net("spinner"), net("local_timer"));
    case::note(&format!(
        "noise: spinner {spinner:.1} %, timer {timer:.2} %"
    ));
    ensure!(spinner > 0.0 && timer > 0.0, "{rows:#?}");
    // They share a CPU, perhaps with others.
    figure!(spinner > SHARE_PCT, "{spinner:.2} %");
    let sum: u64 = rows.iter().filter_map(|row| row["net_ns"].as_u64()).sum();
    let noise_pct = figures[0]["noise_pct"].as_f64().context("no noise")?;
    let known_s = figures[0]["known_s"].as_f64().context("no time")?;
    let noise_ns = noise_pct / 100.0 * known_s * 1e9;
    let difference = (sum as f64 - noise_ns).abs();
    ensure!(difference < 1e4, "{sum} of {noise_ns} ns");
    // What is not known of the kernel would be a hole at the begin.
    let unknown = rows.iter().find(|row| row["who"] == "unknown");
    ensure!(unknown.is_none(), "{unknown:#?}");
    ensure!(instances()?.is_empty(), "{:?}", instances()?);
    Ok(())
}

/// A recorder and its instance.
fn recording(place: &MachinePlace) -> Result<Child> {
    let run =
        place.start("jitter record --attribute tracefs --cpus 0 -d 60s -o a.sbj --force -q")?;
    let name = format!("sandbag-{}", pid_of(&run));
    wait_for("its instance", || {
        instances().ok()?.contains(&name).then_some(())
    })?;
    Ok(run)
}

fn a_recorder_that_is_asked_to_end_leaves_no_instance(_: &MachinePlace) -> Result<()> {
    for wait_ms in [0, 100, 1500] {
        let place = MachinePlace::new()?;
        let run = recording(&place)?;
        std::thread::sleep(Duration::from_millis(wait_ms));
        let code = end(run, Signal::SIGTERM)?.code();
        // Before anything was recorded, or after.
        ensure!(matches!(code, 0 | 130), "after {wait_ms} ms: {code}");
        let left = instances()?;
        ensure!(left.is_empty(), "after {wait_ms} ms: {left:?}");
        place.as_before()?;
    }
    Ok(())
}

fn a_killed_recorder_s_instance_is_removed_by_restore(place: &MachinePlace) -> Result<()> {
    let run = recording(place)?;
    std::thread::sleep(Duration::from_millis(1000));
    // With its guardian.
    let kill_both = |run: Child| -> Result<()> {
        let mut all = process(pid_of(&run)).children()?;
        all.push(run.id());
        for pid in all {
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL)?;
        }
        finish(run)?;
        Ok(())
    };
    kill_both(run)?;
    ensure!(instances()?.len() == 1, "{:?}", instances()?);
    place.run("restore")?.expect(0)?;
    ensure!(instances()?.is_empty(), "{:?}", instances()?);
    // Its guardian does it, ...
    let run = recording(place)?;
    std::thread::sleep(Duration::from_millis(1000));
    end(run, Signal::SIGKILL)?;
    wait_until("no instance", || {
        instances().is_ok_and(|all| all.is_empty())
    })?;
    // ... and the next recording.
    let run = recording(place)?;
    kill_both(run)?;
    let next = "jitter record --attribute tracefs --cpus 0 -d 200ms -o b.sbj -q";
    place.run(next)?.expect(0)?;
    ensure!(instances()?.is_empty(), "{:?}", instances()?);
    Ok(())
}
