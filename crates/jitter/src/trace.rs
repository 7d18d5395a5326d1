// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace in memory.

use serde::{Deserialize, Serialize};

use crate::causes::Attribution;
use crate::spans::Span;

/// A stretch of time that a program did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceEvent {
    /// The last reading of the clock before it, ns.
    pub start_ns: u64,
    /// The time lost, ns: from that reading to the next, without the least
    /// difference of two readings, which the loop takes for itself.
    pub length_ns: u64,
}

impl TraceEvent {
    /// Begins then, and is so long, ns.
    pub const fn new(start_ns: u64, length_ns: u64) -> Self {
        Self {
            start_ns,
            length_ns,
        }
    }

    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// The clock that the loop reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoopClock {
    /// The time stamp counter of x86 processors, held against
    /// `CLOCK_MONOTONIC_RAW` at both ends.
    Tsc,
    /// The counter of the generic timer of Arm processors.
    Cntvct,
    /// Whatever the program used that the trace was imported from.
    Imported,
}

impl LoopClock {
    /// The one that this program reads on this machine.
    pub const OWN: Self = if cfg!(target_arch = "x86_64") {
        Self::Tsc
    } else {
        Self::Cntvct
    };
}

/// What is known of a trace before its first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// The program that recorded it.
    pub recorder: String,
    /// The machine.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// When it began, seconds since 1970.
    pub began_s: Option<f64>,
    pub clock: LoopClock,
    /// Kernel numbers of the CPUs, ascending.
    pub cpus: Vec<u32>,
    /// Scheduling priority of the loop among real-time tasks; `None` if it was
    /// an ordinary one.
    pub real_time: Option<u8>,
}

impl TraceHeader {
    /// Of a trace whose origin is unknown but for the program.
    pub fn new(recorder: impl Into<String>, clock: LoopClock, cpus: Vec<u32>) -> Self {
        Self {
            recorder: recorder.into(),
            host: None,
            kernel: None,
            began_s: None,
            clock,
            cpus,
            real_time: None,
        }
    }
}

/// What is known of a recording at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Notes {
    /// In the order of the header.
    pub cpus: Vec<CpuNotes>,
}

/// How the events of one CPU were found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuNotes {
    pub cpu: u32,
    /// The least difference between two readings of the clock, ns.
    pub least_ns: f64,
    /// Differences of two readings above this are events, ns.
    pub threshold_ns: f64,
    /// A pass of the loop without an event, ns, mean.
    pub loop_ns: f64,
    /// A bare reading of the clock, ns, mean.
    pub read_ns: f64,
    /// Storing an event, ns, mean.
    pub store_ns: f64,
    /// The counter's rate at the end against that at the begin, parts per
    /// million.
    pub drift_ppm: f64,
    /// Counts of the counter in a second.
    pub counts_per_s: f64,
    /// Events for which there was no room.
    pub dropped: u64,
    /// Minor and major page faults of the loop's thread while it ran; there
    /// should be none.
    pub faults: u64,
}

impl CpuNotes {
    /// Whether these are of our own loop. Other tools give the threshold at most.
    pub fn is_own(&self) -> bool {
        self.least_ns > 0.0
    }

    /// An event that took no more than this cannot be seen, ns.
    pub fn detectable_ns(&self) -> f64 {
        (self.threshold_ns - self.least_ns).max(0.0)
    }
}

/// One CPU of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuTrace {
    pub cpu: u32,
    /// When events were looked for; ascending, without overlap.
    pub known: Vec<Span>,
    /// Ascending, without overlap, all within `known`.
    pub events: Vec<TraceEvent>,
}

impl CpuTrace {
    pub const fn new(cpu: u32, known: Vec<Span>, events: Vec<TraceEvent>) -> Self {
        Self { cpu, known, events }
    }

    /// For how long events were looked for.
    pub fn known_ns(&self) -> u64 {
        let spans = self.known.iter().map(Span::length_ns);
        spans.fold(0, u64::saturating_add)
    }

    pub(crate) fn lengths_ns(&self) -> impl Iterator<Item = u64> {
        self.events.iter().map(|event| event.length_ns)
    }

    /// Sum of the lengths of all events.
    pub fn noise_ns(&self) -> u64 {
        self.lengths_ns().fold(0, u64::saturating_add)
    }
}

/// A whole trace.
#[derive(Debug, Clone, PartialEq)]
pub struct JitterTrace {
    /// Origin.
    pub header: TraceHeader,
    /// In the order of the header.
    pub cpus: Vec<CpuTrace>,
    /// `None` if the recording did not come to its end.
    pub notes: Option<Notes>,
    /// What caused the events; `None` if nothing was asked about it.
    pub attribution: Option<Box<Attribution>>,
    /// What the user should hear.
    pub warnings: Vec<String>,
}

impl JitterTrace {
    /// A trace without causes and warnings.
    pub fn new(header: TraceHeader, cpus: Vec<CpuTrace>, notes: Option<Notes>) -> Self {
        Self {
            header,
            cpus,
            notes,
            attribution: None,
            warnings: Vec::new(),
        }
    }

    /// For how long events were looked for on all CPUs together, which may exceed 64 bits.
    pub(crate) fn known_ns(&self) -> u128 {
        let cpus = self.cpus.iter();
        cpus.map(|cpu| u128::from(cpu.known_ns())).sum()
    }

    /// For how long events were looked for, in the mean of the CPUs on which they were.
    pub(crate) fn known_ns_of_a_cpu(&self) -> f64 {
        let known = self.cpus.iter().filter(|cpu| cpu.known_ns() > 0);
        self.known_ns() as f64 / known.count().max(1) as f64
    }

    /// Lengths of all events, CPU after CPU.
    pub fn lengths_ns(&self) -> Vec<u64> {
        self.cpus.iter().flat_map(CpuTrace::lengths_ns).collect()
    }

    /// How the events were found; `None` for synthetic traces and those of most other tools.
    pub fn how_found(&self) -> Option<&Notes> {
        let is_known = self.detectable_ns().is_some_and(|ns| ns > 0.0);
        self.notes.as_ref().filter(|_| is_known)
    }

    /// The shortest event that was detectable on every CPU, ns; `None` where the trace does
    /// not say it.
    pub fn detectable_ns(&self) -> Option<f64> {
        let notes = self.notes.iter().flat_map(|notes| &notes.cpus);
        notes.map(CpuNotes::detectable_ns).reduce(f64::max)
    }

    /// Shorter events could not be seen on every CPU, ns; 0 where the trace does not say it.
    pub(crate) fn least_seen_ns(&self) -> u64 {
        self.detectable_ns().unwrap_or(0.0).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_time_of_many_cpus_may_exceed_64_bits() {
        let cpu = |cpu| CpuTrace::new(cpu, vec![Span::new(0, 1 << 62)], Vec::new());
        let cpus: Vec<CpuTrace> = (0..8).map(cpu).collect();
        let header = TraceHeader::new("test", LoopClock::Imported, (0..8).collect());
        assert_eq!(JitterTrace::new(header, cpus, None).known_ns(), 1 << 65);
    }
}
