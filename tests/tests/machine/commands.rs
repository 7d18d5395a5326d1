// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running a command: its exit code, its streams, what becomes of it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::prelude::*;

cases! { CASES: root;
    the_exit_code_is_the_command_s,
    a_time_limit_is_124_and_ends_a_command_that_will_not,
    a_time_limit_ends_what_the_command_started_too,
    a_time_limit_stands_still_with_the_run,
    a_burner_that_is_killed_again_and_again_is_our_failure,
    input_and_output_pass_through,
    an_argument_need_not_be_text,
    what_the_command_leaves_running_goes_back_to_its_group,
    the_command_lives_on_if_sandbag_is_killed,
    the_command_is_killed_with_sandbag_if_that_was_asked,
    only_pin_confines_the_command,
    strict_tells_that_the_load_was_missed,
    a_named_result_that_cannot_be_written_is_our_failure,
    a_start_at_a_given_time_is_kept,
    a_profile_that_is_read_after_the_given_start_is_replayed_late,
    a_profile_that_ends_first_ends_the_load_and_is_told,
    a_command_that_ends_first_limits_the_verdict_to_its_part,
    no_settle_starts_at_once,
    the_report_says_whose_migrations_it_counts,
}

/// Short runs whose load does not matter.
const QUICK: &str = "load 20 --no-settle --no-out -q";

fn the_exit_code_is_the_command_s(place: &MachinePlace) -> Result<()> {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
    ] {
        place.script(QUICK, script)?.expect(code)?;
    }
    place
        .script("load 20 --no-settle --out r -q", "kill -KILL $$")?
        .expect(137)?;
    let record = place.record("r")?;
    let command = record.command()?;
    ensure!(command.exit_code.is_none(), "{command:?}");
    ensure!(command.signal == Some(9), "{command:?}");
    Ok(())
}

fn a_time_limit_is_124_and_ends_a_command_that_will_not(place: &MachinePlace) -> Result<()> {
    let quick = format!("{QUICK} --timeout 300ms");
    place.script(&quick, "exec sleep 1000")?.expect(124)?;
    // SIGKILL comes 5 s later.
    let begin = Instant::now();
    place
        .script(&quick, "trap '' TERM; while :; do sleep 0.1; done")?
        .expect(124)?;
    ensure!(begin.elapsed() > Duration::from_secs(5), "killed too early");
    place.run("load 20 --timeout 300ms --no-out")?.expect(124)?;
    Ok(())
}

fn a_time_limit_ends_what_the_command_started_too(place: &MachinePlace) -> Result<()> {
    // The command ends when it is asked to, its child only when it is killed.
    place
        .script(
            &format!("{QUICK} --timeout 500ms"),
            "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.1; done' &
             sleep 1000 & echo $! > other; exec sleep 1000",
        )?
        .expect(124)?;
    for name in ["pid", "other"] {
        let pid = place.pid(name)?;
        ensure!(!lives(pid), "{name} lives on");
    }
    Ok(())
}

fn a_time_limit_stands_still_with_the_run(place: &MachinePlace) -> Result<()> {
    let script = "echo $$ > pid; sleep 1; sleep 0.2; exit 3";
    let (run, _) = place.start_ready(&format!("{QUICK} --timeout 2s"), script)?;
    kill(pid_of(&run), Signal::SIGTSTP)?;
    std::thread::sleep(Duration::from_millis(2500));
    end(run, Signal::SIGCONT)?.expect(3)?;
    Ok(())
}

fn a_burner_that_is_killed_again_and_again_is_our_failure(place: &MachinePlace) -> Result<()> {
    let (run, command) = place.start_ready(
        "load 20 --cpus 0 --no-settle --no-out",
        "echo $$ > pid; exec sleep 1000 >/dev/null 2>&1",
    )?;
    let mut last = None;
    for _ in 0..4 {
        let burner = wait_for("another burner", || {
            let mut now = place.burners(1).ok()?.into_iter();
            now.find(|burner| Some(*burner) != last)
        })?;
        // Time to begin.
        std::thread::sleep(Duration::from_millis(150));
        kill(burner, Signal::SIGKILL)?;
        last = Some(burner);
    }
    finish(run)?
        .expect(125)?
        .says(&["the burner of CPU 0", "signal 9", "started again"])?;
    lives_at_home(command)
}

fn input_and_output_pass_through(place: &MachinePlace) -> Result<()> {
    let words = ["--", "sh", "-c", "cat; echo to stderr >&2"];
    let mut run = place.sandbag(QUICK.split_whitespace().chain(words));
    let mut run = run.stdin(Stdio::piped()).spawn()?;
    let mut input = run.stdin.take().context("no stdin")?;
    input.write_all(b"line 1\nline 2")?;
    drop(input);
    let ended = finish(run)?.expect(0)?;
    ensure!(ended.out == "line 1\nline 2", "{ended:?}");
    ensure!(ended.err == "to stderr\n", "{ended:?}");
    // The reader goes away: the command dies of it, as it would alone.
    let pipe = format!("$S {QUICK} -- yes | head -n 1; echo ${{PIPESTATUS[0]}}");
    let ended = place.bash(&pipe)?.expect(0)?;
    ensure!(ended.out == "y\n141\n", "{ended:?}");
    Ok(())
}

