// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays and records at the same time, on the same CPUs: the paper's way of
//! verifying a replay.
//!
//! The collector is an ordinary task and records what a program would lose: the
//! noise of the host, and the injected events. The host alone is recorded as well, to
//! be subtracted. The injectors are processes ([`by_processes`]), the timers of the
//! recording process itself ([`inside`]), or a program that polls ([`by_polling`]).

mod inside;
pub mod matching;
mod polled;
pub mod verdict_row;

pub use inside::inside;
pub use polled::by_polling;

use std::fs::File;
use std::io::{self, Seek as _};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use sandbag_linux::clock;
use sandbag_linux::shared::memory_file;
use sandbag_ui::quantity::time;
use sandbag_ui::units::nanos;

use crate::collect::{self, REAL_TIME_ROUND, Threshold};
use crate::replay::hold::Replay as _;
use crate::replay::outcome::RankOutcome;
use crate::replay::process::{Ask, InjectorNoise, Team, Want};
use crate::replay::{Error, PlannedEvent, Portion, ReplayPlan, Result};
use crate::{CpuTrace, Fault, JitterTrace, LoopClock, TraceHeader, format};
use sandbag_linux::counter::paired_times;

/// Most events of a CPU that are recorded.
const ROOM: usize = 1_000_000;
/// Memory for an event: as it is recorded and as it is kept, or a gap of a process.
const RECORD_BYTES: u64 = 32;
/// The collector goes on longer than the replay, which begins a little later.
const LONGER: Duration = Duration::from_millis(200);
/// More noise of the host than this is worth a warning, percent of the time.
const MOST_HOST_PCT: f64 = 2.0;
/// The kernel's period for real-time tasks, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// One CPU of a replay; due times since its beginning.
#[derive(Debug)]
pub struct CpuRow {
    pub cpu: u32,
    /// Events that were due while the CPU was observed.
    pub asked: Vec<PlannedEvent>,
    /// Until when gaps were recorded, ns: the end of the run, or the first one without room.
    pub until_ns: u64,
    /// Gaps that a program there recorded.
    pub seen: Vec<PlannedEvent>,
    /// What the injector, or the program that polls, booked.
    pub outcome: RankOutcome,
}

/// A replay and what was recorded of it.
#[derive(Debug)]
pub struct ReplayTrace {
    /// How events were injected.
    pub method: &'static str,
    pub length_ns: u64,
    /// Time for which a CPU was observed, mean, ns.
    pub known_ns: u64,
    pub cpus: Vec<CpuRow>,
    /// Overhead of injector processes, by CPU.
    pub measured: Vec<(u32, InjectorNoise)>,
}

impl ReplayTrace {
    /// Part of the time that was asked for, percent.
    pub fn asked_pct(&self) -> f64 {
        let lengths = self.cpus.iter().flat_map(|row| &row.asked);
        let asked_ns: u64 = lengths.map(|event| event.length_ns).sum();
        let looked_ns = self.length_ns * self.cpus.len().max(1) as u64;
        asked_ns as f64 * 100.0 / looked_ns.max(1) as f64
    }

    /// That others had the CPUs too, in words.
    pub fn disturbed_by(&self, hosts: [&HostNoise; 2]) -> Option<String> {
        let [before, after] = hosts.map(HostNoise::pct);
        let asked = self.asked_pct();
        (before.max(after) > MOST_HOST_PCT).then(|| {
            format!(
                "the host and other tasks alone took {before:.1} % of the time before and \
                 {after:.1} % after (limit {MOST_HOST_PCT} %), and the events of the trace \
                 {asked:.1} %: what is not reproduced, late or longer may be theirs"
            )
        })
    }

    /// CPUs that were not observed until the end, in words.
    pub fn warnings(&self) -> Vec<String> {
        let length_ns = self.length_ns;
        let cut = self.cpus.iter().filter(|row| row.until_ns < length_ns);
        let text = |row: &CpuRow| {
            format!(
                "CPU {} is judged for {} of {} only: there was room for {} gaps",
                row.cpu,
                time(row.until_ns as f64),
                time(length_ns as f64),
                row.seen.len()
            )
        };
        cut.map(text).collect()
    }
}

