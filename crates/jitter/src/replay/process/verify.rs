// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays and records at the same time, on the same CPUs: the paper's way of
//! judging a replay.
//!
//! The collector is an ordinary task and sees what a program would see: the
//! host's own noise, and what is injected. The host alone is recorded as well,
//! so that it can be taken off.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::collect::{self, Threshold, counter};
use crate::{CpuTrace, Fault, JitterTrace, TraceHeader, format};
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};

use super::ask::{Ask, Want};
use super::beside::Injection as _;
use super::outcome::CpuOutcome;
use super::team::Team;
use crate::replay::clock::{Counter, ReplayClock, paired_times};
use crate::replay::column::PlannedEvent;
use crate::replay::error::{Error, Result};
use crate::replay::outcome::RankOutcome;
use crate::replay::plan::ReplayPlan;

/// Room for the events of a CPU.
const ROOM: usize = 1_000_000;
/// The collector goes on for so much longer than the replay, which begins a
/// little later.
const LONGER: Duration = Duration::from_millis(200);
/// The programs that ask begin so much later than they are started, ns.
const START_NS: u64 = 50_000_000;

/// One CPU of a replay.
#[derive(Debug)]
pub struct CpuRow {
    /// Kernel number.
    pub cpu: u32,
    /// What it should have suffered while it was looked at, due times since
    /// the beginning.
    pub asked: Vec<PlannedEvent>,
    /// What a program there saw, since the same beginning.
    pub seen: Vec<PlannedEvent>,
    /// What the injector, or the program that asked, says itself.
    pub outcome: RankOutcome,
}

/// A replay and what was seen of it.
#[derive(Debug)]
pub struct ReplayTrace {
    /// For how long, ns.
    pub length_ns: u64,
    /// For how long a CPU was looked at, ns, mean.
    pub known_ns: u64,
    /// By CPU.
    pub cpus: Vec<CpuRow>,
    /// How the injectors got the CPUs, and what it cost them; `None` for
    /// programs that asked.
    pub team: Option<(super::InjectorClass, Vec<CpuOutcome>)>,
}

/// What was seen of the host alone.
#[derive(Debug)]
pub struct HostNoise {
    /// For how long a CPU was looked at, ns, mean.
    pub known_ns: u64,
    /// By CPU, since its beginning.
    pub cpus: Vec<(u32, Vec<PlannedEvent>)>,
    /// Nothing shorter can be seen, ns; the most of all CPUs.
    pub threshold_ns: f64,
}

/// How the collector looks.
#[derive(Debug, Clone, Copy)]
pub struct NoiseCheck {
    /// What it takes for an event.
    pub threshold: Threshold,
    /// As a real-time task of this priority, that sees only what is above it,
    /// in pieces of 0.8 s.
    pub real_time: Option<u8>,
}

/// Records what the host does by itself.
///
/// # Errors
/// Those of the collector: the counter is no clock.
pub fn host(cpus: &[u32], length: Duration, look: NoiseCheck) -> Result<HostNoise> {
    let (ready, _ignored) = channel();
    let collected = collect(cpus, length + LONGER, look, ready)?;
    let begin_ns = collected.begin_ns + LONGER.as_nanos() as u64 / 2;
    let length_ns = nanos(length);
    let mut threshold_ns = 0.0f64;
    for notes in collected.trace.notes.iter().flat_map(|notes| &notes.cpus) {
        threshold_ns = threshold_ns.max(notes.threshold_ns);
    }
    let seen = |cpu: &CpuTrace| (cpu.cpu, collected.seen(cpu, begin_ns, length_ns));
    Ok(HostNoise {
        known_ns: collected.mean_known_ns(begin_ns, length_ns),
        cpus: collected.trace.cpus.iter().map(seen).collect(),
        threshold_ns,
    })
}

/// Injects beside a collector; if that is a real-time task its priority is
/// lower than the injectors'.
///
/// # Errors
/// Those of the injectors and of the collector.
pub fn by_processes(
    asks: &[Ask],
    want: Want,
    most: Duration,
    look: NoiseCheck,
) -> sandbag_ui::Result<ReplayTrace> {
    let length_ns = shortest(asks).min(nanos(most));
    let cpus: Vec<u32> = asks.iter().map(|ask| ask.cpu).collect();
    let mut team = Team::start(asks, want)?;
    let class = team.class();
    let length = Duration::from_nanos(length_ns);
    let (ready, is_ready) = channel();
    let collector = {
        let cpus = cpus.clone();
        thread::spawn(move || collect(&cpus, length + LONGER, look, ready))
    };
    // Closed without a word if it could not begin.
    let begin_ns = match is_ready.recv() {
        Ok(()) => {
            let begin_ns = team.begin()?;
            clock::sleep_until(begin_ns + length_ns);
            begin_ns
        }
        Err(_) => 0,
    };
    let outcome = team.finish();
    let collected = collector.join().unwrap_or_else(|_| {
        Err(Error::Call {
            call: "the collector",
            cause: io::Error::other("panicked"),
        })
    })?;
    let rows = asks.iter().zip(&outcome).zip(&collected.trace.cpus);
    let cpus = rows
        .map(|((ask, one), seen)| CpuRow {
            cpu: ask.cpu,
            asked: {
                let known = collected.known(seen, begin_ns, length_ns);
                let asked = due_within(ask.portion.events(), length_ns);
                looked_at(asked, &known)
            },
            seen: collected.seen(seen, begin_ns, length_ns),
            outcome: one.outcome.clone(),
        })
        .collect();
    Ok(ReplayTrace {
        length_ns,
        known_ns: collected.mean_known_ns(begin_ns, length_ns),
        cpus,
        team: Some((class, outcome)),
    })
}

