// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One injector of a team: its process, its board, what it is to do, and what
//! became of that.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use sandbag_run::child::{self, open_gate};
use sandbag_run::layout::Layout;
use sandbag_run::realtime;

use super::ask::{Ask, Want};
use super::board::{Board, EventFate, InjectorState, Orders, Sizes};
use super::cpu_share::CpuShare;
use super::injector::{InjectorSetup, STOOD_NS};
use super::outcome::{CpuOutcome, Health};
use super::{INJECTOR_VERB, InjectorClass, InjectorNoise};
use crate::replay::column::PlannedEvent;
use crate::replay::error::{Error, Result};
use crate::replay::histogram::Histogram;
use crate::replay::limit::{self, LeftOut};
use crate::replay::outcome::{Cause, EventCounts, Injection, RankOutcome};
use crate::replay::safeguard::Safeguards;

/// Being in one's place takes some 0.2 s; on an emulated CPU many times that.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// We look this often meanwhile.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Seat {
    pub ask: Ask,
    pub child: Child,
    pub board: Board,
    pub measured: InjectorNoise,
    safeguards: Safeguards,
    pub planned: Vec<PlannedEvent>,
    /// What the safeguards say of a whole portion.
    whole: EventCounts,
    pub left_out: LeftOut,
    pub died: Option<String>,
    /// It was reaped: its process id may be somebody else's.
    pub gone: bool,
}