/// The noise of the host alone.
#[derive(Debug)]
pub struct HostNoise {
    /// Time for which a CPU was observed, mean, ns.
    pub known_ns: u64,
    /// By CPU; since the beginning.
    pub cpus: Vec<(u32, Vec<PlannedEvent>)>,
    /// Shortest gap that is recorded, ns; the largest of all CPUs.
    pub threshold_ns: f64,
}

impl HostNoise {
    /// Part of the time that its events took, percent.
    pub fn pct(&self) -> f64 {
        let lengths = self.cpus.iter().flat_map(|(_, seen)| seen);
        let noise_ns: u64 = lengths.map(|event| event.length_ns).sum();
        let looked_ns = self.known_ns * self.cpus.len().max(1) as u64;
        noise_ns as f64 * 100.0 / looked_ns.max(1) as f64
    }
}

/// How the collector records.
#[derive(Debug, Clone, Copy)]
pub struct NoiseCheck {
    pub threshold: Threshold,
    /// Priority of a real-time task, which is preempted by higher priorities only and
    /// records in pieces of 0.8 s.
    pub real_time: Option<u8>,
    /// Room for the events of a CPU.
    pub room: usize,
}

/// A replay that a program suffers by itself and records.
#[derive(Debug, Clone, Copy)]
pub struct VerifyRun<'a> {
    pub cpus: &'a [u32],
    pub plan: &'a ReplayPlan,
    /// Longest run.
    pub most: Duration,
    /// Shorter gaps are not recorded, ns.
    pub threshold_ns: f64,
    /// Priority of a real-time task, which runs for no longer than the kernel leaves
    /// such a task of a second.
    pub real_time: Option<u8>,
    /// Room for the gaps of a CPU.
    pub room: usize,
}

/// Room for the events of each of the `cpus` in this memory.
pub fn room(most_bytes: u64, cpus: usize) -> usize {
    let each = most_bytes / RECORD_BYTES / cpus.max(1) as u64;
    usize::try_from(each).unwrap_or(ROOM).clamp(1, ROOM)
}

impl VerifyRun<'_> {
    /// The portion of each CPU, and the length of the run, ns.
    fn portions(&self) -> (Vec<Portion>, u64) {
        let most = match self.real_time {
            None => self.most,
            Some(_) => self.most.min(REAL_TIME_ROUND),
        };
        let ranks = 0..self.cpus.len() as u64;
        let portions: Vec<Portion> = ranks.map(|rank| self.plan.rank(rank)).collect();
        let length_ns = length_ns(portions.iter(), most);
        (portions, length_ns)
    }

    /// From its start to the beginning, ns. What real-time tasks of the run before
    /// took of the kernel's second is forgotten by then.
    fn ahead_ns(&self, start_ns: u64) -> u64 {
        start_ns + self.real_time.map_or(0, |_| SECOND_NS)
    }
}

/// The shortest portion that ends, at most `most`.
fn length_ns<'a>(portions: impl Iterator<Item = &'a Portion>, most: Duration) -> u64 {
    let ends = |portion: &&Portion| !portion.repeats();
    let lengths = portions.filter(ends).map(Portion::length_ns);
    lengths.min().unwrap_or(u64::MAX).min(nanos(most))
}

fn due_within(portion: &Portion, length_ns: u64) -> impl Iterator<Item = PlannedEvent> {
    let events = portion.events();
    events.take_while(move |event| event.due_ns < length_ns)
}

/// Records the noise of the host alone.
///
/// # Errors
/// Those of the collector: the counter is no clock.
pub fn host(cpus: &[u32], length: Duration, look: NoiseCheck) -> Result<HostNoise> {
    let (ready, _ignored) = channel();
    let collected = collect(cpus, length + LONGER, look, ready)?;
    let begin_ns = collected.begin_ns + nanos(LONGER) / 2;
    let length_ns = nanos(length);
    let notes = collected.trace.notes.iter().flat_map(|notes| &notes.cpus);
    let threshold_ns = notes.map(|cpu| cpu.threshold_ns).fold(0.0, f64::max);
    let seen = |cpu: &CpuTrace| (cpu.cpu, collected.seen(cpu, begin_ns, length_ns));
    Ok(HostNoise {
        known_ns: collected.mean_known_ns(begin_ns, length_ns),
        cpus: collected.trace.cpus.iter().map(seen).collect(),
        threshold_ns,
    })
}

