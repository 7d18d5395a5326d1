// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of events by cause: what a program on many ranks would gain without an interrupt,
//! a daemon or the hypervisor.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sandbag_jitter::JitterTrace;
use sandbag_jitter::attribution::{
    Attribution, EventExplanation, RowSubject, SourceRow, explain, table,
};

use super::classes::{EventClass, Members};

/// Number of the causes with the most time, and of those with the longest single time: at few
/// ranks the former cost most, at many the latter.
const MOST: usize = 5;

impl EventClass {
    /// The foremost causes of a trace; none where events have no causes.
    ///
    /// Without a cause its own net time is free, and where it is the event's only cause, the
    /// way into the kernel and out of it, too.
    pub fn causes(trace: &JitterTrace) -> Vec<Self> {
        let Some(attribution) = trace.attribution.as_deref() else {
            return Vec::new();
        };
        let rows = table(trace, attribution);
        let mut parts: BTreeMap<RowSubject, BTreeMap<u32, Vec<(usize, u64)>>> = foremost(&rows)
            .map(|subject| (subject.clone(), BTreeMap::new()))
            .collect();
        for cpu in &trace.cpus {
            let causes = attribution.of(cpu.cpu).into_iter();
            let events = causes.flat_map(|causes| explain(&cpu.events, causes));
            for (number, event) in events.enumerate() {
                for (subject, part_ns) in parts_of(&event, attribution) {
                    if let Some(of) = parts.get_mut(&subject) {
                        of.entry(cpu.cpu).or_default().push((number, part_ns));
                    }
                }
            }
        }
        let class = |(subject, by_cpu)| Self {
            name: name(&subject),
            members: Members::Parts(by_cpu),
        };
        parts.into_iter().map(class).collect()
    }
}

/// The causes that could be removed: those with a name, and the hypervisor or hardware.
fn foremost(rows: &[SourceRow]) -> impl Iterator<Item = &RowSubject> {
    let removable =
        |row: &&SourceRow| matches!(row.who, RowSubject::Known { .. } | RowSubject::Elsewhere);
    let mut longest: Vec<&SourceRow> = rows.iter().filter(removable).collect();
    longest.sort_by_key(|row| Reverse(row.longest_ns));
    let most = rows.iter().filter(removable).take(MOST);
    most.chain(longest.into_iter().take(MOST))
        .map(|row| &row.who)
}

fn name(subject: &RowSubject) -> String {
    match subject {
        RowSubject::Known { kind, name } => format!("{} {name}", kind.name()),
        _ => subject.names().0.to_owned(),
    }
}

/// The part of each cause in an event, ns.
fn parts_of(event: &EventExplanation, attribution: &Attribution) -> BTreeMap<RowSubject, u64> {
    let mut parts = BTreeMap::new();
    for share in &event.causes {
        let Some(source) = attribution.sources.get(share.cause.source as usize) else {
            continue;
        };
        let subject = RowSubject::Known {
            kind: source.kind,
            name: source.name.clone(),
        };
        *parts.entry(subject).or_insert(0) += share.net_ns;
    }
    if event.known && event.causes.is_empty() {
        parts.insert(RowSubject::Elsewhere, event.left_ns);
    }
    if parts.len() == 1 {
        parts
            .values_mut()
            .for_each(|ns| *ns = event.event.length_ns);
    }
    parts
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::attribution::{Cause, CpuCauses, NoiseOrigin, SourceKind};

    use super::*;
    use crate::fixture::{self, span};

    /// An event of a daemon alone; one of it and of an interrupt within it; one without a
    /// cause; one outside the watched time.
    fn trace() -> JitterTrace {
        let events = [(1_000, 100), (2_000, 100), (3_000, 50), (9_000, 70)];
        let sources = [
            (SourceKind::Task, "daemon", 7),
            (SourceKind::Irq, "disk", 1),
            // The daemon again, under another process id.
            (SourceKind::Task, "daemon", 8),
        ];
        let causes = [(1_010, 80, 0), (2_010, 80, 2), (2_020, 30, 1)];
        let attribution = Attribution {
            sources: sources
                .map(|(kind, name, number)| NoiseOrigin {
                    kind,
                    name: name.to_owned(),
                    number: Some(number),
                })
                .into(),
            cpus: vec![CpuCauses {
                cpu: 0,
                known: vec![span(0, 5_000)],
                causes: causes
                    .map(|(start_ns, length_ns, source)| Cause {
                        start_ns,
                        length_ns,
                        source,
                    })
                    .into(),
            }],
            ..Attribution::default()
        };
        JitterTrace {
            attribution: Some(Box::new(attribution)),
            ..fixture::trace(vec![fixture::cpu(&[(0, 10_000)], &events)])
        }
    }

    #[test]
    fn removing_a_cause_frees_its_net_time() {
        let mut trace = trace();
        let all = EventClass::causes(&trace);
        assert_eq!(all.len(), 3);
        for (name, left, removed_ns) in [
            // All of the first event, and of the second what the disk does not have.
            (
                "task daemon",
                vec![(2_000, 50), (3_000, 50), (9_000, 70)],
                150,
            ),
            (
                "irq disk",
                vec![(1_000, 100), (2_000, 70), (3_000, 50), (9_000, 70)],
                30,
            ),
            (
                "hypervisor or hardware",
                vec![(1_000, 100), (2_000, 100), (9_000, 70)],
                50,
            ),
        ] {
            let class = all.iter().find(|class| class.name == name).unwrap();
            let (cpu, ns) = class.remove(&trace.cpus[0]).unwrap();
            let events = cpu.events.iter().map(|e| (e.start_ns, e.length_ns));
            assert_eq!((events.collect(), ns), (left, removed_ns), "{name}");
        }
        trace.attribution = None;
        assert!(EventClass::causes(&trace).is_empty());
    }

    #[test]
    fn a_cause_with_the_longest_time_is_a_class() {
        let of = |name: &str, net_ns, longest_ns| SourceRow {
            who: RowSubject::Known {
                kind: SourceKind::Task,
                name: name.to_owned(),
            },
            events: 1,
            times: 1,
            gross_ns: net_ns,
            net_ns,
            longest_ns,
            share_pct: 0.0,
        };
        let mut rows: Vec<SourceRow> = (0..20).map(|i| of(&i.to_string(), 1000 - i, 10)).collect();
        rows.push(of("rare", 100, 100));
        rows.push(SourceRow {
            who: RowSubject::Around,
            ..of("", 5, 5_000)
        });
        let names: Vec<String> = foremost(&rows).map(name).collect();
        assert!(names.contains(&"task rare".to_owned()), "{names:?}");
        assert!(names.contains(&"task 0".to_owned()) && names.len() == 2 * MOST);
    }
}
