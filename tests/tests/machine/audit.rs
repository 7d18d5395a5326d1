// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit run`: a load on a CPU is found and named, and failures are
//! reported.

use crate::prelude::*;

cases! { CASES: root;
    a_killed_audit_leaves_nothing,
    an_audit_that_is_asked_to_stop_says_what_is_there,
    a_worker_that_is_killed_costs_one_test,
    what_cannot_be_tested_is_told,
    what_a_command_started_dies_with_a_killed_audit,
    a_command_behind_sudo_is_the_user_s,
}

cases! { QUIET: quiet;
    a_load_on_one_cpu_is_found_and_named,
}

/// Like [`two_cpus`], on an idle machine: where many tasks run, the kernel moves
/// them away from a loaded CPU until that one is the faster.
fn quiet() -> Result<(), String> {
    two_cpus()?;
    // Not the load average: it remembers the tests before.
    match stat::busy_share().map_err(|error| format!("{error:#}"))? {
        busy if busy > 0.3 => Err(format!(
            "others run here: CPUs are busy for {:.0} % of a second",
            busy * 100.0
        )),
        _ => Ok(()),
    }
}

fn a_load_on_one_cpu_is_found_and_named(place: &MachinePlace) -> Result<()> {
    let load = place.start_burning("load 50 --cpus 1 --quiet", 1)?;
    let run = "audit run --quick --tests compute --limit 8s --cpus 0-1 -o a.json";
    let ended = place.run(run)?.judged()?;
    end(load, Signal::SIGTERM)?;
    let audit = place.json("a.json")?;
    let verdicts = audit["tests"][0]["verdicts"].as_array();
    let verdicts = verdicts.context("no verdicts")?;
    // The time without the CPU, or what it makes of the elapsed time.
    let of = |quantity: &str| {
        let mut own = verdicts.iter().filter(|v| v["cpu"] == 1);
        own.find(|v| v["quantity"] == quantity)
    };
    let (elapsed, waiting) = (of("elapsed"), of("waiting"));
    let found = waiting.filter(|v| v["verdict"] == "unequal");
    let elapsed = found.or(elapsed).context("no verdict on CPU 1")?;
    case::note(elapsed["because"].as_str().unwrap_or_default());
    figure!(elapsed["verdict"] == "unequal", "{elapsed}");
    figure!(elapsed["nature"] == "contention", "{elapsed}");
    ensure!(ended.code() == 3, "{}", ended.code());
    let suspects = audit["suspects"].as_array().context("no suspects")?;
    let first = suspects.iter().find(|suspect| suspect["cpu"] == 1);
    let first = first.context("no suspect on CPU 1")?;
    figure!(first["kind"] == "load", "{suspects:#?}");
    Ok(())
}

/// An audit of a minute, and its process that works.
fn under_way(place: &MachinePlace) -> Result<(Child, Pid)> {
    let run = "audit run --quick --tests compute,syscall --limit 60s --precision 0.001 \
               --rounds 30..1000 -o a.json";
    let audit = place.start(run)?;
    let worker = place.one_of(Role::Auditor)?;
    std::thread::sleep(Duration::from_millis(1500));
    Ok((audit, worker))
}

fn a_killed_audit_leaves_nothing(place: &MachinePlace) -> Result<()> {
    let (audit, _) = under_way(place)?;
    end(audit, Signal::SIGKILL)?;
    Ok(())
}

fn an_audit_that_is_asked_to_stop_says_what_is_there(place: &MachinePlace) -> Result<()> {
    let (run, _) = under_way(place)?;
    end(run, Signal::SIGINT)?.judged()?;
    let audit = place.json("a.json")?;
    let remarks = audit["remarks"].to_string();
    ensure!(remarks.contains("asked to stop"), "{remarks}");
    let samples = audit["tests"][0]["samples"].as_array();
    let samples = samples.context("no samples")?;
    ensure!(!samples.is_empty(), "nothing was kept");
    Ok(())
}

