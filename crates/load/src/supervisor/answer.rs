// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals, the ends of processes, and standing still.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getpgrp};
use sandbag_linux::clock;
use sandbag_linux::process::Process;

use super::SupervisedRun;
use super::burner::Common;
use super::outcome::{LoadStart, RunEnd, used_ns};
use super::running::{RunningCommand, signal_to};
use crate::board::BOUNDARY_NS;
use crate::method::Scope;
use sandbag_linux::signals::{ENDING, SignalUse, pass_on};
use sandbag_run::command::reap;
use sandbag_run::error::{Error, Result};
use sandbag_run::guardian;

impl SupervisedRun<'_> {
    /// Answers signals and calls; `Some` if the run ends.
    pub(super) fn answer(&mut self, common: &Common<'_>) -> Result<Option<RunEnd>> {
        let _ = self.alarm.read();
        for cpu in &mut self.cpus {
            cpu.called(common)?;
        }
        let mut end = None;
        while let Some(arrived) = self.signals.next() {
            // Once it is reaped its process id may be reused.
            let running = self.command.as_ref().filter(|r| r.ended.is_none());
            let pid = running.map(|running| running.pid);
            match (arrived.signal, pid) {
                (Signal::SIGCHLD, _) => {
                    // After the time limit all that it left is waited for.
                    if self.reap_all(common)? && !self.limit.is_over(clock::monotonic()) {
                        end = Some(RunEnd::CommandOver);
                    }
                }
                (Signal::SIGTSTP, _) => self.stand_still(common, !arrived.by_kernel)?,
                (signal, _) if self.trigger.as_mut().is_some_and(|t| t.takes(signal)) => {}
                (_, Some(pid)) => {
                    let judged = self.requests.judge(arrived, clock::monotonic());
                    if judged == SignalUse::End {
                        end = Some(RunEnd::Interrupted);
                    }
                    if let Some(running) = &mut self.command {
                        running.asked_to_end |= ENDING.contains(&arrived.signal);
                    }
                    if judged != SignalUse::Repeated {
                        pass_on(self.root, pid, arrived);
                    }
                }
                (signal, None) if ENDING.contains(&signal) => {
                    end = Some(end_without_command(end, self.command.is_some()));
                }
                (_, None) => {}
            }
        }
        Ok(end)
    }

    /// Passes on what arrived while the command waited for its start.
    pub(super) fn pass_on_early(&mut self) {
        let early = std::mem::take(&mut self.early);
        let running = self.command.as_ref();
        if let Some(pid) = running.map(|running| running.pid) {
            early.into_iter().for_each(|signal| signal_to(pid, signal));
        }
    }

    /// Reaps everything that ended; whether the command did.
    pub(super) fn reap_all(&mut self, common: &Common<'_>) -> Result<bool> {
        let mut over = false;
        while let Some((pid, ended)) = reap() {
            let how = match (ended.signal, ended.exit_code) {
                (Some(signal), _) => format!("signal {signal}"),
                (_, code) => format!("exit code {}", code.unwrap_or(0)),
            };
            let used_ns = ((ended.user_s + ended.system_s) * 1e9) as u64;
            if let Some(running) = &mut self.command
                && running.pid == pid
            {
                running.over(ended)?;
                over = true;
            } else if pid == self.guardian.id() {
                self.ended_ns += used_ns;
                self.replace_guardian(&how)?;
            } else if let Some((name, early)) = self.beside.ended(pid) {
                // Its end is no reason to end the program, but the run is missed.
                if early {
                    self.observer
                        .warning(format!("the {name} ended before the run did ({how})"));
                }
            } else {
                for cpu in &mut self.cpus {
                    if cpu.ended(common, &mut self.journal, pid, &how)? {
                        if self.method.scope == Scope::Node {
                            self.ended_ns += used_ns;
                        }
                        self.observer.warning(format!(
                            "the burner of CPU {} ended ({how}) and was started again",
                            cpu.number()
                        ));
                        break;
                    }
                }
            }
        }
        Ok(over)
    }

    pub(super) fn replace_guardian(&mut self, how: &str) -> Result<()> {
        // Another in any case: a run that ends by this error is undone, too.
        self.guardian = guardian::start(self.journal.path())?;
        self.guardian_restarts += 1;
        if self.guardian_restarts > 3 {
            return Err(Error::Died {
                what: "the guardian".into(),
                times: self.guardian_restarts,
                how: how.to_owned(),
            });
        }
        self.observer
            .warning(format!("the guardian ended ({how}) and was started again"));
        Ok(())
    }

    /// Waits until the burners have seen a pause: until then they serve their
    /// levels. What slows a whole node lets it go by then, with a SIGCONT
    /// where it stops processes: that must not undo the stop of the command
    /// that comes next.
    fn wait_for_rest(&self, common: &Common<'_>) {
        let give_up = clock::monotonic() + 2 * BOUNDARY_NS;
        while !self.cpus.iter().all(|cpu| cpu.stands_still(common)) && clock::monotonic() < give_up
        {
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 50);
        }
    }

    /// Keeps what the burners noted up to boundary `last`, which may wait a moment: what slows a
    /// whole node notes boundaries while it rests, too.
    fn keep_notes(&mut self, common: &Common<'_>, last: u64) {
        let give_up = clock::monotonic() + BOUNDARY_NS;
        loop {
            let mut all = true;
            for cpu in &mut self.cpus {
                all &= cpu.keep_notes(common, last);
            }
            if all || clock::monotonic() >= give_up {
                return;
            }
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 50);
        }
    }

    /// Ctrl-Z: burners and profile stand still until we are continued, and so
    /// must the program. One that runs meanwhile runs without its load, and
    /// the time of that is no pause.
    pub(super) fn stand_still(&mut self, common: &Common<'_>, tell_command: bool) -> Result<()> {
        let running = self.command.as_ref().filter(|r| r.ended.is_none());
        let command = running.map(|running| running.pid);
        let pid = command.filter(|_| tell_command);
        // The load stays until the command has stopped, except where its
        // release would continue it.
        let stop_first = self.method.scope == Scope::Cpu;
        let mut stopped = BTreeSet::new();
        if pid.is_some() && stop_first {
            stopped = self.stop_command();
        }
        self.board.set_paused(true);
        self.beside.tell(Signal::SIGTSTP);
        self.wait_for_rest(common);
        let before = self.read_counters()?;
        let (from_ns, used_ns) = (before.at_ns, self.used_by_program());
        // Before the load begins there is no window that this could end.
        let load_began = self.trigger.is_none() || self.load_start != LoadStart::WithCommand;
        if load_began {
            self.meter.sample(before);
        }
        if pid.is_some() && !stop_first {
            stopped = self.stop_command();
        }
        if !tell_command {
            let running = self.command.as_ref().filter(|r| r.ended.is_none());
            let everyone = running.map_or_else(Vec::new, RunningCommand::everyone);
            let ours = in_our_group(everyone);
            let stands = |pid: &u32| {
                let stat = Process::new(self.root, *pid).stat();
                stat.is_ok_and(|stat| stat.state == 'T')
            };
            for pid in &ours {
                // Release continued it where its stop made the terminal's wait, which is void then.
                if !stop_first && !stands(pid) {
                    signal_to(*pid, Signal::SIGTSTP);
                    stopped.insert(*pid);
                }
            }
            stopped.extend(ours.into_iter().filter(stands));
        }
        self.keep_notes(common, from_ns / BOUNDARY_NS);
        self.observer.paused();
        // Returns when we are continued.
        self.signals.stand_still();
        self.observer.resumed();
        let after = self.read_counters()?;
        let now = after.at_ns;
        let unloaded_ns = self.used_by_program().saturating_sub(used_ns);
        let run_ns = self.clock.run_ns(from_ns);
        if load_began {
            self.meter.pause(run_ns, after, unloaded_ns);
            if unloaded_ns > BOUNDARY_NS {
                self.observer.warning(format!(
                    "the program went on while the run was paused: it used {:.1} s of CPU time \
                     without the load",
                    unloaded_ns as f64 / 1e9
                ));
            }
        }
        self.paused_ns += self.clock.pause(from_ns, now);
        self.limit.pause(now - from_ns);
        for cpu in &mut self.cpus {
            cpu.void_orders(common);
        }
        let run_ns = self.clock.run_ns(now);
        for piece in std::mem::take(&mut self.ahead) {
            self.order_piece(common, &piece, run_ns);
            self.ahead.push_back(piece);
        }
        self.board.set_paused(false);
        self.beside.tell(Signal::SIGCONT);
        // Also those that the terminal stopped: who continues us may be no shell, which would
        // continue them as well.
        stopped.extend(command);
        // In a long pause the number of one that was killed may become that of another.
        let running = self.command.as_ref().filter(|r| r.ended.is_none());
        for pid in running.map(RunningCommand::everyone).unwrap_or_default() {
            if stopped.contains(&pid) {
                signal_to(pid, Signal::SIGCONT);
            }
        }
        Ok(())
    }

    /// CPU time of the command, or of all that is in the virtual node.
    fn used_by_program(&self) -> u64 {
        let node = self.node.as_ref();
        let of_node = node.map(|node| used_ns(&node.group.cpu, &node.group.accounting));
        let of_command = self.command.as_ref().map(RunningCommand::used_in_all_ns);
        of_node.flatten().or(of_command).unwrap_or(0)
    }

    /// Asks the command and all that it started to stop, and makes them if they do not: the
    /// kernel drops SIGTSTP where no shell could continue the process group. Whom it told.
    fn stop_command(&self) -> BTreeSet<u32> {
        let goes_on = |pid: &u32| {
            let stat = Process::new(self.root, *pid).stat();
            stat.is_ok_and(|stat| !matches!(stat.state, 'T' | 't') && !stat.has_ended())
        };
        let running = self.command.as_ref();
        let rest = || -> Vec<u32> {
            let all = running.map(RunningCommand::everyone).unwrap_or_default();
            all.into_iter().filter(goes_on).collect()
        };
        let mut told = BTreeSet::new();
        for _ in 0..20 {
            let rest = rest();
            if rest.is_empty() {
                return told;
            }
            // Also those that were forked meanwhile.
            for pid in rest {
                if told.insert(pid) {
                    signal_to(pid, Signal::SIGTSTP);
                }
            }
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 20);
        }
        for pid in rest() {
            told.insert(pid);
            signal_to(pid, Signal::SIGSTOP);
        }
        told
    }
}

