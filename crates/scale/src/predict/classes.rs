// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of events, which the prediction leaves out one at a time to find what they cost.
//!
//! The time of a removed event is free for the program. At few ranks the class with the most
//! time costs most; at many, the one with the longest events, however rare. So both rankings
//! are shown.

use std::collections::BTreeMap;
use std::ops::Range;

use sandbag_jitter::replay::Sync;
use sandbag_jitter::stats::{Component, spectrum};
use sandbag_jitter::{CpuTrace, JitterTrace, TraceEvent};
use serde::Serialize;

use super::options::{PredictOptions, TraceSource};
use super::points::predict_points;
use super::threads::map_each;
use crate::Result;

/// Events, or parts of them, that could be removed together.
#[derive(Debug)]
pub struct EventClass {
    pub name: String,
    pub(super) members: Members,
}

#[derive(Debug)]
pub(super) enum Members {
    /// Events of a length, ns.
    Length(Range<u64>),
    /// Periodic events.
    Periodic(Vec<OnCpu>),
    /// Parts of events, by CPU: number of the event, ascending, and length of the part, ns.
    Parts(BTreeMap<u32, Vec<(usize, u64)>>),
}

impl EventClass {
    /// Events by length.
    pub fn lengths() -> Vec<Self> {
        let all = [
            ("events < 1 us", 0..1_000),
            ("events 1 us to 10 us", 1_000..10_000),
            ("events 10 us to 100 us", 10_000..100_000),
            ("events 100 us to 1 ms", 100_000..1_000_000),
            ("events 1 ms to 10 ms", 1_000_000..10_000_000),
            ("events >= 10 ms", 10_000_000..u64::MAX),
        ];
        let class = |(name, lengths_ns): (&str, Range<u64>)| Self {
            name: name.to_owned(),
            members: Members::Length(lengths_ns),
        };
        all.map(class).into()
    }

    /// The periodic components of a trace, as `jitter show` finds them: those with the most
    /// noise, by ascending period. `name` is called with the period, ns.
    pub fn periodic(
        trace: &JitterTrace,
        threads: usize,
        name: impl Fn(f64) -> String,
    ) -> Vec<Self> {
        let mut found: Vec<OnCpu> =
            map_each(threads, trace.cpus.len(), |at| on_cpu(&trace.cpus[at]))
                .into_iter()
                .flatten()
                .collect();
        found.sort_by(|a, b| a.period_ns.total_cmp(&b.period_ns));
        let mut groups: Vec<Vec<OnCpu>> = Vec::new();
        for one in found {
            match groups.last_mut() {
                Some(group) if one.period_ns <= group[0].period_ns * (1.0 + SAME) => {
                    group.push(one);
                }
                _ => groups.push(vec![one]),
            }
        }
        let noise_ns = |group: &[OnCpu]| group.iter().map(|one| one.noise_ns).sum::<f64>();
        groups.sort_by(|a, b| noise_ns(b).total_cmp(&noise_ns(a)));
        groups.truncate(MOST_PERIODS);
        groups.sort_by(|a, b| a[0].period_ns.total_cmp(&b[0].period_ns));
        let class = |group: Vec<OnCpu>| {
            let weighted = group.iter().map(|one| one.period_ns * one.noise_ns);
            let period_ns = weighted.sum::<f64>() / noise_ns(&group);
            Self {
                name: name(period_ns),
                members: Members::Periodic(group),
            }
        };
        groups.into_iter().map(class).collect()
    }

    /// The period of a periodic class, and the share of the trace's noise that it has, percent.
    pub(super) fn period(&self, trace: &JitterTrace) -> Option<(f64, f64)> {
        let Members::Periodic(group) = &self.members else {
            return None;
        };
        let all_ns: u64 = trace.cpus.iter().map(CpuTrace::noise_ns).sum();
        let noise_ns: f64 = group.iter().map(|one| one.noise_ns).sum();
        let share_pct = noise_ns / all_ns.max(1) as f64 * 100.0;
        Some((group.first()?.period_ns, share_pct))
    }

    /// Length of the part of an event that is in the class, ns.
    fn part_ns(&self, cpu: &CpuTrace, event: usize) -> u64 {
        let length_ns = cpu.events[event].length_ns;
        let whole = match &self.members {
            Members::Length(lengths_ns) => lengths_ns.contains(&length_ns),
            Members::Periodic(group) => {
                let mut here = group.iter().filter(|one| one.cpu == cpu.cpu);
                here.any(|one| one.own.get(event) == Some(&true))
            }
            Members::Parts(by_cpu) => {
                let parts = by_cpu.get(&cpu.cpu).map_or(&[][..], Vec::as_slice);
                let found = parts.binary_search_by_key(&event, |(number, _)| *number);
                return found.map_or(0, |at| parts[at].1.min(length_ns));
            }
        };
        if whole { length_ns } else { 0 }
    }

