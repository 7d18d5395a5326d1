// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector (TraceCollector in the papers): on each CPU a loop that only
//! reads the clock.
//!
//! A recording has rounds. In a round every CPU records; between rounds the events are
//! written, and that time is unknown in the trace. A short recording is one round.

mod absence;
mod budget;
mod counters;
mod hot;
mod room;
mod scale;
mod tracer;
mod worker;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use sandbag_linux::{CpuList, Root};

use crate::causes::{AttributionMethod, AttributionSummary};
use crate::format::Writer;
use crate::{CpuNotes, Fault, Notes, Result, TraceHeader};
use absence::Absences;
use counters::CounterReading;
use sandbag_linux::counter::{self, Moment};
use scale::Scale;
pub use tracer::Tracer;
use worker::{Answer, CollectWorker, RoundResult};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct CollectOptions {
    pub cpus: CpuList,
    pub duration: Duration,
    /// End when every CPU has this many events, if that is earlier.
    pub events: Option<u64>,
    /// Length of a round; `None`: one, or a minute each if the recording is
    /// longer than that.
    pub round: Option<Duration>,
    /// What is an event: a difference above this.
    pub threshold: Threshold,
    /// Loop for so long before the recording, for caches and frequency.
    pub preheat: Duration,
    /// Room for events of a round, of each CPU.
    pub room: usize,
    /// SCHED_FIFO priority of the loops. The kernel takes real time away from
    /// the CPU for a part of each second, so such rounds last
    /// [`REAL_TIME_ROUND`].
    pub real_time: Option<u8>,
}

/// Above which a difference of two readings is an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Ten times the least difference there is, as in the paper.
    TimesLeast,
    /// That, and at least this time lost, ns: for comparison with a trace that has no shorter
    /// events.
    AtLeast(f64),
    /// In ns.
    Exactly(f64),
}

/// A longer recording is written every so often.
const ROUND: Duration = Duration::from_secs(60);
/// Shortest round that is chosen here because entries of the kernel were lost.
const SHORTEST: Duration = Duration::from_secs(1);
/// Below the 950 ms of a second that real-time tasks have
/// (/proc/sys/kernel/sched_rt_runtime_us)...
pub const REAL_TIME_ROUND: Duration = Duration::from_millis(800);
/// ...and the rest of it.
const REAL_TIME_PAUSE: Duration = Duration::from_millis(200);
/// For the rate of the counter before the recording; it is checked at the end.
const CALIBRATION: Duration = Duration::from_millis(200);
/// A difference is an event if it is this many times the least one.
const TIMES_LEAST: f64 = 10.0;

/// What a recording came to.
#[derive(Debug, Clone)]
pub struct Collection {
    pub notes: Notes,
    /// The counter at the trace's beginning, for those who hold the trace
    /// against another clock.
    pub begin_counts: u64,
    /// Events by CPU, in the order of the notes.
    pub events: Vec<u64>,
    /// For how long each CPU was looked at, ns.
    pub known_ns: Vec<u64>,
    /// How long all events of each CPU were together, ns.
    pub noise_ns: Vec<u64>,
    /// The longest event of each CPU, ns; 0 without any.
    pub longest_ns: Vec<u64>,
    /// How causes were found, if they were asked for.
    pub about: Option<AttributionSummary>,
    /// What the user should hear.
    pub warnings: Vec<String>,
}

/// How the causes of events are to be found.
#[derive(Debug)]
pub enum Attribute {
    /// Not at all.
    None,
    /// By counters before and after the recording.
    Proc {
        /// Why not better.
        why: Option<String>,
    },
    /// By the kernel's trace events; counters as well.
    Tracefs(Box<Tracer>),
}

impl Attribute {
    fn tracer(&mut self) -> Option<&mut Tracer> {
        match self {
            Self::Tracefs(tracer) => Some(tracer),
            _ => None,
        }
    }

    fn about(&self) -> Option<AttributionSummary> {
        match self {
            Self::None => None,
            Self::Proc { why } => Some(AttributionSummary {
                method: AttributionMethod::Proc,
                why: why.clone(),
                ..AttributionSummary::default()
            }),
            Self::Tracefs(tracer) => Some(tracer.about()),
        }
    }
}

