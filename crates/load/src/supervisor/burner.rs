// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One burner as the supervisor sees it: its process, its group, its clock.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::Child;
use std::rc::Rc;

use sandbag_linux::{Root, clock};

use super::meter::BurnerTime;
use crate::board::{BOUNDARY_NS, Board, Note};
use crate::burn::BurnerSetup;
use crate::method::{Feel, Method, Scope};
use sandbag_run::child::{self, BURNER_VERB};
use sandbag_run::error::{Error, Result};
use sandbag_run::journal::{Entry, Journal};
use sandbag_run::layout::{Holder, Layout, Tenant};
use sandbag_run::node_group::NodeGroup;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::realtime;
use sandbag_run::run_process::RunId;

/// What every burner of a run has in common.
#[derive(Debug)]
pub struct Common<'a> {
    pub board: &'a Board,
    pub alarm: RawFd,
    pub layout: &'a Layout,
    pub method: &'a Method,
    /// Names our groups.
    pub run: RunId,
    pub node: Option<Rc<NodeGroup>>,
    /// Burners that wait for each other, where the method has them do so.
    pub parties: u32,
}

/// A burner, alive or gone.
#[derive(Debug)]
pub struct Burner {
    pub child: Child,
    /// Its group; none of a method that needs none.
    holder: Option<Holder>,
    pub slot: usize,
    /// First boundary that counts: before it there was no burner.
    pub since: u64,
    /// The last boundary that was read, and the clock there.
    read: Option<u64>,
    last_ns: u64,
    /// Boundary after which it was gone.
    pub until: Option<u64>,
}

impl Burner {
    pub fn live_holder(&self) -> Option<&Holder> {
        self.holder.as_ref().filter(|_| self.until.is_none())
    }

    /// Starts a burner of a CPU and lets it go once it is in its group; `None`
    /// if it died before. `nth` counts those of the CPU.
    pub fn start(
        common: &Common<'_>,
        journal: &mut Journal,
        cpu: u32,
        slot: usize,
        nth: usize,
        watchdog: Option<RawFd>,
    ) -> Result<Option<Self>> {
        let failed = |cause| Error::Start {
            what: format!("the burner of CPU {cpu}"),
            cause,
        };
        let setup = BurnerSetup {
            board_fd: common.board.fd(),
            alarm_fd: common.alarm,
            watchdog_fd: watchdog,
            slot,
            cpu,
            parties: common.parties,
            node: common.node.as_deref().cloned(),
            duty: common.method.duty,
            is_apart: common.method.feel == Feel::Competitor,
            attributes: common.method.attributes,
        };
        let mut inherit = vec![common.board.fd(), common.alarm];
        inherit.extend(watchdog);
        let mut child = child::own(BURNER_VERB, &setup.to_args(), &inherit, true)
            .spawn()
            .map_err(failed)?;
        let pid = child.id();
        let settled = if common.method.grouped {
            common
                .layout
                .settle(journal, common.run, Tenant::Burner { cpu, nth }, pid)
                .map(Some)
        } else {
            note_worker(common, journal, pid)
                .and_then(|()| realtime::move_to_root(common.layout, pid))
                .map(|()| None)
        };
        let settled = settled.and_then(|holder| {
            child::open_gate(&mut child).map_err(failed)?;
            // It reads no more than that.
            drop(child.stdin.take());
            Ok(holder)
        });
        let holder = match settled {
            Ok(holder) => holder,
            Err(error) => {
                let died = child.try_wait().is_ok_and(|status| status.is_some());
                let _ = child.kill();
                let _ = child.wait();
                return if died { Ok(None) } else { Err(error) };
            }
        };
        Ok(Some(Self {
            child,
            holder,
            slot,
            since: clock::monotonic() / BOUNDARY_NS + 1,
            read: None,
            last_ns: 0,
            until: None,
        }))
    }

