// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of the user's as a test: started anew for each run, pinned, timed
//! by the kernel.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, getsid};
use sandbag_linux::child::{self, ChildSetup as _};
use sandbag_linux::user::User;
use sandbag_linux::{CpuList, Root, clock, process, sched};
use sandbag_run::leash;

use crate::error::Halt;
use crate::work::RunFigures;
use crate::worker::{Patience, unpin};

/// Between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes of its last output that an error quotes.
const LAST_WORDS: usize = 300;

/// Runs `command` by `/bin/sh -c` on one CPU; its output goes nowhere. The
/// times are those of the shell and of all that it waited for. What it starts
/// ends with it. With us ends its process group: if we are killed, groups that it made go on.
pub(crate) fn run(
    command: &str,
    user: Option<&User>,
    cpu: u32,
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<RunFigures, Halt> {
    let failed = |what: &str, cause: std::io::Error| Halt::Failed(format!("{what}: {cause}"));
    let (words, said) = std::io::pipe().map_err(|cause| failed("a pipe", cause))?;
    let only = CpuList::from_iter([cpu]);
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .env("SANDBAG_CPU", cpu.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said);
    let (held, end) = leash::pair().map_err(|cause| failed("a pipe", cause))?;
    let end_fd = end.as_raw_fd();
    shell.own_session().unblock_signals();
    // SAFETY: only async-signal-safe calls; the mask of so few CPUs is a small
    // allocation in a process of one thread.
    unsafe {
        shell.die_with_us(libc::SIGKILL).pre_exec(move || {
            leash::tie(end_fd)?;
            sched::set_affinity(0, &only).map_err(|error| {
                std::io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EINVAL))
            })
        });
    }
    if let Some(user) = user.cloned() {
        user.become_in(&mut shell);
    }
    let begin = clock::monotonic();
    let process = shell
        .spawn()
        .map_err(|cause| failed(&format!("start on CPU {cpu}"), cause))?;
    drop(end);
    let pid = process.id();
    // The leader was not reaped, or its number is not in use again yet.
    let kill = || kill_session(Pid::from_raw(pid.cast_signed()));
    let (send, ended) = channel();
    // It has the other end.
    drop(shell);
    let (send_words, last_words) = channel();
    let reader = thread::Builder::new().spawn(move || {
        let _ = send_words.send(last(words));
    });
    // Reaped in a thread of its own, which sleeps.
    let waiter = thread::Builder::new().spawn(move || {
        let outcome = child::reap(Some(pid));
        let _ = send.send((outcome, clock::monotonic()));
    });
    let (Ok(_), Ok(waiter)) = (reader, waiter) else {
        kill();
        let _ = child::reap(Some(pid));
        return Err(Halt::Failed("no thread can be had".to_owned()));
    };
    let mut left = Patience::new(patience, LOOK);
    let mut why = None;
    let (reaped, end) = loop {
        let begin = Instant::now();
        let outcome = ended.recv_timeout(LOOK);
        left.spend(begin.elapsed());
        match outcome {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Halt::Failed("it was not waited for".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {
                if stop() {
                    why = Some(Halt::Stopped);
                } else if left.is_over() {
                    let seconds = patience.as_secs_f64();
                    why = Some(Halt::Failed(format!("it took longer than {seconds:.0} s")));
                }
                if why.is_some() {
                    kill();
                }
            }
        }
    };
    let _ = waiter.join();
    // What it left behind.
    kill();
    drop(held);
    if let Some(why) = why {
        return Err(why);
    }
    let reaped = reaped.map_err(|cause| failed("wait for it", cause))?;
    // A daemon of its own session may hold the pipe for ever.
    let last = || last_words.recv_timeout(LOOK).unwrap_or_default();
    if let Some(signal) = reaped.status.signal() {
        return Err(Halt::Failed(format!(
            "it was killed by signal {signal}{}",
            last()
        )));
    }
    if let Some(code @ 1..) = reaped.status.code() {
        return Err(Halt::Failed(format!(
            "it ended with exit code {code}{}",
            last()
        )));
    }
    Ok(RunFigures {
        elapsed_ns: end.saturating_sub(begin),
        user_ns: reaped.user().as_nanos() as u64,
        system_ns: reaped.system().as_nanos() as u64,
        voluntary: reaped.usage.ru_nvcsw.unsigned_abs(),
        involuntary: reaped.usage.ru_nivcsw.unsigned_abs(),
        ..RunFigures::default()
    })
}

