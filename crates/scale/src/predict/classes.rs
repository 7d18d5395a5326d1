// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events cost most: the prediction again without each class of them.
//!
//! What is removed from a trace leaves its time to the program. At few ranks
//! the class costs most that takes most time; at many, the one whose events are
//! longest, however rare. So the two rankings are shown beside each other.

use std::fmt;

use sandbag_jitter::{CpuTrace, Event, Trace};
use serde::Serialize;

/// Events, or parts of them, that could be got rid of together: of a length, of a
/// period, of a cause ([`Class::causes`]), or of any condition.
pub struct Class {
    name: String,
    part_ns: Box<PartNs>,
}

/// How much of the event of this number of a CPU is of a class, ns.
type PartNs = dyn Fn(&CpuTrace, usize) -> u64 + Send + Sync;

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Class").field(&self.name).finish()
    }
}

impl Class {
    /// A class of which `holds` says whether it has the event of this number of
    /// a CPU.
    pub fn new(
        name: impl Into<String>,
        holds: impl Fn(&CpuTrace, usize) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::of_parts(name, move |cpu, event| match holds(cpu, event) {
            true => cpu.events[event].length_ns,
            false => 0,
        })
    }

    /// A class of which `part_ns` says how much it has of the event of this number
    /// of a CPU.
    pub(super) fn of_parts(
        name: impl Into<String>,
        part_ns: impl Fn(&CpuTrace, usize) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            part_ns: Box::new(part_ns),
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Events by length: below 1 us, to 10 us, and so on, those above 10 ms
    /// together.
    #[must_use]
    pub fn lengths() -> Vec<Self> {
        const BOUNDS: [(u64, &str); 5] = [
            (1_000, "1 us"),
            (10_000, "10 us"),
            (100_000, "100 us"),
            (1_000_000, "1 ms"),
            (10_000_000, "10 ms"),
        ];
        let mut all = Vec::new();
        let mut from: (u64, &str) = (0, "");
        for until in BOUNDS.into_iter().chain([(u64::MAX, "")]) {
            let name = match (from.0, until.0) {
                (0, _) => format!("events < {}", until.1),
                (_, u64::MAX) => format!("events >= {}", from.1),
                _ => format!("events {} to {}", from.1, until.1),
            };
            all.push(Self::new(name, move |cpu: &CpuTrace, event| {
                (from.0..until.0).contains(&cpu.events[event].length_ns)
            }));
            from = until;
        }
        all
    }

    /// Events that come once a period, as far as the trace has such; `None` if
    /// no CPU has.
    ///
    /// Looked at second by second, because the period of another clock is not
    /// quite ours: of 64 parts of the period the two next to each other that
    /// most events begin in, if two in three periods have one there. (Half of them
    /// would have one of 10 ms that come every 4.)
    #[must_use]
    pub fn period(name: &str, trace: &Trace, period_ns: u64) -> Option<Self> {
        let found: Vec<(u32, Vec<bool>)> = trace
            .cpus
            .iter()
            .map(|cpu| {
                let marks = of_period(&cpu.events, end_ns(cpu), period_ns.max(1));
                (cpu.cpu, marks)
            })
            .filter(|(_, marks)| marks.contains(&true))
            .collect();
        (!found.is_empty()).then(|| {
            Self::new(name, move |cpu: &CpuTrace, event| {
                let marks = found.iter().find(|(number, _)| *number == cpu.cpu);
                marks.is_some_and(|(_, marks)| marks.get(event) == Some(&true))
            })
        })
    }

    /// The ticks that kernels have (1000, 300, 250 and 100 in a second), as far
    /// as the trace has them; none that another of them explains.
    #[must_use]
    pub fn ticks(trace: &Trace) -> Vec<Self> {
        let mut all = Vec::new();
        let mut known: Vec<u64> = Vec::new();
        for rate in [1000u64, 300, 250, 100] {
            if known.iter().any(|known| known % rate == 0) {
                continue;
            }
            let period_us = 1e6 / rate as f64;
            let name = format!("tick, {:.4} ms", period_us / 1e3);
            let name = name.replace(".0000", "").replace("000 ms", " ms");
            if let Some(class) = Self::period(&name, trace, 1_000_000_000 / rate) {
                known.push(rate);
                all.push(class);
            }
        }
        all
    }

    /// Events that begin within `within_ns` after a multiple of `period_ns`,
    /// counted from `phase_ns`: a tick, a daemon that wakes regularly.
    #[must_use]
    pub fn periodic(name: &str, period_ns: u64, phase_ns: u64, within_ns: u64) -> Self {
        let period_ns = period_ns.max(1);
        let phase_ns = phase_ns % period_ns;
        Self::new(name, move |cpu: &CpuTrace, event| {
            let start_ns = cpu.events[event].start_ns;
            (start_ns % period_ns + period_ns - phase_ns) % period_ns <= within_ns
        })
    }

    /// The CPU without them, and how long they were together, ns; `None` if it
    /// has none. What is left of an event begins when it began.
    pub(super) fn removed(&self, cpu: &CpuTrace) -> Option<(CpuTrace, u64)> {
        let mut noise_ns = 0;
        let mut any = false;
        let mut kept = Vec::with_capacity(cpu.events.len());
        for (number, event) in cpu.events.iter().enumerate() {
            let part_ns = (self.part_ns)(cpu, number).min(event.length_ns);
            noise_ns += part_ns;
            any |= part_ns > 0;
            if part_ns < event.length_ns {
                kept.push(Event {
                    length_ns: event.length_ns - part_ns,
                    ..*event
                });
            }
        }
        any.then(|| {
            let without = CpuTrace {
                cpu: cpu.cpu,
                known: cpu.known.clone(),
                events: kept,
            };
            (without, noise_ns)
        })
    }
}

/// Parts of a period.
const PARTS: u64 = 64;
/// Of a period that is looked for, at least so many at a time.
const PERIODS: u64 = 50;

/// More than so many standard deviations, squared, are not by chance in the
/// busiest of the parts: six.
const CHANCE: u64 = 36;

/// Fewer are no period.
pub const LEAST_PERIODS: u64 = 8;

/// Whether a trace holds enough periods to tell whether events come once each.
#[must_use]
pub fn holds_periods(trace: &Trace, period_ns: u64) -> bool {
    let longest_ns = trace.cpus.iter().map(end_ns).max().unwrap_or(0);
    longest_ns / period_ns.max(1) >= LEAST_PERIODS
}

fn end_ns(cpu: &CpuTrace) -> u64 {
    cpu.known.last().map_or(0, |span| span.until_ns)
}

/// Which events come once a period, on a CPU that was looked at until then.
fn of_period(events: &[Event], end_ns: u64, period_ns: u64) -> Vec<bool> {
    let window_ns = period_ns.saturating_mul(PERIODS).max(1_000_000_000);
    let part = |event: &Event| {
        let phase = u128::from(event.start_ns % period_ns);
        (phase * u128::from(PARTS) / u128::from(period_ns)) as usize
    };
    let mut marks = Vec::with_capacity(events.len());
    let window = |event: &Event| event.start_ns / window_ns;
    for these in events.chunk_by(|a, b| window(a) == window(b)) {
        let mut counts = [0u64; PARTS as usize];
        for event in these {
            counts[part(event)] += 1;
        }
        let next = |at: usize| (at + 1) % PARTS as usize;
        let both = |at: usize| counts[at] + counts[next(at)];
        let most = (0..PARTS as usize).max_by_key(|at| both(*at)).unwrap_or(0);
        // What comes at any time comes at this, too, and is no tick.
        let mut sorted = counts;
        sorted.sort_unstable();
        let background = 2 * sorted[PARTS as usize / 2];
        let excess = both(most).saturating_sub(background);
        let by_chance = excess * excess < CHANCE * background;
        let periods = these.first().map_or(0, |first| {
            let from_ns = window(first) * window_ns;
            end_ns.saturating_sub(from_ns).min(window_ns) / period_ns
        });
        let is_one = !by_chance && periods >= LEAST_PERIODS && excess * 3 >= periods * 2;
        marks.extend(these.iter().map(|event| {
            let at = part(event);
            is_one && (at == most || at == next(most))
        }));
    }
    marks
}

/// What a class costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The class.
    pub class: String,
    /// Share of all noise, percent.
    pub noise_pct: f64,
    /// Points of slowdown that are gone without it, for each number of ranks.
    pub saves_points: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{by_chance, cpu, trace};

