// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command in a group of its own without a load beside it, so that its CPU
//! time can be told from everybody else's: what recording an opposing load
//! needs.
//!
//! The rules are the supervisor's: the journal before the change, a guardian,
//! signals passed on, everything undone at the end whatever that end is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;

use nix::sys::signal::Signal;
use sandbag_linux::cgroup::Version;
use sandbag_linux::command_clock::{self, CommandClock};
use sandbag_linux::{CpuList, Root, clock};

use crate::command::{CommandExit, CommandSpec, Waiting, reap};
use crate::error::{Error, Result};
use crate::guardian;
use crate::journal::{Journal, RunInfo};
use crate::layout::{Holder, Layout, Tenant};
use crate::registry::{Registry, RestoreOutcome};
use crate::run_process::RunId;
use crate::undo::{Leftovers, undo};
use sandbag_linux::signals::{self, EndRequests, SignalUse, Signals};

/// A guardian is killed by accident once, not again and again.
const GUARDIANS: u32 = 4;

/// Why waiting for the command is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WaitEnd {
    Ended(CommandExit),
    /// A second signal: it lives on, back in the group it came from.
    Interrupted,
}

/// A command in its group, from the gate to its end. While this lives the
/// signals of the calling thread are blocked and answered by
/// [`answer`](Self::answer); dropping it undoes what was done.
#[derive(Debug)]
pub struct WrappedCommand {
    root: Root,
    signals: Signals,
    requests: EndRequests,
    journal: Option<Journal>,
    guardian: Child,
    guardians: u32,
    waiting: Option<Waiting>,
    pid: u32,
    holder: Holder,
    over: Option<WaitEnd>,
    warnings: Vec<String>,
}

impl WrappedCommand {
    /// Starts the command up to its gate, in a group of its own. First undoes
    /// what dead runs left, as every run does. `what` is how others see us in
    /// `sandbag status`.
    ///
    /// # Errors
    /// A group cannot be made, or a process not started; nothing is left.
    pub fn admit(
        root: &Root,
        layout: &Layout,
        registry: &Registry,
        spec: &CommandSpec,
        what: &str,
    ) -> Result<Self> {
        let mut dead = registry.restore()?;
        dead.retain(|dead| !dead.left.is_empty());
        let warning = |dead: &RestoreOutcome| {
            let (pid, left) = (dead.pid, dead.left.join("; "));
            format!("could not undo all that sandbag process {pid} left: {left}")
        };
        let warnings = dead.iter().map(warning).collect();
        let words = spec.arguments.iter();
        let info = RunInfo {
            command: words.map(|a| a.to_string_lossy().into_owned()).collect(),
            kill: spec.kill,
            ..RunInfo::of_this_process(what)
        };
        // Not SIGTSTP: a recording that is stopped stops, as any program does.
        let signals = Signals::take(&[], None).map_err(|e| Error::call("signalfd", e))?;
        let admitted = registry
            .register(info, &CpuList::default())
            .and_then(|journal| settle(layout, journal, spec));
        let AdmittedCommand {
            journal,
            guardian,
            waiting,
            holder,
        } = admitted?;
        Ok(Self {
            root: root.clone(),
            signals,
            requests: EndRequests::default(),
            journal: Some(journal),
            guardian,
            guardians: 1,
            pid: waiting.pid(),
            waiting: Some(waiting),
            holder,
            over: None,
            warnings,
        })
    }

    /// The command's CPU time on each of `cpus`.
    ///
    /// # Errors
    /// [`Error::NotPossible`] with the remedy where the kernel does not tell.
    pub fn clock(&self, root: &Root, cpus: &CpuList) -> Result<Box<dyn CommandClock>> {
        let group = self.holder.group();
        let remedy = match group.version() {
            Version::V1 => "cgroup v1 tells it by its cpuacct controller: mount it",
            Version::V2 => {
                "cgroup v2 tells it by perf events, for which the kernel asks for root or \
                 CAP_PERFMON"
            }
        };
        command_clock::open(root, group, cpus).map_err(|error| {
            let what = format!("the command's time on each CPU is not known ({error})");
            Error::not_possible(what, remedy)
        })
    }

    pub fn go(&mut self) -> Result<()> {
        self.waiting.take().map_or(Ok(()), Waiting::go)
    }