fn an_argument_need_not_be_text(place: &MachinePlace) -> Result<()> {
    let words = "load 20 --no-settle --out r -q -- printf %s".split_whitespace();
    let words = words.map(OsStr::new).chain([OsStr::from_bytes(b"a\xffb")]);
    let ended = finish(place.sandbag(words).spawn()?)?.expect(0)?;
    ensure!(ended.out == "a\u{fffd}b", "{ended:?}");
    place.record("r")?;
    Ok(())
}

/// Also with `--kill`, which is for the death of sandbag and not for a normal end.
fn what_the_command_leaves_running_goes_back_to_its_group(place: &MachinePlace) -> Result<()> {
    let script = "sleep 1000 >/dev/null 2>&1 & echo $! > pid";
    for quick in [QUICK.to_owned(), format!("{QUICK} --kill")] {
        place.script(&quick, script)?.expect(0)?;
        lives_at_home(place.pid("pid")?)?;
    }
    Ok(())
}

/// A run that is killed when its command runs; the command and its child.
fn killed_beside_its_command(place: &MachinePlace, options: &str) -> Result<[Pid; 2]> {
    let (mut run, pid) = place.start_ready(
        &format!("{QUICK} {options}"),
        "sleep 1000 & echo $! > child; echo $$ > pid; exec sleep 1000",
    )?;
    place.burners(1)?;
    // Not `finish`: the command holds our pipes for as long as it lives.
    run.kill()?;
    run.wait()?;
    place.as_before()?;
    Ok([pid, place.pid("child")?])
}

fn the_command_lives_on_if_sandbag_is_killed(place: &MachinePlace) -> Result<()> {
    let pids = killed_beside_its_command(place, "")?;
    pids.into_iter().try_for_each(lives_at_home)
}

fn the_command_is_killed_with_sandbag_if_that_was_asked(place: &MachinePlace) -> Result<()> {
    let pids = killed_beside_its_command(place, "--kill")?;
    ensure!(!pids.into_iter().any(lives), "the command lives on");
    Ok(())
}

fn only_pin_confines_the_command(place: &MachinePlace) -> Result<()> {
    let allowed = |options: &str| -> Result<String> {
        let script = "grep Cpus_allowed_list /proc/self/status";
        let ended = place.script(&format!("{QUICK} {options}"), script)?;
        Ok(ended.expect(0)?.out)
    };
    let all = place.bash("grep Cpus_allowed_list /proc/self/status")?.out;
    ensure!(allowed("")? == all, "confined without --pin");
    ensure!(allowed("--supervisor-cpu 0")? == all);
    ensure!(allowed("--pin 0")?.trim().ends_with("\t0"), "not pinned");
    Ok(())
}

fn strict_tells_that_the_load_was_missed(place: &MachinePlace) -> Result<()> {
    // Nothing is kept to the nanosecond.
    let options = "load 20 --cpus 0 --no-out -q --tolerance 0.00001,0.00001";
    place.script(options, "sleep 1.2")?.expect(0)?;
    let strict = format!("{options} --strict");
    place.script(&strict, "sleep 1.2")?.expect_any(&[3, 4])?;
    place.script(&strict, "sleep 0.1; exit 6")?.expect(6)?;
    place
        .run(&format!("{options} -d 1s"))?
        .expect_any(&[3, 4])?;
    Ok(())
}

fn a_named_result_that_cannot_be_written_is_our_failure(place: &MachinePlace) -> Result<()> {
    let full = "load 20 --no-settle --no-out --json=/dev/full -q";
    for (script, code) in [("exit 0", 125), ("exit 7", 7)] {
        let ended = place.script(full, script)?.expect(code)?;
        ended.says(&["/dev/full", "No space left"])?;
    }
    // The directory is gone when the run ends.
    let gone = "load 20 --no-settle --out r -q";
    for (script, code) in [("rm -r r", 125), ("rm -r r; exit 7", 7)] {
        place.script(gone, script)?.expect(code)?.says(&["r/"])?;
    }
    place
        .script("load 20 --no-settle -q", "rm -r sandbag-run-*")?
        .expect(0)?;
    Ok(())
}