/// Looks for processes of a session, each of which may find what was started in the one before.
const SESSION_LOOKS: u32 = 10;

/// Kills all processes of a session, also those in groups of their own (timeout(1), `set -m`).
fn kill_session(leader: Pid) {
    let _ = signal::killpg(leader, Signal::SIGKILL);
    let mut killed = Vec::new();
    for _ in 0..SESSION_LOOKS {
        let mut found = process::pids(&Root::default()).unwrap_or_default();
        found.retain(|pid| {
            let session = getsid(Some(Pid::from_raw(pid.cast_signed())));
            session == Ok(leader) && !killed.contains(pid)
        });
        if found.is_empty() {
            break;
        }
        for pid in &found {
            let _ = signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            unpin(*pid);
        }
        killed.append(&mut found);
    }
}

/// The end of its output after a colon, once all writers have closed it; empty without
/// output.
fn last(mut words: std::io::PipeReader) -> String {
    let mut tail: Vec<u8> = Vec::new();
    let mut some = [0; 4096];
    while let Ok(count @ 1..) = words.read(&mut some) {
        tail.extend_from_slice(&some[..count]);
        tail.drain(..tail.len().saturating_sub(LAST_WORDS));
    }
    let text = String::from_utf8_lossy(&tail).trim().replace('\n', "; ");
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbag_linux::process::Process;

    use super::*;

    fn first_cpu() -> u32 {
        sched::affinity(0).unwrap().iter().next().unwrap()
    }

    fn try_it(command: &str) -> Result<RunFigures, Halt> {
        let time = Duration::from_secs(20);
        run(command, None, first_cpu(), time, &|| false)
    }

    #[test]
    fn its_times_are_the_kernel_s() {
        let figures = try_it("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").unwrap();
        assert!(figures.user_ns + figures.system_ns > 100_000, "{figures:?}");
        assert!(figures.elapsed_ns > 1_000_000, "{figures:?}");
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let why = |command| match try_it(command) {
            Err(Halt::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why("echo no luck >&2; exit 3").contains("exit code 3: no luck"));
        assert!(why("kill -9 $$").contains("signal 9"));
        assert!(why("/no/such/program").contains("exit code 127"));
        // Nothing to say, and nothing to do.
        assert!(try_it("true").is_ok());
    }

    #[test]
    fn it_does_not_outlive_its_time() {
        let begin = Instant::now();
        let cpu = first_cpu();
        let outcome = run("sleep 1000", None, cpu, Duration::from_millis(10), &|| {
            false
        });
        assert!(matches!(outcome, Err(Halt::Failed(why)) if why.contains("longer")));
        let outcome = run("sleep 1000", None, cpu, Duration::from_secs(60), &|| true);
        assert_eq!(outcome, Err(Halt::Stopped));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn process_groups_of_its_own_end_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        // Its number once it is in the group that `timeout` makes.
        let pid = || -> Option<u32> { fs::read_to_string(&file).ok()?.trim().parse().ok() };
        let inner = format!("echo $$ > {0}.new; mv {0}.new {0}", file.display());
        let group = format!("timeout 100 sh -c '{inner}; sleep 100' &");
        let wait = format!("while [ ! -e {} ]; do sleep 0.1; done", file.display());
        let minute = Duration::from_secs(60);
        for (command, is_stopped) in [
            (format!("{group} wait"), true),
            (format!("{group} {wait}"), false),
        ] {
            let stop = || is_stopped && pid().is_some();
            let outcome = run(&command, None, first_cpu(), minute, &stop);
            assert_eq!(outcome.is_err(), is_stopped, "{outcome:?}");
            let pid = pid().unwrap();
            let begin = Instant::now();
            while Process::new(&Root::default(), pid).lives() {
                assert!(begin.elapsed() < minute / 2, "{command}");
                thread::sleep(Duration::from_millis(20));
            }
            fs::remove_file(&file).unwrap();
        }
    }
}
