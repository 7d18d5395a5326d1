// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a file, made a trace: ascending, without overlap, within the time in which
//! they were looked for.

use std::collections::BTreeMap;

use super::input::JitterRecording;
use super::noises::Noises;
use super::number::MAX_NS;
use super::rows::LinePlace;
use crate::TraceHeader;
use crate::spans::{extent, without};
use crate::{CpuNotes, CpuTrace, Fault, JitterTrace, LoopClock, Notes, Result, Span, TraceEvent};

/// When events were looked for. Few files say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// As given to [`EventSet::known`].
    Given,
    /// On every CPU from 0 to the end of the last event of all.
    FromZero,
    /// On every CPU from the first event of all to the end of the last.
    AllCpus,
    /// On each CPU from its own first event to the end of its last.
    EachCpu,
}

impl Coverage {
    /// The time that is assumed; `None` where the file says it.
    fn assumption(self) -> Option<&'static str> {
        match self {
            Self::Given => None,
            Self::FromZero => Some("from 0 to the end of the last event"),
            Self::AllCpus => Some("from the first to the last event of all"),
            Self::EachCpu => Some("from the first to the last event of each CPU"),
        }
    }
}

/// Events of a file, by CPU.
#[derive(Debug, Default)]
pub(crate) struct EventSet {
    cpus: BTreeMap<u32, CpuEvents>,
    rounding_ns: u64,
    /// Shortest event, where the file says so, ns.
    pub(crate) threshold_ns: Option<f64>,
    /// Causes of the events, where the file says so.
    pub(crate) noises: Option<Noises>,
}

#[derive(Debug, Default)]
struct CpuEvents {
    events: Vec<TraceEvent>,
    known: Vec<Span>,
    lost: Vec<Span>,
}

/// Numbers of events that were repaired.
#[derive(Debug, Default)]
struct Repairs {
    unsorted: u64,
    overlapping: u64,
    empty: u64,
}

impl Repairs {
    fn warnings(&self) -> impl Iterator<Item = String> {
        let of = |count: u64, what: &str| (count > 0).then(|| format!("{count} events {what}"));
        let overlapping = "began before the one before them ended: each such pair is one event, \
                           as a program would have seen it";
        let unsorted = "began before the one before them: all were sorted";
        let all = [
            of(self.unsorted, unsorted),
            of(self.overlapping, overlapping),
            of(self.empty, "of no length are left out"),
        ];
        all.into_iter().flatten()
    }
}

impl EventSet {
    /// Events that overlap by at most `rounding_ns` do not count as overlapping.
    pub(crate) fn with_rounding(rounding_ns: u64) -> Self {
        Self {
            rounding_ns,
            ..Self::default()
        }
    }

    /// Adds an event that stands at `place`.
    pub(crate) fn add(&mut self, cpu: u32, event: TraceEvent, place: LinePlace<'_>) -> Result<()> {
        let end = event.start_ns.checked_add(event.length_ns);
        if end.is_none_or(|end| end > MAX_NS) {
            return Err(place.fault(Fault::Impossible("an event that ends after 146 years")));
        }
        self.cpus.entry(cpu).or_default().events.push(event);
        Ok(())
    }

    /// Events of a CPU were looked for, whether or not there are any.
    pub(crate) fn looked_at(&mut self, cpu: u32) {
        self.cpus.entry(cpu).or_default();
    }

    /// Events of a CPU were looked for in this time.
    pub(crate) fn known(&mut self, cpu: u32, span: Span) {
        self.cpus.entry(cpu).or_default().known.push(span);
    }

    /// Events of a CPU were lost between its last one and `until_ns`.
    pub(crate) fn lost(&mut self, cpu: u32, until_ns: u64) {
        let from_ns = self.last_end_ns(cpu).unwrap_or(0);
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.lost.push(Span { from_ns, until_ns });
    }

    /// The end of a CPU's last event.
    pub(crate) fn last_end_ns(&self, cpu: u32) -> Option<u64> {
        self.cpus.get(&cpu)?.events.last().map(TraceEvent::end_ns)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cpus.values().all(|cpu| cpu.events.is_empty())
    }

    /// The trace; it begins at 0 where its stamps count from elsewhere.
    pub(crate) fn trace(
        mut self,
        recorder: impl Into<String>,
        coverage: Coverage,
        mut warnings: Vec<String>,
        whole: LinePlace<'_>,
    ) -> Result<JitterRecording> {
        let mut repairs = Repairs::default();
        for cpu in self.cpus.values_mut() {
            repair(&mut cpu.events, self.rounding_ns, &mut repairs);
        }
        let all = extent(self.cpus.values().flat_map(|cpu| extent_of(&cpu.events)));
        let all = all.unwrap_or_default();
        let origin = match coverage {
            Coverage::Given | Coverage::FromZero => 0,
            Coverage::AllCpus | Coverage::EachCpu => all.from_ns,
        };
        let cpus = self.cpus.into_iter().map(|(number, mut cpu)| {
            let mut known = match coverage {
                Coverage::Given => cpu.known,
                Coverage::FromZero => vec![Span::new(0, all.until_ns)],
                Coverage::AllCpus => known_of(all, &cpu.events, cpu.lost),
                Coverage::EachCpu => {
                    let own = extent_of(&cpu.events).unwrap_or(Span::new(origin, origin));
                    known_of(own, &cpu.events, cpu.lost)
                }
            };
            known
                .iter_mut()
                .for_each(|span| *span = span.moved_back(origin));
            cpu.events
                .iter_mut()
                .for_each(|event| event.start_ns -= origin);
            CpuTrace::new(number, known, cpu.events)
        });
        let cpus: Vec<CpuTrace> = cpus.collect();
        if cpus.iter().all(|cpu| cpu.known_ns() == 0) {
            return Err(whole.fault(Fault::NothingKnown));
        }
        warnings.extend(coverage.assumption().map(|time| {
            format!("the file does not say when events were looked for: {time} is assumed")
        }));
        warnings.extend(repairs.warnings());
        let notes = self.threshold_ns.iter().flat_map(|threshold_ns| {
            cpus.iter().map(|cpu| CpuNotes {
                cpu: cpu.cpu,
                threshold_ns: *threshold_ns,
                ..CpuNotes::default()
            })
        });
        // Without notes a trace counts as cut off.
        let notes = Some(Notes {
            cpus: notes.collect(),
        });
        let attribution = self.noises.map(|noises| noises.attribution(origin, &cpus));
        let numbers = cpus.iter().map(|cpu| cpu.cpu).collect();
        Ok(JitterRecording::Trace(JitterTrace {
            header: TraceHeader::new(recorder, LoopClock::Imported, numbers),
            cpus,
            notes,
            attribution: attribution.map(Box::new),
            warnings,
        }))
    }
}

