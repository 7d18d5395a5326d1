// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events as they stand in a file, made a trace: ascending, without overlap,
//! within the time in which they were looked for.

use std::collections::BTreeMap;

use super::MAX_NS;
use super::noises::Noises;
use crate::{
    CpuNotes, CpuTrace, Fault, JitterTrace, LoopClock, Notes, Span, TraceEvent, TraceHeader,
};

/// When events were looked for, which few tools say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// As was told by [`EventSet::known`].
    Told,
    /// On every CPU from 0 to the end of the last event of all.
    FromZero,
    /// On every CPU from the first event of all to the end of the last.
    AllAlike,
    /// On each CPU from its own first event to the end of its last.
    EachItsOwn,
}

/// Events of a file, CPU by CPU.
#[derive(Debug, Default)]
pub(crate) struct EventSet {
    cpus: BTreeMap<u32, CpuEvents>,
    rounding_ns: u64,
    /// Nothing shorter was an event, where the file says so, ns.
    pub(crate) threshold_ns: Option<f64>,
    /// What caused them, where the file says so.
    pub(crate) noises: Option<Noises>,
}

#[derive(Debug, Default)]
struct CpuEvents {
    events: Vec<TraceEvent>,
    told: Vec<Span>,
    lost: Vec<Span>,
}

/// What had to be set right.
#[derive(Debug, Default)]
struct Repairs {
    unsorted: u64,
    overlapping: u64,
    empty: u64,
}

impl EventSet {
    /// Of a tool that rounds: events that overlap by no more than this do not.
    pub(crate) fn with_rounding(rounding_ns: u64) -> Self {
        Self {
            rounding_ns,
            ..Self::default()
        }
    }

    /// Takes an event.
    pub(crate) fn event(&mut self, cpu: u32, event: TraceEvent) -> Result<(), Fault> {
        let end = event.start_ns.checked_add(event.length_ns);
        if end.is_none_or(|end| end > MAX_NS) {
            return Err(Fault::Impossible("an event that ends after 146 years"));
        }
        self.cpus.entry(cpu).or_default().events.push(event);
        Ok(())
    }

    /// Events of a CPU were looked for in this time; there is the CPU, even if
    /// it has none.
    pub(crate) fn known(&mut self, cpu: u32, span: Span) {
        self.cpus.entry(cpu).or_default().told.push(span);
    }

    /// Events of a CPU were lost since its last one; until the next, nothing is
    /// known.
    pub(crate) fn lost(&mut self, cpu: u32, until_ns: u64) {
        let cpu = self.cpus.entry(cpu).or_default();
        let from_ns = cpu.events.last().map_or(0, TraceEvent::end_ns);
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
        recorder: String,
        known: Coverage,
        mut warnings: Vec<String>,
    ) -> Result<JitterTrace, Fault> {
        let mut repairs = Repairs::default();
        for cpu in self.cpus.values_mut() {
            repair(&mut cpu.events, self.rounding_ns, &mut repairs);
        }
        let starts = || self.cpus.values().filter_map(|cpu| cpu.events.first());
        let first = starts().map(|event| event.start_ns).min().unwrap_or(0);
        let last = self.cpus.values().filter_map(|cpu| cpu.events.last());
        let last = last.map(TraceEvent::end_ns).max().unwrap_or(0);
        let origin = match known {
            Coverage::Told | Coverage::FromZero => 0,
            Coverage::AllAlike | Coverage::EachItsOwn => first,
        };
        let mut cpus = Vec::new();
        for (number, mut cpu) in self.cpus {
            let known = match known {
                Coverage::Told => std::mem::take(&mut cpu.told),
                Coverage::FromZero => vec![span(0, last)],
                Coverage::AllAlike => uncovered(span(first, last), &mut cpu),
                Coverage::EachItsOwn => {
                    let from = cpu.events.first().map_or(first, |event| event.start_ns);
                    let until = cpu.events.last().map_or(first, TraceEvent::end_ns);
                    uncovered(span(from, until), &mut cpu)
                }
            };
            let moved = |span: Span| Span {
                from_ns: span.from_ns - origin,
                until_ns: span.until_ns - origin,
            };
            for event in &mut cpu.events {
                event.start_ns -= origin;
            }
            cpus.push(CpuTrace {
                cpu: number,
                known: known.into_iter().map(moved).collect(),
                events: cpu.events,
            });
        }
        if cpus.iter().all(|cpu| cpu.known_ns() == 0) {
            return Err(Fault::NothingKnown);
        }
        if repairs.unsorted > 0 {
            warnings.push(format!(
                "{} events began before the one before them: all were sorted",
                repairs.unsorted
            ));
        }
        if repairs.overlapping > 0 {
            warnings.push(format!(
                "{} events began before the one before them ended: each such pair is one event, \
                 as a program would have seen it",
                repairs.overlapping
            ));
        }
        if repairs.empty > 0 {
            warnings.push(format!(
                "{} events of no length are left out",
                repairs.empty
            ));
        }
        let notes = Notes {
            cpus: match self.threshold_ns {
                Some(threshold_ns) => cpus.iter().map(|cpu| notes(cpu, threshold_ns)).collect(),
                None => Vec::new(),
            },
        };
        let attribution = self
            .noises
            .map(|noises| Box::new(noises.attribution(origin, &cpus)));
        Ok(JitterTrace {
            header: TraceHeader {
                recorder,
                host: None,
                kernel: None,
                began_s: None,
                clock: LoopClock::Imported,
                cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
                real_time: None,
            },
            cpus,
            // There are some, or the trace would count as cut off.
            notes: Some(notes),
            attribution,
            warnings,
        })
    }
}

