// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who took how much: every nanosecond of every event is in one row.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Attribution, CpuCauses, SourceKind, explain};
use crate::{CpuTrace, JitterTrace};

/// Of whom a row is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowSubject {
    /// Something that the kernel entered and left. Tasks of the same name are
    /// one.
    Known {
        /// What it is.
        kind: SourceKind,
        /// The kernel's name for it.
        name: String,
    },
    /// Events without a cause, although the kernel was watched: the hypervisor
    /// or the hardware.
    Elsewhere,
    /// What causes leave of their events: the way into the kernel and out of
    /// it, or the hypervisor.
    Around,
    /// Events in which the kernel was not watched.
    Unknown,
}

impl RowSubject {
    /// What a reader calls it, and of which kind it is.
    #[must_use]
    pub fn names(&self) -> (&str, &'static str) {
        match self {
            Self::Known { kind, name } => (name, kind.name()),
            Self::Elsewhere => ("hypervisor or hardware", "none seen"),
            Self::Around => ("entry and exit, or hypervisor", "around these"),
            Self::Unknown => ("not watched", "unknown"),
        }
    }
}

/// How much somebody took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceRow {
    pub who: RowSubject,
    /// Events that he had a part in.
    pub events: u64,
    /// How often he came; in an event perhaps more than once.
    pub times: u64,
    /// From coming to leaving, in all.
    pub gross_ns: u64,
    /// Without what came in between; these of all rows are all the noise.
    pub net_ns: u64,
    /// The longest single time, gross.
    pub longest_ns: u64,
    /// Net, of all noise.
    pub share_pct: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    events: u64,
    times: u64,
    gross_ns: u64,
    net_ns: u64,
    longest_ns: u64,
    /// The event that was counted last, from 1.
    last: u64,
}

impl Sum {
    fn add(&mut self, event: u64, gross_ns: u64, net_ns: u64) {
        self.events += u64::from(self.last != event);
        self.last = event;
        self.times += 1;
        self.gross_ns = self.gross_ns.saturating_add(gross_ns);
        self.net_ns = self.net_ns.saturating_add(net_ns);
        self.longest_ns = self.longest_ns.max(gross_ns);
    }
}

/// Those who took most, and all others in one row, with how many they are. What
/// has no name is always told.
#[must_use]
pub fn foremost(rows: &[SourceRow], most: usize) -> (Vec<SourceRow>, Option<(usize, SourceRow)>) {
    let is_named = |row: &&SourceRow| matches!(row.who, RowSubject::Known { .. });
    let (named, nameless): (Vec<&SourceRow>, Vec<&SourceRow>) = rows.iter().partition(is_named);
    let (shown, rest) = named.split_at(named.len().min(most));
    let shown = shown.iter().chain(&nameless);
    let mut shown: Vec<SourceRow> = shown.map(|row| (*row).clone()).collect();
    shown.sort_by_key(|row| std::cmp::Reverse(row.net_ns));
    let sum =
        |of: fn(&SourceRow) -> u64| rest.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let others = (!rest.is_empty()).then(|| {
        let row = SourceRow {
            who: RowSubject::Unknown,
            events: sum(|row| row.events),
            times: sum(|row| row.times),
            gross_ns: sum(|row| row.gross_ns),
            net_ns: sum(|row| row.net_ns),
            longest_ns: rest.iter().map(|row| row.longest_ns).max().unwrap_or(0),
            share_pct: rest.iter().map(|row| row.share_pct).sum(),
        };
        (rest.len(), row)
    });
    (shown, others)
}

/// Of all CPUs together, most net time first.
#[must_use]
pub fn table(trace: &JitterTrace, attribution: &Attribution) -> Vec<SourceRow> {
    rows(&trace.cpus, attribution)
}

/// Of one CPU.
#[must_use]
pub fn by_cpu(cpu: &CpuTrace, attribution: &Attribution) -> Vec<SourceRow> {
    rows(std::slice::from_ref(cpu), attribution)
}

