// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that looks on one CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sandbag_kernel::CpuList;
use sandbag_kernel::sched::{self, Attributes};

use super::counter::{Scale, now};
use super::hot::{self, Costs};
use super::room::Room;
use super::{Options, TIMES_LEAST};
use crate::{CpuNotes, Event, Fault, Result, Span};

/// How often a round is asked whether it is over; nobody sleeps on the CPUs
/// that look.
const POLL: Duration = Duration::from_millis(20);

/// A thread that waits for orders.
pub struct Worker {
    /// Its CPU.
    pub cpu: u32,
    orders: Sender<u64>,
    answers: Receiver<Answer>,
    thread: JoinHandle<Result<CpuNotes>>,
    stop: Arc<AtomicBool>,
    /// The answer of this round, once it is there.
    found: Option<Found>,
    failed: bool,
}

/// What a round came to.
pub struct Found {
    /// When it looked.
    pub span: Span,
    /// What it found.
    pub events: Vec<Event>,
    /// It ended because there was no room for more.
    pub full: bool,
}

enum Answer {
    Ready,
    Found(Found),
}

impl Worker {
    /// Starts it; it takes its place and measures what it costs.
    pub fn start(cpu: u32, options: &Options, scale: Scale) -> Result<Self> {
        let (orders, receive_orders) = channel();
        let (send_answers, answers) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            cpu,
            scale,
            threshold_ns: options.threshold_ns,
            preheat: options.preheat,
            room: options.room,
            real_time: options.real_time,
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name(format!("jitter-{cpu}"))
            .spawn(move || work.run(&receive_orders, &send_answers))
            .map_err(Fault::Io)?;
        Ok(Self {
            cpu,
            orders,
            answers,
            thread,
            stop,
            found: None,
            failed: false,
        })
    }

    /// Waits until it is in its place.
    pub fn ready(&mut self) -> Result<()> {
        match self.answers.recv() {
            Ok(_) => Ok(()),
            Err(_) => Err(self.failure()),
        }
    }

    /// Lets it look until the counter says so.
    pub fn look(&self, until: u64) -> Result<()> {
        // One that has ended is found out when it is asked.
        let _ = self.orders.send(until);
        Ok(())
    }

    fn poll(&mut self) -> bool {
        if self.found.is_none() && !self.failed {
            match self.answers.recv_timeout(POLL) {
                Ok(Answer::Found(found)) => self.found = Some(found),
                Ok(Answer::Ready) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => self.failed = true,
            }
        }
        self.found.is_some() || self.failed
    }

    /// What it found in the round that is over.
    pub fn found(&mut self) -> Result<Found> {
        match self.found.take() {
            Some(found) => Ok(found),
            None => Err(self.failure()),
        }
    }

    fn failure(&mut self) -> crate::Error {
        Fault::Io(std::io::Error::other(format!(
            "the loop on CPU {} ended early",
            self.cpu
        )))
        .into()
    }

    /// Ends it.
    pub fn finish(self) -> Result<CpuNotes> {
        drop(self.orders);
        match self.thread.join() {
            Ok(notes) => notes,
            Err(_) => Err(Fault::Io(std::io::Error::other("a loop panicked")).into()),
        }
    }
}

/// Waits until all have answered; once `stop` is set, ends their round.
pub fn await_round(workers: &mut [Worker], stop: &AtomicBool) {
    loop {
        let mut over = true;
        for worker in workers.iter_mut() {
            over &= worker.poll();
            if stop.load(Ordering::Relaxed) {
                worker.stop.store(true, Ordering::Relaxed);
            }
        }
        if over {
            return;
        }
    }
}

/// What the thread knows.
struct Work {
    cpu: u32,
    scale: Scale,
    threshold_ns: Option<f64>,
    preheat: Duration,
    room: usize,
    real_time: Option<u8>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(self, orders: &Receiver<u64>, answers: &Sender<Answer>) -> Result<CpuNotes> {
        sched::set_affinity(0, &CpuList::from_iter([self.cpu])).map_err(Fault::Kernel)?;
        let mut room = Room::new(self.room).map_err(Fault::Io)?;
        // Warm: the loop, its branch and the room's first pages.
        let until = now().saturating_add(self.scale.counts(self.preheat.as_nanos() as f64));
        hot::look(room.as_mut(), u64::MAX, until, &self.stop);
        let costs = hot::costs(room.as_mut());
        let threshold = match self.threshold_ns {
            Some(ns) => self.scale.counts(ns),
            None => (costs.least as f64 * TIMES_LEAST) as u64,
        };
        if let Some(priority) = self.real_time {
            let priority = u32::from(priority);
            sched::set_attributes(0, Attributes::Fifo { priority }).map_err(Fault::Kernel)?;
        }
        let mut faults = 0;
        let _ = answers.send(Answer::Ready);
        while let Ok(until) = orders.recv() {
            let before = page_faults();
            let looked = hot::look(room.as_mut(), threshold, until, &self.stop);
            faults += page_faults().saturating_sub(before);
            let raws = room.stored(looked.events);
            let events = raws.iter().map(|raw| self.event(raw.start, raw.length));
            let span = Span {
                from_ns: self.scale.since_begin(looked.from),
                until_ns: self.scale.since_begin(looked.until),
            };
            let found = Found {
                span,
                events: events.collect(),
                full: looked.events == self.room,
            };
            if answers.send(Answer::Found(found)).is_err() {
                break;
            }
        }
        Ok(self.notes(costs, threshold, faults))
    }

    /// Both ends are rounded, so that neighbours do not overlap.
    fn event(&self, start: u64, length: u64) -> Event {
        let start_ns = self.scale.since_begin(start);
        let end_ns = self.scale.since_begin(start.saturating_add(length));
        Event {
            start_ns,
            length_ns: end_ns - start_ns,
        }
    }

    fn notes(&self, costs: Costs, threshold: u64, faults: u64) -> CpuNotes {
        let ns = |counts: f64| self.scale.fraction(counts);
        CpuNotes {
            cpu: self.cpu,
            least_ns: ns(costs.least as f64),
            threshold_ns: ns(threshold as f64),
            loop_ns: ns(costs.pass),
            read_ns: ns(costs.read),
            store_ns: ns(costs.store),
            drift_ppm: 0.0,
            counts_per_s: self.scale.rate,
            dropped: 0,
            faults,
        }
    }
}

/// Of the calling thread so far.
fn page_faults() -> u64 {
    // SAFETY: an all-zero rusage is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}
