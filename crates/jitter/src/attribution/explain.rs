// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each event with its causes, and how long each of them had the CPU itself.

use serde::Serialize;

use crate::causes::{Attribution, Cause, CpuCauses, NoiseOrigin, SourceKind};
use crate::{CpuTrace, Span, TraceEvent};

/// Subject of time within events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowSubject {
    /// A source that the kernel entered and left. Tasks of the same name are one.
    Known {
        kind: SourceKind,
        /// The kernel's name for it.
        name: String,
    },
    /// Events without a cause while the kernel was watched: the hypervisor or the hardware.
    Elsewhere,
    /// The rest of events with causes: entry to the kernel and exit from it, or the
    /// hypervisor.
    Around,
    /// Events in which the kernel was not watched.
    Unknown,
}

impl RowSubject {
    /// Its name and its kind.
    pub fn names(&self) -> (&str, &'static str) {
        match self {
            Self::Known { kind, name } => (name, kind.name()),
            Self::Elsewhere => ("hypervisor or hardware", "none seen"),
            Self::Around => ("entry and exit, or hypervisor", "around these"),
            Self::Unknown => ("not watched", "unknown"),
        }
    }
}

impl From<&NoiseOrigin> for RowSubject {
    fn from(source: &NoiseOrigin) -> Self {
        let (kind, name) = (source.kind, source.name.clone());
        Self::Known { kind, name }
    }
}

/// What is known of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventExplanation {
    pub event: TraceEvent,
    /// Whether the kernel was watched all the time. If not, there are no
    /// causes, and that says nothing.
    pub known: bool,
    /// Ascending, the outer before those inside.
    pub causes: Vec<Share>,
    /// What no cause covers.
    pub left_ns: u64,
}

impl EventExplanation {
    /// Subject of the time that no cause covers.
    pub fn rest(&self) -> RowSubject {
        match (self.known, self.causes.is_empty()) {
            (false, _) => RowSubject::Unknown,
            (true, true) => RowSubject::Elsewhere,
            (true, false) => RowSubject::Around,
        }
    }
}

/// A cause and its own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The cause, within the event and within what it lies in.
    pub cause: Cause,
    /// Its length without those inside.
    pub net_ns: u64,
    /// How many it lies in.
    pub depth: u32,
}

impl Attribution {
    /// Each event of a CPU with its causes.
    pub fn explain<'a>(&'a self, cpu: &'a CpuTrace) -> impl Iterator<Item = EventExplanation> {
        static NOTHING: CpuCauses = CpuCauses::new(0, Vec::new(), Vec::new());
        explain(&cpu.events, self.of(cpu.cpu).unwrap_or(&NOTHING))
    }
}

/// Every event of a CPU in turn. What is no cause of any event is passed over,
/// and what reaches beyond what it lies in is cut: a file may hold anything.
pub fn explain<'a>(
    events: &'a [TraceEvent],
    of: &'a CpuCauses,
) -> impl Iterator<Item = EventExplanation> + use<'a> {
    let mut causes = of.causes.iter().copied().peekable();
    let mut known = &of.known[..];
    events.iter().map(move |event| {
        while known
            .first()
            .is_some_and(|span| span.until_ns < event.end_ns())
        {
            known = &known[1..];
        }
        let is_known = known
            .first()
            .is_some_and(|span: &Span| span.from_ns <= event.start_ns);
        let mut own = Vec::new();
        while let Some(cause) = causes.next_if(|cause| begins_in_or_before(cause, event)) {
            if is_known && cause.start_ns >= event.start_ns {
                own.push(cause);
            }
        }
        let shares = nest(event.end_ns(), &own);
        let taken: u64 = shares.iter().map(|share| share.net_ns).sum();
        EventExplanation {
            event: *event,
            known: is_known,
            causes: shares,
            left_ns: event.length_ns.saturating_sub(taken),
        }
    })
}

/// At the very end only what has no length.
fn begins_in_or_before(cause: &Cause, event: &TraceEvent) -> bool {
    let end = event.end_ns();
    cause.start_ns < end || (cause.start_ns == end && cause.length_ns == 0)
}

/// Net times; `causes` as in [`CpuCauses`], of one event that ends at `end`.
fn nest(end: u64, causes: &[Cause]) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::with_capacity(causes.len());
    // Those that the next may lie in.
    let mut open: Vec<usize> = Vec::new();
    for cause in causes {
        while open
            .last()
            .is_some_and(|at| shares[*at].cause.end_ns() <= cause.start_ns)
        {
            open.pop();
        }
        let around = open.last().copied();
        let until = around.map_or(end, |at| shares[at].cause.end_ns());
        let length_ns = cause.length_ns.min(until.saturating_sub(cause.start_ns));
        if let Some(at) = around {
            shares[at].net_ns -= length_ns;
        }
        open.push(shares.len());
        shares.push(Share {
            cause: Cause {
                length_ns,
                ..*cause
            },
            net_ns: length_ns,
            depth: open.len() as u32 - 1,
        });
    }
    shares
}