/// Records a trace without asking for causes; see [`record_with`].
pub fn record<W: Write>(
    options: &CollectOptions,
    header: &TraceHeader,
    open: impl FnOnce() -> Result<W>,
    stop: &Arc<AtomicBool>,
) -> Result<Collection> {
    record_with(options, header, Attribute::None, open, stop)
}

/// Records a trace. Ends early, and in order, when `stop` is set; `open` is
/// called for the output once all loops are ready. While the loops run, all other threads
/// of this process sleep.
///
/// # Errors
/// The counter is no clock, a CPU cannot be used, memory or the priority is
/// not to be had, or those of writing.
pub fn record_with<W: Write>(
    options: &CollectOptions,
    header: &TraceHeader,
    mut attribute: Attribute,
    open: impl FnOnce() -> Result<W>,
    stop: &Arc<AtomicBool>,
) -> Result<Collection> {
    let root = Root::default();
    counter::check(&root)?;
    if options.real_time.is_some() {
        budget::check(&root)?;
    }
    let first = Moment::now();
    thread::sleep(CALIBRATION);
    let begin = Moment::now();
    let scale = Scale {
        begin: begin.counts,
        rate: first.rate(begin),
    };
    // Before the workers, which must not take the signal away.
    let mut absences = Absences::watch().map_err(Fault::Io)?;
    let (send, answers) = channel();
    let mut workers = Vec::new();
    for (place, cpu) in options.cpus.iter().enumerate() {
        let (send, stop) = (send.clone(), Arc::clone(stop));
        workers.push(CollectWorker::start(
            place, cpu, options, scale, send, stop,
        )?);
    }
    drop(send);
    let mut team = Team { workers, answers };
    let (_, failed) = team.await_all(|_| true)?;
    team.refuse(failed)?;
    if stop.load(Ordering::Relaxed) {
        // Before anything is recorded: no file is touched.
        return Err(Fault::NothingKnown.into());
    }
    let mut writer = Writer::new(open()?, header)?;
    let threads: Vec<u32> = team.workers.iter().map(|worker| worker.thread_id).collect();
    let reading = || CounterReading::now(&root, &threads);
    let before = (!matches!(attribute, Attribute::None)).then(reading);
    let tracer = attribute.tracer();
    let mut outcome = rounds(
        options,
        scale,
        &mut team,
        tracer,
        &mut writer,
        stop,
        &mut absences,
    )?;
    let end = Moment::now();
    if let Some((mut about, before)) = attribute.about().zip(before) {
        about.counters = reading().since(&before, &options.cpus);
        writer.about(&about)?;
        outcome.about = Some(about);
    }
    let drift_ppm = if absences.was_suspended {
        // Of the two clocks one stood still.
        0.0
    } else {
        (begin.rate(end) / scale.rate - 1.0) * 1e6
    };
    for worker in &mut team.workers {
        outcome.notes.cpus.push(CpuNotes {
            drift_ppm,
            counts_per_s: scale.rate,
            ..worker.finish()?
        });
    }
    if let Some(lost) = outcome.about.as_ref().map(|about| about.lost)
        && lost > 0
    {
        outcome.warnings.push(format!(
            "{lost} entries of the kernel were lost because its buffer was full: of events in \
             that time the cause is unknown (more memory, or shorter rounds)"
        ));
    }
    for notes in &outcome.notes.cpus {
        if notes.faults > 0 {
            outcome.warnings.push(format!(
                "the loop of CPU {} met {} page faults of its own",
                notes.cpu, notes.faults
            ));
        }
    }
    writer.finish(&outcome.notes)?;
    Ok(outcome)
}

/// The workers, and what they say.
struct Team {
    workers: Vec<CollectWorker>,
    answers: Receiver<(usize, Answer)>,
}

