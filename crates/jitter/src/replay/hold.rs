// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds a replay beside a command, inside it, or alone, until one of them is over.
//!
//! The rules are those of a load's supervisor: signals are passed on to the command,
//! a second one ends sandbag at once, Ctrl-Z stops replay and command and puts off
//! what is to come, the run ends with the command. There is no group, no journal and
//! no guardian: nothing on the machine is changed.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::signals::{self, ENDING, EndRequests, SignalUse, Signals};
use sandbag_linux::{Root, clock};
use sandbag_run::command::{CommandExit, Waiting, reap};
use sandbag_ui::failure::Context as _;

use crate::replay::error::{Error, Result};

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

/// Begins the replay, waits until it is over, and ends it.
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
    let outcome = hold_on(replay, hold, signals);
    replay.end();
    outcome
}

fn hold_on(
    replay: &mut impl Replay,
    hold: Hold,
    signals: &Signals,
) -> sandbag_ui::Result<HoldOutcome> {
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
    let mut ended_ns = None;
    let end = loop {
        if let Some(end) = loop_.answer(replay, signals) {
            break end;
        }
        let now_ns = clock::monotonic();
        let put_off = |at: u64| at.saturating_add(loop_.paused_ns);
        if deadline.is_some_and(|at| now_ns >= put_off(at)) {
            let end = if used_up_ns == deadline {
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
        paused_ns: loop_.paused_ns,
    })
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
        let from_ns = clock::monotonic();
        replay.pause();
        let command = self.pid.filter(|_| tell_command);
        let signal = |pid: u32, signal| {
            // It may be gone.
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        };
        if let Some(pid) = command {
            signal(pid, Signal::SIGSTOP);
        }
        // Returns when we are continued.
        signals.stand_still();
        let stood_ns = clock::monotonic() - from_ns;
        self.paused_ns += stood_ns;
        replay.go_on(stood_ns);
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
    use nix::sys::signal::{SigHandler, raise};
    use sandbag_ui::exit;

    use super::*;

    #[derive(Default)]
    struct Noted {
        begun: bool,
        ended: bool,
    }

    impl Replay for Noted {
        fn begin(&mut self) -> sandbag_ui::Result<u64> {
            self.begun = true;
            Ok(clock::monotonic())
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
            assert_eq!((held.end, replay.begun), (HoldEnd::Duration, true));
            for signal in ENDING {
                raise(signal).unwrap();
                let mut replay = Noted::default();
                let error = hold(&mut replay, at_once(), &signals).unwrap_err();
                assert_eq!(error.exit_code(false), exit::INTERRUPTED, "{signal}");
                assert!(!replay.begun && replay.ended, "{signal}");
                assert!(
                    signals
                        .next()
                        .is_some_and(|arrived| arrived.signal == signal)
                );
            }
        });
        thread.join().unwrap();
    }
}
