// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds a replay beside a command, inside it, or alone, until one of them is over.
//!
//! The rules are those of a load's supervisor: signals are passed on to the command,
//! a second one ends sandbag at once, Ctrl-Z stops replay and command and puts off
//! what is to come, the run ends with the command. There is no group, no journal and
//! no guardian: nothing on the machine is changed.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::process::{self, ProcessStat};
use sandbag_linux::signals::{self, ENDING, EndRequests, SignalUse, Signals};
use sandbag_linux::{Root, clock};
use sandbag_run::command::{CommandExit, Waiting, reap};
use sandbag_run::journal::part_begins_ns;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_ui::failure::Context as _;

use crate::replay::error::{Error, Result};

/// How often signals are looked at before a beginning at a given time.
const LOOK_NS: u64 = 50_000_000;
/// How often the descendants of the command are looked for, at most, until all are stopped.
const STOP_ROUNDS: usize = 20;

/// A replay that was started and waits for its beginning.
pub trait Replay {
    /// Begins; when, on CLOCK_MONOTONIC, ns. That may be a little later.
    ///
    /// # Errors
    /// It cannot.
    fn begin(&mut self) -> sandbag_ui::Result<u64>;

    /// When all events are injected, without pauses, ns; `None` if unknown.
    fn used_up_ns(&self) -> Option<u64> {
        None
    }

    fn pause(&mut self) {}

    /// Continues after a pause of `after_ns`, by which all that is to come is put
    /// off.
    fn go_on(&mut self, _after_ns: u64) {}

    /// A child process that is not the command ended, with its status.
    fn child_ended(&mut self, _pid: u32, _how: &str) {}

    /// Ends injection, once; the outcome stays.
    fn end(&mut self);
}

/// Why the replay is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HoldEnd {
    /// The share of the trace was used up.
    UsedUp,
    /// The requested time passed.
    Duration,
    /// The command ended.
    Command(CommandExit),
    /// A signal, without a command.
    Stopped,
    /// A second signal: the command continues without jitter.
    Interrupted,
}

impl HoldEnd {
    /// The name in run.json.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UsedUp => "used-up",
            Self::Duration => "duration",
            Self::Command(_) => "command",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        }
    }
}

