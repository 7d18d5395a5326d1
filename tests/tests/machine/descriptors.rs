// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What our processes and the command inherit: nothing that is not theirs.

use std::os::fd::AsRawFd as _;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::prelude::*;

cases! { CASES: root;
    the_command_gets_no_descriptor_and_no_signal_mask_of_ours,
    our_processes_hold_nothing_of_the_caller_s,
    the_command_gets_the_caller_s_limit_of_open_files_and_the_supervisor_more,
    output_that_nobody_reads_is_no_reason_to_fail,
    closed_standard_streams_are_no_reason_to_fail,
}

fn the_command_gets_no_descriptor_and_no_signal_mask_of_ours(place: &MachinePlace) -> Result<()> {
    // Without the numbers of pipes, which are others each time.
    let script = "for f in /proc/$$/fd/*; do readlink $f || echo gone; done | sed 's/\\[.*//'; \
                  grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let alone = finish(place.program("sh", ["-c", script]).spawn()?)?.expect(0)?;
    let beside = place
        .script("load 20 --no-settle --out r -q --windows 100ms", script)?
        .expect(0)?;
    let (alone, beside) = (ordinary(&alone.out), ordinary(&beside.out));
    ensure!(alone == beside, "{alone:?}, beside a load {beside:?}");
    Ok(())
}

/// Lines without what the shell itself had open for a moment, and without the
/// C library's own signals (32 and up), whose disposition its spawn changes.
fn ordinary(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mask = line.strip_prefix("SigIgn:").map(str::trim);
        match mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()) {
            Some(mask) => format!("ignored {:x}", mask & 0x7fff_ffff),
            None => line.to_owned(),
        }
    };
    let lines = text.lines().filter(|line| *line != "gone");
    lines.map(line).collect()
}

fn links(pid: Pid) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = entries
        .flatten()
        .filter_map(|e| fs::read_link(e.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// A process that waits for the end of a pipe that we inherited, as build tools
/// do, must not wait for our guardian.
fn our_processes_hold_nothing_of_the_caller_s(place: &MachinePlace) -> Result<()> {
    let (read, write) = nix::unistd::pipe()?;
    fcntl(&write, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let pipe = fs::read_link(format!("/proc/self/fd/{}", read.as_raw_fd()))?;
    let pipe = pipe.display().to_string();
    let run = place.start("load 20 --cpus 0 --out r -q")?;
    let burners = place.burners(1)?;
    // Their descriptors are settled once they are at work.
    std::thread::sleep(Duration::from_millis(500));
    ensure!(links(pid_of(&run)).contains(&pipe), "the test is wrong");
    for pid in burners.into_iter().chain(place.ours(Role::Guardian)) {
        let held = links(pid);
        ensure!(
            !held.contains(&pipe),
            "{pid} holds the caller's pipe: {held:?}"
        );
        let files = held.iter().filter(|link| link.contains("achieved"));
        ensure!(files.count() == 0, "{pid} holds our files: {held:?}");
    }
    end(run, Signal::SIGTERM)?;
    Ok(())
}

fn the_command_gets_the_caller_s_limit_of_open_files_and_the_supervisor_more(
    place: &MachinePlace,
) -> Result<()> {
    let ended = place
        .bash(
            "ulimit -Sn 64; $S load 20 --no-settle --no-out -q -- sh -c \
             'ulimit -Sn; ulimit -Hn; grep \"^Max open files\" /proc/$SANDBAG_PID/limits'",
        )?
        .expect(0)?;
    let words: Vec<&str> = ended.out.split_ascii_whitespace().collect();
    let ["64", most, "Max", "open", "files", soft, hard, "files"] = words[..] else {
        anyhow::bail!("{ended:?}");
    };
    ensure!(soft == most && hard == most, "{ended:?}");
    Ok(())
}

fn output_that_nobody_reads_is_no_reason_to_fail(place: &MachinePlace) -> Result<()> {
    let mut run = place.start_script("load 20 -v --json=- --out r", "sleep 1.2; exit 3")?;
    drop(run.stdout.take());
    drop(run.stderr.take());
    finish(run)?.expect(3)?;
    place.record("r")?;
    let mut run = place.start("load 20 -v --json=- -d 1200ms --out s")?;
    drop(run.stdout.take());
    drop(run.stderr.take());
    finish(run)?.judged()?;
    place.record("s")?;
    Ok(())
}

fn closed_standard_streams_are_no_reason_to_fail(place: &MachinePlace) -> Result<()> {
    let mut command = place.sandbag("load 20 -v -d 1200ms --cpus 0 --out r".split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: close is async-signal-safe; these are the child's own.
    unsafe {
        command.pre_exec(|| {
            for fd in 0..3 {
                let _ = nix::unistd::close(fd);
            }
            Ok(())
        });
    }
    finish(command.spawn()?)?.judged()?;
    let record = place.record("r")?;
    record.cpus[0].expect_near(20.0, 5.0)?;
    ensure!(text_of(place.path("r/achieved.csv"))?.lines().count() > 1);
    Ok(())
}