/// On each CPU a program that asks as often as it can, and notes for itself
/// what it missed. As a real-time task, if a priority is given, it does so for
/// no longer than the kernel leaves such a task of a second.
///
/// # Errors
/// A CPU or the priority cannot be had; the counter is no clock.
pub fn by_asking(
    cpus: &[u32],
    plan: &ReplayPlan,
    most: Duration,
    threshold_ns: f64,
    real_time: Option<u8>,
) -> Result<ReplayTrace> {
    let most = match real_time {
        None => most,
        Some(_) => most.min(collect::REAL_TIME_ROUND),
    };
    let portions: Vec<_> = (0..cpus.len() as u64).map(|rank| plan.rank(rank)).collect();
    let shortest = portions.iter().map(|p| (p.length_ns(), p.repeats()));
    let shortest = shortest.map(|(ns, repeats)| if repeats { u64::MAX } else { ns });
    let length_ns = shortest.min().unwrap_or(0).min(nanos(most));
    let counter = Counter::calibrated(Duration::from_millis(100));
    let counter = counter.map_err(crate::Error::from)?;
    // All memory is there before the beginning is fixed.
    let ready: Vec<_> = cpus
        .iter()
        .zip(portions)
        .map(|(cpu, portion)| {
            let asked = due_within(portion.events(), length_ns);
            let polled = portion.polled(asked.len() + 1, 0);
            (*cpu, asked, polled, room())
        })
        .collect();
    // What real-time tasks of the row before took of the kernel's second is
    // forgotten by then.
    let ahead_ns = START_NS + u64::from(real_time.is_some()) * 1_000_000_000;
    let begin_ns = counter.now_ns() + ahead_ns;
    // Asleep until shortly before.
    let wake_ns = clock::monotonic() + ahead_ns - START_NS / 10;
    let threads: Vec<_> = ready
        .into_iter()
        .map(|(cpu, asked, polled, seen)| {
            thread::spawn(move || -> Result<CpuRow> {
                sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
                if let Some(priority) = real_time {
                    let priority = u32::from(priority);
                    sched::set_attributes(0, Attributes::Fifo { priority })?;
                }
                clock::sleep_until(wake_ns);
                let (seen, outcome) =
                    ask(seen, &counter, polled, begin_ns, length_ns, threshold_ns);
                Ok(CpuRow {
                    cpu,
                    asked,
                    seen,
                    outcome,
                })
            })
        })
        .collect();
    let mut rows = Vec::new();
    for thread in threads {
        let row = thread.join().unwrap_or_else(|_| {
            Err(Error::Call {
                call: "a program that asks",
                cause: io::Error::other("panicked"),
            })
        });
        rows.push(row?);
    }
    Ok(ReplayTrace {
        length_ns,
        known_ns: length_ns,
        cpus: rows,
        team: None,
    })
}

/// The program: reads the clock, asks, suffers; what it saw, and what it was
/// told.
fn ask(
    mut seen: Vec<PlannedEvent>,
    clock: &impl ReplayClock,
    mut polled: crate::replay::PolledReplay,
    begin_ns: u64,
    length_ns: u64,
    threshold_ns: f64,
) -> (Vec<PlannedEvent>, RankOutcome) {
    let threshold_ns = threshold_ns.ceil() as u64;
    while clock.now_ns() < begin_ns {
        std::hint::spin_loop();
    }
    // Later only if the CPU was not to be had.
    let begin_ns = clock.now_ns();
    let end_ns = begin_ns + length_ns;
    polled.begin(begin_ns);
    let mut last = clock.now_ns();
    while last < end_ns {
        let mut now = clock.now_ns();
        // Suffered: until it may go on, all of it is one absence. What is due
        // when the run is over is not.
        while now < end_ns
            && let Some(until_ns) = polled.poll(now)
        {
            let start = now;
            // The host had the CPU when it came due.
            if start - last > threshold_ns {
                note(&mut seen, begin_ns, last, start);
            }
            // An event that is longer than all of this ends with it: with
            // real-time priority nobody else has the CPU meanwhile.
            let until_ns = until_ns.min(end_ns);
            while now < until_ns {
                now = clock.now_ns();
            }
            note(&mut seen, begin_ns, start, now);
            last = now;
        }
        if now - last > threshold_ns {
            note(&mut seen, begin_ns, last, now);
        }
        last = now;
    }
    (seen, polled.into_outcome())
}