#[derive(Debug)]
pub struct Hold {
    /// Runs beside; it waits at its gate.
    pub command: Option<Waiting>,
    /// Ends the replay, ns.
    pub duration_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HoldOutcome {
    pub end: HoldEnd,
    /// From the beginning to the end, also of a command that continued without
    /// jitter, ns.
    pub wall_ns: u64,
    /// From the end of the jitter to the end of the command, ns.
    pub without_ns: u64,
    /// The jitter ended since there was no more of it, also where a command continued.
    pub used_up: bool,
    /// Of `wall_ns`, pauses (Ctrl-Z), ns.
    pub paused_ns: u64,
}

/// Blocks the signals of the calling thread for the rest of its life: before
/// anything is started that they would leave behind.
///
/// # Errors
/// No descriptor is to be had.
pub fn take_signals() -> Result<Signals> {
    Signals::take(&[Signal::SIGTSTP], None).map_err(|cause| Error::Call {
        call: "signalfd",
        cause,
    })
}

/// Fails if a signal that asks to end waits: nothing has begun that it could be for.
/// All of them are left to be answered.
///
/// # Errors
/// [`Error::Interrupted`].
pub(super) fn check_interrupted() -> Result<()> {
    // SAFETY: a set of signals may be all zeros, and is valid for writing; the call only
    // fails for one that is not.
    let is_asked = unsafe {
        let mut waiting: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut waiting);
        let waits = |signal: Signal| libc::sigismember(&raw const waiting, signal as i32) == 1;
        ENDING.into_iter().any(waits)
    };
    if is_asked {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

/// Sleeps until then (CLOCK_MONOTONIC), unless a signal asks to end.
///
/// # Errors
/// [`Error::Interrupted`].
fn await_begin(at_ns: u64) -> Result<()> {
    while clock::monotonic() < at_ns {
        check_interrupted()?;
        clock::sleep_until(at_ns.min(clock::monotonic() + LOOK_NS));
    }
    Ok(())
}

/// Begins the replay, waits until it is over, and ends it. A part of a run that begins at a
/// given time begins then.
///
/// # Errors
/// [`sandbag_run::Error::Command`] if the command cannot be executed;
/// [`Error::Interrupted`] before it was; the replay cannot begin; signals cannot be
/// waited for.
pub fn hold(
    replay: &mut impl Replay,
    hold: Hold,
    signals: &Signals,
) -> sandbag_ui::Result<HoldOutcome> {
    let outcome = hold_on(replay, hold, signals, part_begins_ns());
    replay.end();
    outcome
}

fn hold_on(
    replay: &mut impl Replay,
    hold: Hold,
    signals: &Signals,
    at_ns: Option<u64>,
) -> sandbag_ui::Result<HoldOutcome> {
    at_ns.map_or(Ok(()), await_begin)?;
    check_interrupted()?;
    let begin_ns = replay.begin()?;
    let pid = hold.command.as_ref().map(Waiting::pid);
    clock::sleep_until(begin_ns);
    if let Some(command) = hold.command {
        check_interrupted()?;
        if let Err(error) = command.go() {
            // Ctrl-C, which goes to the whole group, ends the process at its gate, too.
            check_interrupted()?;
            return Err(error.into());
        }
    }
    let used_up_ns = replay.used_up_ns();
    let over_ns = hold.duration_ns.map(|ns| begin_ns.saturating_add(ns));
    let mut deadline = match (used_up_ns, over_ns) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let mut loop_ = Loop {
        root: Root::default(),
        requests: EndRequests::default(),
        pid,
        paused_ns: 0,
    };
    let (mut ended_ns, mut used_up) = (None, false);
    let end = loop {
        if let Some(end) = loop_.answer(replay, signals) {
            break end;
        }
        let now_ns = clock::monotonic();
        let put_off = |at: u64| at.saturating_add(loop_.paused_ns);
        if deadline.is_some_and(|at| now_ns >= put_off(at)) {
            used_up = used_up_ns == deadline;
            let end = if used_up {
                HoldEnd::UsedUp
            } else {
                HoldEnd::Duration
            };
            if pid.is_none() {
                break end;
            }
            // The command goes on without.
            replay.end();
            ended_ns = Some(now_ns);
            deadline = None;
        }
        let left = deadline.map(|at| put_off(at).saturating_sub(now_ns));
        signals.wait(left).context("poll")?;
    };
    let now_ns = clock::monotonic();
    Ok(HoldOutcome {
        end,
        wall_ns: now_ns.saturating_sub(begin_ns),
        without_ns: ended_ns.map_or(0, |at| now_ns - at),
        used_up,
        paused_ns: loop_.paused_ns,
    })
}

/// To the command, which was not reaped, so that the number is its own. It may have ended.
fn signal(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}

/// Stops the command and all that descends from it: a launcher such as mpirun does not stop its
/// ranks. Returns the descendants that it stopped, parents first; not those that stood still.
fn stop_all(root: &Root, command: u32) -> Vec<ProcessIdentity> {
    signal(command, Signal::SIGSTOP);
    let mut stopped = Vec::new();
    // Again for those that were forked meanwhile: what stands still forks no more.
    for _ in 0..STOP_ROUNDS {
        let rest = descendants(root, command).into_iter();
        let rest = rest.filter(|stat| !matches!(stat.state, 'T' | 't') && !stat.has_ended());
        let rest = rest.map(|stat| ProcessIdentity {
            pid: stat.pid,
            start_ticks: stat.times.start_ticks,
        });
        let rest: Vec<_> = rest.filter(|process| !stopped.contains(process)).collect();
        if rest.is_empty() {
            break;
        }
        for process in rest {
            // One that may not be signalled goes on.
            let _ = process.signal(libc::SIGSTOP);
            stopped.push(process);
        }
    }
    stopped
}

/// Children first: a shell that goes on would take a child that still stands for stopped.
fn continue_all(stopped: &[ProcessIdentity]) {
    for process in stopped.iter().rev() {
        let _ = process.signal(libc::SIGCONT);
    }
}

/// The processes that descend from this one, parents first.
fn descendants(root: &Root, first: u32) -> Vec<ProcessStat> {
    let mut rest = process::processes(root).unwrap_or_default();
    let mut found: Vec<ProcessStat> = Vec::new();
    let (mut parent, mut next) = (first, 0);
    loop {
        let (children, others) = rest.into_iter().partition(|stat| stat.parent == parent);
        let children: Vec<ProcessStat> = children;
        rest = others;
        found.extend(children);
        let Some(stat) = found.get(next) else {
            return found;
        };
        (parent, next) = (stat.pid, next + 1);
    }
}

struct Loop {
    root: Root,
    requests: EndRequests,
    pid: Option<u32>,
    paused_ns: u64,
}

impl Loop {
    /// Ctrl-Z: pauses all until we are continued. The terminal sends its signal to
    /// the command as well.
    fn stand_still(&mut self, replay: &mut impl Replay, signals: &Signals, tell_command: bool) {
        let command = self.pid.filter(|_| tell_command);
        // Before the jitter pauses: what goes on then goes on without it.
        let stopped = command.map(|pid| stop_all(&self.root, pid));
        let from_ns = clock::monotonic();
        replay.pause();
        // Returns when we are continued.
        signals.stand_still();
        let stood_ns = clock::monotonic() - from_ns;
        self.paused_ns += stood_ns;
        replay.go_on(stood_ns);
        continue_all(&stopped.unwrap_or_default());
        // Also one that the terminal stopped: who continues us may be no shell, which would
        // continue it as well.
        if let Some(pid) = self.pid {
            signal(pid, Signal::SIGCONT);
        }
    }

    /// Answers what arrived, without waiting.
    fn answer(&mut self, replay: &mut impl Replay, signals: &Signals) -> Option<HoldEnd> {
        let mut over = None;
        while let Some(arrived) = signals.next() {
            if arrived.signal == Signal::SIGCHLD {
                over = self.reap_all(replay).or(over);
                continue;
            }
            if arrived.signal == Signal::SIGTSTP {
                self.stand_still(replay, signals, !arrived.by_kernel);
                continue;
            }
            let Some(pid) = self.pid else {
                if ENDING.contains(&arrived.signal) {
                    over = over.or(Some(HoldEnd::Stopped));
                }
                continue;
            };
            match self.requests.judge(arrived, clock::monotonic()) {
                SignalUse::Command if over.is_none() => {
                    signals::pass_on(&self.root, pid, arrived);
                }
                SignalUse::End => over = over.or(Some(HoldEnd::Interrupted)),
                SignalUse::Command | SignalUse::Repeated => {}
            }
        }
        over
    }

    fn reap_all(&self, replay: &mut impl Replay) -> Option<HoldEnd> {
        let mut over = None;
        while let Some((pid, ended)) = reap() {
            if Some(pid) == self.pid {
                over = Some(HoldEnd::Command(ended));
                continue;
            }
            let how = match (ended.signal, ended.exit_code) {
                (Some(signal), _) => format!("signal {signal}"),
                (_, code) => format!("exit code {}", code.unwrap_or(0)),
            };
            replay.child_ended(pid, &how);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::sys::signal::{SigHandler, raise};
    use sandbag_linux::process::Process;
    use sandbag_ui::exit;

    use super::*;

    #[derive(Default)]
    struct Noted {
        begun_ns: Option<u64>,
        ended: bool,
    }

    impl Replay for Noted {
        fn begin(&mut self) -> sandbag_ui::Result<u64> {
            let now_ns = clock::monotonic();
            self.begun_ns = Some(now_ns);
            Ok(now_ns)
        }

        fn end(&mut self) {
            self.ended = true;
        }
    }

    /// In a thread of its own, which blocks signals.
    #[test]
    fn a_signal_before_the_replay_begins_ends_it() {
        for signal in ENDING {
            // A caller may ignore them (nohup).
            // SAFETY: the default is no handler.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }.unwrap();
        }
        let thread = std::thread::spawn(|| {
            let signals = take_signals().unwrap();
            let at_once = || Hold {
                command: None,
                duration_ns: Some(0),
            };
            let mut replay = Noted::default();
            let held = hold(&mut replay, at_once(), &signals).unwrap();
            assert_eq!(held.end, HoldEnd::Duration);
            assert!(replay.begun_ns.is_some());
            // A part of a run that begins at a given time.
            let at_ns = clock::monotonic() + 3 * LOOK_NS / 2;
            let mut replay = Noted::default();
            let held = hold_on(&mut replay, at_once(), &signals, Some(at_ns)).unwrap();
            assert_eq!(held.end, HoldEnd::Duration);
            assert!(replay.begun_ns.unwrap() >= at_ns);
            for signal in ENDING {
                raise(signal).unwrap();
                let mut replay = Noted::default();
                let error = hold(&mut replay, at_once(), &signals).unwrap_err();
                assert_eq!(error.exit_code(false), exit::INTERRUPTED, "{signal}");
                assert!(replay.begun_ns.is_none() && replay.ended, "{signal}");
                let hour_ns = clock::monotonic() + 3_600_000_000_000;
                let error = hold_on(&mut replay, at_once(), &signals, Some(hour_ns)).unwrap_err();
                assert_eq!(error.exit_code(false), exit::INTERRUPTED, "{signal}");
                assert!(replay.begun_ns.is_none(), "{signal}");
                assert!(
                    signals
                        .next()
                        .is_some_and(|arrived| arrived.signal == signal)
                );
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_pause_stops_all_that_descends_from_the_command() {
        let root = Root::default();
        let wait_for = |what: &str, is_so: &dyn Fn() -> bool| {
            let begin = Instant::now();
            while !is_so() {
                assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let stands = |pid: u32| Process::new(&root, pid).stat().unwrap().state == 'T';
        // A command, its child, and two grandchildren.
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 1000 & sleep 1001 & wait' & wait"]);
        let mut command = command.stdin(Stdio::null()).spawn().unwrap();
        let below = || descendants(&root, command.id());
        let sleeps = || below().iter().filter(|stat| stat.name == "sleep").count();
        wait_for("the processes", &|| sleeps() == 2);
        let all: Vec<u32> = below().iter().map(|stat| stat.pid).collect();
        assert_eq!(all.len(), 3);
        // One that stands still by itself is not continued.
        let before = all[2];
        signal(before, Signal::SIGSTOP);
        wait_for("the first stop", &|| stands(before));
        let stopped = stop_all(&root, command.id());
        let numbers: Vec<u32> = stopped.iter().map(|process| process.pid).collect();
        assert_eq!(numbers, all[..2]);
        wait_for("the stop", &|| {
            stands(command.id()) && all.iter().all(|pid| stands(*pid))
        });
        continue_all(&stopped);
        wait_for("the end of the pause", &|| {
            numbers.iter().all(|pid| !stands(*pid))
        });
        assert!(stands(before) && stands(command.id()));
        for pid in all.into_iter().chain([command.id()]) {
            signal(pid, Signal::SIGKILL);
        }
        // Another test may have reaped it.
        let _ = command.wait();
    }
}