    #[test]
    fn a_few_periods_are_enough_and_fewer_are_not() {
        // Of 60 s, in windows of fifty: ten, and five.
        let minute_ns = 60_000_000_000;
        let events = |count: u64| -> Vec<(u64, u64)> {
            (0..count)
                .map(|i| (i * minute_ns + 7_000_000_000, 5_000_000))
                .collect()
        };
        for (count, found) in [(10, true), (5, false), (70, true)] {
            let end_ns = count * minute_ns;
            let cpu = cpu(&[(0, end_ns)], &events(count));
            let marks = of_period(&cpu.events, end_ns, minute_ns);
            assert!(marks.iter().all(|mark| *mark == found), "{count}");
        }
    }

    #[test]
    fn many_events_at_any_time_are_no_tick() {
        // 30 in a millisecond.
        let cpu = by_chance(1, 2_000_000_000, 30.0, |_| 150.0);
        for period_ns in [1_000_000, 3_333_333, 4_000_000, 10_000_000] {
            assert!(
                !of_period(&cpu.events, 2_000_000_000, period_ns).contains(&true),
                "{period_ns}"
            );
        }
    }

    #[test]
    fn every_event_has_one_length() {
        let lengths = [500, 1_000, 9_999, 50_000, 999_999, 1_000_000, 20_000_000];
        let events: Vec<(u64, u64)> = (0u64..).map(|i| i * 100_000_000).zip(lengths).collect();
        let cpu = cpu(&[(0, 1_000_000_000)], &events);
        let all = Class::lengths();
        let removed: usize = all
            .iter()
            .filter_map(|class| class.removed(&cpu))
            .map(|(without, _)| cpu.events.len() - without.events.len())
            .sum();
        assert_eq!((removed, all.len()), (lengths.len(), 6));
        assert_eq!(all[0].name(), "events < 1 us");
        assert_eq!(all[5].name(), "events >= 10 ms");
        assert_eq!(all[1].removed(&cpu).unwrap().1, 10_999);
    }

