// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of the journals: who may write and lock it, and whose runs
//! its journals name.

use crate::prelude::*;

cases! { CASES: root;
    directory_and_journals_are_private_whatever_the_umask,
    what_another_user_forged_is_not_undone,
    a_lock_that_is_never_released_hangs_nobody,
    stop_all_names_what_it_ends,
}

cases! { APART: two_cpus;
    runs_of_two_pid_namespaces_are_told_apart,
    a_reader_that_leaves_status_is_no_failure,
}

/// A script in mount namespace of its own with a fresh /run, where `$S` is the
/// program.
fn with_own_run(place: &MachinePlace, script: &str) -> Result<PlaceExit> {
    let script = format!("mount -t tmpfs -o mode=755 none /run && {script}");
    let mut command = place.program("unshare", ["-m", "sh", "-c", &script]);
    command.env("S", &place.sandbag);
    finish(command.spawn()?)
}

fn directory_and_journals_are_private_whatever_the_umask(place: &MachinePlace) -> Result<()> {
    let ended = with_own_run(
        place,
        "umask 0; $S load 20 --no-out -q & \
         until ls /run/sandbag/*.journal >/dev/null 2>&1; do sleep 0.05; done; \
         stat -c %a /run/sandbag /run/sandbag/*.journal; kill $!; wait",
    )?;
    ensure!(ended.out == "700\n600\n", "{ended:?}");
    Ok(())
}

fn what_another_user_forged_is_not_undone(place: &MachinePlace) -> Result<()> {
    let secret = place.path("secret");
    fs::write(&secret, "before")?;
    // Into a directory that every user can write in, into one of the forger's,
    // and as a file of the forger's in one that was closed too late.
    let line = format!(
        r#"{{"entry":"setting","of":"cpufreq","path":"{}","old":"forged"}}"#,
        secret.display()
    );
    fs::write(place.path("line"), line + "\n")?;
    const FORGE: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups \
                         sh -c 'umask 0; cat line > /run/sandbag/1.journal'";
    for (make, close, code) in [
        ("mkdir -m 777 /run/sandbag", "true", 5),
        ("mkdir /run/sandbag && chown 65534 /run/sandbag", "true", 5),
        ("mkdir -m 777 /run/sandbag", "chmod 755 /run/sandbag", 1),
    ] {
        let script = format!("{make} && {FORGE} && {close} && $S restore");
        let ended = with_own_run(place, &script)?;
        let ended = ended.expect(code).context(make)?;
        ensure!(ended.err.contains("/run/sandbag"), "{ended:?}");
        ensure!(fs::read_to_string(&secret)? == "before", "{ended:?}");
    }
    // Nor through a directory that a user without root names.
    let script = "chmod 1777 /run && mkdir -m 777 /run/sandbag && \
                  XDG_RUNTIME_DIR=/run setpriv --reuid 65534 --regid 65534 --clear-groups \
                  $S restore";
    with_own_run(place, script)?.expect(5)?;
    Ok(())
}

fn a_lock_that_is_never_released_hangs_nobody(place: &MachinePlace) -> Result<()> {
    let before = text_of("/proc/sys/kernel/sched_rt_runtime_us")?;
    let begin = Instant::now();
    let script = "$S load 20 --method deadline -q --no-out -d 20s --cpus 0 & run=$!; \
                  until ls /run/sandbag/*.journal >/dev/null 2>&1; do sleep 0.05; done; \
                  sleep 1.5; (exec 9</run/sandbag; flock 9; exec sleep 30) & holder=$!; sleep 0.3; \
                  $S status; echo $?; kill $run; wait $run; \
                  ls /run/sandbag; kill $holder";
    let ended = with_own_run(place, script)?;
    // `status` gives up after 5 s, the undo after 1.5 s.
    figure!(begin.elapsed() < Duration::from_secs(15), "{ended:?}");
    ensure!(ended.out == "1\n", "{ended:?}");
    let ended = ended.says(&["/run/sandbag: locked for more than 5s by process"])?;
    let after = text_of("/proc/sys/kernel/sched_rt_runtime_us")?;
    ensure!(before == after, "{before} became {after}: {ended:?}");
    Ok(())
}