    /// Adds what it took between two boundaries; see [`super::cpu::LoadedCpu::taken`].
    pub fn add_taken(&mut self, common: &Common<'_>, from: u64, to: u64, taken: &mut BurnerTime) {
        let slot = common.board.slot(self.slot);
        if self.until.is_some_and(|until| until < from) || self.since > to {
            return;
        }
        if self.until.is_some() {
            taken.hole = true;
        }
        if self.read != Some(from) {
            // Not read up to here before: begin with the first note. What
            // a burner that joins used to start up is no load.
            let first = (from..=to).find_map(|number| slot.boundary(number));
            match first {
                Some(first) => self.last_ns = first.cpu_ns,
                None if self.read.is_none() => return,
                None => {}
            }
        }
        let asks = self.until.is_none() && common.method.scope == Scope::Cpu;
        let end = match slot.note(to) {
            Note::Noted(note) => Some(note.cpu_ns),
            // It sleeps without orders or waited for the CPU since, and its
            // clock stands; ask it. What throttles takes no CPU time, and
            // notes every boundary.
            Note::NotYet if asks => clock::process_cpu_of(self.child.id()).ok(),
            Note::NotYet => None,
            Note::Overwritten => {
                // What comes after begins with a note again.
                self.read = Some(0);
                taken.hole = true;
                return;
            }
        };
        // What it took before the first note after those is not known.
        taken.hole |= self.read == Some(0) && slot.boundary(from).is_none();
        self.read = Some(to);
        let noted = |number| slot.boundary(number);
        taken.hole |= noted(to).is_some_and(|note| note.away);
        if let Some((now, before)) = noted(to).zip(noted(from)) {
            taken.stolen_ns += now.stolen_ns.saturating_sub(before.stolen_ns);
        }
        let end = end.unwrap_or(self.last_ns);
        taken.ns += end.saturating_sub(self.last_ns);
        self.last_ns = end;
    }
}

/// CPU time of the process that slows a node as a whole, by CPU.
#[derive(Debug, Default)]
pub struct ThrottleUse {
    /// Its number, where it ran last, and its CPU time by then.
    last: Option<(u32, u32, u64)>,
    used: BTreeMap<u32, u64>,
}

impl ThrottleUse {
    /// Notes where process `pid` ran last, and its CPU time so far. Where it used what it did
    /// since the last note is known only if it ran on the same CPU then: else it counts as
    /// foreign load, as it may be.
    pub fn note(&mut self, pid: u32, cpu: u32, used_ns: u64) {
        if let Some((before, on, before_ns)) = self.last.replace((pid, cpu, used_ns))
            && (before, on) == (pid, cpu)
        {
            *self.used.entry(cpu).or_default() += used_ns.saturating_sub(before_ns);
        }
    }

    /// What it used of each of these CPUs, ns.
    pub fn used_ns(&self, cpus: &[u32]) -> Vec<u64> {
        let of = |cpu: &u32| self.used.get(cpu).copied().unwrap_or(0);
        cpus.iter().map(of).collect()
    }
}

/// What stops or freezes programs must not outlive the undoing of it.
fn note_worker(common: &Common<'_>, journal: &mut Journal, pid: u32) -> Result<()> {
    match common.method.scope {
        Scope::Cpu => Ok(()),
        Scope::Node => match ProcessIdentity::of(&Root::default(), pid)? {
            Some(process) => journal.note(Entry::Worker { process }),
            None => Ok(()),
        },
    }
}

pub fn alarm() -> Result<nix::sys::eventfd::EventFd> {
    use nix::sys::eventfd::{EfdFlags, EventFd};
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    EventFd::from_value_and_flags(0, flags).map_err(|e| Error::call("eventfd", e))
}

pub fn alarm_fd(alarm: &nix::sys::eventfd::EventFd) -> RawFd {
    use std::os::fd::AsFd as _;
    alarm.as_fd().as_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_throttle_used_is_of_the_cpu_on_which_it_stayed() {
        let mut throttle = ThrottleUse::default();
        for (pid, cpu, used_ns) in [
            (7, 1, 100),
            (7, 1, 150),
            // It moved meanwhile.
            (7, 3, 190),
            (7, 3, 200),
            // Another one in its place.
            (8, 3, 40),
            (8, 3, 42),
        ] {
            throttle.note(pid, cpu, used_ns);
        }
        assert_eq!(throttle.used_ns(&[0, 1, 3]), [0, 50, 12]);
    }
}
