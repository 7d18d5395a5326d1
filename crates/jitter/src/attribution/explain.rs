// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each event with its causes, and how long each of them had the CPU itself.

use super::{Cause, CpuCauses};
use crate::{Span, TraceEvent};

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cause(start_ns: u64, length_ns: u64, source: u32) -> Cause {
        Cause::new(start_ns, length_ns, source)
    }

    #[test]
    fn net_is_gross_without_what_lies_inside() {
        // A task, in it an interrupt, in that another, then a soft one.
        let of = CpuCauses {
            cpu: 0,
            known: vec![Span::new(0, 1000)],
            causes: vec![
                cause(110, 80, 0),
                cause(120, 30, 1),
                cause(130, 10, 2),
                cause(150, 20, 3),
                // Of the next event.
                cause(305, 5, 1),
            ],
        };
        let events = [
            TraceEvent::new(100, 100),
            TraceEvent::new(300, 50),
            TraceEvent::new(400, 10),
            TraceEvent::new(995, 10),
        ];
        let all: Vec<EventExplanation> = explain(&events, &of).collect();
        let nets: Vec<(u64, u32)> = all[0].causes.iter().map(|s| (s.net_ns, s.depth)).collect();
        assert_eq!(nets, [(30, 0), (20, 1), (10, 2), (20, 1)]);
        assert_eq!((all[0].left_ns, all[1].left_ns), (20, 45));
        assert!(all[2].known && all[2].causes.is_empty() && all[2].left_ns == 10);
        assert!(!all[3].known);
    }

    proptest! {
        /// Whatever stands in a file.
        #[test]
        fn causes_come_to_no_more_than_their_event(
            events in prop::collection::vec((0u64..500, 0u64..300), 0..20),
            causes in prop::collection::vec((0u64..5000, 0u64..400), 0..60),
            known in prop::collection::vec((0u64..300, 1u64..3000), 0..5),
        ) {
            let mut at = 0;
            let events: Vec<TraceEvent> = events.into_iter().map(|(gap, length)| {
                let this = TraceEvent::new(at + gap, length);
                at = this.end_ns();
                this
            }).collect();
            let mut causes: Vec<Cause> = causes.into_iter().map(|(s, l)| cause(s, l, 0)).collect();
            causes.sort_by_key(|c| (c.start_ns, std::cmp::Reverse(c.length_ns)));
            at = 0;
            let known = known.into_iter().map(|(gap, length)| {
                let this = Span::new(at + gap, at + gap + length);
                at = this.until_ns;
                this
            }).collect();
            let of = CpuCauses::new(0, known, causes);
            for one in explain(&events, &of) {
                let net: u64 = one.causes.iter().map(|share| share.net_ns).sum();
                prop_assert_eq!(net + one.left_ns, one.event.length_ns);
                for share in &one.causes {
                    prop_assert!(share.net_ns <= share.cause.length_ns);
                    prop_assert!(share.cause.start_ns >= one.event.start_ns);
                    prop_assert!(share.cause.end_ns() <= one.event.end_ns());
                }
                let within = of.known.iter().any(|span| {
                    span.from_ns <= one.event.start_ns && one.event.end_ns() <= span.until_ns
                });
                prop_assert_eq!(one.known, within);
            }
        }
    }
}
