// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One injector of a team: its process, its board, its orders, and their outcome.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use sandbag_run::child::{self, open_gate};
use sandbag_run::layout::Layout;
use sandbag_run::realtime;

use super::board::{Board, InjectorState, Orders};
use super::injector::{InjectorSetup, STOOD_NS};
use super::{Ask, CpuOutcome, Health, INJECTOR_VERB, InjectorClass, InjectorNoise, Want};
use crate::replay::column::PlannedEvent;
use crate::replay::error::{Error, Result};
use crate::replay::hold::check_interrupted;
use crate::replay::limit::{self, LeftOut};
use crate::replay::outcome::EventCounts;
use crate::replay::safeguard::Safeguards;

/// Time for an injector to be ready: usually 0.2 s; on an emulated CPU many times
/// that.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Distance of two looks at its state.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Seat {
    pub ask: Ask,
    pub child: Child,
    pub board: Board,
    pub measured: InjectorNoise,
    safeguards: Safeguards,
    pub planned: Vec<PlannedEvent>,
    /// Decisions of the safeguards on a whole portion.
    whole: EventCounts,
    pub left_out: LeftOut,
    pub died: Option<String>,
    /// It was reaped: its process id may belong to another process.
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
            repeat: ask.portion.repeats(),
        };
        let mut child = child::own(INJECTOR_VERB, &setup.to_args(), &[board.fd()], true)
            .spawn()
            .map_err(failed("start an injector"))?;
        if let Some(layout) = layout {
            // A fresh v1 group has no real-time budget. If this is denied, so is
            // the real-time class.
            let _ = realtime::move_to_root(layout, child.id());
        }
        // `await_ready` notices one that is gone.
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

    /// Waits until it has its class and measured its overhead.
    pub fn await_ready(&mut self, deadline: Instant, class: InjectorClass) -> Result<()> {
        let cpu = self.ask.cpu;
        let failed = |what: String| Err(Error::Injector { cpu, what });
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
                    return failed(format!("could not take its place: {cause}"));
                }
                _ => {}
            }
            if let Some(how) = gone {
                let words = child::last_words(&mut self.child);
                return failed(format!("ended at its start ({how}) {words}"));
            }
            check_interrupted()?;
            if Instant::now() > deadline {
                let seconds = PATIENCE.as_secs();
                return failed(format!("is not in its place after {seconds} s"));
            }
            std::thread::sleep(LOOK);
        }
        self.measured = self.board.measured();
        Ok(())
    }

    /// Decides which events are injected.
    pub fn plan(&mut self, want: Want) {
        self.safeguards = Safeguards {
            overhead_ns: want.overhead.then_some(self.measured.overhead_ns),
            least_interval_ns: want.interval.then_some(self.measured.least_interval_ns),
        };
        self.whole = EventCounts::default();
        let events = self.ask.portion.once().events();
        self.planned = self.safeguards.apply(events, &mut self.whole);
        // A forecast; the injector limits what it really does. With the safeguard the
        // overhead is part of the length.
        let beyond_ns = if want.overhead {
            0
        } else {
            self.measured.overhead_ns
        };
        (_, self.left_out) = limit::cut(&self.planned, beyond_ns);
    }

    /// Orders the events and opens the gate.
    pub fn go(&mut self, begin_ns: u64) -> Result<()> {
        let mut orders = Orders {
            begin_ns,
            length_ns: self.ask.portion.length_ns(),
            ..Orders::default()
        };
        if let Some(overhead_ns) = self.safeguards.overhead_ns {
            orders.overhead_ns = overhead_ns;
            orders.lead_ns = self.measured.lead_ns;
            orders.early_ns = self.measured.began_late_ns;
        }
        self.board.order(orders, &self.planned);
        open_gate(&mut self.child).map_err(|_| Error::Injector {
            cpu: self.ask.cpu,
            what: "ended before it began".to_owned(),
        })
    }

    /// What became of the events; the run was `ran_ns` long.
    pub fn outcome(&self, ran_ns: u64) -> CpuOutcome {
        let portion = &self.ask.portion;
        let ran_ns = if portion.repeats() {
            ran_ns
        } else {
            ran_ns.min(portion.length_ns().max(1))
        };
        let mut outcome = self.board.outcome();
        let mut stood_ns = self.board.stood_ns();
        // Still stopped when the run ended.
        let tried = usize::try_from(outcome.counts.decided()).unwrap_or(usize::MAX);
        if let Some(next) = self.planned.get(tried) {
            let since_ns = ran_ns.saturating_sub(next.end_ns());
            if since_ns > STOOD_NS && self.board.state() == InjectorState::Running {
                stood_ns += since_ns;
            }
        }
        let due = self.asked(ran_ns);
        let counts = &mut outcome.counts;
        (counts.merged, counts.below_floor) = (due.merged, due.below_floor);
        counts.asked = due.asked.max(counts.decided());
        counts.not_reached = counts.asked - counts.decided();
        counts.share_merged();
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

    /// Events that were due within that time, and the decisions of the safeguards.
    fn asked(&self, ran_ns: u64) -> EventCounts {
        let length_ns = self.ask.portion.length_ns().max(1);
        let (repetitions, rest_ns) = (ran_ns / length_ns, ran_ns % length_ns);
        let mut part = EventCounts::default();
        let events = self.ask.portion.once().events();
        let due = events.take_while(|event| event.due_ns < rest_ns);
        self.safeguards.apply(due, &mut part);
        EventCounts {
            asked: self.whole.asked * repetitions + part.asked,
            merged: self.whole.merged * repetitions + part.merged,
            below_floor: self.whole.below_floor * repetitions + part.below_floor,
            ..EventCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::signal::{SigHandler, Signal, raise, signal};

    use super::*;
    use crate::replay::hold::take_signals;
    use crate::replay::{ReplayOptions, ReplayPlan};
    use crate::{CpuTrace, Span, TraceEvent};

    /// In a thread of its own, which blocks signals.
    #[test]
    fn a_signal_ends_the_wait_for_an_injector() {
        let recorded = CpuTrace {
            cpu: 0,
            known: vec![Span::new(0, 1_000_000)],
            events: vec![TraceEvent::new(300_000, 20_000)],
        };
        let plan = ReplayPlan::new(&[&recorded], &ReplayOptions::default()).unwrap();
        let thread = std::thread::spawn(move || {
            let mut seat = Seat {
                ask: Ask::each(&[0], &plan).remove(0),
                child: Command::new("sleep").arg("60").spawn().unwrap(),
                board: Board::create(1).unwrap(),
                measured: InjectorNoise::default(),
                safeguards: Safeguards::default(),
                planned: Vec::new(),
                whole: EventCounts::default(),
                left_out: LeftOut::default(),
                died: None,
                gone: false,
            };
            // A caller may ignore it, as the shell of a script does for what is in the background.
            // SAFETY: the default is no handler.
            unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.unwrap();
            let _signals = take_signals().unwrap();
            raise(Signal::SIGINT).unwrap();
            let ready = seat.await_ready(Instant::now() + PATIENCE, InjectorClass::Fair);
            seat.child.kill().unwrap();
            seat.child.wait().unwrap();
            ready
        });
        assert!(matches!(thread.join().unwrap(), Err(Error::Interrupted)));
    }
}
