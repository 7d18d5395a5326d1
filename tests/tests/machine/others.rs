// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs seen from other sandbag processes: status, stop, restore.

use sandbag_machine_tests::killing::kill_together;

use crate::prelude::*;

cases! { CASES: root;
    status_shows_a_background_run_and_stop_ends_it,
    status_escapes_what_a_command_is_called,
    stop_ends_a_run_whose_command_will_not_end,
    a_run_after_a_kill_waits_for_the_guardian,
    restore_and_the_next_run_undo_what_two_dead_processes_left,
    a_journal_that_cannot_be_read_hides_no_other,
}

fn status_shows_a_background_run_and_stop_ends_it(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 40 --cpus 0 --out r -q", 1)?;
    std::thread::sleep(Duration::from_millis(2500));
    let status = place.run("status")?.expect(0)?;
    let pid = run.id();
    let of_nobody = |words: &str| {
        let mut command = place.sandbag(words.split(' '));
        command.uid(NOBODY).gid(NOBODY);
        command.env_remove("XDG_RUNTIME_DIR");
        finish(command.spawn()?)
    };
    for words in ["status", "top --once"] {
        of_nobody(words)?.expect(0)?.says(&[
            &format!("{pid}: of user 0: "),
            "load 40 --cpus 0",
            "no run of this user",
        ])?;
    }
    let refused = format!("run {pid} belongs to user 0");
    for words in [format!("stop {pid}"), format!("set {pid} --pause")] {
        of_nobody(&words)?.expect(5)?.says(&[&refused])?;
    }
    of_nobody("stop 1")?.expect(2)?;
    of_nobody("set 1 --pause")?.expect(2)?;
    status.shows(&[&format!("{pid}: constant 40 % by pace on CPUs 0")])?;
    let line = place.run("status --json")?.expect(0)?.json()?;
    are_described(&[&line, &line["now"][0]], FIELDS)?;
    let now = line["now"][0]["got_pct"].as_f64().context("no load")?;
    ensure!(line["pid"] == pid, "{line}");
    // Of one second, and of the time that the host left: a fifth of it was stolen at times.
    figure!((20.0..46.0).contains(&now), "{line}");
    place.answers("restore", 0, &["nothing to undo"])?;
    place.answers("stop 1", 2, &["no run has process id 1"])?;
    place.run(&format!("stop {pid}"))?.expect(0)?;
    finish(run)?.judged()?;
    let none = place
        .run("status")?
        .expect(0)?
        .says(&["no run of this user"])?;
    ensure!(none.out.is_empty());
    Ok(())
}

fn status_escapes_what_a_command_is_called(place: &MachinePlace) -> Result<()> {
    let mut words: Vec<&str> = "load 10 --cpus 0 --no-out --no-settle -q -- sh -c"
        .split(' ')
        .collect();
    words.extend(["exec sleep 30", "\u{1b}[31m\u{9b}31m\u{202e}\nFORGED"]);
    let run = place.sandbag(&words).spawn()?;
    place.burners(1)?;
    for words in ["status", "status --json"] {
        let shown = place.run(words)?.expect(0)?.out;
        let escaped = shown.contains(r"\u001b[31m\u009b31m\u202e\nFORGED");
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        let forged = shown.lines().any(|line| line.starts_with("FORGED"));
        ensure!(escaped && !forged && !shown.contains(bad), "{shown:?}");
    }
    place.run(&format!("stop {}", run.id()))?.expect(0)?;
    finish(run)?;
    Ok(())
}

fn stop_ends_a_run_whose_command_will_not_end(place: &MachinePlace) -> Result<()> {
    let (run, command) = place.start_ready(
        "load 20 --no-settle --no-out -q",
        "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done >/dev/null 2>&1",
    )?;
    place.run("stop --all")?.expect(0)?;
    let mut run = run;
    let status = wait_for("its end", || run.try_wait().ok().flatten())?;
    ensure!(status.code() == Some(130), "{status}");
    lives_at_home(command)
}

/// A user who starts again at once must not be refused for a run that is dead.
fn a_run_after_a_kill_waits_for_the_guardian(place: &MachinePlace) -> Result<()> {
    for _ in 0..5 {
        let mut run = place.start_burning("load 20 --no-out -q", 1)?;
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
fn both_dead(place: &MachinePlace) -> Result<Pid> {
    let (mut run, command) = place.start_ready(
        "load 50 --no-settle --no-out -q",
        "echo $$ > pid; exec sleep 1000 >/dev/null 2>&1",
    )?;
    place.burners(1)?;
    kill_together(&mut run, || place.ours(Role::Guardian))?;
    wait_until("the burners to die", || place.ours(Role::Burner).is_empty())?;
    Ok(command)
}

fn restore_and_the_next_run_undo_what_two_dead_processes_left(place: &MachinePlace) -> Result<()> {
    let command = both_dead(place)?;
    place.answers("restore", 0, &["undid what process"])?;
    place.as_before()?;
    lives_at_home(command)?;
    let command = both_dead(place)?;
    place
        .script("load 20 --cpus 0 --no-settle --no-out", "exit 2")?
        .expect(2)?
        .says(&["undid what sandbag process", "left when it was killed"])?;
    place.as_before()?;
    lives_at_home(command)
}

/// A journal that cannot be read, removed at the end.
struct Unreadable;

impl Unreadable {
    /// Of a process that cannot be (PID_MAX_LIMIT is 4194304).
    const PATH: &str = "/run/sandbag/4194305.journal";

    fn make() -> Result<Self> {
        fs::create_dir_all(Self::PATH).context(Self::PATH)?;
        Ok(Self)
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        let _ = fs::remove_dir(Self::PATH);
    }
}

fn a_journal_that_cannot_be_read_hides_no_other(place: &MachinePlace) -> Result<()> {
    let command = both_dead(place)?;
    let unreadable = Unreadable::make()?;
    place.answers("restore", 1, &["undid what process", Unreadable::PATH])?;
    let run = place.start_burning("load 20 --cpus 0 --no-out -q", 1)?;
    let status = place.run("status")?.expect(0)?.says(&[Unreadable::PATH])?;
    status.shows(&[&format!("{}: constant 20 %", run.id())])?;
    place.run(&format!("stop {}", run.id()))?.expect(0)?;
    finish(run)?;
    drop(unreadable);
    place.as_before()?;
    lives_at_home(command)
}