fn a_worker_that_is_killed_costs_one_test(place: &MachinePlace) -> Result<()> {
    let run = "audit run --quick --tests compute,syscall --limit 1s --rounds 6..6 -o a.json";
    let run = place.start(run)?;
    let worker = place.one_of(Role::Auditor)?;
    std::thread::sleep(Duration::from_millis(500));
    kill(worker, Signal::SIGKILL)?;
    finish(run)?.judged()?;
    let audit = place.json("a.json")?;
    let tests = audit["tests"].as_array().context("no tests")?;
    // It was the turn of one of them.
    let failed = |test: &&Value| !test["failure"].is_null();
    let failures: Vec<_> = tests.iter().filter(failed).collect();
    ensure!(failures.len() == 1, "{failures:#?}");
    let failure = failures[0]["failure"].as_str().unwrap_or_default();
    ensure!(failure.contains("died"), "{failure}");
    let other = tests.iter().find(|test| test["failure"].is_null());
    let rounds = other.and_then(|test| test["samples"].as_array());
    let last = rounds.and_then(|all| all.last()).context("no samples")?;
    ensure!(last["round"] == 5, "{last}");
    Ok(())
}

fn what_cannot_be_tested_is_told(place: &MachinePlace) -> Result<()> {
    // One CPU; a file that exists, a full device, more memory than there is, a
    // command that fails.
    fs::write(place.path("theirs"), "precious")?;
    let run = "audit run --quick --limit 1s --rounds 3..3 --cpus 0 --tests io,memory \
               --file theirs --file /dev/full --memory 1000T --command no=false -o a.json";
    place.run(run)?.judged()?;
    let audit = place.json("a.json")?;
    let failure = |name: &str| {
        let tests = audit["tests"].as_array()?;
        let test = tests.iter().find(|test| test["name"] == name)?;
        test["failure"].as_str().map(str::to_owned)
    };
    let says = |name: &str, words: &str| -> Result<()> {
        let said = failure(name).with_context(|| format!("{name} did not fail: {audit}"))?;
        ensure!(said.contains(words), "{name}: {said}");
        Ok(())
    };
    says("io:theirs", "is no directory")?;
    says("io:/dev/full", "not written to")?;
    says("memory", "MiB")?;
    says("no", "exit code 1")?;
    ensure!(failure("io:/dev/null").is_none(), "{audit}");
    ensure!(audit["verdict"] == "undecided", "{}", audit["verdict"]);
    let remarks = audit["remarks"].to_string();
    ensure!(remarks.contains("one CPU"), "{remarks}");
    ensure!(fs::read(place.path("theirs"))? == b"precious");
    Ok(())
}

fn what_a_command_started_dies_with_a_killed_audit(place: &MachinePlace) -> Result<()> {
    // A length by which they are known.
    let length = format!("7654.{}", std::process::id());
    let audit = place
        .sandbag(["audit", "run", "--command"])
        .arg(format!("pipe=sleep {length} | sleep {length}"))
        .spawn()?;
    let sleepers = || -> Vec<Vec<String>> {
        let root = Root::default();
        let all = sandbag_linux::process::pids(&root).unwrap_or_default();
        let lines = all
            .into_iter()
            .flat_map(|pid| Process::new(&root, pid).command_line());
        lines.filter(|line| *line == ["sleep", &length]).collect()
    };
    wait_until("both ends of the pipe", || sleepers().len() == 2)?;
    end(audit, Signal::SIGKILL)?;
    wait_until("their end", || sleepers().is_empty())?;
    Ok(())
}

fn a_command_behind_sudo_is_the_user_s(place: &MachinePlace) -> Result<()> {
    let words = "audit run -o a.json --command".split(' ');
    // No test that could be done.
    let mut run = place.sudo(words.chain(["who=id -u >&2; false"]));
    finish(run.spawn()?)?.expect(1)?;
    let failure = place.json("a.json")?["tests"][0]["failure"].to_string();
    ensure!(failure.contains("65534"), "{failure}");
    let owner = fs::metadata(place.path("a.json"))?.uid();
    ensure!(owner == NOBODY, "a.json is user {owner}'s");
    Ok(())
}
