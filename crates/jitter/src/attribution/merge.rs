// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's record of a CPU and the events of the loop on it, merged.
//!
//! The loop runs at both ends of an event, so nothing is open there, whatever the record
//! says. An entry without an exit ends with the event (or with the cause around it), an
//! exit without an entry is ignored, and lost entries affect only the events of that time.

use crate::causes::Cause;
use crate::{Span, TraceEvent};

/// An entry of the kernel's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, on the clock of the trace; does not descend.
    pub at_ns: u64,
    pub what: MarkKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// An interrupt or soft interrupt begins; `key` is that of its end.
    Enter {
        /// The same for begin and end.
        key: u64,
        source: u32,
    },
    Leave {
        key: u64,
    },
    /// Another task than the loop gets the CPU.
    Task {
        source: u32,
    },
    /// The loop gets it.
    Loop,
    /// The loop met a page fault; when that ends is not written, but the loop
    /// goes on only after it.
    Fault {
        source: u32,
    },
    /// Something ends that took so long.
    Took {
        source: u32,
        ns: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Open {
    key: u64,
    source: u32,
    start_ns: u64,
}

/// Not keys of interrupts.
const TASK: u64 = u64::MAX;
const FAULT: u64 = u64::MAX - 1;

/// Merges, entry by entry.
#[derive(Debug)]
pub struct Merger<'a> {
    events: &'a [TraceEvent],
    open: Vec<Open>,
    /// Of the event at hand.
    current: Vec<Cause>,
    /// Entries were lost in the event at hand.
    torn: bool,
    from_ns: u64,
    last_ns: u64,
    known: Vec<Span>,
    merged: MergeResult,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// As in [`CpuCauses`](super::CpuCauses).
    pub causes: Vec<Cause>,
    /// When the kernel's record is whole; ascending, without overlap.
    pub known: Vec<Span>,
    /// Begins that lie in no event.
    pub outside: u64,
}

impl<'a> Merger<'a> {
    /// For the events that were found in a stretch of time.
    pub fn new(span: Span, events: &'a [TraceEvent]) -> Self {
        Self {
            events,
            open: Vec::new(),
            current: Vec::new(),
            torn: false,
            from_ns: span.from_ns,
            last_ns: span.from_ns,
            known: vec![span],
            merged: MergeResult::default(),
        }
    }

    /// Takes the next entry.
    pub fn mark(&mut self, mark: Mark) {
        let begins = !matches!(mark.what, MarkKind::Leave { .. } | MarkKind::Loop);
        // Before the loop looked.
        if mark.at_ns < self.from_ns {
            self.merged.outside += u64::from(begins);
            return;
        }
        let at_ns = mark.at_ns.max(self.last_ns);
        self.end_events_before(at_ns);
        let before = std::mem::replace(&mut self.last_ns, at_ns);
        let within = self.events.first().filter(|event| event.start_ns <= at_ns);
        let Some(event) = within else {
            self.merged.outside += u64::from(begins);
            return;
        };
        match mark.what {
            MarkKind::Enter { key, source } => self.open.push(Open {
                key,
                source,
                start_ns: at_ns,
            }),
            MarkKind::Leave { key } => {
                if let Some(at) = self.open.iter().rposition(|open| open.key == key) {
                    self.close(at, at_ns);
                }
            }
            // Whatever was open belongs to the task that leaves, but for the
            // loop's own page fault, which may have to wait.
            MarkKind::Task { source } => {
                self.close(self.base(), at_ns);
                self.open.push(Open {
                    key: TASK,
                    source,
                    start_ns: at_ns,
                });
            }
            MarkKind::Loop => self.close(self.base(), at_ns),
            MarkKind::Fault { source } => {
                if self.open.is_empty() {
                    self.open.push(Open {
                        key: FAULT,
                        source,
                        start_ns: at_ns,
                    });
                }
            }
            MarkKind::Took { source, ns } => {
                // Nothing was written while it ran.
                let start_ns = at_ns.saturating_sub(ns).max(before).max(event.start_ns);
                self.current
                    .push(Cause::new(start_ns, at_ns - start_ns, source));
            }
        }
    }

    /// Entries before `until_ns` and after the last one were lost.
    pub fn lost(&mut self, until_ns: u64) {
        let from_ns = self.last_ns;
        if until_ns <= from_ns {
            return;
        }
        // The event that the stretch begins in, if any, and that it ends in.
        self.end_events_before(from_ns);
        let over = |event: &TraceEvent, ns| event.start_ns <= ns && event.end_ns() > ns;
        self.torn |= self
            .events
            .first()
            .is_some_and(|event| over(event, from_ns));
        self.end_events_before(until_ns);
        self.torn |= self
            .events
            .first()
            .is_some_and(|event| event.start_ns < until_ns);
        self.open.clear();
        self.last_ns = until_ns;
        if let Some(last) = self.known.pop() {
            let whole_ns = last.until_ns;
            if from_ns > last.from_ns {
                self.known.push(Span {
                    until_ns: from_ns.min(whole_ns),
                    ..last
                });
            }
            if until_ns < whole_ns {
                self.known.push(Span::new(until_ns, whole_ns));
            }
        }
    }

    /// All causes.
    pub fn finish(mut self) -> MergeResult {
        self.end_events_before(u64::MAX);
        self.merged.known = self.known;
        self.merged
    }

    /// An event of the loop ends at the reading after whatever is written in
    /// it, so an entry at its very end is its own.
    fn end_events_before(&mut self, at_ns: u64) {
        while let Some((event, rest)) = self.events.split_first()
            && event.end_ns() < at_ns
        {
            self.close(0, event.end_ns());
            let torn = std::mem::take(&mut self.torn);
            let mut causes = std::mem::take(&mut self.current);
            if !torn {
                causes.sort_by_key(|cause| (cause.start_ns, std::cmp::Reverse(cause.length_ns)));
                self.merged.causes.append(&mut causes);
            }
            causes.clear();
            self.current = causes;
            self.events = rest;
        }
    }

    /// Where the tasks begin among what is open.
    fn base(&self) -> usize {
        usize::from(self.open.first().is_some_and(|open| open.key == FAULT))
    }

    /// Ends what is open from a place on, the innermost first.
    fn close(&mut self, from: usize, at_ns: u64) {
        for open in self.open.drain(from.min(self.open.len())..).rev() {
            self.current.push(Cause::new(
                open.start_ns,
                at_ns.saturating_sub(open.start_ns),
                open.source,
            ));
        }
    }
}