/// Those of some processes that are in our process group, which a terminal stops as a whole, and
/// a shell continues.
fn in_our_group(mut pids: Vec<u32>) -> Vec<u32> {
    pids.retain(|pid| {
        getpgid(Some(Pid::from_raw(pid.cast_signed()))).is_ok_and(|group| group == getpgrp())
    });
    pids
}

/// What a signal that asks to end makes of a run in which no command runs, or runs any more;
/// `end` is what was found before it.
fn end_without_command(end: Option<RunEnd>, had_command: bool) -> RunEnd {
    match end {
        // It came together with the command's own end, which counts.
        Some(RunEnd::CommandOver) => RunEnd::CommandOver,
        // The command's end was ours, and what it left is being ended.
        _ if had_command => RunEnd::TimedOut,
        _ => RunEnd::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn a_signal_beside_the_command_s_end_leaves_it_its_code() {
        let over = Some(RunEnd::CommandOver);
        assert_eq!(end_without_command(over, true), RunEnd::CommandOver);
        // After the time limit no end is found until nothing of it is left.
        assert_eq!(end_without_command(None, true), RunEnd::TimedOut);
        assert_eq!(end_without_command(None, false), RunEnd::Stopped);
    }

    #[test]
    fn only_who_is_in_our_process_group_is_continued_with_us() {
        let sleeper = |group: Option<i32>| {
            let mut command = Command::new("sleep");
            command.arg("600");
            group.map(|group| command.process_group(group));
            command.spawn().unwrap()
        };
        // One that the terminal stops with us; one of a shell with job control of its own.
        let mut sleepers = [sleeper(None), sleeper(Some(0))];
        let [ours, other] = sleepers.each_ref().map(Child::id);
        let found = in_our_group(vec![ours, other]);
        for sleeper in &mut sleepers {
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
        }
        assert_eq!(found, [ours]);
    }
}
