// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of events by who caused them: what a program on many ranks would gain
//! if that interrupt, daemon or hypervisor were silent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sandbag_jitter::attribution::{
    Attribution, EventExplanation, RowSubject, SourceRow, explain, table,
};
use sandbag_jitter::{CpuTrace, JitterTrace};

use super::classes::EventClass;

/// So many of those that took most, and of those that took longest at a time: at few
/// ranks the former cost most, at many the latter.
const MOST: usize = 5;

/// Parts of the events of a CPU: number of the event, ns; ascending.
type EventParts = Vec<(usize, u64)>;

impl EventClass {
    /// Those who took most of a trace, and those who took longest at a time. None
    /// where causes are not known event by event.
    ///
    /// Who is got rid of leaves the time that he had himself, and where nobody else
    /// has a part in the event, the way into the kernel and out of it, too.
    #[must_use]
    pub fn causes(trace: &JitterTrace) -> Vec<Self> {
        let Some(attribution) = trace.attribution.as_deref() else {
            return Vec::new();
        };
        let rows = table(trace, attribution);
        let mut parts: BTreeMap<RowSubject, BTreeMap<u32, EventParts>> = foremost(&rows)
            .map(|who| (who.clone(), BTreeMap::new()))
            .collect();
        for cpu in &trace.cpus {
            of_cpu(cpu, attribution, &mut parts);
        }
        let all = parts.into_iter().map(|(who, by_cpu)| {
            Self::of_parts(name(&who), move |cpu: &CpuTrace, event| {
                let of_cpu = by_cpu.get(&cpu.cpu).map_or(&[][..], Vec::as_slice);
                let found = of_cpu.binary_search_by_key(&event, |(number, _)| *number);
                found.map_or(0, |at| of_cpu[at].1)
            })
        });
        all.collect()
    }
}

/// Who could be got rid of: what has a name, and what comes from elsewhere.
fn foremost(rows: &[SourceRow]) -> impl Iterator<Item = &RowSubject> {
    let is_somebody =
        |row: &&SourceRow| matches!(row.who, RowSubject::Known { .. } | RowSubject::Elsewhere);
    let mut longest: Vec<&SourceRow> = rows.iter().filter(is_somebody).collect();
    longest.sort_by_key(|row| Reverse(row.longest_ns));
    let most = rows.iter().filter(is_somebody).take(MOST);
    most.chain(longest.into_iter().take(MOST))
        .map(|row| &row.who)
}

fn name(who: &RowSubject) -> String {
    match who {
        RowSubject::Known { kind, name } => format!("{} {name}", kind.name()),
        RowSubject::Elsewhere | RowSubject::Around | RowSubject::Unknown => {
            who.names().0.to_owned()
        }
    }
}

fn of_cpu(
    cpu: &CpuTrace,
    attribution: &Attribution,
    parts: &mut BTreeMap<RowSubject, BTreeMap<u32, EventParts>>,
) {
    let Some(causes) = attribution.of(cpu.cpu) else {
        return;
    };
    for (number, event) in explain(&cpu.events, causes).enumerate() {
        for (who, part_ns) in parts_of(&event, attribution) {
            if let Some(of) = parts.get_mut(&who) {
                of.entry(cpu.cpu).or_default().push((number, part_ns));
            }
        }
    }
}

/// Who had how much of an event.
fn parts_of(event: &EventExplanation, attribution: &Attribution) -> BTreeMap<RowSubject, u64> {
    let mut parts = BTreeMap::new();
    for share in &event.causes {
        let Some(source) = attribution.sources.get(share.cause.source as usize) else {
            continue;
        };
        let who = RowSubject::Known {
            kind: source.kind,
            name: source.name.clone(),
        };
        *parts.entry(who).or_insert(0) += share.net_ns;
    }
    if event.known && event.causes.is_empty() {
        parts.insert(RowSubject::Elsewhere, event.left_ns);
    }
    // With the only one who was there the whole event is gone.
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

    fn cause(start_ns: u64, length_ns: u64, source: u32) -> Cause {
        Cause {
            start_ns,
            length_ns,
            source,
        }
    }

    fn source(kind: SourceKind, name: &str, number: u32) -> NoiseOrigin {
        NoiseOrigin {
            kind,
            name: name.to_owned(),
            number: Some(number),
        }
    }

    /// An event of a daemon alone; one of it and of an interrupt within it; one of
    /// nobody who was seen; one that was not watched.
    fn trace() -> JitterTrace {
        let events = [(1_000, 100), (2_000, 100), (3_000, 50), (9_000, 70)];
        let attribution = Attribution {
            sources: vec![
                source(SourceKind::Task, "daemon", 7),
                source(SourceKind::Irq, "disk", 1),
                // The daemon again, under another process id.
                source(SourceKind::Task, "daemon", 8),
            ],
            cpus: vec![CpuCauses {
                cpu: 0,
                known: vec![span(0, 5_000)],
                causes: vec![
                    cause(1_010, 80, 0),
                    cause(2_010, 80, 2),
                    cause(2_020, 30, 1),
                ],
            }],
            ..Attribution::default()
        };
        JitterTrace {
            attribution: Some(Box::new(attribution)),
            ..fixture::trace(vec![fixture::cpu(&[(0, 10_000)], &events)])
        }
    }

    #[test]
    fn who_is_got_rid_of_takes_what_he_had_himself() {
        let trace = trace();
        let all = EventClass::causes(&trace);
        let without = |name: &str| {
            let class = all.iter().find(|class| class.name() == name).unwrap();
            let (cpu, gone_ns) = class.remove(&trace.cpus[0]).unwrap();
            let left: Vec<_> = cpu
                .events
                .iter()
                .map(|e| (e.start_ns, e.length_ns))
                .collect();
            (left, gone_ns)
        };
        // All of the first event, and of the second what the disk does not have.
        let left = vec![(2_000, 50), (3_000, 50), (9_000, 70)];
        assert_eq!(without("task daemon"), (left, 150));
        let left = vec![(1_000, 100), (2_000, 70), (3_000, 50), (9_000, 70)];
        assert_eq!(without("irq disk"), (left, 30));
        let left = vec![(1_000, 100), (2_000, 100), (9_000, 70)];
        assert_eq!(without("hypervisor or hardware"), (left, 50));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn without_causes_there_are_no_classes_of_them() {
        let trace = JitterTrace {
            attribution: None,
            ..trace()
        };
        assert!(EventClass::causes(&trace).is_empty());
    }

    #[test]
    fn the_longest_is_looked_at_although_it_took_little() {
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