    /// The CPU without the class, and the length of the removed parts, ns; `None` if the CPU
    /// has no events of it. The rest of an event begins when the event began.
    pub(super) fn remove(&self, cpu: &CpuTrace) -> Option<(CpuTrace, u64)> {
        let mut noise_ns = 0;
        let mut kept = Vec::with_capacity(cpu.events.len());
        for (number, event) in cpu.events.iter().enumerate() {
            let part_ns = self.part_ns(cpu, number);
            noise_ns += part_ns;
            if part_ns < event.length_ns {
                kept.push(TraceEvent::new(event.start_ns, event.length_ns - part_ns));
            }
        }
        let without = || CpuTrace {
            cpu: cpu.cpu,
            known: cpu.known.clone(),
            events: kept,
        };
        (noise_ns > 0).then(|| (without(), noise_ns))
    }
}

/// Components of several CPUs whose periods differ by less than this share are one class,
/// because CPUs have clocks of their own.
const SAME: f64 = 0.001;
/// Number of classes of periodic events.
const MOST_PERIODS: usize = 8;

/// A periodic component of a CPU.
#[derive(Debug)]
pub(super) struct OnCpu {
    cpu: u32,
    period_ns: f64,
    noise_ns: f64,
    /// For each event whether it belongs to the component.
    own: Vec<bool>,
}

fn on_cpu(cpu: &CpuTrace) -> Vec<OnCpu> {
    let found = spectrum(cpu).map_or_else(Vec::new, |found| found.components);
    let all_ns = cpu.noise_ns() as f64;
    let one = |component: Component| OnCpu {
        cpu: cpu.cpu,
        period_ns: component.period_ns,
        noise_ns: component.noise_pct / 100.0 * all_ns,
        own: component.fold.own(cpu),
    };
    let all = found.into_iter().map(one);
    all.filter(|one| one.noise_ns > 0.0).collect()
}

/// The cost of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    pub class: String,
    /// Share of all noise, percent.
    pub noise_pct: f64,
    /// Points of slowdown that its removal saves, for each number of ranks.
    pub saves_points: Vec<f64>,
}

