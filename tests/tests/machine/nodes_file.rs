// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several nodes from a file: what their commands get and say, and every way
//! in which it ends.

use nix::sys::signal::{SigHandler, signal};

use crate::prelude::*;
use crate::slowed::{Spinners, Waiting, spin};
use crate::terminal::{CTRL_C, Terminal};

cases! { CASES: two_cpus;
    unequal_nodes_run_their_commands,
    commands_that_fail_are_told,
    a_node_without_commands_stays_until_it_is_stopped,
    signals_end_the_commands_and_the_nodes,
    ctrl_c_ends_commands_and_nodes,
    what_the_caller_ignores_ends_nothing,
    nodes_end_when_their_parent_is_killed,
    a_node_that_dies_is_told_and_its_program_goes_on,
    a_node_that_is_stopped_before_its_program_is_missed,
    a_node_of_somebody_else_s_name_is_refused,
    a_dry_run_changes_nothing,
}

/// Two nodes, each with a command given as TOML.
fn two(place: &MachinePlace, first: &str, second: &str) -> Result<()> {
    let text = format!(
        "[defaults]\nenv = {{ WHOSE = \"test\" }}\n\
         [[node]]\nname = \"fast\"\ncpus = 0\nspeed = 0.8\n{first}\n\
         [[node]]\nname = \"slow\"\ncpus = 1\nspeed = 0.3\n{second}\n"
    );
    Ok(fs::write(place.path("n.toml"), text)?)
}

fn command(script: &str) -> String {
    format!("command = [\"sh\", \"-c\", '''{script}''']")
}

/// A command that writes who it is to a file of this name, and spins in
/// processes of its own.
fn spinning(name: &str) -> String {
    command(&format!("mkdir {name} && cd {name} && {}", spin(2)))
}

fn spinners(place: &MachinePlace, name: &str) -> Result<Spinners> {
    let text = place.written(&format!("{name}/pids"))?;
    Spinners::from_text(&text)
}

/// Both nodes, each with 2 spinning processes.
fn start_spinning(place: &MachinePlace) -> Result<(Child, Spinners, Spinners)> {
    two(place, &spinning("a"), &spinning("b"))?;
    let run = place.start("slow n.toml --no-out")?;
    let first = spinners(place, "a");
    let second = spinners(place, "b");
    Ok((run, first?, second?))
}

fn unequal_nodes_run_their_commands(place: &MachinePlace) -> Result<()> {
    let script = "echo $SANDBAG_NODE $SANDBAG_NODE_SPEEDS $WHOSE $(taskset -pc $$ | tail -c 2)";
    two(
        place,
        &command(script),
        "commands = [\"echo one\", \"echo two\"]",
    )?;
    let ended = place.run("slow n.toml --out r")?.expect(0)?;
    let slow = "node slow: CPUs 1, speed 1=0.3";
    let ended = ended.says(&["node fast: CPUs 0", slow, "ended with 0"])?;
    for line in ["fast 0=0.8 test 0", "one", "two"] {
        let found = ended.out.lines().any(|l| l == line);
        ensure!(found, "no {line:?}: {ended:?}");
    }
    for name in ["fast", "slow"] {
        let record = place.path("r").join(name).join("run.json");
        let record: Value = serde_json::from_str(&text_of(record)?)?;
        ensure!(record["arguments"][1] == "n.toml", "{record}");
        ensure!(record["commands"][0]["exit_code"] == 0, "{record}");
    }
    place.as_before()?;

    let (run, first, second) = start_spinning(place)?;
    for (spinners, mu) in [(&first, 0.8), (&second, 0.3)] {
        spinners.prefer()?;
        let got = spinners.get(Duration::from_millis(1500))?;
        figure!(got.spun < mu + 0.08 && got.spun > mu / 3.0, "{mu}: {got:?}");
    }
    drop((first, second));
    finish(run)?.expect(0)?;
    Ok(())
}

