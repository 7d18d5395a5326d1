// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs seen from other sandbag processes: status, stop, restore.

use std::fs;

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_machine_tests::case::Case;
use sandbag_machine_tests::figure;
use sandbag_machine_tests::killing::kill_together;
use sandbag_machine_tests::ours::Role;

use crate::cases;
use crate::place::{MachinePlace, finish, root, wait_for};
use crate::processes::{lives_at_home, pid_of};

pub const CASES: &[Case] = cases![root;
    status_shows_a_background_run_and_stop_ends_it,
    status_escapes_what_a_command_is_called,
    stop_ends_a_run_whose_command_will_not_end,
    a_run_after_a_kill_waits_for_the_guardian,
    restore_undoes_what_two_dead_processes_left,
    the_next_run_undoes_what_two_dead_processes_left,
    a_journal_that_cannot_be_read_hides_no_other,
];

fn status_shows_a_background_run_and_stop_ends_it() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let run = place.start("load 40 --cpus 0 --out r -q")?;
    place.burners(1)?;
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let status = place.run("status")?.expect(0)?;
    let pid = run.id();
    ensure!(
        status
            .out
            .contains(&format!("{pid}: constant 40 % by pace on CPUs 0")),
        "{status:?}"
    );
    let status = place.run("status --json")?.expect(0)?;
    let line: serde_json::Value = serde_json::from_str(status.out.trim())?;
    let now = line["now"][0]["got_pct"].as_f64().context("no load")?;
    ensure!(line["pid"] == pid, "{line}");
    // Of one second, and of the time that the host left: a fifth of it was stolen at times.
    figure!((20.0..46.0).contains(&now), "{line}");
    ensure!(
        place
            .run("restore")?
            .expect(0)?
            .err
            .contains("nothing to undo"),
        "undid a live run"
    );
    place
        .run("stop 1")?
        .expect(1)?
        .says(&["no run has process id 1"])?;
    place.run(&format!("stop {pid}"))?.expect(0)?;
    let ended = finish(run)?;
    ensure!([0, 3, 4].contains(&ended.code()), "{ended:?}");
    ensure!(
        place.run("status")?.expect(0)?.out.is_empty(),
        "it is still listed"
    );
    place.as_before()?;
    Ok(())
}

fn status_escapes_what_a_command_is_called() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let mut words: Vec<&str> = "load 10 --cpus 0 --no-out --no-settle -q -- sh -c"
        .split(' ')
        .collect();
    words.extend(["exec sleep 30", "\u{1b}[31m\u{9b}31m\u{202e}\nFORGED"]);
    let run = place.sandbag(&words).spawn()?;
    place.burners(1)?;
    for words in ["status", "status --json"] {
        let shown = place.run(words)?.expect(0)?.out;
        ensure!(
            shown.contains(r"\u001b[31m\u009b31m\u202e\nFORGED"),
            "{shown:?}"
        );
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        ensure!(
            !shown.contains(bad) && shown.trim_end().lines().all(|l| !l.starts_with("FORGED")),
            "{shown:?}"
        );
    }
    place.run(&format!("stop {}", run.id()))?.expect(0)?;
    finish(run)?;
    place.as_before()?;
    Ok(())
}

fn stop_ends_a_run_whose_command_will_not_end() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let run = place.start_script(
        "load 20 --no-settle --no-out -q",
        "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done >/dev/null 2>&1",
    )?;
    let command = Pid::from_raw(place.written("pid")?.parse()?);
    place.run("stop --all")?.expect(0)?;
    let mut run = run;
    let status = run.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    lives_at_home(command)?;
    place.as_before()?;
    Ok(())
}

/// Whoever starts again at once must not be refused for a run that is dead.
fn a_run_after_a_kill_waits_for_the_guardian() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    for _ in 0..5 {
        let mut run = place.start("load 20 --no-out -q")?;
        place.burners(1)?;
        kill(pid_of(&run), Signal::SIGKILL)?;
        place
            .script("load 20 --no-settle --no-out", "exit 8")?
            .expect(8)?;
        run.wait()?;
        place.as_before()?;
    }
    Ok(())
}

/// A run with a command that was killed together with its guardian; returns
/// the command.
fn both_dead(place: &MachinePlace) -> anyhow::Result<Pid> {
    let mut run = place.start_script(
        "load 50 --no-settle --no-out -q",
        "echo $$ > pid; exec sleep 1000 >/dev/null 2>&1",
    )?;
    let command = Pid::from_raw(place.written("pid")?.parse()?);
    place.burners(1)?;
    kill_together(&mut run, || place.ours(Role::Guardian))?;
    wait_for("the burners to die", || {
        place.ours(Role::Burner).is_empty().then_some(())
    })?;
    Ok(command)
}

fn restore_undoes_what_two_dead_processes_left() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let command = both_dead(&place)?;
    place
        .run("restore")?
        .expect(0)?
        .says(&["undid what process"])?;
    place.as_before()?;
    lives_at_home(command)?;
    Ok(())
}

fn the_next_run_undoes_what_two_dead_processes_left() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let command = both_dead(&place)?;
    place
        .script("load 20 --cpus 0 --no-settle --no-out", "exit 2")?
        .expect(2)?
        .says(&["undid what sandbag process", "left when it was killed"])?;
    place.as_before()?;
    lives_at_home(command)?;
    Ok(())
}

/// A journal that cannot be read, removed at the end.
struct Unreadable;

impl Unreadable {
    /// Of a process that cannot be (PID_MAX_LIMIT is 4194304).
    const PATH: &str = "/run/sandbag/4194305.journal";

    fn make() -> anyhow::Result<Self> {
        fs::create_dir_all(Self::PATH).context(Self::PATH)?;
        Ok(Self)
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        let _ = fs::remove_dir(Self::PATH);
    }
}

fn a_journal_that_cannot_be_read_hides_no_other() -> anyhow::Result<()> {
    let place = MachinePlace::new()?;
    let command = both_dead(&place)?;
    let unreadable = Unreadable::make()?;
    place
        .run("restore")?
        .expect(1)?
        .says(&["undid what process", Unreadable::PATH])?;
    let run = place.start("load 20 --cpus 0 --no-out -q")?;
    place.burners(1)?;
    let status = place.run("status")?.expect(0)?.says(&[Unreadable::PATH])?;
    ensure!(
        status.out.contains(&format!("{}: constant 20 %", run.id())),
        "{status:?}"
    );
    place.run(&format!("stop {}", run.id()))?.expect(0)?;
    finish(run)?;
    drop(unreadable);
    place.as_before()?;
    lives_at_home(command)?;
    Ok(())
}