/// All that is known of how events of another tool were found.
fn notes(cpu: &CpuTrace, threshold_ns: f64) -> CpuNotes {
    CpuNotes {
        cpu: cpu.cpu,
        threshold_ns,
        ..CpuNotes::default()
    }
}

fn span(from_ns: u64, until_ns: u64) -> Span {
    Span { from_ns, until_ns }
}

/// Sorts, leaves out what took no time, and makes one of those that overlap.
fn repair(events: &mut Vec<TraceEvent>, rounding_ns: u64, repairs: &mut Repairs) {
    let all = events.len();
    events.retain(|event| event.length_ns > 0);
    repairs.empty += (all - events.len()) as u64;
    let falls = events
        .windows(2)
        .filter(|pair| pair[1].start_ns < pair[0].start_ns);
    let falls = falls.count() as u64;
    if falls > 0 {
        repairs.unsorted += falls;
        events.sort_by_key(|event| event.start_ns);
    }
    events.dedup_by(|next, kept| {
        let (end, next_end) = (kept.end_ns(), next.end_ns());
        if next.start_ns >= end {
            return false;
        }
        if end - next.start_ns <= rounding_ns && next_end >= end {
            *next = TraceEvent {
                start_ns: end,
                length_ns: next_end - end,
            };
            return false;
        }
        repairs.overlapping += 1;
        kept.length_ns = end.max(next_end) - kept.start_ns;
        true
    });
}

/// The span without the stretches in which events were lost; those that hold
/// an event after all are known.
fn uncovered(whole: Span, cpu: &mut CpuEvents) -> Vec<Span> {
    let mut lost = std::mem::take(&mut cpu.lost);
    lost.sort_unstable_by_key(|span| span.from_ns);
    let mut known = Vec::new();
    let mut from_ns = whole.from_ns;
    for gap in lost {
        let (begin, end) = (gap.from_ns.max(from_ns), gap.until_ns.min(whole.until_ns));
        let at = cpu.events.partition_point(|event| event.end_ns() <= begin);
        let event_inside = cpu.events.get(at).is_some_and(|event| event.start_ns < end);
        if begin >= end || event_inside {
            continue;
        }
        if begin > from_ns {
            known.push(span(from_ns, begin));
        }
        from_ns = end;
    }
    known.push(span(from_ns, whole.until_ns));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start_ns: u64, length_ns: u64) -> TraceEvent {
        TraceEvent {
            start_ns,
            length_ns,
        }
    }

    fn event_set(events: &[(u64, u64)]) -> EventSet {
        let mut all = EventSet::default();
        for (start, length) in events {
            all.event(0, event(*start, *length)).unwrap();
        }
        all
    }

    #[test]
    fn what_is_unsorted_or_overlaps_is_set_right_and_counted() {
        let all = event_set(&[(1000, 10), (500, 20), (510, 5), (515, 50)]);
        let trace = all
            .trace("x".to_owned(), Coverage::AllAlike, vec![])
            .unwrap();
        assert_eq!(trace.cpus[0].events, [event(0, 65), event(500, 10)]);
        assert_eq!(trace.cpus[0].known, [span(0, 510)]);
        assert_eq!(trace.warnings.len(), 2);
        assert!(trace.warnings[0].starts_with("1 events"));
        assert!(trace.warnings[1].starts_with("2 events"));
        crate::format::write(&trace, Vec::new()).unwrap();
    }

    #[test]
    fn an_overlap_of_rounding_is_cut_off() {
        let mut all = event_set(&[(0, 10), (9, 10)]);
        all.rounding_ns = 1;
        let trace = all
            .trace("x".to_owned(), Coverage::FromZero, vec![])
            .unwrap();
        assert_eq!(trace.cpus[0].events, [event(0, 10), event(10, 9)]);
        assert!(trace.warnings.is_empty());
    }

    #[test]
    fn what_was_lost_is_not_known() {
        let mut all = event_set(&[(100, 10)]);
        all.lost(0, 200);
        all.event(0, event(200, 10)).unwrap();
        let trace = all
            .trace("x".to_owned(), Coverage::EachItsOwn, vec![])
            .unwrap();
        assert_eq!(trace.cpus[0].known, [span(0, 10), span(100, 110)]);
        crate::format::write(&trace, Vec::new()).unwrap();
    }
}
