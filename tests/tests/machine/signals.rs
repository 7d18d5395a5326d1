// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals from other processes (those of a terminal's keys: `terminal`).

use nix::sys::signal::{SigHandler, Signal, kill, signal};

use crate::prelude::*;

cases! { CASES: root;
    signals_are_passed_on_to_the_command,
    the_second_ending_signal_ends_us_at_once,
    a_signal_to_us_and_to_our_group_is_one,
    a_signal_before_the_start_is_passed_on_after_it,
    without_a_command_a_signal_is_the_usual_end,
    an_interrupt_before_the_start_leaves_no_command,
    what_the_caller_ignores_stays_ignored,
    a_stop_is_a_pause_of_everything,
    a_stop_before_the_start_is_one_too,
    a_guardian_or_burner_that_dies_is_replaced,
    a_burner_killed_before_the_start_is_replaced,
}

fn signals_are_passed_on_to_the_command(place: &MachinePlace) -> Result<()> {
    let (run, _) = place.start_ready(
        "load 20 --no-settle --no-out -q",
        "for s in USR1 USR2 HUP INT; do trap \"echo got $s >> got\" $s; done; \
         trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 0.05; done",
    )?;
    let mut expected = String::new();
    for sent in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP] {
        kill(pid_of(&run), sent)?;
        expected += &format!("got {}\n", &sent.as_str()[3..]);
        wait_until("the command's answer", || {
            text_of(place.path("got")).is_ok_and(|got| got == expected)
        })?;
    }
    // The second that would end it: SIGTERM is passed on all the same.
    end(run, Signal::SIGTERM)?.expect(130)?;
    Ok(())
}

fn the_second_ending_signal_ends_us_at_once(place: &MachinePlace) -> Result<()> {
    let (run, command) = place.start_ready(
        "load 20 --no-settle --no-out -q",
        "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.05; done >/dev/null 2>&1",
    )?;
    kill(pid_of(&run), Signal::SIGTERM)?;
    std::thread::sleep(Duration::from_millis(300));
    ensure!(lives(pid_of(&run)), "ended by the first signal");
    kill(pid_of(&run), Signal::SIGTERM)?;
    let mut run = run;
    let status = wait_for("its end", || run.try_wait().ok().flatten())?;
    ensure!(status.code() == Some(130), "{status}");
    lives_at_home(command)
}

/// As timeout(1) does it: to the group that it leads, and it ignores the
/// signal itself. We sleep while the command answers, so that a second signal
/// could not be taken for the first.
fn a_signal_to_us_and_to_our_group_is_one(place: &MachinePlace) -> Result<()> {
    let command = "trap 'echo got >> got' TERM; echo ready > ready; n=0; \
         while [ $n -lt 30 ]; do sleep 0.05 & wait; n=$((n + 1)); done; exit 7";
    let sender = format!(
        "{} load 20 --no-settle --no-out -q -- sh -c \"$0\" & run=$!
         until [ -e ready ]; do sleep 0.05; done
         kill -STOP $run; trap '' TERM; kill -TERM 0; sleep 0.3; kill -CONT $run
         wait $run; code=$?
         # `wait` returns at once if a signal comes.
         while kill -0 $run 2> /dev/null; do sleep 0.05; done; exit $code",
        place.sandbag.display()
    );
    let sender = place
        .program("setsid", ["sh", "-c", &sender, command])
        .spawn()?;
    finish(sender)?.expect(7)?;
    ensure!(text_of(place.path("got"))? == "got\n");
    Ok(())
}

fn a_signal_before_the_start_is_passed_on_after_it(place: &MachinePlace) -> Result<()> {
    let run = place.start_script("load 50 --cpus 0 --no-out -q", "sleep 5; exit 7")?;
    place.burners(1)?;
    kill(pid_of(&run), Signal::SIGUSR1)?;
    // What SIGUSR1 does to a program that knows nothing of it.
    finish(run)?.expect(128 + Signal::SIGUSR1 as i32)?;
    Ok(())
}

fn without_a_command_a_signal_is_the_usual_end(place: &MachinePlace) -> Result<()> {
    use Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for sent in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let run = place.start_burning(&format!("load 20 --cpus 0 --out {sent} -q"), 1)?;
        std::thread::sleep(Duration::from_millis(2000));
        end(run, sent)?.judged().context(sent)?;
        let got = place.record(sent.as_str())?.cpus[0].got_pct;
        figure!((got - 20.0).abs() < 5.0, "{sent}: got {got} %");
        place.as_before()?;
    }
    Ok(())
}

fn an_interrupt_before_the_start_leaves_no_command(place: &MachinePlace) -> Result<()> {
    for round in 0..8 {
        let run = place.start_script("load 20 --out r --force -q", "echo started > started")?;
        place.burners(1)?;
        std::thread::sleep(Duration::from_millis(round * 12));
        let ended = end(run, Signal::SIGINT)?;
        let started = place.path("started").exists();
        ensure!(ended.code() == 130 || started, "{ended:?}");
        ensure!(place.ours(Role::Command).is_empty(), "the command waits on");
        place.as_before()?;
    }
    Ok(())
}

