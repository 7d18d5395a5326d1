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

use sandbag_linux::child::{self, ChildSetup as _};
use sandbag_linux::user::User;
use sandbag_linux::{CpuList, clock, sched};
use sandbag_run::leash;

use crate::error::Halt;
use crate::work::RunFigures;

/// Between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes of its last output that an error quotes.
const LAST_WORDS: usize = 300;

/// Runs `command` by `/bin/sh -c` on one CPU; its output goes nowhere. The
/// times are those of the shell and of all that it waited for. What it starts
/// ends with it, and with us.
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
    // SAFETY: signals to the session that we made; the leader was not reaped,
    // or its number is not in use again yet.
    let kill = || unsafe { libc::kill(-pid.cast_signed(), libc::SIGKILL) };
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
    // Too far away for the clock is for ever.
    let until = Instant::now().checked_add(patience);
    let mut why = None;
    let (reaped, end) = loop {
        match ended.recv_timeout(LOOK) {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Halt::Failed("it was not waited for".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {
                if stop() {
                    why = Some(Halt::Stopped);
                } else if until.is_some_and(|until| Instant::now() > until) {
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
    use super::*;

    fn try_it(command: &str) -> Result<RunFigures, Halt> {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        run(command, None, cpu, Duration::from_secs(20), &|| false)
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
        let outcome = run("sleep 1000", None, 0, Duration::from_millis(10), &|| false);
        assert!(matches!(outcome, Err(Halt::Failed(why)) if why.contains("longer")));
        let outcome = run("sleep 1000", None, 0, Duration::from_secs(60), &|| true);
        assert_eq!(outcome, Err(Halt::Stopped));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
