// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that looks on one CPU.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sandbag_linux::CpuList;
use sandbag_linux::sched::{self, Attributes};

use super::hot::{self, Costs, Raw};
use super::room::room;
use super::scale::Scale;
use super::{CollectOptions, TIMES_LEAST, Threshold};
use crate::{CpuNotes, Fault, Result, Span, TraceEvent};
use sandbag_linux::counter::now;

/// A thread that waits for orders.
pub struct CollectWorker {
    pub cpu: u32,
    /// Number of its thread, once it is ready.
    pub thread_id: u32,
    orders: Option<Sender<RoundOrder>>,
    thread: Option<JoinHandle<Result<CpuNotes>>>,
}

/// Order for a round.
struct RoundOrder {
    /// Until the counter is there.
    until: u64,
    /// Most events.
    events: usize,
}

/// What a round came to.
pub struct RoundResult {
    pub span: Span,
    pub events: Vec<TraceEvent>,
    /// It ended because there was no room for more.
    pub full: bool,
}

impl RoundResult {
    /// Its longest event; 0 without any.
    pub fn longest_ns(&self) -> u64 {
        let lengths = self.events.iter().map(|event| event.length_ns);
        lengths.max().unwrap_or(0)
    }
}

/// Answer of a worker, sent with its place on one channel for all, so that the receiver
/// sleeps until then: it may be on a CPU that is recorded.
pub enum Answer {
    /// It is in its place; the number of its thread.
    Ready(u32),
    /// A round is over for it.
    Found(RoundResult),
    /// It ended, for a reason that [`CollectWorker::finish`] tells.
    Ended,
}

impl CollectWorker {
    /// Starts it; it takes its place and measures what it costs, then answers.
    pub fn start(
        place: usize,
        cpu: u32,
        options: &CollectOptions,
        scale: Scale,
        answers: Sender<(usize, Answer)>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let (orders, receive_orders) = channel();
        let work = Work {
            cpu,
            scale,
            threshold: options.threshold,
            preheat: options.preheat,
            room: options.room,
            real_time: options.real_time,
            stop,
        };
        let thread = thread::Builder::new()
            .name(format!("jitter-{cpu}"))
            .spawn(move || {
                let notes = work.run(&receive_orders, &|answer| {
                    let _ = answers.send((place, answer));
                });
                let _ = answers.send((place, Answer::Ended));
                notes
            })
            .map_err(Fault::Io)?;
        Ok(Self {
            cpu,
            thread_id: 0,
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Records until the counter is at `until` or there are this many events.
    pub fn look(&self, until: u64, events: usize) {
        if let Some(orders) = &self.orders {
            // One that has ended says so itself.
            let _ = orders.send(RoundOrder { until, events });
        }
    }

    /// Ends it.
    pub fn finish(&mut self) -> Result<CpuNotes> {
        drop(self.orders.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(notes)) => notes,
            _ => Err(Fault::Io(std::io::Error::other("a loop ended early")).into()),
        }
    }
}

struct Work {
    cpu: u32,
    scale: Scale,
    threshold: Threshold,
    preheat: Duration,
    room: usize,
    real_time: Option<u8>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(self, orders: &Receiver<RoundOrder>, answer: &dyn Fn(Answer)) -> Result<CpuNotes> {
        sched::set_affinity(0, &CpuList::from_iter([self.cpu])).map_err(Fault::Kernel)?;
        let mut room = room(self.room).map_err(|_| Fault::Io(io::ErrorKind::OutOfMemory.into()))?;
        // Warm: the loop, its branch and the room's first pages.
        let until = now().saturating_add(self.scale.counts(self.preheat.as_nanos() as f64));
        hot::look(&mut room, u64::MAX, until, &self.stop);
        let costs = hot::costs(&mut room);
        let times_least = (costs.least as f64 * TIMES_LEAST) as u64;
        let threshold = match self.threshold {
            Threshold::TimesLeast => times_least,
            Threshold::AtLeast(ns) => (self.scale.counts(ns) + costs.least).max(times_least),
            Threshold::Exactly(ns) => self.scale.counts(ns),
        };
        if let Some(priority) = self.real_time {
            let fifo = Attributes::Fifo {
                priority: u32::from(priority),
            };
            sched::set_attributes(0, fifo)
                .map_err(|cause| Fault::NoRealTime { priority, cause })?;
        }
        let (mut faults, mut dropped) = (0, 0);
        // SAFETY: no arguments, cannot fail.
        answer(Answer::Ready(unsafe { libc::gettid() }.cast_unsigned()));
        while let Ok(RoundOrder { until, events }) = orders.recv() {
            let room_for = events.min(self.room);
            let before = page_faults();
            let looked = hot::look(&mut room[..room_for], threshold, until, &self.stop);
            faults += page_faults().saturating_sub(before);
            if self.was_moved() {
                // Since when is unknown: nothing of this round is kept.
                return Err(Fault::Displaced(self.cpu).into());
            }
            let full = looked.events == self.room && events > self.room;
            if full {
                // The time is unknown from here on, but not how much was lost.
                dropped += hot::count(threshold, until, &self.stop);
            }
            let raws = &room[..looked.events];
            let events = raws.iter().map(|raw| event(self.scale, *raw, costs.least));
            let span = Span::new(
                self.scale.since_begin(looked.from),
                self.scale.since_begin(looked.until),
            );
            answer(Answer::Found(RoundResult {
                span,
                events: events.collect(),
                full,
            }));
        }
        Ok(self.notes(costs, threshold, faults, dropped))
    }

    /// The kernel lets a task run anywhere whose CPU goes offline, also when it
    /// comes back.
    fn was_moved(&self) -> bool {
        let only = CpuList::from_iter([self.cpu]);
        sched::affinity(0).is_ok_and(|now| now != only) || sched::current_cpu() != self.cpu
    }

    fn notes(&self, costs: Costs, threshold: u64, faults: u64, dropped: u64) -> CpuNotes {
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
            dropped,
            faults,
        }
    }
}

/// What was lost, in ns: the difference of two readings without the least one,
/// in counts, which the loop takes for itself. Both ends are rounded, so that
/// neighbours do not overlap.
fn event(scale: Scale, raw: Raw, least: u64) -> TraceEvent {
    let start_ns = scale.since_begin(raw.start);
    let lost = raw.length.saturating_sub(least);
    let end_ns = scale.since_begin(raw.start.saturating_add(lost));
    TraceEvent::new(start_ns, end_ns - start_ns)
}

/// Of the calling thread so far.
fn page_faults() -> u64 {
    // SAFETY: an all-zero rusage is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_event_is_the_time_lost() {
        // 2 counts in a nanosecond; the loop itself takes 20 counts.
        let scale = Scale {
            begin: 1_000,
            rate: 2e9,
        };
        let of = |start, length| {
            let event = event(scale, Raw { start, length }, 20);
            (event.start_ns, event.length_ns)
        };
        assert_eq!(of(3_000, 420), (1_000, 200));
        assert_eq!(of(3_000, 20), (1_000, 0));
        assert_eq!(of(3_000, 1), (1_000, 0));
    }
}