    #[test]
    fn a_tick_is_found_although_its_clock_is_another() {
        // 250 in a second of a clock that goes wrong by 30 ppm, between others.
        let mut events: Vec<(u64, u64)> =
            (0..2500).map(|i| (i * 4_000_120 + 77_000, 5000)).collect();
        events.extend((0..3000u64).map(|i| (i * 3_137_777 % 9_900_000_000, 300)));
        events.sort_unstable();
        let trace = trace(vec![cpu(&[(0, 11_000_000_000)], &events)]);
        let ticks = Class::ticks(&trace);
        let names: Vec<&str> = ticks.iter().map(Class::name).collect();
        assert_eq!(names, ["tick, 4 ms"]);
        let (without, noise) = ticks[0].removed(&trace.cpus[0]).unwrap();
        let long = without
            .events
            .iter()
            .filter(|e| e.length_ns == 5000)
            .count();
        assert!(long < 300, "{long} of 2500 not found");
        assert!(noise as f64 > 2200.0 * 5000.0 && without.events.len() < 3600);
    }

    #[test]
    fn a_tick_is_told_by_its_period() {
        let cpu = cpu(
            &[(0, 100_000_000)],
            &[(1_000, 5), (4_001_010, 5), (6_000_000, 5), (8_001_000, 5)],
        );
        let tick = Class::periodic("tick", 4_000_000, 1_000, 50);
        let (without, noise) = tick.removed(&cpu).unwrap();
        assert_eq!((without.events.len(), noise), (1, 15));
    }
}