/// Injects by processes beside a collector; a real-time collector has a lower
/// priority than the injectors.
///
/// # Errors
/// Those of the injectors and of the collector.
pub fn by_processes(
    asks: &[Ask],
    want: Want,
    most: Duration,
    look: NoiseCheck,
) -> sandbag_ui::Result<ReplayTrace> {
    let length_ns = length_ns(asks.iter().map(|ask| &ask.portion), most);
    let cpus: Vec<u32> = asks.iter().map(|ask| ask.cpu).collect();
    let mut team = Team::start(asks, want)?;
    let method = team.class().name();
    let length = Duration::from_nanos(length_ns);
    let (ready, is_ready) = channel();
    let collector = thread::spawn(move || collect(&cpus, length + LONGER, look, ready));
    // The channel closes without a message if the collector could not begin.
    let begin_ns = match is_ready.recv() {
        Ok(()) => {
            let begin_ns = team.begin()?;
            clock::sleep_until(begin_ns + length_ns);
            begin_ns
        }
        Err(_) => 0,
    };
    let outcome = team.finish();
    let collected = join(collector.join(), "the collector")?;
    let rows = asks.iter().zip(&outcome).zip(&collected.trace.cpus);
    let row = |((ask, one), seen): ((&Ask, &crate::replay::process::CpuOutcome), &CpuTrace)| {
        let known = collected.known(seen, begin_ns, length_ns);
        CpuRow {
            cpu: ask.cpu,
            asked: observed(due_within(&ask.portion, length_ns), &known),
            // Where the collector had no more room, its known time has ended.
            until_ns: length_ns,
            seen: collected.seen(seen, begin_ns, length_ns),
            outcome: one.outcome.clone(),
        }
    };
    Ok(ReplayTrace {
        method,
        length_ns,
        known_ns: collected.mean_known_ns(begin_ns, length_ns),
        cpus: rows.map(row).collect(),
        measured: outcome.iter().map(|one| (one.cpu, one.measured)).collect(),
    })
}

fn join<T>(joined: thread::Result<Result<T>>, call: &'static str) -> Result<T> {
    joined.unwrap_or_else(|_| {
        let cause = io::Error::other("panicked");
        Err(Error::Call { call, cause })
    })
}

/// A recording, and where it lies on CLOCK_MONOTONIC.
struct TimedTrace {
    trace: JitterTrace,
    /// Beginning of the trace, CLOCK_MONOTONIC, ns.
    begin_ns: u64,
    /// Nanoseconds of CLOCK_MONOTONIC in one of the trace.
    pace: f64,
}

impl TimedTrace {
    fn monotonic_ns(&self, ns: u64) -> u64 {
        self.begin_ns + (ns as f64 * self.pace) as u64
    }

    /// Spans of a run in which a CPU was observed, since its beginning.
    fn known(&self, cpu: &CpuTrace, begin_ns: u64, length_ns: u64) -> Vec<(u64, u64)> {
        let since = |ns: u64| {
            let since_ns = self.monotonic_ns(ns).saturating_sub(begin_ns);
            since_ns.min(length_ns)
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

    /// Events that begin within a run, since its beginning.
    fn seen(&self, cpu: &CpuTrace, begin_ns: u64, length_ns: u64) -> Vec<PlannedEvent> {
        let events = cpu.events.iter().filter_map(|event| {
            let due_ns = self.monotonic_ns(event.start_ns).checked_sub(begin_ns)?;
            (due_ns < length_ns).then_some(PlannedEvent::new(due_ns, event.length_ns))
        });
        events.collect()
    }
}

/// Records; sends `ready` when it begins to look.
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
        room: look.room,
        real_time: look.real_time,
    };
    let header = TraceHeader {
        recorder: "verify".to_owned(),
        host: None,
        kernel: None,
        began_s: None,
        clock: LoopClock::OWN,
        cpus: cpus.to_vec(),
        real_time: look.real_time,
    };
    let in_memory = |call| move |cause| Error::Call { call, cause };
    let file = memory_file(c"sandbag-verify", 0).map_err(in_memory("memfd_create"))?;
    let mut file = File::from(file);
    let into = file.try_clone().map_err(in_memory("dup"))?;
    let open = move || {
        let _ = ready.send(());
        Ok(into)
    };
    let (first_counts, first_ns) = paired_times();
    let outcome = collect::record(&options, &header, open, &Arc::default())?;
    let (last_counts, last_ns) = paired_times();
    file.rewind().map_err(in_memory("lseek"))?;
    let trace = format::read(file)?;
    let mut notes = trace.notes.iter().flat_map(|notes| &notes.cpus);
    let rate = notes.next().map(|cpu| cpu.counts_per_s);
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

/// Events that lie wholly within spans that were observed.
fn observed(asked: impl Iterator<Item = PlannedEvent>, known: &[(u64, u64)]) -> Vec<PlannedEvent> {
    let within = |event: &PlannedEvent| {
        let place = known.partition_point(|(_, until)| *until < event.end_ns());
        let span = known.get(place);
        span.is_some_and(|(from, _)| *from <= event.due_ns)
    };
    asked.filter(within).collect()
}

#[cfg(test)]
mod tests {
    use sandbag_linux::sched;

