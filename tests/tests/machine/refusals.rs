// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What sandbag refuses, and that it changes nothing then.

use crate::prelude::*;

cases! { CASES: root;
    the_same_cpus_twice_are_refused_with_the_first_one_s_pid,
    cpus_and_groups_that_are_not_there_are_refused,
    without_root_the_remedy_is_named,
    who_may_not_be_real_time_is_told_before_the_run,
    a_command_that_cannot_run_leaves_nothing,
    beside_a_command_a_refusal_is_125_and_in_run_json,
    a_refusal_that_names_no_directory_makes_none,
    a_run_that_may_write_no_byte_leaves_no_directory,
    files_of_a_run_are_created_anew,
    a_dry_run_says_what_a_run_would_say,
}

cases! { APART: two_cpus; disjoint_cpus_can_be_loaded_at_once }

fn the_same_cpus_twice_are_refused_with_the_first_one_s_pid(place: &MachinePlace) -> Result<()> {
    let first = place.start_burning("load 20 --cpus 0 --no-out -q", 1)?;
    let pid = first.id().to_string();
    let says = [&*pid, "CPUs 0 ", "sandbag stop"];
    place.answers("load 20 --cpus all -d 1s --no-out", 5, &says)?;
    end(first, Signal::SIGTERM)?;
    Ok(())
}

fn disjoint_cpus_can_be_loaded_at_once(place: &MachinePlace) -> Result<()> {
    let first = place.start("load 20 --cpus 0 --out first -q")?;
    let second = place.start_burning("load 30 --cpus 1 --out second -q", 2)?;
    std::thread::sleep(Duration::from_millis(2500));
    for run in [first, second] {
        end(run, Signal::SIGINT)?.judged()?;
    }
    place.as_before()?;
    for (name, cpu, asked) in [("first", 0, 20.0), ("second", 1, 30.0)] {
        let record = place.record(name)?;
        let got = &record.cpus[0];
        ensure!(
            got.cpu == cpu && (got.asked_pct - asked).abs() < 1e-9,
            "{got:?}"
        );
        got.expect_near(asked, 5.0)?;
    }
    Ok(())
}

fn cpus_and_groups_that_are_not_there_are_refused(place: &MachinePlace) -> Result<()> {
    let no_cpu = ["not present", "online here are 0"];
    let no_group = ["is not a group", "--cgroup takes"];
    for (options, code, says) in [
        ("--cpus 1023", 2, no_cpu),
        ("--cpus 0,4095 --no-out", 2, no_cpu),
        ("--cgroup /no/such/group", 5, no_group),
        ("--cgroup /etc", 5, no_group),
    ] {
        place.answers(&format!("load 20 -d 1s {options}"), code, &says)?;
    }
    place.has_files(".", 0)
}

fn without_root_the_remedy_is_named(place: &MachinePlace) -> Result<()> {
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    place
        .bash(&format!("exec {nobody} $S load 20 --no-out"))?
        .expect(5)?
        .says(&["no permission", "run as root", "--cgroup"])?;
    Ok(())
}

fn who_may_not_be_real_time_is_told_before_the_run(place: &MachinePlace) -> Result<()> {
    let without = "setpriv --bounding-set -sys_nice --inh-caps -sys_nice";
    let says = ["real-time tasks", "CAP_SYS_NICE", "use --method pace"];
    for (options, code) in [
        ("slow --cores 1 --speed .5 -d 1s --no-out", 5),
        ("slow --cores 1 --speed .5 --dry-run -- touch ran", 125),
        ("load 20 --method rt -d 1s --no-out", 5),
        ("load 20 --method deadline -d 1s --no-out", 5),
        ("sweep --speed 1,.5 --runs 2 -- touch ran", 5),
    ] {
        let answer = place.bash(&format!("exec {without} $S {options}"))?;
        answer.expect(code)?.says(&says)?;
    }
    ensure!(!place.path("ran").exists(), "the command was run");
    place.has_files(".", 0)
}

fn a_command_that_cannot_run_leaves_nothing(place: &MachinePlace) -> Result<()> {
    let file = place.path("text");
    fs::write(&file, "neither program nor script")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    for (command, code, cause) in [
        ("no-such-program", 127, "No such file"),
        ("./no-such-file", 127, "No such file"),
        ("./text", 126, "denied"),
        ("/tmp", 126, "denied"),
    ] {
        place.answers(&format!("load 20 -- {command}"), code, &[command, cause])?;
    }
    place.has_files(".", 1)?;
    Ok(())
}

