// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One burner as the supervisor sees it: its process, its group, its clock.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::Child;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use sandbag_linux::{Root, clock};

use super::meter::BurnerTime;
use crate::board::{BOUNDARIES, BOUNDARY_NS, Board, Boundary, Note};
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
    /// Notes from before a pause that windows still need.
    kept: BTreeMap<u64, Boundary>,
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
            kept: BTreeMap::new(),
            until: None,
        }))
    }

    /// Before a pause, when it rests: copies its notes up to boundary `last` that were not read
    /// yet. By the end of a pause of 25 s it has written over them. Whether `last` is noted.
    pub fn keep_notes(&mut self, common: &Common<'_>, last: u64) -> bool {
        let slot = common.board.slot(self.slot);
        let unread = self.read.unwrap_or(0);
        self.kept.retain(|number, _| *number >= unread);
        let oldest = (last + 1).saturating_sub(BOUNDARIES as u64);
        let numbers = unread.max(oldest)..=last;
        let notes = numbers
            .clone()
            .filter_map(|number| Some((number, slot.boundary(number)?)));
        self.kept.extend(notes);
        // One that sleeps without orders has not noted the last ones, and its clock stands.
        if common.method.scope == Scope::Cpu
            && slot.idle.load(Ordering::Acquire) != 0
            && let Some((newest, note)) = slot.newest_boundary()
            && let Ok(cpu_ns) = clock::process_cpu_of(self.child.id())
        {
            let now = Boundary {
                cpu_ns,
                away: false,
                ..note
            };
            let missing = numbers.filter(|number| *number > newest);
            self.kept.extend(missing.map(|number| (number, now)));
        }
        self.kept.contains_key(&last)
    }

    /// Adds what it took between two boundaries; see [`super::cpu::LoadedCpu::taken`].
    pub fn add_taken(&mut self, common: &Common<'_>, from: u64, to: u64, taken: &mut BurnerTime) {
        let slot = common.board.slot(self.slot);
        if self.until.is_some_and(|until| until < from) || self.since > to {
            return;
        }
        let kept = &self.kept;
        let note = |number| match kept.get(&number) {
            Some(boundary) => Note::Noted(*boundary),
            None => slot.note(number),
        };
        let noted = |number| match note(number) {
            Note::Noted(boundary) => Some(boundary),
            Note::NotYet | Note::Overwritten => None,
        };
        // What it took after its last note is not known.
        taken.hole |= self
            .until
            .is_some_and(|until| until < to || noted(to).is_none());
        if self.read != Some(from) {
            // Not read up to here before: begin with the first note. What
            // a burner that joins used to start up is no load.
            let first = (from..=to).find_map(noted);
            match first {
                Some(first) => self.last_ns = first.cpu_ns,
                None if self.read.is_none() => return,
                None => {}
            }
        }
        let asks = self.until.is_none() && common.method.scope == Scope::Cpu;
        let end = match note(to) {
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
        taken.hole |= self.read == Some(0) && noted(from).is_none();
        self.read = Some(to);
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
    use std::process::Command;

    use super::*;
    use crate::board::Slot;
    use crate::fake_machine::fake;
    use crate::method;

    /// Of CPU time between two boundaries.
    const EACH_NS: u64 = 50_000_000;

    /// What a burner that runs notes at a boundary.
    fn boundary(number: u64) -> Boundary {
        Boundary {
            cpu_ns: number * EACH_NS,
            stolen_ns: number,
            away: false,
        }
    }

    /// One whose notes are read up to a boundary; its process sleeps.
    fn with_burner(read: u64, test: impl FnOnce(&mut Burner, &Common<'_>, &Slot)) {
        let (_dir, root) = fake(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("proc/self/cgroup", "0::/\n"),
            (
                "proc/self/mountinfo",
                "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let board = Board::create(1).unwrap();
        let common = Common {
            board: &board,
            alarm: -1,
            layout: &Layout::find(&root, None).unwrap(),
            method: &method::by_name("pace").unwrap(),
            run: RunId::own(),
            node: None,
            parties: 1,
        };
        let mut burner = Burner {
            child: Command::new("sleep").arg("600").spawn().unwrap(),
            holder: None,
            slot: 0,
            since: 1,
            read: Some(read),
            last_ns: boundary(read).cpu_ns,
            kept: BTreeMap::new(),
            until: None,
        };
        test(&mut burner, &common, board.slot(0));
        burner.child.kill().unwrap();
        burner.child.wait().unwrap();
    }

    fn taken(burner: &mut Burner, common: &Common<'_>, from: u64, to: u64) -> BurnerTime {
        let mut taken = BurnerTime {
            ns: 0,
            stolen_ns: 0,
            hole: false,
        };
        burner.add_taken(common, from, to, &mut taken);
        taken
    }

    const WHOLE: BurnerTime = BurnerTime {
        ns: EACH_NS,
        stolen_ns: 1,
        hole: false,
    };

    #[test]
    fn what_was_noted_before_a_long_pause_is_known_after_it() {
        with_burner(460, |burner, common, slot| {
            let note = |number, of| slot.note_boundary(number, boundary(of));
            (400..=473).for_each(|number| note(number, number));
            assert!(!burner.keep_notes(common, 474));
            assert!(burner.keep_notes(common, 473));
            // It goes on at boundary 900, and writes all its notes at once.
            (645..=900).for_each(|number| note(number, 473));
            note(901, 474);
            for from in 460..473 {
                assert_eq!(taken(burner, common, from, from + 1), WHOLE);
            }
            assert_eq!(taken(burner, common, 473, 901), WHOLE);
            // What is read is not kept until the next one, but for where that begins.
            burner.keep_notes(common, 901);
            assert_eq!(burner.kept, BTreeMap::from([(901, boundary(474))]));
        });
    }

    #[test]
    fn one_that_slept_without_orders_before_a_long_pause_took_nothing() {
        with_burner(460, |burner, common, slot| {
            let note = |number| slot.note_boundary(number, boundary(455));
            (400..=455).for_each(note);
            slot.idle.store(1, Ordering::Release);
            assert!(burner.keep_notes(common, 473));
            (645..=900).for_each(note);
            let nothing = BurnerTime {
                ns: 0,
                stolen_ns: 0,
                hole: false,
            };
            for from in 460..473 {
                assert_eq!(taken(burner, common, from, from + 1), nothing);
            }
            assert!(!taken(burner, common, 473, 900).hole);
        });
    }

    #[test]
    fn what_a_burner_noted_before_it_ended_is_no_hole() {
        with_burner(95, |burner, common, slot| {
            (90..=109).for_each(|number| slot.note_boundary(number, boundary(number)));
            // The end was seen later than it was.
            for until in [109, 112] {
                burner.until = Some(until);
                burner.read = Some(95);
                burner.last_ns = boundary(95).cpu_ns;
                for from in 95..109 {
                    assert_eq!(taken(burner, common, from, from + 1), WHOLE);
                }
                assert!(taken(burner, common, 109, 110).hole);
            }
            assert!(taken(burner, common, 110, 111).hole);
            // Another one is in its place.
            assert!(!taken(burner, common, 113, 114).hole);
        });
    }

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