impl Team {
    /// Sleeps until each of those that are awaited has answered; what they
    /// found, by their places, and the place of one that failed.
    fn await_all(
        &mut self,
        awaited: impl Fn(usize) -> bool,
    ) -> Result<(Vec<Option<RoundResult>>, Option<usize>)> {
        let mut failed = None;
        let count = self.workers.len();
        let mut found: Vec<Option<RoundResult>> = (0..count).map(|_| None).collect();
        let mut missing = (0..count).filter(|place| awaited(*place)).count();
        while missing > 0 {
            match self.answers.recv() {
                Ok((place, Answer::Ready(thread_id))) => {
                    self.workers[place].thread_id = thread_id;
                    missing -= 1;
                }
                Ok((place, Answer::Found(what))) => {
                    found[place] = Some(what);
                    missing -= 1;
                }
                Ok((place, Answer::Ended)) => {
                    // Without an order to end, it failed; what the others find is kept.
                    failed.get_or_insert(place);
                    missing -= 1;
                }
                Err(_) => return Err(Fault::Io(std::io::Error::other("no loop runs")).into()),
            }
        }
        Ok((found, failed))
    }

    /// Why the worker at this place failed, if one did.
    fn refuse(&mut self, failed: Option<usize>) -> Result<()> {
        let Some(place) = failed else { return Ok(()) };
        self.workers[place].finish()?;
        Err(Fault::Io(std::io::Error::other("a loop ended early")).into())
    }
}

fn rounds(
    options: &CollectOptions,
    scale: Scale,
    team: &mut Team,
    mut tracer: Option<&mut Tracer>,
    writer: &mut Writer<impl Write>,
    stop: &AtomicBool,
    absences: &mut Absences,
) -> Result<Collection> {
    let (mut round, pause) = match options.real_time {
        Some(_) => (REAL_TIME_ROUND, REAL_TIME_PAUSE),
        None => {
            // A CPU that has its events waits for the others, and what the kernel traces there
            // meanwhile would take the place of their causes.
            let waits = options.events.is_some() && tracer.is_some();
            let usual = if waits { SHORTEST } else { ROUND };
            (options.round.unwrap_or(usual), Duration::ZERO)
        }
    };
    let counts = |time: Duration| scale.counts(time.as_nanos() as f64);
    let count = team.workers.len();
    let mut outcome = Collection {
        notes: Notes::default(),
        begin_counts: scale.begin,
        events: vec![0; count],
        known_ns: vec![0; count],
        noise_ns: vec![0; count],
        longest_ns: vec![0; count],
        about: None,
        warnings: Vec::new(),
    };
    let wanted = options.events.unwrap_or(u64::MAX);
    let end = counter::now().saturating_add(counts(options.duration));
    let (mut full, mut lost, mut spoilt) = (0, 0, 0);
    // Below its begin is a counter that began anew in a suspend.
    while (scale.begin..end).contains(&counter::now()) && !stop.load(Ordering::Relaxed) {
        let left: Vec<u64> = outcome
            .events
            .iter()
            .map(|n| wanted.saturating_sub(*n))
            .collect();
        if left.iter().all(|left| *left == 0) {
            break;
        }
        if let Some(tracer) = &mut tracer {
            tracer.round_begins()?;
        }
        absences.round_begins();
        let until = counter::now().saturating_add(counts(round)).min(end);
        for (worker, left) in team
            .workers
            .iter()
            .zip(&left)
            .filter(|(_, left)| **left > 0)
        {
            worker.look(until, usize::try_from(*left).unwrap_or(usize::MAX));
        }
        let (found, failed) = team.await_all(|place| left[place] > 0)?;
        if let Some(tracer) = &mut tracer {
            tracer.round_ended()?;
        }
        let is_spoilt = absences.is_spoilt(&found);
        spoilt += u64::from(is_spoilt);
        let mut filled = None;
        for (place, found) in found.into_iter().enumerate() {
            let Some(found) = found else { continue };
            let worker = &team.workers[place];
            if is_spoilt {
                if let Some(tracer) = &mut tracer {
                    // Out of its buffer, before the next round.
                    let (cpu, thread_id) = (worker.cpu, worker.thread_id);
                    tracer.causes(cpu, thread_id, found.span, &found.events, scale)?;
                }
                continue;
            }
            full += u64::from(found.full);
            if found.full {
                let after = Duration::from_nanos(found.span.length_ns());
                filled = Some(filled.map_or(after, |least: Duration| least.min(after)));
            }
            outcome.events[place] += found.events.len() as u64;
            outcome.known_ns[place] += found.span.length_ns();
            let lengths = found.events.iter().map(|event| event.length_ns);
            outcome.noise_ns[place] += lengths.sum::<u64>();
            outcome.longest_ns[place] = outcome.longest_ns[place].max(found.longest_ns());
            writer.events(worker.cpu, found.span, &found.events)?;
            if let Some(tracer) = &mut tracer {
                let (cpu, thread_id) = (worker.cpu, worker.thread_id);
                let causes = tracer.causes(cpu, thread_id, found.span, &found.events, scale)?;
                writer.causes_of(&causes, tracer.sources())?;
            }
        }
        writer.flush()?;
        team.refuse(failed)?;
        let now_lost = tracer.as_ref().map_or(0, |tracer| tracer.lost());
        if options.round.is_none() {
            round = next_round(round, filled, now_lost > lost);
        }
        lost = now_lost;
        thread::sleep(pause);
    }
    if full > 0 {
        outcome.warnings.push(format!(
            "in {full} rounds of a CPU the room for events was full: what came after is unknown \
             but for its number, which is told as dropped (more memory, or shorter rounds)"
        ));
    }
    if spoilt > 0 {
        outcome.warnings.push(format!(
            "in {spoilt} rounds sandbag was stopped, or the machine was suspended: nothing is \
             known of them"
        ));
    }
    if outcome.known_ns.iter().all(|ns| *ns == 0) {
        let fault = match spoilt {
            0 => Fault::NothingKnown,
            _ => Fault::Absent,
        };
        return Err(fault.into());
    }
    Ok(outcome)
}