    /// A descriptor that is readable when there is something to
    /// [`answer`](Self::answer).
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.signals.fd().as_fd().try_clone_to_owned()
    }

    /// Answers signals and children without waiting; `Some` once the command
    /// ended or we were told twice to end.
    pub fn answer(&mut self) -> Option<WaitEnd> {
        while let Some(arrived) = self.signals.next() {
            if arrived.signal == Signal::SIGCHLD {
                self.reap_all();
                continue;
            }
            match self.requests.judge(arrived, clock::monotonic()) {
                SignalUse::Command if self.over.is_none() => {
                    signals::pass_on(&self.root, self.pid, arrived);
                }
                SignalUse::End => {
                    self.over.get_or_insert(WaitEnd::Interrupted);
                }
                SignalUse::Command | SignalUse::Repeated => {}
            }
        }
        self.over
    }

    fn reap_all(&mut self) {
        while let Some((pid, ended)) = reap() {
            if pid == self.pid {
                self.over.get_or_insert(WaitEnd::Ended(ended));
            } else if pid == self.guardian.id() {
                self.replace_guardian();
            }
        }
    }

    fn replace_guardian(&mut self) {
        let Some(journal) = self.journal.as_ref().filter(|_| self.guardians < GUARDIANS) else {
            return self.warnings.push(
                "the guardian was killed too often; should sandbag be killed now, sandbag \
                 restore takes the command out of its group"
                    .to_owned(),
            );
        };
        match guardian::start(journal.path()) {
            Ok(guardian) => {
                self.guardian = guardian;
                self.guardians += 1;
            }
            Err(error) => self.warnings.push(error.to_string()),
        }
    }

    /// Waits until the command ended or we were told twice to end.
    pub fn wait(&mut self) -> io::Result<WaitEnd> {
        loop {
            if let Some(over) = self.answer() {
                return Ok(over);
            }
            self.signals.wait(None)?;
        }
    }

    /// Undoes everything; what the user should know.
    #[must_use]
    pub fn leave(mut self) -> Vec<String> {
        self.undo();
        std::mem::take(&mut self.warnings)
    }

    fn undo(&mut self) {
        // A command that was never let go ends when its gate closes.
        self.waiting = None;
        if let Some(journal) = self.journal.take() {
            let leftovers = match self.over {
                Some(WaitEnd::Ended(_)) => Leftovers::GoBack,
                Some(WaitEnd::Interrupted) | None => Leftovers::AsNoted,
            };
            let undone = undo_all(journal, leftovers);
            guardian::release(&mut self.guardian);
            // It goes on by itself with what could not be undone yet.
            match undone {
                Ok(()) => drop(self.guardian.wait()),
                Err(text) => self.warnings.push(text),
            }
        }
    }
}

impl Drop for WrappedCommand {
    fn drop(&mut self) {
        self.undo();
    }
}

struct AdmittedCommand {
    journal: Journal,
    guardian: Child,
    waiting: Waiting,
    holder: Holder,
}

/// Guardian, process and group, in this order; all undone if one fails.
fn settle(layout: &Layout, mut journal: Journal, spec: &CommandSpec) -> Result<AdmittedCommand> {
    let guardian = match guardian::start(journal.path()) {
        Ok(guardian) => guardian,
        Err(error) => {
            journal.close()?;
            return Err(error);
        }
    };
    let in_group = layout
        .prepare(&mut journal)
        .and_then(|()| Waiting::start(spec))
        .and_then(|waiting| {
            let run = RunId::own();
            let holder = layout.settle(&mut journal, run, Tenant::Command, waiting.pid())?;
            Ok((waiting, holder))
        });
    match in_group {
        Ok((waiting, holder)) => Ok(AdmittedCommand {
            journal,
            guardian,
            waiting,
            holder,
        }),
        Err(error) => {
            // What stays is in the journal, for `restore`; the error that
            // led here is what the user is to hear.
            match undo_all(journal, Leftovers::AsNoted) {
                Ok(()) => guardian::dismiss(guardian),
                Err(_) => guardian::leave_to_it(guardian),
            }
            Err(error)
        }
    }
}

fn undo_all(journal: Journal, leftovers: Leftovers) -> std::result::Result<(), String> {
    let left = undo(journal, leftovers);
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "could not undo yet: {}; the guardian goes on trying, and sandbag restore does so, too",
            left.join("; ")
        ))
    }
}