impl Seat {
    pub fn start(
        ask: &Ask,
        room: usize,
        class: InjectorClass,
        layout: Option<&Layout>,
    ) -> Result<Self> {
        let failed = |call| move |cause: io::Error| Error::Call { call, cause };
        let board = Board::create(room).map_err(failed("memory for the events"))?;
        let setup = InjectorSetup {
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
            measured: InjectorNoise::default(),
            safeguards: Safeguards::default(),
            planned: Vec::new(),
            whole: EventCounts::default(),
            left_out: LeftOut::default(),
            died: None,
            gone: false,
        })
    }

    pub fn await_ready(&mut self, deadline: Instant, class: InjectorClass) -> Result<()> {
        let cpu = self.ask.cpu;
        loop {
            let gone = self.child.try_wait().ok().flatten();
            match self.board.state() {
                InjectorState::Ready => break,
                InjectorState::Failed(libc::EPERM) if class != InjectorClass::Fair => {
                    return Err(Error::NotPossible {
                        what: "real time is denied to us here (SCHED_FIFO: not permitted)"
                            .to_owned(),
                        remedy: "--method fair injects as an ordinary task, less exactly; root, \
                                 CAP_SYS_NICE or RLIMIT_RTPRIO allow real time"
                            .to_owned(),
                    });
                }
                InjectorState::Failed(errno) => {
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
    pub fn plan(&mut self, want: Want) {
        self.safeguards = Safeguards {
            overhead_ns: want.overhead.then_some(self.measured.overhead_ns),
            least_interval_ns: want.interval.then_some(self.measured.least_interval_ns),
        };
        self.whole = EventCounts::default();
        let events = self.ask.portion.once().events();
        self.planned = self.safeguards.apply(events, &mut self.whole);
        // The injector looks at what it really does; this is to say it before.
        let overhead_ns = if want.overhead {
            // Part of the length.
            0
        } else {
            self.measured.overhead_ns
        };
        (_, self.left_out) = limit::cut(&self.planned, overhead_ns);
    }

    pub fn go(&mut self, begin_ns: u64) -> Result<()> {
        let orders = Orders {
            begin_ns,
            length_ns: self.ask.portion.length_ns(),
            repeat: self.ask.portion.repeats(),
            overhead_ns: self.safeguards.overhead_ns.unwrap_or(0),
            lead_ns: match self.safeguards.overhead_ns {
                Some(_) => self.measured.lead_ns,
                None => 0,
            },
            early_ns: match self.safeguards.overhead_ns {
                Some(_) => self.measured.began_late_ns,
                None => 0,
            },
            events: self.planned.len(),
        };
        self.board.order(orders, &self.planned);
        open_gate(&mut self.child).map_err(|_| Error::Injector {
            cpu: self.ask.cpu,
            what: "ended before it began".to_owned(),
        })
    }

    pub fn outcome(&self, ran_ns: u64) -> CpuOutcome {
        let portion = &self.ask.portion;
        let length_ns = portion.length_ns().max(1);
        let ran_ns = if portion.repeats() {
            ran_ns
        } else {
            ran_ns.min(length_ns)
        };
        let mut outcome = RankOutcome::with_room(self.planned.len());
        let mut counts = EventCounts::default();
        let mut stood_ns = self.board.stood_ns();
        for (place, event) in self.planned.iter().enumerate() {
            let record = self.board.record(place);
            let cause = match record.what {
                EventFate::Injected => Cause::Nothing,
                EventFate::Behind => Cause::Behind,
                EventFate::Away => Cause::Away,
                EventFate::OverLimit => {
                    counts.over_limit += 1;
                    continue;
                }
                EventFate::Shortened => {
                    counts.shortened += 1;
                    continue;
                }
                EventFate::Missed => {
                    counts.missed += 1;
                    continue;
                }
                EventFate::NotReached => {
                    // Still stopped when the run ended.
                    let since_ns = ran_ns.saturating_sub(event.end_ns());
                    if since_ns > STOOD_NS && self.board.state() == InjectorState::Running {
                        stood_ns += since_ns;
                        break;
                    }
                    continue;
                }
            };
            let took = CpuShare {
                start_ns: record.start_ns,
                end_ns: record.end_ns,
                from_ns: record.from_ns,
            };
            let taken_off = self.safeguards.overhead_ns.is_some();
            let suffered_ns = took.suffered_ns(self.measured, taken_off);
            let signed = |a: u64, b: u64| a.wrapping_sub(b).cast_signed();
            outcome.note(Injection {
                due_ns: event.due_ns,
                length_ns: event.length_ns,
                start_error_ns: signed(record.start_ns, event.due_ns),
                length_error_ns: signed(suffered_ns, event.length_ns),
                cause,
            });
        }
        counts.over_limit += self.board.later(EventFate::OverLimit);
        counts.shortened += self.board.later(EventFate::Shortened);
        counts.missed += self.board.later(EventFate::Missed);
        let later = EventCounts {
            injected: [EventFate::Injected, EventFate::Behind, EventFate::Away]
                .iter()
                .map(|what| self.board.later(*what))
                .sum(),
            behind: self.board.later(EventFate::Behind),
            away: self.board.later(EventFate::Away),
            ..EventCounts::default()
        };
        let sizes = |which| Histogram::of_counts(self.board.sizes(which));
        outcome.note_later(
            &later,
            [
                &sizes(Sizes::Start),
                &sizes(Sizes::Late),
                &sizes(Sizes::Length),
            ],
            self.board.taken_later_ns(),
        );
        let asked = self.asked(ran_ns);
        let EventCounts {
            injected,
            behind,
            away,
            ..
        } = outcome.counts;
        let accounted = injected + asked.merged + asked.below_floor;
        let accounted = accounted + counts.over_limit + counts.shortened + counts.missed;
        outcome.counts = EventCounts {
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
            stood_ns,
            health: match (&self.died, self.board.state()) {
                (Some(how), _) => Health::Died(how.clone()),
                (None, InjectorState::Displaced) => Health::Displaced,
                (None, _) => Health::Well,
            },
        }
    }

    /// What was due within that time, and what the safeguards say of it.
    fn asked(&self, ran_ns: u64) -> EventCounts {
        let length_ns = self.ask.portion.length_ns().max(1);
        let mut asked = EventCounts::default();
        // Times through may be many.
        let whole = ran_ns / length_ns;
        let mut times = |counts: &EventCounts, n: u64| {
            asked.asked += counts.asked * n;
            asked.merged += counts.merged * n;
            asked.below_floor += counts.below_floor * n;
        };
        times(&self.whole, whole);
        let rest_ns = ran_ns % length_ns;
        if rest_ns > 0 {
            let mut part = EventCounts::default();
            let events = self.ask.portion.once().events();
            let due = events.take_while(|event| event.due_ns < rest_ns);
            self.safeguards.apply(due, &mut part);
            times(&part, 1);
        }
        asked
    }
}
