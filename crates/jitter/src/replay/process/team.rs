// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The injectors of a run: started, put in their places, told what to do,
//! ended, and asked what became of it.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::{Root, clock};
use sandbag_run::layout::Layout;

use super::ask::{Ask, ClassRequest, Want};
use super::beside::Injection;
use super::board::{EVENT_BYTES, InjectorState};
use super::outcome::CpuOutcome;
use super::seat::{PATIENCE, Seat};
use super::{InjectorClass, InjectorNoise};
use crate::replay::error::{Error, Result};

/// Due times begin so much after the order.
const START_NS: u64 = 20_000_000;

/// See the module's text. Dropping it ends the injectors.
#[derive(Debug)]
pub struct Team {
    seats: Vec<Seat>,
    class: InjectorClass,
    why: Option<String>,
    want: Want,
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
        let (class, or) = match want.class {
            ClassRequest::Only(class) => (class, None),
            ClassRequest::Auto { priority } => {
                (InjectorClass::Fifo { priority }, Some(InjectorClass::Fair))
            }
        };
        match (Self::start_as(asks, want, class), or) {
            (Err(Error::NotPossible { what, .. }), Some(class)) => {
                let mut team = Self::start_as(asks, want, class)?;
                team.why = Some(what);
                Ok(team)
            }
            (outcome, _) => outcome,
        }
    }

    fn start_as(asks: &[Ask], want: Want, class: InjectorClass) -> Result<Self> {
        let mut rooms = Vec::new();
        let mut bytes = 0u64;
        for ask in asks {
            let most = want.most_bytes / EVENT_BYTES;
            let events = ask.portion.once().events();
            let count = events.take(usize::try_from(most).unwrap_or(usize::MAX));
            let count = count.count();
            rooms.push(count);
            bytes = bytes.saturating_add((count as u64 + 1).saturating_mul(EVENT_BYTES));
        }
        if bytes > want.most_bytes {
            return Err(Error::Option {
                what: "the memory for events",
                found: format!("{} MiB", want.most_bytes >> 20),
                expected: "more (--max-memory), or a smaller --share of the trace",
            });
        }
        // Started one after another, ready at about the same time; whatever
        // fails ends those that were started.
        let mut team = Self {
            seats: Vec::new(),
            class,
            why: None,
            want,
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
        }
        Ok(team)
    }

    /// How they get their CPUs.
    #[must_use]
    pub fn class(&self) -> InjectorClass {
        self.class
    }

    /// Why that is not what was tried first.
    #[must_use]
    pub fn why_not_better(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// What they measured, by CPU.
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

    /// Ends them, and says what became of each CPU.
    #[must_use]
    pub fn finish(mut self) -> Vec<CpuOutcome> {
        self.end();
        let end_ns = self.end_ns.unwrap_or(self.begin_ns);
        let ran_ns = end_ns.saturating_sub(self.begin_ns + self.stood_ns);
        self.seats.iter().map(|seat| seat.outcome(ran_ns)).collect()
    }
}

impl Injection for Team {
    /// Lets them begin; when due times do, CLOCK_MONOTONIC ns. Beforehand the
    /// safeguards decide what is tried.
    ///
    /// # Errors
    /// One of them is gone.
    fn begin(&mut self) -> sandbag_ui::Result<u64> {
        for seat in &mut self.seats {
            seat.plan(self.want);
        }
        self.begin_ns = clock::monotonic() + START_NS;
        for seat in &mut self.seats {
            seat.go(self.begin_ns)?;
        }
        Ok(self.begin_ns)
    }

    /// When the first portion is used up, CLOCK_MONOTONIC ns; `None` if never.
    /// The paper's experiment ends for all then.
    fn used_up_ns(&self) -> Option<u64> {
        let ends = self.seats.iter().map(|seat| {
            let portion = &seat.ask.portion;
            let length_ns = portion.length_ns();
            (!portion.repeats()).then(|| self.begin_ns.saturating_add(length_ns))
        });
        ends.min().flatten()
    }

    /// Stops them where they are.
    fn pause(&mut self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets them go on after so long: all that was to come is put off by that.
    fn go_on(&mut self, after_ns: u64) {
        if self.end_ns.is_none() {
            self.stood_ns += after_ns;
        }
        for seat in &self.seats {
            seat.board.put_off(after_ns);
        }
        self.signal(Signal::SIGCONT);
    }

    /// A child of ours ended, in words.
    fn ended(&mut self, pid: u32, how: &str) {
        let seat = self.seats.iter_mut().find(|seat| seat.child.id() == pid);
        let Some(seat) = seat else {
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

    /// Ends them. What they did so far stays known.
    fn end(&mut self) {
        if self.end_ns.is_none() {
            self.end_ns = Some(clock::monotonic());
        }
        // Those that are gone were reaped, and their numbers may be others' now.
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