/// From the first event to the end of the last.
fn extent_of(events: &[TraceEvent]) -> Option<Span> {
    Some(Span::new(events.first()?.start_ns, events.last()?.end_ns()))
}

/// Sorts, removes events of no length, and joins those that overlap.
fn repair(events: &mut Vec<TraceEvent>, rounding_ns: u64, repairs: &mut Repairs) {
    let all = events.len();
    events.retain(|event| event.length_ns > 0);
    repairs.empty += (all - events.len()) as u64;
    let pairs = events.windows(2);
    let descents = pairs
        .filter(|pair| pair[1].start_ns < pair[0].start_ns)
        .count();
    repairs.unsorted += descents as u64;
    events.sort_by_key(|event| event.start_ns);
    events.dedup_by(|next, kept| {
        let (end, next_end) = (kept.end_ns(), next.end_ns());
        if next.start_ns >= end {
            return false;
        }
        if end - next.start_ns <= rounding_ns && next_end > end {
            *next = TraceEvent::new(end, next_end - end);
            return false;
        }
        repairs.overlapping += 1;
        kept.length_ns = end.max(next_end) - kept.start_ns;
        true
    });
}

/// The span without the stretches in which events were lost, except those that hold an
/// event nevertheless.
fn known_of(whole: Span, events: &[TraceEvent], mut lost: Vec<Span>) -> Vec<Span> {
    // Where entries are out of order, a loss may end before the last event.
    lost.retain(|gap| gap.from_ns < gap.until_ns);
    lost.retain(|gap| {
        let at = events.partition_point(|event| event.end_ns() <= gap.from_ns);
        events
            .get(at)
            .is_none_or(|event| event.start_ns >= gap.until_ns)
    });
    without(whole, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: LinePlace<'_> = LinePlace::file("in");

    fn event_set(events: &[(u64, u64)], rounding_ns: u64) -> EventSet {
        let mut all = EventSet::with_rounding(rounding_ns);
        for event in crate::fixture::events(events) {
            all.add(0, event, FILE).unwrap();
        }
        all
    }

    fn trace(all: EventSet, coverage: Coverage) -> JitterTrace {
        let trace = all
            .trace("x", coverage, vec![], FILE)
            .unwrap()
            .into_trace()
            .unwrap();
        crate::format::write(&trace, Vec::new()).unwrap();
        trace
    }

    #[test]
    fn unsorted_and_overlapping_events_are_repaired_and_counted() {
        let all = event_set(&[(1000, 10), (500, 20), (510, 5), (515, 50), (900, 0)], 0);
        let trace = trace(all, Coverage::AllCpus);
        let events = [TraceEvent::new(0, 65), TraceEvent::new(500, 10)];
        assert_eq!(trace.cpus[0].events, events);
        assert_eq!(trace.cpus[0].known, [Span::new(0, 510)]);
        let warnings: Vec<&str> = trace.warnings.iter().map(|text| &text[..8]).collect();
        assert_eq!(warnings, ["the file", "1 events", "2 events", "1 events"]);
    }

    #[test]
    fn an_overlap_of_rounding_is_cut_off() {
        let trace = trace(event_set(&[(0, 10), (9, 10)], 1), Coverage::FromZero);
        let events = [TraceEvent::new(0, 10), TraceEvent::new(10, 9)];
        assert_eq!(trace.cpus[0].events, events);
        assert_eq!(trace.warnings.len(), 1);
    }

    #[test]
    fn an_event_that_is_all_overlap_is_part_of_the_one_before() {
        let trace = trace(event_set(&[(0, 1), (0, 1), (1, 5)], 1), Coverage::FromZero);
        let events = [TraceEvent::new(0, 1), TraceEvent::new(1, 5)];
        assert_eq!(trace.cpus[0].events, events);
    }

    #[test]
    fn a_loss_that_ends_before_the_last_event_is_none() {
        let mut all = event_set(&[(100, 100)], 0);
        all.lost(0, 150);
        let trace = trace(all, Coverage::EachCpu);
        assert_eq!(trace.cpus[0].known, [Span::new(0, 100)]);
    }

    #[test]
    fn the_time_of_lost_events_is_unknown() {
        let mut all = event_set(&[(100, 10)], 0);
        all.lost(0, 200);
        all.add(0, TraceEvent::new(200, 10), FILE).unwrap();
        let trace = trace(all, Coverage::EachCpu);
        assert_eq!(trace.cpus[0].known, [Span::new(0, 10), Span::new(100, 110)]);
    }
}
