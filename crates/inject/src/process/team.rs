// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The injectors of a run: started, put in their places, told what to do,
//! ended, and asked what became of it.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use sandbag_burner::child::{self, open_gate};
use sandbag_burner::layout::Layout;
use sandbag_burner::realtime;
use sandbag_kernel::{Root, clock};
use serde::{Deserialize, Serialize};

use super::board::{Board, EVENT_BYTES, Orders, Sizes, State, What};
use super::injector::Setup;
use super::{Class, INJECTOR_VERB, Measured};
use crate::column::Planned;
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::limit::{self, LeftOut};
use crate::outcome::{Cause, Counts, Injected, Outcome};
use crate::portion::Portion;
use crate::safeguard::Safeguards;

/// Which class is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Real time where it may be had, else ordinary tasks.
    Auto {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// This one or none.
    Only(Class),
}

/// How events are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// See there.
    pub class: Wanted,
    /// The first safeguard: what injecting costs is taken off.
    pub overhead: bool,
    /// The second: what follows too closely is suffered together.
    pub interval: bool,
    /// Memory for the events of all CPUs together, bytes.
    pub most_bytes: u64,
}

/// A CPU and what is to happen to it.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Kernel number.
    pub cpu: u32,
    /// Its part of the trace.
    pub portion: Portion,
}

/// How an injector is doing, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should.
    Well,
    /// Its CPU went offline.
    Displaced,
    /// It ended early, in words.
    Died(String),
}

/// What became of one CPU.
#[derive(Debug, Clone)]
pub struct CpuOutcome {
    /// Kernel number.
    pub cpu: u32,
    /// What injecting costs there.
    pub measured: Measured,
    /// What was suffered.
    pub outcome: Outcome,
    /// What the limit would leave out of a whole portion.
    pub left_out: LeftOut,
    /// How long it was, ns.
    pub ran_ns: u64,
    /// How its injector fared.
    pub health: Health,
}

/// Being in one's place takes some 0.2 s; on an emulated CPU many times that.
const PATIENCE: Duration = Duration::from_secs(20);
/// We look this often meanwhile.
const LOOK: Duration = Duration::from_millis(2);
/// Due times begin so much after the order.
const START_NS: u64 = 20_000_000;

#[derive(Debug)]
struct Seat {
    ask: Ask,
    child: Child,
    board: Board,
    measured: Measured,
    safeguards: Safeguards,
    planned: Vec<Planned>,
    /// What the safeguards say of a whole portion.
    whole: Counts,
    left_out: LeftOut,
    died: Option<String>,
}

/// See the module's text. Dropping it ends the injectors.
#[derive(Debug)]
pub struct Team {
    seats: Vec<Seat>,
    class: Class,
    why: Option<String>,
    want: Want,
    begin_ns: u64,
    end_ns: Option<u64>,
}