fn commands_that_fail_are_told(place: &MachinePlace) -> Result<()> {
    two(place, &command("exit 7"), &command("sleep 0.3; kill -9 $$"))?;
    place.run("slow n.toml --no-out")?.expect(7)?.says(&[
        "node fast: ",
        "ended with 7",
        "node slow: ",
        "ended with 137",
    ])?;
    two(place, &command("exit 0"), &command("kill -9 $$"))?;
    place.run("slow n.toml --no-out")?.expect(137)?;
    Ok(())
}

fn a_node_without_commands_stays_until_it_is_stopped(place: &MachinePlace) -> Result<()> {
    two(place, &command("exit 0"), "")?;
    let mut run = place.start("slow n.toml --no-out --tolerance 99")?;
    wait_for("both nodes", || {
        let listed = place.run("slow list").ok()?.out;
        (listed.contains("fast: ") && listed.contains("slow: ")).then_some(())
    })?;
    std::thread::sleep(Duration::from_millis(700));
    ensure!(run.try_wait()?.is_none(), "it did not stay");
    let inside = place.run("slow exec slow -- sh -c true")?;
    inside.expect(0)?;
    place.run("slow stop slow")?.expect(0)?;
    // There was a command, and it ended well: its code, whatever the verdicts.
    finish(run)?.expect(0)?.says(&["node slow ended"])?;
    Ok(())
}

fn signals_end_the_commands_and_the_nodes(_: &MachinePlace) -> Result<()> {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGQUIT, 131),
    ] {
        let place = MachinePlace::new()?;
        let own = |name: &str| {
            command(&format!(
                "echo > {name}; trap 'exit $((128+{}))' {}; while :; do sleep 0.02; done",
                signal as i32,
                &signal.as_str()[3..]
            ))
        };
        two(&place, &own("a"), &own("b"))?;
        let run = place.start("slow n.toml --no-out")?;
        place.written("a")?;
        place.written("b")?;
        let ended = end(run, signal)?.expect(code)?;
        ensure!(
            ended.err.matches(&format!("ended with {code}")).count() == 2,
            "{ended:?}"
        );
        place.as_before()?;
    }
    Ok(())
}

fn ctrl_c_ends_commands_and_nodes(place: &MachinePlace) -> Result<()> {
    two(
        place,
        &command(
            "trap 'echo int >> ints' INT; echo > a; while [ ! -e ints ]; do sleep 0.02; done; \
             sleep 0.3; exit 130",
        ),
        &command("echo > b; exec sleep 1000"),
    )?;
    let mut terminal = Terminal::new(place, "$SANDBAG slow n.toml --no-out; echo code $? end")?;
    place.written("a")?;
    place.written("b")?;
    terminal.press(CTRL_C)?;
    let said = terminal.finish()?;
    ensure!(said.contains("code 130 end"), "{said}");
    ensure!(
        said.contains("verdict") && said.contains(" slow "),
        "no report: {said}"
    );
    // Of the terminal alone.
    ensure!(text_of(place.path("ints"))? == "int\n");
    Ok(())
}

fn what_the_caller_ignores_ends_nothing(place: &MachinePlace) -> Result<()> {
    let own = |name: &str| {
        command(&format!(
            "echo > {name}; while [ ! -e end ]; do sleep 0.02; done"
        ))
    };
    two(place, &own("a"), &own("b"))?;
    let mut command = place.sandbag(["slow", "n.toml", "--no-out"]);
    // SAFETY: ignoring a signal installs no handler.
    unsafe {
        command.pre_exec(|| {
            for ignored in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGCHLD] {
                signal(ignored, SigHandler::SigIgn)?;
            }
            Ok(())
        });
    }
    let run = command.spawn()?;
    place.written("a")?;
    place.written("b")?;
    kill(pid_of(&run), Signal::SIGHUP)?;
    kill(pid_of(&run), Signal::SIGTERM)?;
    std::thread::sleep(Duration::from_millis(300));
    ensure!(lives(pid_of(&run)), "ended by a signal that was ignored");
    fs::write(place.path("end"), "")?;
    // The nodes end all the same.
    finish(run)?.expect(0)?;
    Ok(())
}