/// Room for what is seen, its pages touched.
fn room() -> Vec<PlannedEvent> {
    let touch = PlannedEvent::new(u64::MAX, 0);
    let mut room = vec![touch; ROOM];
    room.clear();
    room
}

fn note(seen: &mut Vec<PlannedEvent>, begin_ns: u64, from_ns: u64, until_ns: u64) {
    if seen.len() < ROOM {
        seen.push(PlannedEvent::new(
            from_ns.saturating_sub(begin_ns),
            until_ns - from_ns,
        ));
    }
}

/// What was recorded, and where it lies on CLOCK_MONOTONIC.
struct TimedTrace {
    trace: JitterTrace,
    /// Of the trace, on CLOCK_MONOTONIC.
    begin_ns: u64,
    /// Nanoseconds of CLOCK_MONOTONIC in one of the trace.
    pace: f64,
}

impl TimedTrace {
    /// When, since the beginning, a CPU was looked at within that time.
    fn known(&self, cpu: &CpuTrace, begin_ns: u64, length_ns: u64) -> Vec<(u64, u64)> {
        let since = |ns: u64| {
            let at_ns = self.begin_ns + (ns as f64 * self.pace) as u64;
            at_ns.saturating_sub(begin_ns).min(length_ns)
        };
        let spans = cpu.known.iter();
        spans
            .map(|span| (since(span.from_ns), since(span.until_ns)))
            .collect()
    }

    fn mean_known_ns(&self, begin_ns: u64, length_ns: u64) -> u64 {
        let cpus = self.trace.cpus.iter();
        let all = cpus.flat_map(|cpu| self.known(cpu, begin_ns, length_ns));
        let sum: u64 = all.map(|(from, until)| until - from).sum();
        sum / self.trace.cpus.len().max(1) as u64
    }

    /// The events that begin within that time, since its beginning.
    fn seen(&self, cpu: &CpuTrace, begin_ns: u64, length_ns: u64) -> Vec<PlannedEvent> {
        let events = cpu.events.iter().filter_map(|event| {
            let at_ns = self.begin_ns + (event.start_ns as f64 * self.pace) as u64;
            let due_ns = at_ns.checked_sub(begin_ns)?;
            (due_ns < length_ns).then_some(PlannedEvent::new(due_ns, event.length_ns))
        });
        events.collect()
    }
}

/// Records; says `ready` when it begins to look.
fn collect(
    cpus: &[u32],
    length: Duration,
    look: NoiseCheck,
    ready: Sender<()>,
) -> Result<TimedTrace> {
    let options = collect::CollectOptions {
        cpus: cpus.iter().copied().collect(),
        duration: length,
        events: None,
        round: Some(length * 2),
        threshold: look.threshold,
        preheat: Duration::from_millis(50),
        room: ROOM,
        real_time: look.real_time,
    };
    let header = TraceHeader {
        recorder: "verify".to_owned(),
        host: None,
        kernel: None,
        began_s: None,
        clock: counter::CLOCK,
        cpus: cpus.to_vec(),
        real_time: look.real_time,
    };
    let bytes = Shared::default();
    let into = bytes.clone();
    let open = move || {
        let _ = ready.send(());
        Ok(into)
    };
    let (first_counts, first_ns) = paired_times();
    let outcome = collect::record(&options, &header, open, &Arc::default())?;
    let (last_counts, last_ns) = paired_times();
    let bytes = std::mem::take(&mut *bytes.lock());
    let trace = format::read(&bytes[..])?;
    let rate = trace.notes.iter().flat_map(|notes| &notes.cpus);
    let rate = rate.map(|notes| notes.counts_per_s).next();
    let rate = rate.filter(|rate| *rate > 0.0);
    let rate = rate.ok_or_else(|| crate::Error::from(Fault::NothingKnown))?;
    let ns_per_count =
        (last_ns - first_ns) as f64 / last_counts.saturating_sub(first_counts).max(1) as f64;
    let ahead = outcome.begin_counts.saturating_sub(first_counts) as f64 * ns_per_count;
    Ok(TimedTrace {
        trace,
        begin_ns: first_ns + ahead as u64,
        pace: ns_per_count * rate / 1e9,
    })
}

/// Memory that can be read when its writer is gone.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn due_within(events: crate::replay::Events, length_ns: u64) -> Vec<PlannedEvent> {
    events
        .take_while(|event| event.due_ns < length_ns)
        .collect()
}

/// Those that lie wholly within stretches that were looked at.
fn looked_at(asked: Vec<PlannedEvent>, known: &[(u64, u64)]) -> Vec<PlannedEvent> {
    let within = |event: &PlannedEvent| {
        let place = known.partition_point(|(_, until)| *until < event.end_ns());
        known
            .get(place)
            .is_some_and(|(from, _)| *from <= event.due_ns)
    };
    asked.into_iter().filter(within).collect()
}

fn shortest(asks: &[Ask]) -> u64 {
    let lengths = asks.iter().map(|ask| {
        if ask.portion.repeats() {
            u64::MAX
        } else {
            ask.portion.length_ns()
        }
    });
    lengths.min().unwrap_or(0)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
