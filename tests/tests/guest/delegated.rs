// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks at `delegated.sh` and `systemd-delegated.sh`: what a user without root can do in a
//! group that was handed over, and what is left there.

use anyhow::ensure;
use sandbag_machine_tests::guest::Outcome;

use super::Look::{self, Facts, Held};
use super::PACE_POINTS;

pub const OF_A_USER: &[(&str, Look)] = &[
    (
        "user_holds_a_load_in_a_delegated_group",
        Held(PACE_POINTS, "delegated"),
    ),
    (
        "user_leaves_nothing_in_a_delegated_group",
        Facts(nothing_left_by_a_user),
    ),
];

pub const UNDER_SYSTEMD: &[(&str, Look)] = &[
    (
        "systemd_user_holds_a_load_in_a_delegated_unit",
        Held(PACE_POINTS, "delegated"),
    ),
    (
        "systemd_delegated_unit_is_as_before",
        Facts(delegated_unit_is_as_before),
    ),
];

fn delegated_unit_is_as_before(outcome: &Outcome) -> anyhow::Result<()> {
    let difference: Vec<String> = outcome.result("difference")?;
    ensure!(difference.is_empty(), "left in the unit: {difference:?}");
    Ok(())
}

/// After a run, after a command's failure and after kill -9 of the supervisor.
fn nothing_left_by_a_user(outcome: &Outcome) -> anyhow::Result<()> {
    let before: Vec<String> = outcome.result("tree-before")?;
    for name in ["tree-after", "tree-after-kill"] {
        let after: Vec<String> = outcome.result(name)?;
        ensure!(after == before, "{name}: {after:?}, before {before:?}");
    }
    let number = |name| outcome.result::<i32>(name);
    ensure!(number("exit-status")? == 7, "the command's exit status");
    ensure!(number("sweep-status")? == 0, "the exit status of a sweep");
    ensure!(number("killed-status")? == 137, "it was not killed");
    ensure!(number("processes-after-kill")? == 0, "processes are left");
    ensure!(number("refused-status")? == 5, "the root group is not ours");
    Ok(())
}