fn rows(cpus: &[CpuTrace], attribution: &Attribution) -> Vec<SourceRow> {
    // By place first: a lookup by name for each cause would be slow.
    let mut of_source = vec![Sum::default(); attribution.sources.len()];
    let mut place_of: BTreeMap<(SourceKind, &str), usize> = BTreeMap::new();
    let place: Vec<usize> = attribution
        .sources
        .iter()
        .enumerate()
        .map(|(at, source)| *place_of.entry((source.kind, &source.name)).or_insert(at))
        .collect();
    let (mut elsewhere, mut around, mut unknown) = <(Sum, Sum, Sum)>::default();
    let nothing = CpuCauses::default();
    let mut number = 0;
    for cpu in cpus {
        let causes = attribution.of(cpu.cpu).unwrap_or(&nothing);
        for one in explain(&cpu.events, causes) {
            number += 1;
            let mut taken = false;
            for share in &one.causes {
                let at = place.get(share.cause.source as usize);
                let sum = at.map_or(&mut unknown, |at| &mut of_source[*at]);
                sum.add(number, share.cause.length_ns, share.net_ns);
                taken = true;
            }
            let rest = match (one.known, taken) {
                (false, _) => &mut unknown,
                (true, true) => &mut around,
                (true, false) => &mut elsewhere,
            };
            rest.add(number, one.left_ns, one.left_ns);
        }
    }
    let known = place_of.into_iter().map(|((kind, name), at)| {
        let name = name.to_owned();
        (RowSubject::Known { kind, name }, of_source[at])
    });
    let rest = [
        (RowSubject::Elsewhere, elsewhere),
        (RowSubject::Around, around),
        (RowSubject::Unknown, unknown),
    ];
    // Of several CPUs it may be more than 64 bits hold.
    let all: f64 = cpus.iter().map(|cpu| cpu.noise_ns() as f64).sum();
    let mut rows: Vec<SourceRow> = known
        .chain(rest)
        .filter(|(_, sum)| sum.times > 0)
        .map(|(who, sum)| SourceRow {
            who,
            events: sum.events,
            times: sum.times,
            gross_ns: sum.gross_ns,
            net_ns: sum.net_ns,
            longest_ns: sum.longest_ns,
            share_pct: sum.net_ns as f64 / all.max(1.0) * 100.0,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.net_ns));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::{Cause, NoiseOrigin};
    use crate::{LoopClock, Span, TraceEvent, TraceHeader};
    use proptest::prelude::*;

    fn source(kind: SourceKind, name: &str, number: u32) -> NoiseOrigin {
        NoiseOrigin::new(kind, name, Some(number))
    }

    fn trace(cpus: Vec<CpuTrace>) -> JitterTrace {
        JitterTrace {
            header: TraceHeader {
                recorder: String::new(),
                host: None,
                kernel: None,
                began_s: None,
                clock: LoopClock::Tsc,
                cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
                real_time: None,
            },
            cpus,
            notes: None,
            warnings: Vec::new(),
            attribution: None,
        }
    }

    #[test]
    fn rows_are_by_name_and_most_comes_first() {
        let span = Span::new(0, 1000);
        let event = TraceEvent::new;
        let cause = |start_ns, length_ns, source| Cause::new(start_ns, length_ns, source);
        let cpu = CpuTrace::new(
            3,
            vec![span],
            vec![
                event(100, 100),
                event(300, 10),
                event(990, 10),
                event(2000, 40),
            ],
        );
        let attribution = Attribution {
            sources: vec![
                source(SourceKind::Task, "cc1", 7),
                source(SourceKind::Irq, "local_timer", 236),
                source(SourceKind::Task, "cc1", 8),
            ],
            cpus: vec![CpuCauses::new(
                3,
                vec![span],
                vec![
                    cause(110, 50, 0),
                    cause(120, 10, 1),
                    cause(160, 30, 2),
                    cause(301, 5, 1),
                ],
            )],
            ..Attribution::default()
        };
        let rows = table(&trace(vec![cpu]), &attribution);
        let plain: Vec<_> = rows
            .iter()
            .map(|r| {
                (
                    r.who.clone(),
                    r.events,
                    r.times,
                    r.gross_ns,
                    r.net_ns,
                    r.longest_ns,
                )
            })
            .collect();
        let known = |kind, name: &str| RowSubject::Known {
            kind,
            name: name.to_owned(),
        };
        assert_eq!(
            plain,
            [
                (known(SourceKind::Task, "cc1"), 1, 2, 80, 70, 50),
                (RowSubject::Unknown, 1, 1, 40, 40, 40),
                (RowSubject::Around, 2, 2, 25, 25, 20),
                (known(SourceKind::Irq, "local_timer"), 2, 2, 15, 15, 10),
                (RowSubject::Elsewhere, 1, 1, 10, 10, 10),
            ]
        );
    }

    proptest! {
        #[test]
        fn all_rows_are_all_the_noise(
            events in prop::collection::vec((0u64..500, 0u64..300), 0..20),
            causes in prop::collection::vec((0u64..5000, 0u64..400, 0u32..4), 0..60),
        ) {
            let mut at = 0;
            let events: Vec<TraceEvent> = events.into_iter().map(|(gap, length_ns)| {
                let start_ns = at + gap;
                at = start_ns + length_ns;
                TraceEvent::new(start_ns, length_ns)
            }).collect();
            let mut causes: Vec<Cause> = causes
                .into_iter()
                .map(|(start_ns, length_ns, source)| Cause::new(start_ns, length_ns, source))
                .collect();
            causes.sort_by_key(|c| (c.start_ns, std::cmp::Reverse(c.length_ns)));
            let cpu = CpuTrace::new(0, vec![Span { from_ns: 0, until_ns: at }], events);
            let noise_ns = cpu.noise_ns();
            let attribution = Attribution {
                // One place fewer than the causes name.
                sources: vec![
                    source(SourceKind::Irq, "a", 1),
                    source(SourceKind::Irq, "a", 2),
                    source(SourceKind::Task, "a", 1),
                ],
                cpus: vec![CpuCauses::new(0, vec![Span { from_ns: 0, until_ns: 3000 }], causes)],
                ..Attribution::default()
            };
            let rows = table(&trace(vec![cpu]), &attribution);
            prop_assert_eq!(rows.iter().map(|row| row.net_ns).sum::<u64>(), noise_ns);
        }
    }

    #[test]
    fn the_foremost_and_the_sum_of_the_others_are_all() {
        let row = |who: RowSubject, net_ns: u64| SourceRow {
            who,
            events: 1,
            times: 2,
            gross_ns: net_ns,
            net_ns,
            longest_ns: net_ns,
            share_pct: net_ns as f64,
        };
        let task = |name: &str| RowSubject::Known {
            kind: SourceKind::Task,
            name: name.to_owned(),
        };
        let all = [
            row(task("a"), 50),
            row(task("b"), 30),
            row(task("c"), 10),
            row(task("d"), 8),
            row(RowSubject::Elsewhere, 2),
        ];
        let (shown, others) = foremost(&all, 2);
        let names: Vec<&str> = shown.iter().map(|row| row.who.names().0).collect();
        assert_eq!(names, ["a", "b", "hypervisor or hardware"]);
        let (count, rest) = others.unwrap();
        assert_eq!(
            (count, rest.net_ns, rest.times, rest.longest_ns),
            (2, 18, 4, 10)
        );
        assert!(foremost(&all, 20).1.is_none());
    }
}