    use super::*;
    use crate::fixture::is_skipped_without_counter;
    use crate::patience::repeat_until;

    #[test]
    fn only_observed_events_are_judged() {
        let event = PlannedEvent::new;
        let asked = [event(5, 10), event(20, 5), event(45, 10), event(60, 3)];
        let left = observed(asked.into_iter(), &[(0, 30), (50, 63)]);
        assert_eq!(left, [event(5, 10), event(20, 5), event(60, 3)]);
    }

    #[test]
    fn the_room_of_all_cpus_is_within_the_memory() {
        assert_eq!(room(64 << 20, 64), 32_768);
        assert_eq!(room(512 << 20, 2), ROOM);
        assert_eq!(room(0, 2), 1);
    }

    #[test]
    fn a_host_that_is_busy_by_itself_is_named() {
        let trace = ReplayTrace {
            method: "polled",
            length_ns: 1000,
            known_ns: 1000,
            cpus: vec![CpuRow {
                cpu: 0,
                asked: vec![PlannedEvent::new(1, 30), PlannedEvent::new(90, 20)],
                until_ns: 1000,
                seen: Vec::new(),
                outcome: RankOutcome::default(),
            }],
            measured: Vec::new(),
        };
        let host = |noise_ns| HostNoise {
            known_ns: 1000,
            cpus: vec![(0, vec![PlannedEvent::new(5, noise_ns)])],
            threshold_ns: 1.0,
        };
        assert_eq!(trace.disturbed_by([&host(20), &host(0)]), None);
        let told = trace.disturbed_by([&host(1), &host(660)]).unwrap();
        for part in ["0.1 % of the time before", "66.0 % after", "trace 5.0 %"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_cpu_that_was_not_observed_until_the_end_is_named() {
        let row = |cpu: u32, until_ns: u64| CpuRow {
            cpu,
            asked: Vec::new(),
            until_ns,
            seen: vec![PlannedEvent::new(1, 2); 5],
            outcome: RankOutcome::default(),
        };
        let trace = ReplayTrace {
            method: "polled",
            length_ns: 5_000_000_000,
            known_ns: 0,
            cpus: vec![row(0, 5_000_000_000), row(3, 2_000_000_000)],
            measured: Vec::new(),
        };
        assert_eq!(
            trace.warnings(),
            ["CPU 3 is judged for 2.00 s of 5.00 s only: there was room for 5 gaps"]
        );
    }

    #[test]
    fn a_recording_lies_where_it_was_made() {
        if is_skipped_without_counter("a_recording_lies_where_it_was_made") {
            return;
        }
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let look = NoiseCheck {
            threshold: Threshold::TimesLeast,
            real_time: None,
            room: ROOM,
        };
        let recorded = || {
            let before = clock::monotonic();
            let (ready, is_ready) = channel();
            let collected = collect(&[cpu], Duration::from_millis(100), look, ready);
            (before, collected, is_ready.try_recv().is_ok())
        };
        let is_unknown = |error: &Error| match error {
            Error::Collect(error) => matches!(*error.fault, Fault::NothingKnown),
            _ => false,
        };
        // Again while other programs have the CPU all the time.
        let (before, collected, is_ready) = repeat_until(recorded, |(_, collected, _)| {
            !collected.as_ref().is_err_and(is_unknown)
        });
        let (collected, after) = (collected.unwrap(), clock::monotonic());
        assert!(is_ready);
        assert!(before < collected.begin_ns && collected.begin_ns < after);
        assert!((0.99..1.01).contains(&collected.pace), "{}", collected.pace);
    }
}
