// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The injectors of a run: started, put on their CPUs, given their orders, and ended.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::{Root, clock};
use sandbag_run::layout::Layout;

use super::board::{EVENT_BYTES, InjectorState};
use super::seat::{PATIENCE, Seat};
use super::{Ask, CpuOutcome, InjectorClass, InjectorNoise, Want};
use crate::replay::error::{Error, Result};
use crate::replay::hold::Replay;

/// From the order to the beginning of due times, ns.
const START_NS: u64 = 20_000_000;

/// Dropping it ends the injectors.
#[derive(Debug)]
pub struct Team {
    seats: Vec<Seat>,
    class: InjectorClass,
    why: Option<String>,
    begin_ns: u64,
    end_ns: Option<u64>,
    stood_ns: u64,
}

impl Team {
    /// Starts them, up to the moment at which they could begin.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where real time is denied and nothing else would
    /// do; more memory than is allowed; a process cannot be started.
    pub fn start(asks: &[Ask], want: Want) -> Result<Self> {
        match Self::start_as(asks, want, want.class) {
            Err(Error::NotPossible { what, .. }) if want.or_fair => {
                let mut team = Self::start_as(asks, want, InjectorClass::Fair)?;
                team.why = Some(what);
                Ok(team)
            }
            outcome => outcome,
        }
    }

    fn start_as(asks: &[Ask], want: Want, class: InjectorClass) -> Result<Self> {
        let most = usize::try_from(want.most_bytes / EVENT_BYTES).unwrap_or(usize::MAX);
        let room = |ask: &Ask| ask.portion.once().events().take(most).count();
        let rooms: Vec<usize> = asks.iter().map(room).collect();
        let bytes = rooms.iter().fold(0u64, |sum, room| {
            sum.saturating_add((*room as u64 + 1).saturating_mul(EVENT_BYTES))
        });
        if bytes > want.most_bytes {
            return Err(Error::Option {
                what: "the memory for events",
                found: format!("{} MiB", want.most_bytes >> 20),
                expected: "more (--max-memory), or a smaller --share of the trace",
            });
        }
        // Started one after another, ready at about the same time; an error drops
        // the team, which ends those that were started.
        let mut team = Self {
            seats: Vec::new(),
            class,
            why: None,
            begin_ns: 0,
            end_ns: None,
            stood_ns: 0,
        };
        let layout = match class {
            InjectorClass::Fifo { .. } => Layout::find(&Root::default(), None).ok(),
            InjectorClass::Fair => None,
        };
        for (ask, room) in asks.iter().zip(rooms) {
            team.seats
                .push(Seat::start(ask, room, class, layout.as_ref())?);
        }
        let deadline = Instant::now() + PATIENCE;
        for seat in &mut team.seats {
            seat.await_ready(deadline, class)?;
            seat.plan(want);
        }
        Ok(team)
    }

    pub fn class(&self) -> InjectorClass {
        self.class
    }

    /// Why the class is not the one tried first.
    pub fn why_not_better(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Measurements by CPU.
    pub fn measured(&self) -> impl Iterator<Item = (u32, InjectorNoise)> {
        self.seats.iter().map(|seat| (seat.ask.cpu, seat.measured))
    }

    fn signal(&self, signal: Signal) {
        if self.end_ns.is_some() {
            return;
        }
        for seat in self.seats.iter().filter(|seat| !seat.gone) {
            let _ = kill(Pid::from_raw(seat.child.id().cast_signed()), signal);
        }
    }

    /// Ends them; the outcome of each CPU.
    pub fn finish(mut self) -> Vec<CpuOutcome> {
        self.end();
        let end_ns = self.end_ns.unwrap_or(self.begin_ns);
        let ran_ns = end_ns.saturating_sub(self.begin_ns + self.stood_ns);
        self.seats.iter().map(|seat| seat.outcome(ran_ns)).collect()
    }
}

impl Replay for Team {
    fn begin(&mut self) -> sandbag_ui::Result<u64> {
        self.begin_ns = clock::monotonic() + START_NS;
        for seat in &mut self.seats {
            seat.go(self.begin_ns)?;
        }
        Ok(self.begin_ns)
    }

    /// When the first portion is used up: the paper's experiment ends for all then.
    fn used_up_ns(&self) -> Option<u64> {
        let ends = self.seats.iter().map(|seat| {
            let portion = &seat.ask.portion;
            let length_ns = portion.length_ns();
            (!portion.repeats()).then(|| self.begin_ns.saturating_add(length_ns))
        });
        ends.min().flatten()
    }

    fn pause(&mut self) {
        self.signal(Signal::SIGSTOP);
    }

    fn go_on(&mut self, after_ns: u64) {
        if self.end_ns.is_none() {
            self.stood_ns += after_ns;
        }
        for seat in &self.seats {
            seat.board.put_off(after_ns);
        }
        self.signal(Signal::SIGCONT);
    }

    fn child_ended(&mut self, pid: u32, how: &str) {
        let mut seats = self.seats.iter_mut();
        let Some(seat) = seats.find(|seat| seat.child.id() == pid) else {
            return;
        };
        seat.gone = true;
        let by_itself = matches!(
            seat.board.state(),
            InjectorState::Ended | InjectorState::Displaced
        );
        if !by_itself && self.end_ns.is_none() {
            seat.died = Some(how.to_owned());
        }
    }

    fn end(&mut self) {
        if self.end_ns.is_none() {
            self.end_ns = Some(clock::monotonic());
        }
        for seat in self.seats.iter_mut().filter(|seat| !seat.gone) {
            let _ = seat.child.kill();
        }
        for seat in self.seats.iter_mut().filter(|seat| !seat.gone) {
            let _ = seat.child.wait();
            seat.gone = true;
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}