fn beside_a_command_a_refusal_is_125_and_in_run_json(place: &MachinePlace) -> Result<()> {
    for (options, code, words) in [
        ("--cpus 4095", 2, "not present"),
        ("--cgroup /no/such/group", 5, "is not a group"),
        ("--at @1000", 2, "is past"),
    ] {
        let load = format!("load 20 {options} --out r -- touch ran");
        place.answers(&load, 125, &[words])?;
        let record = place.json("r/run.json")?;
        let error = &record["error"];
        ensure!(error["exit_code_alone"] == code, "{record}");
        ensure!(
            error["message"].as_str().is_some_and(|m| m.contains(words)),
            "{record}"
        );
        place.has_files("r", 1)?;
    }
    ensure!(!place.path("ran").exists(), "the command was run");
    place
        .run("load 20 --cpus 4095 --no-out -- touch ran")?
        .expect(125)?;
    place.has_files(".", 1)?;
    Ok(())
}

fn a_refusal_that_names_no_directory_makes_none(place: &MachinePlace) -> Result<()> {
    let first = place.start_burning("load 20 --cpus 0 --no-out -q", 1)?;
    for options in [
        "load 20 --cpus 0",
        "load 20 --cpus 4095",
        "load 20 --pin 4095",
    ] {
        place.run(&format!("{options} -- touch ran"))?.expect(125)?;
        place.has_files(".", 0)?;
    }
    place
        .run("load 20 --cpus 0 -d 1s --out deep/er/r")?
        .expect(5)?;
    place.has_files(".", 0)?;
    place.run(&format!("stop {}", first.id()))?.expect(0)?;
    finish(first)?;
    Ok(())
}

fn a_run_that_may_write_no_byte_leaves_no_directory(place: &MachinePlace) -> Result<()> {
    for options in ["-d 1s", "-d 1s --out deep/r", "--out deep/r -- true"] {
        let script = format!("ulimit -f 0; exec $S load 20 --cpus 0 {options}");
        place.bash(&script)?.expect_any(&[1, 125])?;
        place.has_files(".", 0)?;
    }
    Ok(())
}

/// Links and FIFOs of others in a directory that is there.
fn files_of_a_run_are_created_anew(place: &MachinePlace) -> Result<()> {
    fs::create_dir(place.path("r"))?;
    fs::write(place.path("kept"), "before")?;
    for name in ["run.json", "achieved.csv", "report.html"] {
        std::os::unix::fs::symlink(place.path("kept"), place.path("r").join(name))?;
    }
    let fifo = place.path("r/achieved-100ms.csv");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    place.run("load 20 --cpus 0 -d 1s --no-settle --windows 100ms --out r --force -q")?;
    for name in [
        "run.json",
        "achieved.csv",
        "achieved-100ms.csv",
        "report.html",
    ] {
        let meta = fs::symlink_metadata(place.path("r").join(name))?;
        ensure!(meta.is_file() && meta.len() > 0, "{name}: {meta:?}");
    }
    ensure!(fs::read_to_string(place.path("kept"))? == "before");
    Ok(())
}

fn a_dry_run_says_what_a_run_would_say(place: &MachinePlace) -> Result<()> {
    fs::write(place.path("bad.csv"), "time,cpu0\n0,50\n")?;
    let first = place.start_burning("load 20 --cpus 0 --no-out -q", 1)?;
    for (words, code, said) in [
        ("load 20 --cpus 4095 -d 1s", 2, "not present"),
        ("load 20 --cpus 0 -d 1s", 5, "already loaded"),
        ("replay bad.csv", 2, "no end"),
        ("load 20 -d 1s --at @1000", 2, "is past"),
        ("load 20 -d 1s --supervisor-cpu 4095", 2, "--supervisor-cpu"),
        ("load 20 --pin 4095 -- true", 125, "not present"),
        ("load 20 --cgroup /no/such/group", 5, "is not a group"),
    ] {
        for dry in ["--dry-run", ""] {
            let (options, command) = words.split_once(" --").unwrap_or((words, ""));
            let rest = if command.is_empty() { "" } else { " --" };
            place.answers(&format!("{options} {dry}{rest}{command}"), code, &[said])?;
        }
    }
    end(first, Signal::SIGTERM)?;
    let ended = place.run("load 100 --cpus 0 -d 1s --dry-run")?.expect(0)?;
    ensure!(ended.err.contains("at most"), "no note: {ended:?}");
    ensure!(ended.out.contains("would put"), "{ended:?}");
    Ok(())
}
