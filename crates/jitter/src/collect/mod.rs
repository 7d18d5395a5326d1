// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector (TraceCollector in the papers): on each CPU a loop that only
//! reads the clock.
//!
//! A recording has rounds. In a round every CPU looks; between rounds what was
//! found is written, and nobody looks: these stretches are unknown in the
//! trace. A short recording is one round.

pub mod counter;
mod hot;
mod room;
mod worker;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sandbag_kernel::{CpuList, Root};

use crate::format::Writer;
use crate::{CpuNotes, Fault, Header, Notes, Result};
use counter::{Moment, Scale};
use worker::Worker;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to look.
    pub cpus: CpuList,
    /// For how long.
    pub duration: Duration,
    /// End when every CPU has found so many events, if that is earlier.
    pub events: Option<u64>,
    /// Length of a round; `None`: one, or a minute each if the recording is
    /// longer than that.
    pub round: Option<Duration>,
    /// What is an event: a difference above this. `None`: ten times the least
    /// difference, as in the paper.
    pub threshold_ns: Option<f64>,
    /// Loop for so long before the recording, for caches and frequency.
    pub preheat: Duration,
    /// Room for events of a round, of each CPU.
    pub room: usize,
    /// SCHED_FIFO priority of the loops. The kernel takes real time away from
    /// the CPU for a part of each second, so such rounds last
    /// [`REAL_TIME_ROUND`].
    pub real_time: Option<u8>,
}

/// A longer recording is written every so often.
const ROUND: Duration = Duration::from_secs(60);
/// Below the 950 ms of a second that real-time tasks have
/// (/proc/sys/kernel/sched_rt_runtime_us)...
pub const REAL_TIME_ROUND: Duration = Duration::from_millis(800);
/// ...and the rest of it.
const REAL_TIME_PAUSE: Duration = Duration::from_millis(200);
/// For the rate of the counter before the recording; it is checked at the end.
const CALIBRATION: Duration = Duration::from_millis(200);
/// A difference is an event if it is so many times the least one.
const TIMES_LEAST: f64 = 10.0;

/// What a recording came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// As in the trace.
    pub notes: Notes,
    /// Events by CPU, in the order of the notes.
    pub events: Vec<u64>,
    /// For how long each CPU was looked at, ns.
    pub known_ns: Vec<u64>,
    /// What the user should hear.
    pub warnings: Vec<String>,
}

