// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that a process with a wrapped command handles, read from a
//! descriptor instead of interrupting.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::parent_id;

use crate::process::Process;
use crate::{Root, clock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid};

// A terminal sends SIGINT and SIGQUIT to the command as well.

/// Signals by which a user or a terminal asks a program to end: Ctrl-C, kill,
/// a closed terminal, Ctrl-\. Whatever must be written or undone at the end
/// happens for all of them.
pub const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Signals that are only passed on to the command.
pub const PASSED: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];

/// One signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedSignals {
    pub signal: Signal,
    /// Sent by the kernel (a terminal's keys or its end, a child's end) and not by a process.
    pub by_kernel: bool,
    /// The process that sent it; 0 if that is none that we can see.
    pub sender: u32,
}

impl ArrivedSignals {
    /// Whether it is of a terminal's keys, which go to the whole process group in front. Of a
    /// terminal that closes the kernel signals the leader of its session only.
    fn is_key(self) -> bool {
        let leads = || getsid(None).is_ok_and(|session| session == getpid());
        self.by_kernel && !(self.signal == Signal::SIGHUP && leads())
    }
}

/// A signal that comes again from the same process within this time is the
/// same event: timeout(1) signals us and then our process group.
const SAME_NS: u64 = 50_000_000;
/// How long timeout(1) may take between the two, with time to spare.
const BETWEEN_NS: u64 = 10_000_000;

/// For whom a signal is while a command runs beside us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalUse {
    /// For the command, to which it is to be [passed on](pass_on).
    Command,
    /// A second copy of the last one: ignored.
    Repeated,
    /// For us: the second one that asks to end.
    End,
}

/// Counts the signals that ask to end: the first is the command's, a second ours.
#[derive(Debug, Default)]
pub struct EndRequests {
    last: Option<(ArrivedSignals, u64)>,
    count: u32,
}

impl EndRequests {
    /// For whom this is (`now` is monotonic, ns).
    pub fn judge(&mut self, arrived: ArrivedSignals, now: u64) -> SignalUse {
        if !ENDING.contains(&arrived.signal) {
            return SignalUse::Command;
        }
        let last = self.last.replace((arrived, now));
        let is_again = |(last, at): (ArrivedSignals, u64)| {
            last == arrived && now - at < SAME_NS
                // A second request of the same process is a second event.
                || last.sender != arrived.sender && is_passed_on(arrived)
        };
        let is_repeated = !arrived.by_kernel && arrived.sender != 0 && last.is_some_and(is_again);
        if is_repeated {
            return SignalUse::Repeated;
        }
        self.count += 1;
        match self.count {
            1 => SignalUse::Command,
            _ => SignalUse::End,
        }
    }
}

/// Whether it is from our parent, if that is this program as well: it passes on a request to
/// end that may have reached us, too, and kills us where it means more.
fn is_passed_on(arrived: ArrivedSignals) -> bool {
    let parent = parent_id();
    let program = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    arrived.sender == parent
        && program("self").is_some_and(|own| program(&parent.to_string()) == Some(own))
}

/// Whether a signal went to our whole process group, so that a command in it
/// has it already. Nothing tells a process that, and two signals that come
/// close together arrive as one. But who signals the group that he leads
/// himself, as timeout(1) does, ignores that signal first.
pub fn went_to_group(root: &Root, arrived: ArrivedSignals) -> bool {
    let group = getpgrp().as_raw().unsigned_abs();
    if arrived.by_kernel || arrived.sender != group {
        return arrived.is_key();
    }
    // He may be between the two signals.
    clock::sleep_until(clock::monotonic() + BETWEEN_NS);
    let status = root.read(format!("/proc/{}/status", arrived.sender));
    status.is_ok_and(|status| is_in_mask(&status, "SigIgn:", arrived.signal))
}

/// Passes a signal on to the command, a child of ours that was not reaped,
/// unless it has it already.
pub fn pass_on(root: &Root, command: u32, arrived: ArrivedSignals) {
    let command = Pid::from_raw(command.cast_signed());
    let shares_group = getpgid(Some(command)).is_ok_and(|group| group == getpgrp());
    let has_it = if shares_group {
        went_to_group(root, arrived)
    } else {
        // Of its own accord; a terminal's keys it gets, or not, by itself.
        arrived.is_key()
    };
    if !has_it {
        // A command that has ended needs no signal.
        let _ = kill(command, arrived.signal);
    }
}