/// Predicts what classes of events cost where ranks are not synchronised: the difference to a
/// prediction without each of them.
pub fn costs(
    sources: &[TraceSource<'_>],
    options: &PredictOptions,
    classes: &[EventClass],
) -> Result<Vec<Cost>> {
    options.check(sources)?;
    let options = PredictOptions {
        sync: Sync::None,
        intervals: false,
        tail: false,
        ..options.clone()
    };
    let slowdowns = |sources: &[TraceSource<'_>]| -> Result<Vec<f64>> {
        let found = predict_points(sources, &options)?;
        Ok(found.points.iter().map(|p| p.mean.slowdown_pct).collect())
    };
    let whole = slowdowns(sources)?;
    let all = sources.iter().flat_map(|source| &source.trace.cpus);
    let noise_ns: u64 = all.map(CpuTrace::noise_ns).sum();
    let mut costs = Vec::new();
    for class in classes {
        let mut gone_ns = 0;
        let without: Vec<JitterTrace> = sources
            .iter()
            .map(|source| {
                let cpu = |cpu: &CpuTrace| match class.remove(cpu) {
                    Some((without, ns)) => {
                        gone_ns += ns;
                        without
                    }
                    None => cpu.clone(),
                };
                JitterTrace {
                    cpus: source.trace.cpus.iter().map(cpu).collect(),
                    header: source.trace.header.clone(),
                    notes: source.trace.notes.clone(),
                    attribution: None,
                    warnings: Vec::new(),
                }
            })
            .collect();
        if gone_ns == 0 {
            continue;
        }
        let left: Vec<TraceSource<'_>> = without
            .iter()
            .zip(sources)
            .map(|(trace, source)| TraceSource { trace, ..*source })
            .collect();
        let left = slowdowns(&left)?;
        costs.push(Cost {
            class: class.name.clone(),
            noise_pct: gone_ns as f64 / noise_ns.max(1) as f64 * 100.0,
            saves_points: whole.iter().zip(left).map(|(a, b)| a - b).collect(),
        });
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::fixture::{by_chance, cpu, trace};

    #[test]
    fn every_event_has_one_length() {
        let lengths = [500, 1_000, 9_999, 50_000, 999_999, 1_000_000, 20_000_000];
        let events: Vec<(u64, u64)> = (0u64..).map(|i| i * 100_000_000).zip(lengths).collect();
        let cpu = cpu(&[(0, 1_000_000_000)], &events);
        let removed = EventClass::lengths().into_iter().map(|class| {
            let (without, noise_ns) = class.remove(&cpu)?;
            Some((cpu.events.len() - without.events.len(), noise_ns))
        });
        let expected = [
            Some((1, 500)),
            Some((2, 10_999)),
            Some((1, 50_000)),
            Some((1, 999_999)),
            Some((1, 1_000_000)),
            Some((1, 20_000_000)),
        ];
        assert!(removed.eq(expected));
    }

    fn period_name(period_ns: f64) -> String {
        format!("{:.4} ms", period_ns / 1e6)
    }

    /// A tick of 4 us on each CPU, of this period (ns) there, among random events,
    /// for 5 s; and the share that ticks have in the noise.
    fn ticking(periods_ns: &[f64], jitter_ns: f64) -> (JitterTrace, f64) {
        let mut tick_ns = 0;
        let cpus = (1..).zip(periods_ns).map(|(seed, period_ns)| {
            let mut chance = Chance::new(seed, 1);
            let mut cpu = by_chance(seed, 5_000_000_000, 0.5, |chance| {
                1e3 / chance.uniform().sqrt()
            });
            for i in 0..(4.99e9 / period_ns) as u64 {
                // Nearly normal.
                let late: f64 = (0..12).map(|_| chance.uniform()).sum::<f64>() - 6.0;
                let at_ns = 4e5 + i as f64 * period_ns + late * jitter_ns;
                tick_ns += 4_000;
                cpu.events.push(TraceEvent::new(at_ns as u64, 4_000));
            }
            cpu.events.sort_unstable();
            cpu.events.dedup_by(|next, kept| {
                let meet = next.start_ns <= kept.end_ns();
                kept.length_ns += if meet { next.length_ns } else { 0 };
                meet
            });
            cpu
        });
        let trace = trace(cpus.collect());
        let noise_ns: u64 = trace.cpus.iter().map(CpuTrace::noise_ns).sum();
        (trace, tick_ns as f64 / noise_ns as f64 * 100.0)
    }

    #[test]
    fn ticks_of_wrong_clocks_are_classes_with_their_noise_and_no_others_are() {
        // Errors of 70 and 200 ppm, and jitter of 60 us.
        let cases: [(&[f64], f64, &str); 4] = [
            (&[999_930.0, 999_940.0], 5_000.0, "0.9999 ms"),
            (&[3_333_333.0 * 1.000_2], 60_000.0, "3.3340 ms"),
            (&[4_000_800.0], 2_000.0, "4.0008 ms"),
            (&[9_998_000.0], 60_000.0, "9.9980 ms"),
        ];
        for (periods_ns, jitter_ns, expected) in cases {
            let (trace, share_pct) = ticking(periods_ns, jitter_ns);
            let classes = EventClass::periodic(&trace, 1, period_name);
            let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            assert_eq!(names, [expected]);
            let removed = trace.cpus.iter().filter_map(|cpu| classes[0].remove(cpu));
            let gone_ns: u64 = removed.map(|(_, ns)| ns).sum();
            let noise_ns: u64 = trace.cpus.iter().map(CpuTrace::noise_ns).sum();
            let pct = gone_ns as f64 / noise_ns as f64 * 100.0;
            assert!(
                (pct - share_pct).abs() < 2.0,
                "{expected}: {pct} of {share_pct}"
            );
        }
    }

    #[test]
    fn two_cpus_that_tick_differently_have_two_classes() {
        let (trace, _) = ticking(&[999_930.0, 4_000_100.0], 1_000.0);
        let classes = EventClass::periodic(&trace, 2, period_name);
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["0.9999 ms", "4.0001 ms"]);
        assert!(classes[0].remove(&trace.cpus[1]).is_none());
        assert!(classes[1].remove(&trace.cpus[0]).is_none());
    }

    #[test]
    fn random_events_have_no_periodic_class() {
        // 30 in a millisecond.
        let cpu = by_chance(1, 2_000_000_000, 30.0, |_| 150.0);
        assert!(EventClass::periodic(&trace(vec![cpu]), 1, period_name).is_empty());
    }
}
