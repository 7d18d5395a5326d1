// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The noise entries of osnoise, made causes.
//!
//! An entry says when something began and its *net* time: the kernel takes off
//! what came in between (kernel/trace/trace_osnoise.c,
//! `get_int_safe_duration`). It is written at the end, so those inside another
//! stand before it, and its gross time is its own and theirs.

use std::collections::BTreeMap;

use crate::attribution::explain;
use crate::causes::{
    Attribution, AttributionMethod, AttributionSummary, Cause, CpuCauses, NoiseOrigin, Sources,
};
use crate::{CpuTrace, TraceEvent};

/// Causes of a file, by CPU.
#[derive(Debug, Default)]
pub(crate) struct Noises {
    sources: Sources,
    cpus: BTreeMap<u32, CpuNoises>,
    entries: u64,
}

#[derive(Debug, Default)]
struct CpuNoises {
    causes: Vec<Cause>,
    /// Those that nothing was found around yet, ascending.
    outer: Vec<Cause>,
}

impl Noises {
    /// Takes the next entry; its length is net.
    pub(crate) fn add(&mut self, cpu: u32, net: TraceEvent, source: NoiseOrigin) {
        self.entries += 1;
        let source = self.sources.place(source);
        let cpu = self.cpus.entry(cpu).or_default();
        // Looked at once each: they are taken out.
        let later = cpu
            .outer
            .iter()
            .rev()
            .take_while(|cause| cause.start_ns >= net.start_ns);
        let from = cpu.outer.len() - later.count();
        let mut end_ns = net.end_ns();
        for inside in cpu.outer.drain(from..) {
            if inside.start_ns < end_ns {
                end_ns = end_ns.saturating_add(inside.length_ns);
            }
        }
        let cause = Cause::new(net.start_ns, end_ns - net.start_ns, source);
        cpu.outer.push(cause);
        cpu.causes.push(cause);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Those within events of a trace that begins at `origin_ns`.
    pub(crate) fn attribution(mut self, origin_ns: u64, cpus: &[CpuTrace]) -> Attribution {
        let mut kept = 0;
        let of_cpu = |cpu: &CpuTrace| {
            let all = self.cpus.remove(&cpu.cpu).unwrap_or_default().causes;
            let moved = all.into_iter().filter_map(|cause| {
                let start_ns = cause.start_ns.checked_sub(origin_ns)?;
                Some(Cause { start_ns, ..cause })
            });
            let mut of = CpuCauses::new(cpu.cpu, cpu.known.clone(), moved.collect());
            of.causes
                .sort_by_key(|cause| (cause.start_ns, std::cmp::Reverse(cause.length_ns)));
            let within = explain(&cpu.events, &of).flat_map(|one| one.causes);
            let within: Vec<Cause> = within.map(|share| share.cause).collect();
            kept += within.len() as u64;
            CpuCauses {
                causes: within,
                ..of
            }
        };
        let cpus = cpus.iter().map(of_cpu).collect();
        Attribution {
            about: AttributionSummary {
                method: AttributionMethod::Osnoise,
                entries: self.entries,
                outside: self.entries - kept,
                ..AttributionSummary::default()
            },
            sources: self.sources.all().to_vec(),
            cpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::causes::SourceKind;

    #[test]
    fn gross_is_net_and_what_came_in_between() {
        let mut noises = Noises::default();
        let source = |name: &str| NoiseOrigin::new(SourceKind::Task, name, None);
        // A task of 100 ns net from 1000, in which came an interrupt of 30 with
        // an NMI of 5 inside, and one of 20 that only its gross time reaches.
        for (start_ns, length_ns, name) in [
            (500, 10, "before"),
            (1010, 5, "nmi"),
            (1000 + 5, 30, "irq"),
            (1110, 20, "late"),
            (1000, 100, "task"),
            (9000, 1, "outside"),
        ] {
            let net = TraceEvent::new(start_ns, length_ns);
            noises.add(2, net, source(name));
        }
        let cpu = CpuTrace::new(
            2,
            vec![Span {
                from_ns: 0,
                until_ns: 9000,
            }],
            vec![TraceEvent::new(0, 50), TraceEvent::new(490, 200)],
        );
        let got = noises.attribution(500, &[cpu]);
        let plain: Vec<_> = got.cpus[0]
            .causes
            .iter()
            .map(|c| {
                (
                    c.start_ns,
                    c.length_ns,
                    got.sources[c.source as usize].name.as_str(),
                )
            })
            .collect();
        assert_eq!(
            plain,
            [
                (0, 10, "before"),
                (500, 155, "task"),
                (505, 35, "irq"),
                (510, 5, "nmi"),
                (610, 20, "late"),
            ]
        );
        assert_eq!((got.about.entries, got.about.outside), (6, 1));
    }
}