/// Records a trace into `out`. Ends early, and in order, when `stop` is set.
///
/// # Errors
/// The counter is no clock, a CPU cannot be used, memory or the priority is
/// not to be had, or those of `out`.
pub fn record(
    options: &Options,
    header: &Header,
    out: impl Write,
    stop: &AtomicBool,
) -> Result<Outcome> {
    counter::check(&Root::default())?;
    let first = Moment::now();
    thread::sleep(CALIBRATION);
    let begin = Moment::now();
    let scale = Scale {
        begin: begin.counts,
        rate: first.rate(begin),
    };
    let mut workers = options
        .cpus
        .iter()
        .map(|cpu| Worker::start(cpu, options, scale))
        .collect::<Result<Vec<_>>>()?;
    for worker in &mut workers {
        worker.ready()?;
    }
    let mut writer = Writer::new(out, header)?;
    let mut outcome = rounds(options, scale, &mut workers, &mut writer, stop)?;
    let end = Moment::now();
    let drift_ppm = (begin.rate(end) / scale.rate - 1.0) * 1e6;
    for worker in workers {
        outcome.notes.cpus.push(CpuNotes {
            drift_ppm,
            counts_per_s: scale.rate,
            ..worker.finish()?
        });
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

fn rounds(
    options: &Options,
    scale: Scale,
    workers: &mut [Worker],
    writer: &mut Writer<impl Write>,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let (round, pause) = match options.real_time {
        Some(_) => (REAL_TIME_ROUND, REAL_TIME_PAUSE),
        None => (options.round.unwrap_or(ROUND), Duration::ZERO),
    };
    let counts = |time: Duration| scale.counts(time.as_nanos() as f64);
    let mut outcome = Outcome {
        notes: Notes::default(),
        events: vec![0; workers.len()],
        known_ns: vec![0; workers.len()],
        warnings: Vec::new(),
    };
    let end = counter::now().saturating_add(counts(options.duration));
    let mut full = 0;
    while counter::now() < end && !stop.load(Ordering::Relaxed) {
        let until = counter::now().saturating_add(counts(round)).min(end);
        for worker in workers.iter() {
            worker.look(until)?;
        }
        // A round that is interrupted ends early for all of them.
        worker::await_round(workers, stop);
        for (i, worker) in workers.iter_mut().enumerate() {
            let found = worker.found()?;
            full += u64::from(found.full);
            outcome.events[i] += found.events.len() as u64;
            outcome.known_ns[i] += found.span.length_ns();
            writer.events(worker.cpu, found.span, &found.events)?;
        }
        writer.flush()?;
        let enough = |n: &u64| options.events.is_some_and(|wanted| *n >= wanted);
        if options.events.is_some() && outcome.events.iter().all(enough) {
            break;
        }
        thread::sleep(pause);
    }
    if full > 0 {
        outcome.warnings.push(format!(
            "{full} rounds of a CPU ended early because the room for events was full: what came \
             after is unknown (more memory, or shorter rounds)"
        ));
    }
    if outcome.known_ns.iter().all(|ns| *ns == 0) {
        return Err(Fault::NothingKnown.into());
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    fn header(cpus: &CpuList) -> Header {
        Header {
            recorder: "test".to_owned(),
            host: None,
            kernel: None,
            began_s: None,
            clock: counter::CLOCK,
            cpus: cpus.iter().collect(),
            real_time: None,
        }
    }

    #[test]
    fn what_is_recorded_can_be_read() {
        let cpus = sandbag_kernel::sched::affinity(0).unwrap();
        let options = Options {
            cpus: cpus.iter().take(2).collect(),
            duration: Duration::from_millis(300),
            events: None,
            round: Some(Duration::from_millis(100)),
            threshold_ns: None,
            preheat: Duration::from_millis(10),
            room: 100_000,
            real_time: None,
        };
        let mut bytes = Vec::new();
        let stop = AtomicBool::new(false);
        let outcome = record(&options, &header(&options.cpus), &mut bytes, &stop).unwrap();
        let trace = format::read(&bytes[..]).unwrap();
        assert_eq!(trace.cpus.len(), outcome.events.len());
        for ((cpu, events), known_ns) in trace
            .cpus
            .iter()
            .zip(&outcome.events)
            .zip(&outcome.known_ns)
        {
            assert_eq!(cpu.events.len() as u64, *events);
            assert_eq!(cpu.known_ns(), *known_ns);
            assert!(
                cpu.known.len() >= 2 && *known_ns > 100_000_000,
                "{:?}",
                cpu.known
            );
        }
        let notes = trace.notes.unwrap();
        for cpu in &notes.cpus {
            assert!(
                cpu.least_ns > 0.0 && cpu.threshold_ns > cpu.least_ns,
                "{cpu:?}"
            );
            assert_eq!(cpu.dropped, 0);
        }
    }

    #[test]
    fn a_recording_that_is_stopped_at_once_says_so() {
        let cpus = sandbag_kernel::sched::affinity(0).unwrap();
        let options = Options {
            cpus: cpus.iter().take(1).collect(),
            duration: Duration::from_secs(60),
            events: None,
            round: None,
            threshold_ns: None,
            preheat: Duration::ZERO,
            room: 1000,
            real_time: None,
        };
        let stop = AtomicBool::new(true);
        let outcome = record(&options, &header(&options.cpus), Vec::new(), &stop);
        assert!(matches!(*outcome.unwrap_err().fault, Fault::NothingKnown));
    }
}