/// Whether a process handles a signal by now, or reads it from a descriptor.
pub fn is_taken(root: &Root, pid: u32, signal: Signal) -> bool {
    let status = root.read(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| {
        ["SigBlk:", "SigCgt:"]
            .into_iter()
            .any(|name| is_in_mask(&status, name, signal))
    })
}

/// A mask of proc_pid_status(5): signal 1 in the lowest bit.
fn is_in_mask(status: &str, name: &str, signal: Signal) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as u32 - 1)) != 0)
}

/// A file that has reached its limit (`ulimit -f`) costs that file, and the
/// write that fails says it; by default it would kill. By a handler that does
/// nothing, since what is ignored would be ignored by commands, too.
pub fn outlive_file_limits() {
    extern "C" fn ignore(_: libc::c_int) {}
    let action = SigAction::new(
        SigHandler::Handler(ignore),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    // SAFETY: the handler does nothing.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

/// Blocks the signals of the calling thread for as long as it lives; those
/// that `not_ignored` leaves.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Takes over those that end, those that are passed on, those of children,
    /// and `more`, unless our caller ignores them; and `always` in any case.
    pub fn take(more: &[Signal], always: Option<Signal>) -> io::Result<Self> {
        let wanted = ENDING.into_iter().chain(PASSED).chain([Signal::SIGCHLD]);
        let mut set = not_ignored(wanted.chain(more.iter().copied()));
        set.extend(always);
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        // It waits then, for `stand_still`.
        SigSet::from(Signal::SIGCONT).thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, before })
    }

    /// The descriptor, to wait on.
    pub fn fd(&self) -> &SignalFd {
        &self.fd
    }

    /// Stops this process, as SIGTSTP asks, until it is continued; not if it was continued since
    /// then: SIGTSTP drops each SIGCONT that waits, so that one that waits now came later.
    pub fn stand_still(&self) {
        let resume = SigSet::from(Signal::SIGCONT);
        if take_waiting(&resume) {
            return;
        }
        // The first process of a container cannot stop itself.
        if std::process::id() == 1 {
            let _ = resume.wait();
            return;
        }
        let _ = raise(Signal::SIGSTOP);
        take_waiting(&resume);
    }

    /// Sleeps until a signal waits, or so long; a bound that is not given is
    /// none.
    pub fn wait(&self, most_ns: Option<u64>) -> io::Result<()> {
        let timeout = match most_ns {
            None => PollTimeout::NONE,
            // Rounded up: not to be woken just before.
            Some(ns) => PollTimeout::try_from(ns / 1_000_000 + 1).unwrap_or(PollTimeout::MAX),
        };
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next signal, if one waits. Ctrl-Z is none where no shell could continue us: the kernel
    /// drops it there, but not for who blocks it.
    pub fn next(&self) -> Option<ArrivedSignals> {
        loop {
            let info = self.fd.read_signal().ok().flatten()?;
            let arrived = ArrivedSignals {
                signal: Signal::try_from(info.ssi_signo.cast_signed()).ok()?,
                by_kernel: info.ssi_code > 0,
                sender: info.ssi_pid,
            };
            if arrived.signal != Signal::SIGTSTP || !arrived.by_kernel || has_a_shell() {
                return Some(arrived);
            }
        }
    }
}

/// Whether the parent of our process group is in our session, as a shell that controls jobs is.
fn has_a_shell() -> bool {
    let of = |pid: u32| {
        let id = Some(Pid::from_raw(pid.cast_signed()));
        let stat = Process::new(&Root::default(), pid).stat().ok()?;
        Some((stat.parent, getpgid(id).ok()?, getsid(id).ok()?))
    };
    is_controlled(std::process::id(), of)
}

/// The same; `of` has the parent, the group and the session of a process.
fn is_controlled<T: Copy + PartialEq>(own: u32, of: impl Fn(u32) -> Option<(u32, T, T)>) -> bool {
    let Some((mut parent, group, session)) = of(own) else {
        return false;
    };
    loop {
        match of(parent) {
            Some((above, its, _)) if its == group => parent = above,
            Some((_, _, its)) => return its == session,
            None => return false,
        }
    }
}

/// Whether a signal that asks to end waits because the calling thread blocks it.
pub fn is_end_pending() -> bool {
    // SAFETY: a zeroed set is valid memory for the call, which fills it in.
    let waiting = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        SigSet::from_sigset_t_unchecked(set)
    };
    ENDING.into_iter().any(|signal| waiting.contains(signal))
}