/// What is emptied more often holds more: the round after one in which the room for
/// events was full after `filled`, or in which the kernel `lost` some of its own.
fn next_round(round: Duration, filled: Option<Duration>, lost: bool) -> Duration {
    // With something to spare, for the next round may have more events.
    let of_room = filled.map_or(round, |after| after * 4 / 5);
    let of_kernel = if lost { round / 2 } else { round };
    of_room.min(of_kernel).max(SHORTEST.min(round))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::repeat_until;
    use crate::{LoopClock, format};

    #[test]
    fn rounds_become_as_short_as_the_room_asks_for() {
        let s = Duration::from_secs;
        assert_eq!(next_round(s(60), None, false), s(60));
        assert_eq!(next_round(s(60), None, true), s(30));
        assert_eq!(next_round(s(60), Some(s(40)), false), s(32));
        assert_eq!(next_round(s(60), Some(s(40)), true), s(30));
        assert_eq!(next_round(s(60), Some(s(0)), true), SHORTEST);
        let short = Duration::from_millis(300);
        assert_eq!(next_round(short, Some(s(0)), true), short);
    }

    /// Options for the first CPUs that this process may use.
    fn on(cpus: usize) -> CollectOptions {
        let usable = sandbag_linux::sched::affinity(0).unwrap();
        CollectOptions {
            cpus: usable.iter().take(cpus).collect(),
            duration: Duration::from_secs(60),
            events: None,
            round: None,
            threshold: Threshold::TimesLeast,
            preheat: Duration::ZERO,
            room: 1000,
            real_time: None,
        }
    }

    /// Records to `out`, which `open` returns; `stop` ends the recording.
    fn record_to<W: Write>(
        options: &CollectOptions,
        open: impl FnOnce() -> Result<W>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Collection> {
        let cpus = options.cpus.iter().collect();
        let header = TraceHeader::new("test", LoopClock::OWN, cpus);
        record(options, &header, open, stop)
    }

    /// What was recorded, and its file. Records again until it is `enough`: other programs may
    /// have the CPUs for a part of a recording, or for all of it.
    fn recorded(
        options: &CollectOptions,
        enough: impl Fn(&Collection) -> bool,
    ) -> (Collection, Vec<u8>) {
        let run = || {
            let mut bytes = Vec::new();
            let into = &mut bytes;
            let outcome = record_to(options, || Ok(into), &Arc::default())?;
            Ok((outcome, bytes))
        };
        let is_over = |result: &Result<(Collection, Vec<u8>)>| match result {
            Ok((outcome, _)) => enough(outcome),
            Err(error) => !matches!(*error.fault, Fault::NothingKnown),
        };
        repeat_until(run, is_over).unwrap()
    }

    #[test]
    fn a_recording_can_be_read() {
        let options = CollectOptions {
            duration: Duration::from_millis(300),
            round: Some(Duration::from_millis(100)),
            preheat: Duration::from_millis(10),
            room: 100_000,
            ..on(2)
        };
        let (outcome, bytes) = recorded(&options, |outcome| {
            outcome.known_ns.iter().all(|ns| *ns > 0)
        });
        let trace = format::read(&bytes[..]).unwrap();
        assert_eq!(trace.cpus.len(), outcome.events.len());
        for (place, cpu) in trace.cpus.iter().enumerate() {
            let known_ns = outcome.known_ns[place];
            assert_eq!(cpu.events.len() as u64, outcome.events[place]);
            assert_eq!(cpu.known_ns(), known_ns);
            assert_eq!(cpu.noise_ns(), outcome.noise_ns[place]);
            assert_eq!(
                cpu.lengths_ns().max().unwrap_or(0),
                outcome.longest_ns[place]
            );
            // The length of three rounds depends on other programs.
            assert!(!cpu.known.is_empty() && known_ns > 0);
        }
        for cpu in &trace.notes.unwrap().cpus {
            assert!(
                cpu.least_ns > 0.0 && cpu.threshold_ns > cpu.least_ns,
                "{cpu:?}"
            );
            assert_eq!(cpu.dropped, 0);
        }
    }

    #[test]
    fn a_recording_that_is_stopped_before_its_first_round_is_an_error() {
        for at_once in [true, false] {
            let stop = Arc::new(AtomicBool::new(at_once));
            let open = || {
                // All loops are ready; none has recorded.
                stop.store(true, Ordering::Relaxed);
                Ok(Vec::new())
            };
            let outcome = record_to(&on(1), open, &stop);
            assert!(matches!(*outcome.unwrap_err().fault, Fault::NothingKnown));
        }
    }

    #[test]
    fn a_recording_ends_when_it_has_enough_events() {
        let options = CollectOptions {
            duration: Duration::from_secs(600),
            events: Some(100),
            // Every reading is one.
            threshold: Threshold::Exactly(0.0),
            room: 10_000,
            ..on(1)
        };
        let (outcome, _) = recorded(&options, |_| true);
        assert_eq!(outcome.events, [100]);
        assert!(outcome.warnings.iter().all(|w| !w.contains("room")));
    }

    #[test]
    fn the_threshold_is_as_requested_but_not_below_what_is_detectable() {
        for (asked_ns, is_own) in [(1e6, false), (0.0, true)] {
            let options = CollectOptions {
                duration: Duration::from_millis(200),
                threshold: Threshold::AtLeast(asked_ns),
                ..on(1)
            };
            let (outcome, _) = recorded(&options, |_| true);
            let notes = &outcome.notes.cpus[0];
            let own_ns = TIMES_LEAST * notes.least_ns;
            let threshold_ns = if is_own { own_ns } else { asked_ns };
            let off = notes.threshold_ns / threshold_ns - 1.0;
            assert!(own_ns > 0.0 && off.abs() < 0.1, "{notes:?}");
        }
    }

    #[test]
    fn events_without_room_are_counted() {
        let options = CollectOptions {
            duration: Duration::from_millis(50),
            // Every reading is one.
            threshold: Threshold::Exactly(0.0),
            ..on(1)
        };
        let dropped = |outcome: &Collection| outcome.notes.cpus[0].dropped;
        let (outcome, _) = recorded(&options, |outcome| {
            dropped(outcome) > 10_000 && outcome.known_ns[0] < 40_000_000
        });
        assert_eq!(outcome.events, [1_000]);
        assert!(dropped(&outcome) > 10_000, "{:?}", outcome.notes);
        assert!(outcome.known_ns[0] < 40_000_000);
        assert!(outcome.warnings.iter().any(|w| w.contains("room")));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        let cpus = CpuList::from_iter([8_000]);
        let open = || -> Result<Vec<u8>> { panic!("nothing is to be written") };
        let options = CollectOptions { cpus, ..on(1) };
        let error = record_to(&options, open, &Arc::default()).unwrap_err();
        assert!(matches!(*error.fault, Fault::Kernel(_)), "{error}");
    }
}