impl Team {
    /// Starts them, up to the moment at which they could begin.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where real time is denied and nothing else would
    /// do; more memory than is allowed; a process cannot be started.
    pub fn start(asks: &[Ask], want: Want) -> Result<Self> {
        let (class, or) = match want.class {
            Wanted::Only(class) => (class, None),
            Wanted::Auto { priority } => (Class::Fifo { priority }, Some(Class::Fair)),
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

    fn start_as(asks: &[Ask], want: Want, class: Class) -> Result<Self> {
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
        };
        let layout = match class {
            Class::Fifo { .. } => Layout::find(&Root::default(), None).ok(),
            Class::Fair => None,
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
    pub fn class(&self) -> Class {
        self.class
    }

    /// Why that is not what was tried first.
    #[must_use]
    pub fn why_not_better(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// What they measured, by CPU.
    pub fn measured(&self) -> impl Iterator<Item = (u32, Measured)> {
        self.seats.iter().map(|seat| (seat.ask.cpu, seat.measured))
    }

    /// Lets them begin; when due times do, CLOCK_MONOTONIC ns. Beforehand the
    /// safeguards decide what is tried.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn go(&mut self) -> Result<u64> {
        for seat in &mut self.seats {
            seat.plan(self.want);
        }
        self.begin_ns = clock::monotonic() + START_NS;
        for seat in &mut self.seats {
            seat.go(self.begin_ns)?;
        }
        Ok(self.begin_ns)
    }

    /// What the limit leaves out of a whole portion, by CPU.
    pub fn left_out(&self) -> impl Iterator<Item = (u32, LeftOut)> {
        self.seats.iter().map(|seat| (seat.ask.cpu, seat.left_out))
    }

    /// What is tried on a CPU, once they were let go: by due time from the
    /// beginning, after the safeguards.
    #[must_use]
    pub fn planned(&self, cpu: u32) -> Option<&[Planned]> {
        let seat = self.seats.iter().find(|seat| seat.ask.cpu == cpu)?;
        Some(&seat.planned)
    }

    /// When the first portion is used up, CLOCK_MONOTONIC ns; `None` if never.
    /// The paper's experiment ends for all then.
    #[must_use]
    pub fn used_up_ns(&self) -> Option<u64> {
        let ends = self.seats.iter().map(|seat| {
            let portion = &seat.ask.portion;
            let length_ns = portion.length_ns();
            (!portion.repeats()).then(|| self.begin_ns.saturating_add(length_ns))
        });
        ends.min().flatten()
    }

    /// A child of ours ended, in words; whether it was one of them.
    pub fn ended(&mut self, pid: u32, how: &str) -> bool {
        let seat = self.seats.iter_mut().find(|seat| seat.child.id() == pid);
        let Some(seat) = seat else {
            return false;
        };
        if seat.board.state() != State::Ended && self.end_ns.is_none() {
            seat.died = Some(how.to_owned());
        }
        true
    }

    /// Ends them. What they did so far stays known.
    pub fn end(&mut self) {
        if self.end_ns.is_none() {
            self.end_ns = Some(clock::monotonic());
        }
        for seat in &mut self.seats {
            let _ = seat.child.kill();
        }
        for seat in &mut self.seats {
            // Somebody else may have reaped it.
            let _ = seat.child.wait();
        }
    }

    /// Ends them, and says what became of each CPU.
    #[must_use]
    pub fn finish(mut self) -> Vec<CpuOutcome> {
        self.end();
        let end_ns = self.end_ns.unwrap_or(self.begin_ns);
        let ran_ns = end_ns.saturating_sub(self.begin_ns);
        self.seats.iter().map(|seat| seat.outcome(ran_ns)).collect()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}

impl Seat {
    fn start(ask: &Ask, room: usize, class: Class, layout: Option<&Layout>) -> Result<Self> {
        let failed = |call| move |cause: io::Error| Error::Call { call, cause };
        let board = Board::create(room).map_err(failed("memory for the events"))?;
        let setup = Setup {
            board_fd: board.fd(),
            cpu: ask.cpu,
            class,
        };
        let mut child = child::own(INJECTOR_VERB, &setup.to_args(), &[board.fd()], true)
            .spawn()
            .map_err(failed("start an injector"))?;
        if let Some(layout) = layout {
            // A fresh v1 group has no real-time budget. Where we may not move
            // it, it is told so when it asks for its class.
            let _ = realtime::move_to_root(layout, child.id());
        }
        // One that is gone is noticed below.
        let _ = open_gate(&mut child);
        Ok(Self {
            ask: ask.clone(),
            child,
            board,
            measured: Measured::default(),
            safeguards: Safeguards::default(),
            planned: Vec::new(),
            whole: Counts::default(),
            left_out: LeftOut::default(),
            died: None,
        })
    }

    fn await_ready(&mut self, deadline: Instant, class: Class) -> Result<()> {
        let cpu = self.ask.cpu;
        loop {
            let gone = self.child.try_wait().ok().flatten();
            match self.board.state() {
                State::Ready => break,
                State::Failed(libc::EPERM) if class != Class::Fair => {
                    return Err(Error::NotPossible {
                        what: "real time is denied to us here (SCHED_FIFO: not permitted)"
                            .to_owned(),
                        remedy: "--method fair injects as an ordinary task, less exactly; root, \
                                 CAP_SYS_NICE or RLIMIT_RTPRIO allow real time"
                            .to_owned(),
                    });
                }
                State::Failed(errno) => {
                    let cause = io::Error::from_raw_os_error(errno);
                    let what = format!("could not take its place: {cause}");
                    return Err(Error::Injector { cpu, what });
                }
                _ => {}
            }
            if let Some(how) = gone {
                let words = child::last_words(&mut self.child);
                let what = format!("ended at its start ({how}) {words}");
                return Err(Error::Injector { cpu, what });
            }
            if Instant::now() > deadline {
                let what = format!("is not in its place after {} s", PATIENCE.as_secs());
                return Err(Error::Injector { cpu, what });
            }
            std::thread::sleep(LOOK);
        }
        self.measured = self.board.measured();
        Ok(())
    }

    /// Decides what is tried.
    fn plan(&mut self, want: Want) {
        self.safeguards = Safeguards {
            overhead_ns: want.overhead.then_some(self.measured.overhead_ns),
            least_interval_ns: want.interval.then_some(self.measured.least_interval_ns),
        };
        self.whole = Counts::default();
        let events = self.ask.portion.once().events();
        self.planned = self.safeguards.apply(events, &mut self.whole);
        // The injector looks at what it really does; this is to say it before.
        let overhead_ns = match want.overhead {
            // Part of the length.
            true => 0,
            false => self.measured.overhead_ns,
        };
        (_, self.left_out) = limit::cut(&self.planned, overhead_ns);
    }

    fn go(&mut self, begin_ns: u64) -> Result<()> {
        let orders = Orders {
            begin_ns,
            length_ns: self.ask.portion.length_ns(),
            repeat: self.ask.portion.repeats(),
            overhead_ns: self.safeguards.overhead_ns.unwrap_or(0),
            events: self.planned.len(),
        };
        self.board.order(orders, &self.planned);
        open_gate(&mut self.child).map_err(|_| Error::Injector {
            cpu: self.ask.cpu,
            what: "ended before it began".to_owned(),
        })
    }

    fn outcome(&self, ran_ns: u64) -> CpuOutcome {
        let portion = &self.ask.portion;
        let length_ns = portion.length_ns().max(1);
        let ran_ns = match portion.repeats() {
            true => ran_ns,
            false => ran_ns.min(length_ns),
        };
        let mut outcome = Outcome::with_room(self.planned.len());
        let mut counts = Counts::default();
        for (place, event) in self.planned.iter().enumerate() {
            let record = self.board.record(place);
            let cause = match record.what {
                What::Injected => Cause::Nothing,
                What::Behind => Cause::Behind,
                What::Away => Cause::Away,
                What::OverLimit => {
                    counts.over_limit += 1;
                    continue;
                }
                What::Missed => {
                    counts.missed += 1;
                    continue;
                }
                What::NotReached => continue,
            };
            let suffered_ns = record.end_ns.saturating_sub(record.start_ns);
            let signed = |a: u64, b: u64| a.wrapping_sub(b).cast_signed();
            outcome.note(Injected {
                due_ns: event.due_ns,
                length_ns: event.length_ns,
                start_error_ns: signed(record.start_ns, event.due_ns),
                // As who is interrupted sees it.
                length_error_ns: signed(suffered_ns + self.measured.overhead_ns, event.length_ns),
                cause,
            });
        }
        counts.over_limit += self.board.later(What::OverLimit);
        counts.missed += self.board.later(What::Missed);
        let later = Counts {
            injected: [What::Injected, What::Behind, What::Away]
                .iter()
                .map(|what| self.board.later(*what))
                .sum(),
            behind: self.board.later(What::Behind),
            away: self.board.later(What::Away),
            ..Counts::default()
        };
        let sizes = |which| Histogram::of_counts(self.board.sizes(which));
        outcome.note_later(
            &later,
            [
                &sizes(Sizes::Start),
                &sizes(Sizes::Late),
                &sizes(Sizes::Length),
            ],
        );
        let asked = self.asked(ran_ns);
        let Counts {
            injected,
            behind,
            away,
            ..
        } = outcome.counts;
        let accounted = injected + asked.merged + asked.below_floor;
        let accounted = accounted + counts.over_limit + counts.missed;
        outcome.counts = Counts {
            asked: asked.asked.max(accounted),
            not_reached: asked.asked.saturating_sub(accounted),
            merged: asked.merged,
            below_floor: asked.below_floor,
            injected,
            behind,
            away,
            ..counts
        };
        CpuOutcome {
            cpu: self.ask.cpu,
            measured: self.measured,
            outcome,
            left_out: self.left_out,
            ran_ns,
            health: match (&self.died, self.board.state()) {
                (Some(how), _) => Health::Died(how.clone()),
                (None, State::Displaced) => Health::Displaced,
                (None, _) => Health::Well,
            },
        }
    }

    /// What was due within that time, and what the safeguards say of it.
    fn asked(&self, ran_ns: u64) -> Counts {
        let length_ns = self.ask.portion.length_ns().max(1);
        let mut asked = Counts::default();
        // Times through may be many.
        let whole = ran_ns / length_ns;
        let mut times = |counts: &Counts, n: u64| {
            asked.asked += counts.asked * n;
            asked.merged += counts.merged * n;
            asked.below_floor += counts.below_floor * n;
        };
        times(&self.whole, whole);
        let rest_ns = ran_ns % length_ns;
        if rest_ns > 0 {
            let mut part = Counts::default();
            let events = self.ask.portion.once().events();
            let due = events.take_while(|event| event.due_ns < rest_ns);
            self.safeguards.apply(due, &mut part);
            times(&part, 1);
        }
        asked
    }
}