/// Takes one of these signals, which are blocked, if one waits.
fn take_waiting(signals: &SigSet) -> bool {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: reads a set and a time, writes nothing.
    unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), &raw const at_once) > 0 }
}

/// The signals that are to be taken over. What our caller ignores (nohup:
/// SIGHUP; a shell without job control, for its background jobs: SIGINT) is
/// not: a blocked signal is queued even if it is ignored. SIGCHLD is taken in
/// any case: where it is ignored, children vanish without a word.
fn not_ignored(wanted: impl Iterator<Item = Signal>) -> SigSet {
    // SAFETY: the default disposition installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    wanted.filter(|signal| !is_ignored(*signal)).collect()
}

pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: asks for a disposition; a zeroed sigaction is valid memory.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What is still waiting is answered: a second Ctrl-C while the run
        // was being undone must not kill us afterwards.
        while self.next().is_some() {}
        let _ = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop_signals::StopSignals;

    #[test]
    fn a_group_whose_parent_is_in_its_session_is_controlled() {
        // Parent, group and session: init, a terminal's shell, sudo and we; tmux and we.
        let of = |pid| {
            Some(match pid {
                1 => (0, 1, 1),
                10 => (1, 10, 10),
                11 => (10, 11, 10),
                12 => (11, 11, 10),
                20 => (1, 20, 20),
                21 => (20, 21, 21),
                _ => return None,
            })
        };
        for (own, expected) in [
            (11, true),
            (12, true),
            (10, false),
            (21, false),
            (99, false),
        ] {
            assert_eq!(is_controlled(own, of), expected, "{own}");
        }
    }

    #[test]
    fn the_same_signal_at_once_is_one() {
        let term = ArrivedSignals {
            signal: Signal::SIGTERM,
            by_kernel: false,
            sender: 7,
        };
        let mut requests = EndRequests::default();
        let mut at = |ms: u64, arrived| requests.judge(arrived, ms * 1_000_000);
        let user = ArrivedSignals {
            signal: Signal::SIGUSR1,
            ..term
        };
        assert_eq!(at(999, user), SignalUse::Command);
        assert_eq!(at(1000, term), SignalUse::Command);
        assert_eq!(at(1001, term), SignalUse::Repeated);
        // Later, from another process, another signal, by a key: a second event.
        assert_eq!(at(1100, term), SignalUse::End);
        assert_eq!(
            at(1101, ArrivedSignals { sender: 8, ..term }),
            SignalUse::End
        );
        let hangup = ArrivedSignals {
            signal: Signal::SIGHUP,
            sender: 8,
            ..term
        };
        assert_eq!(at(1102, hangup), SignalUse::End);
        let key = ArrivedSignals {
            by_kernel: true,
            sender: 0,
            ..term
        };
        assert_eq!(at(1103, key), SignalUse::End);
        assert_eq!(at(1104, key), SignalUse::End);
    }

    #[test]
    fn a_mask_of_ignored_signals() {
        let status = "Name:\ttimeout\nSigIgn:\t0000000000004000\nSigCgt:\t0\n";
        assert!(is_in_mask(status, "SigIgn:", Signal::SIGTERM));
        for (status, name, signal) in [
            (status, "SigIgn:", Signal::SIGINT),
            (status, "SigCgt:", Signal::SIGTERM),
            ("", "SigIgn:", Signal::SIGTERM),
        ] {
            assert!(!is_in_mask(status, name, signal), "{name}");
        }
    }

    #[test]
    fn a_request_to_end_that_is_blocked_is_pending_until_it_is_taken() {
        // A shell ignores this one for what it starts in the background.
        // SAFETY: the default disposition installs no handler.
        unsafe { libc::signal(Signal::SIGQUIT as i32, libc::SIG_DFL) };
        let signals = StopSignals::block().unwrap();
        let before = is_end_pending();
        raise(Signal::SIGQUIT).unwrap();
        let blocked = is_end_pending();
        signals.take().unwrap();
        assert_eq!([before, blocked, is_end_pending()], [false, true, false]);
    }

    #[test]
    fn a_signal_that_the_caller_ignores_is_told() {
        // One that no other test of this process needs.
        let ours = Signal::SIGWINCH;
        assert!(!is_ignored(ours));
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(ours as i32, libc::SIG_IGN) };
        assert!(is_ignored(ours));
    }
}