fn nodes_end_when_their_parent_is_killed(place: &MachinePlace) -> Result<()> {
    let temporary = || fs::read_dir(std::env::temp_dir()).map(Iterator::count);
    let (mut run, first, second) = start_spinning(place)?;
    let before = temporary()?;
    run.kill()?;
    run.wait()?;
    let took = place.as_before()?;
    ensure!(took < Duration::from_secs(4), "after {took:?}");
    let both = Spinners([first.0.clone(), second.0.clone()].concat());
    both.are_free()?;
    ensure!(temporary()? <= before, "a file was left");
    Ok(())
}

fn a_node_that_dies_is_told_and_its_program_goes_on(place: &MachinePlace) -> Result<()> {
    let (run, first, second) = start_spinning(place)?;
    let listed = place.run("slow list --json")?.expect(0)?.out;
    let slow = listed.lines().find(|line| line.contains("\"slow\""));
    let status: Value = serde_json::from_str(slow.context("no node slow")?)?;
    are_described(&[&status, &status["speeds"][0]], FIELDS)?;
    let pid = status["pid"].as_i64().context("no pid")?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
    wait_for("its socket's end", || {
        (!fs::exists("/run/sandbag/nodes/slow.sock").ok()?).then_some(())
    })?;
    second.are_free()?;
    ensure!(place.run("slow list")?.expect(0)?.out.starts_with("fast: "));
    drop((first, second));
    // What its commands were slowed by is not known.
    finish(run)?.expect(1)?.says(&[
        "node slow ended",
        "goes on at full speed",
        "left no record",
    ])?;
    Ok(())
}

/// Its own record says that it was kept, for it ended as it was asked to.
fn a_node_that_is_stopped_before_its_program_is_missed(place: &MachinePlace) -> Result<()> {
    two(place, &command("sleep 3"), &spinning("b"))?;
    let run = place.start("slow n.toml --strict --out r")?;
    let spinners = spinners(place, "b")?;
    std::thread::sleep(Duration::from_millis(1500));
    place.run("slow stop slow")?.expect(0)?;
    spinners.are_free()?;
    drop(spinners);
    let says = ["node slow ended", "it ended before its commands did"];
    finish(run)?.expect(3)?.says(&says)?;
    let nodes: Value = serde_json::from_str(&place.written("r/nodes.json")?)?;
    ensure!(
        nodes
            .to_string()
            .contains("it ended before its commands did")
    );
    Ok(())
}

/// A name that another node has is detected when the node starts.
fn a_node_of_somebody_else_s_name_is_refused(place: &MachinePlace) -> Result<()> {
    let other = Waiting::start(place, "slow", "--cpus 0 --speed 0.9")?;
    let text = "[[node]]\nname = \"slow\"\ncpus = 1\nspeed = 0.3\ncommand = \"touch ran\"\n";
    fs::write(place.path("n.toml"), text)?;
    let says = ["`slow` runs already", "did not start"];
    place.answers("slow n.toml --no-out", 1, &says)?;
    ensure!(!place.path("ran").exists(), "the command ran");
    // It is not ended for it.
    ensure!(other.status()?["cpus"] == "0");
    Ok(())
}

fn a_dry_run_changes_nothing(place: &MachinePlace) -> Result<()> {
    two(place, &command("echo > ran"), "method = \"deadline\"")?;
    let says = ["node fast: CPUs 0, speed 0=0.8", "node slow: CPUs 1"];
    place.answers("slow n.toml --dry-run", 0, &says)?;
    let slow = "slow --cpus 0 --speed 0.5 --method deadline --dry-run -- touch ran";
    place.run(slow)?.expect(0)?;
    place.has_files(".", 1)?;
    let took = place.as_before()?;
    figure!(took < Duration::from_secs(1), "something was changed");
    Ok(())
}