/// nohup, and shells that start jobs in the background without job control.
fn what_the_caller_ignores_stays_ignored(place: &MachinePlace) -> Result<()> {
    let ignoring = |words: &[&str]| {
        let mut command = place.sandbag(words);
        // SAFETY: ignoring a signal installs no handler.
        unsafe {
            command.pre_exec(|| {
                for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGCHLD] {
                    signal(ignored, SigHandler::SigIgn)?;
                }
                Ok(())
            });
        }
        command
    };
    let words = ["load", "20", "--cpus", "0", "--no-out", "-q"];
    let run = ignoring(&words).spawn()?;
    place.burners(1)?;
    std::thread::sleep(Duration::from_millis(2500));
    kill(pid_of(&run), Signal::SIGHUP)?;
    kill(pid_of(&run), Signal::SIGINT)?;
    std::thread::sleep(Duration::from_millis(500));
    ensure!(lives(pid_of(&run)), "ended by a signal that was ignored");
    end(run, Signal::SIGTERM)?.judged()?;
    // A process that ignores SIGCHLD never hears that a child ended.
    let with_command = [&words[..], &["--no-settle", "--", "sh", "-c", "exit 4"]].concat();
    finish(ignoring(&with_command).spawn()?)?.expect(4)?;
    Ok(())
}

fn a_stop_is_a_pause_of_everything(place: &MachinePlace) -> Result<()> {
    let (run, command) = place.start_ready(
        "load 50 --cpus 0 -d 3s --out r -q",
        "echo $$ > pid; exec sleep 3",
    )?;
    let burner = place.burners(1)?[0];
    std::thread::sleep(Duration::from_millis(900));
    kill(pid_of(&run), Signal::SIGTSTP)?;
    wait_until("the stop", || {
        state_of(pid_of(&run)) == Some('T') && state_of(command) == Some('T')
    })?;
    std::thread::sleep(Duration::from_millis(150));
    let before = used(burner)?;
    std::thread::sleep(Duration::from_millis(1500));
    let ticks = used(burner)? - before;
    ensure!(ticks <= 2, "the burner took {ticks} ticks in the pause");
    end(run, Signal::SIGCONT)?.expect(0)?;
    let record = place.record("r")?;
    figure!((1.5..2.5).contains(&record.paused_s), "{record:?}");
    figure!(record.length_s < 3.5, "{record:?}");
    record.cpus[0].expect_near(50.0, 5.0)
}

fn a_stop_before_the_start_is_one_too(place: &MachinePlace) -> Result<()> {
    let run = place.start_script("load 50 --cpus 0 --no-out -q", "echo started > started")?;
    place.burners(1)?;
    kill(pid_of(&run), Signal::SIGTSTP)?;
    wait_until("the stop", || state_of(pid_of(&run)) == Some('T'))?;
    std::thread::sleep(Duration::from_millis(800));
    ensure!(!place.path("started").exists(), "it started while stopped");
    end(run, Signal::SIGCONT)?.expect(0)?;
    Ok(())
}

fn a_guardian_or_burner_that_dies_is_replaced(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 50 --cpus 0 -d 6s --out r", 1)?;
    std::thread::sleep(Duration::from_millis(1500));
    for role in [Role::Guardian, Role::Burner] {
        let victim = place.ours(role)[0];
        kill(victim, Signal::SIGKILL)?;
        wait_for("another", || {
            let now = place.ours(role);
            (!now.is_empty() && !now.contains(&victim)).then_some(())
        })?;
    }
    wait_until("no zombie", || zombies(pid_of(&run)) == 0)?;
    let ended = finish(run)?.says(&[
        "the guardian ended (signal 9) and was started again",
        "the burner of CPU 0 ended (signal 9) and was started again",
    ])?;
    ensure!(ended.code() == 3, "the load was absent: {ended:?}");
    let record = place.record("r")?;
    ensure!(record.verdict == "missed", "{}", record.verdict);
    let cpu = &record.cpus[0];
    figure!((1..=2).contains(&cpu.holes), "{} holes", cpu.holes);
    figure!((cpu.got_pct - 50.0).abs() < 10.0, "got {} %", cpu.got_pct);
    Ok(())
}

fn a_burner_killed_before_the_start_is_replaced(place: &MachinePlace) -> Result<()> {
    let run = place.start("load 50 --cpus 0 -d 3s --out r -q")?;
    let burner = place.burners(1)?[0];
    // It is in its group as soon as it waits for orders.
    std::thread::sleep(Duration::from_millis(60));
    kill(burner, Signal::SIGKILL)?;
    finish(run)?;
    let got = place.record("r")?.cpus[0].got_pct;
    figure!(got > 30.0, "nobody took its place: got {got} %");
    Ok(())
}