fn stop_all_names_what_it_ends(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 20 --cpus 0 --no-out -q", 1)?;
    let named = format!("ended {}: constant 20 % by pace on CPUs 0", run.id());
    place.run("stop --all")?.expect(0)?.says(&[&named])?;
    finish(run)?;
    Ok(())
}

fn a_reader_that_leaves_status_is_no_failure(place: &MachinePlace) -> Result<()> {
    let runs = [0, 1].map(|cpu| place.start(&format!("load 20 --cpus {cpu} --no-out -q")));
    place.burners(2)?;
    for reader in ["head -1", "true"] {
        for status in ["status", "status --json"] {
            let script = format!("set -o pipefail; $S {status} | {reader}");
            let ended = place.bash(&script)?.expect(0).context(script)?;
            let lines = usize::from(reader != "true");
            ensure!(ended.out.lines().count() == lines, "{ended:?}");
            ensure!(ended.err.is_empty(), "{ended:?}");
        }
    }
    for run in runs {
        let run = run?;
        end(run, Signal::SIGTERM)?;
    }
    Ok(())
}

/// Both supervisors have the number 1.
fn runs_of_two_pid_namespaces_are_told_apart(place: &MachinePlace) -> Result<()> {
    let start = |cpu: &str| {
        let sandbag = place.sandbag.display().to_string();
        let apart = ["--pid", "--fork", "--mount-proc", "--kill-child", &sandbag];
        let load = ["load", "20", "--cpus", cpu, "--no-out", "-q"];
        place.program("unshare", apart.iter().chain(&load)).spawn()
    };
    let first = start("0")?;
    place.burners(1)?;
    let second = start("1")?;
    place.burners(2)?;
    let status = wait_for("both", || {
        let status = place.run("status --json").ok()?;
        (status.out.lines().count() == 2).then_some(status)
    })?;
    let mut here = Vec::new();
    for line in status.out.lines() {
        let line: Value = serde_json::from_str(line)?;
        ensure!(line["pid"] == 1, "{line}");
        here.push(line["pid_here"].as_u64().context("not found here")?);
    }
    ensure!(here[0] != here[1] && !here.contains(&1), "{here:?}");
    // The first process of a namespace cannot stop itself.
    for (option, paused) in [("--pause", true), ("--resume", false)] {
        place.run(&format!("set {} {option}", here[0]))?.expect(0)?;
        wait_until(option, || {
            let status = place.run("status --json").map(|ended| ended.out);
            let lines = status.unwrap_or_default();
            let mut runs = lines
                .lines()
                .filter_map(|l| serde_json::from_str::<Value>(l).ok());
            runs.any(|run| run["pid_here"] == here[0] && run["paused"] == paused)
        })?;
    }
    // In a third namespace 1 is another process, and theirs cannot be seen.
    let script = format!("{} stop 1; echo $?", place.sandbag.display());
    let apart = ["--pid", "--fork", "--mount-proc", "sh", "-c", &script];
    let ended = finish(place.program("unshare", apart).spawn()?)?;
    ensure!(ended.out == "1\n", "{ended:?}");
    ensure!(ended.err.contains("another PID namespace"), "{ended:?}");
    place.answers("stop 1", 2, &["no run has process id 1"])?;
    place.run(&format!("stop {}", here[0]))?.expect(0)?;
    place.answers("stop --all", 0, &[&format!("ended {}", here[1])])?;
    for run in [first, second] {
        // It is the child's parent, and may have been told nothing.
        let _ = kill(pid_of(&run), Signal::SIGTERM);
        finish(run)?;
    }
    Ok(())
}
