// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cgroup v2 on this kernel: where the cpu controllers can be moved to the v2
//! tree (and back), the cases of `holding` run there once more.

use std::env;

use crate::prelude::*;

cases! { CASES: movable; loads_are_held_on_cgroup_v2_here }

/// Set while the cases run on v2: not once more.
const INSIDE: &str = "SANDBAG_TEST_ON_V2";
/// The cases that run: those of `holding` whose names have this.
const HELD: &str = "held";
/// A machine that cannot do it says so within this.
const SOON: Duration = Duration::from_secs(10);

fn movable() -> Result<(), String> {
    if env::var_os(INSIDE).is_some() {
        return Err("on cgroup v2 already".to_owned());
    }
    disposable()?;
    let begin = Instant::now();
    let tried = Command::new(lab_program()?)
        .args(["on-v2", "--check"])
        .output()
        .map_err(|error| format!("sandbag-lab: {error}"))?;
    if tried.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&tried.stderr);
    let reason = said.lines().last().unwrap_or("without a word").to_owned();
    match begin.elapsed() {
        took if took > SOON => Err(format!("after {took:?}: {reason}")),
        _ => Err(reason),
    }
}

fn loads_are_held_on_cgroup_v2_here(_: &MachinePlace) -> Result<()> {
    let mover = lab_program().map_err(anyhow::Error::msg)?;
    let output = Command::new(mover)
        .args(["on-v2", "--"])
        .arg(env::current_exe()?)
        .arg(HELD)
        .env(INSIDE, "1")
        .output()
        .context("sandbag-lab on-v2")?;
    let said = String::from_utf8_lossy(&output.stdout);
    case::note(&said);
    ensure!(
        output.status.success(),
        "{}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // A case that was skipped there has shown nothing.
    let passed = said.matches(" ... ok").count();
    ensure!(passed >= 2, "only {passed} cases ran on v2");
    Ok(())
}