fn a_start_at_a_given_time_is_kept(place: &MachinePlace) -> Result<()> {
    // How it ended, and how long after the time given the command began.
    let started = |options: &str, after_s: f64| -> Result<(PlaceExit, f64)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let at = now + after_s;
        let options = format!("load 20 --no-out {options} --at @{at:.3}");
        let ended = place.script(&options, "date +%s.%N")?.expect(0)?;
        let late = ended.out.trim().parse::<f64>()? - at;
        Ok((ended, late))
    };
    let (_, late) = started("-q", 2.2)?;
    figure!((0.0..1.0).contains(&late), "{late} s after the time given");
    // Time 0 is a multiple of 100 ms of the monotonic clock, and how much
    // later that is was said before.
    let (ended, late) = started("", 2.2)?;
    let said = ended.err.split("run begins ").nth(1);
    let said = said.context("no word of it")?;
    let said: f64 = said.split(' ').next().unwrap_or("").parse()?;
    ensure!((0.0..100.0).contains(&said), "{said} ms");
    figure!((late - said / 1e3).abs() < 0.08, "{late} s, said {said} ms");
    place.run("load 20 --no-out --at @1000 -d 1s")?.expect(2)?;
    Ok(())
}

fn a_profile_that_is_read_after_the_given_start_is_replayed_late(
    place: &MachinePlace,
) -> Result<()> {
    let script = "at=$(($(date +%s) + 3))
        (sleep 5; printf 'time,cpu0\\n0,20\\n1,end\\n') | $S replay - --no-out --at @$at";
    let late = place.bash(script)?.judged()?;
    let said = late.err.replace("\n  ", " ");
    ensure!(said.contains("it was not ready before"), "{said}");
    ensure!(!said.contains("this host's run begins"), "{said}");
    Ok(())
}

fn a_profile_that_ends_first_ends_the_load_and_is_told(place: &MachinePlace) -> Result<()> {
    place
        .script("load 50 --cpus 0 -d 1s --out r", "sleep 3")?
        .expect(0)?;
    let record = place.record("r")?;
    ensure!(record.warns("before the command"), "{record:?}");
    let command = record.command()?;
    ensure!(command.wall_s > 2.9, "{command:?}");
    record.cpus[0].expect_near(50.0, 5.0)
}

fn a_command_that_ends_first_limits_the_verdict_to_its_part(place: &MachinePlace) -> Result<()> {
    // It works before the load is held, too: that is not in the efficiency.
    let script = "timeout 3 sh -c 'while :; do :; done'; true";
    let ended = place
        .script("load 50 --cpus 0 --pin 0 -d 6s --out r", script)?
        .expect(0)?;
    let only = "the command ended 3.";
    let part = " s before the profile: the verdict is about the first ";
    ensure!(ended.err.replace("\n  ", " ").contains(part), "{ended:?}");
    let record = place.record("r")?;
    ensure!(record.warns(part), "{record:?}");
    let near = record.warns(only) || record.warns("the command ended 2.9");
    figure!(near, "{record:?}");
    let reason = &record.reason;
    ensure!(reason.starts_with("the first "), "{reason}");
    ensure!(reason.contains(" of 6.0 s only: "), "{reason}");
    let command = record.command()?;
    let efficiency = command.efficiency.context("no efficiency")?;
    ensure!(command.used_s > Some(0.0), "{command:?}");
    ensure!(command.available_s > Some(0.0), "{command:?}");
    // What it used and what was left are counted by two clocks, some ms apart: 1.003 was
    // seen while a fifth of the time was stolen.
    figure!((0.0..=1.05).contains(&efficiency), "{command:?}");
    // A spinner alone uses what it is given; others may have had some of it.
    figure!(efficiency > 0.5, "{command:?}");
    Ok(())
}

fn no_settle_starts_at_once(place: &MachinePlace) -> Result<()> {
    let started = |options: &str| -> Result<Duration> {
        let begin = Instant::now();
        place.script(options, "true")?.expect(0)?;
        Ok(begin.elapsed())
    };
    let least = |options| -> Result<Duration> {
        let all: Result<Vec<_>> = (0..3).map(|_| started(options)).collect();
        all?.into_iter().min().context("none")
    };
    let (at_once, settled) = (
        least("load 20 --no-out -q --no-settle")?,
        least("load 20 --no-out -q")?,
    );
    figure!(at_once < settled, "{at_once:?}, settled {settled:?}");
    Ok(())
}

fn the_report_says_whose_migrations_it_counts(place: &MachinePlace) -> Result<()> {
    place
        .script("load 20 --cpus 0 --no-settle --out r -q", "sleep 2.2")?
        .expect(0)?;
    let record = place.record("r")?;
    let command = record.command()?;
    // Perf events exist for groups of v2; on v1 only one thread is counted.
    let v2 = fs::exists("/sys/fs/cgroup/cgroup.controllers")?;
    let whose = if v2 { "all threads" } else { "first thread" };
    let counted = command.migrations.map(|_| whose);
    ensure!(command.migrations_of.as_deref() == counted, "{command:?}");
    Ok(())
}
