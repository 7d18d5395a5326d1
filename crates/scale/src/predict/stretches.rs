// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What unknown time hides: a phase that does not end in the stretch in which it began is not
//! seen, and the more noise it met, the likelier that is.
//!
//! In a stretch of length `D` a phase of length `L` is seen if it begins in the first `D - L`.
//! Where stretches lie does not depend on the noise, so of all begins with such a phase the share
//! that is seen is the sum of `D - L` over the stretches, relative to the sum of `D`. Each phase
//! that is seen counts with the inverse of that share (Horvitz and Thompson 1952). Nothing is
//! known of phases longer than the longest stretch.

use sandbag_jitter::{CpuTrace, JitterTrace, Span, common};

use super::cells::{Cells, FINE, RUNNING};
use super::noise::Grid;
use super::threads::map_each;
use super::windows::Windows;

/// Most weight of a phase, relative to one without noise: a phase nearly as long as the longest
/// stretch is seen so seldom that a greater weight would be chance.
const MOST_WEIGHT: f64 = 100.0;
/// An event is long from this part of the longest stretch on.
const LONG_PART: u64 = 10;

/// The stretches in which phases were seen.
#[derive(Debug)]
pub(super) struct Stretches {
    /// Lengths, descending, ns.
    lengths_ns: Vec<f64>,
    /// Their sums, from the first on.
    sums_ns: Vec<f64>,
    work_ns: f64,
}

impl Stretches {
    /// Those in which all these CPUs are known; `None` if there is only one. Then only phases at
    /// the end of the trace are not seen.
    pub fn new<'a>(cpus: impl IntoIterator<Item = &'a CpuTrace>, work_ns: u64) -> Option<Self> {
        let known = cpus.into_iter().map(|cpu| cpu.known.clone());
        let known = known.reduce(|a, b| common(&a, &b))?;
        if known.len() < 2 {
            return None;
        }
        let lengths = known.iter().map(|span| span.length_ns() as f64);
        let mut lengths_ns: Vec<f64> = lengths.collect();
        lengths_ns.sort_by(|a, b| b.total_cmp(a));
        let sums = lengths_ns.iter().scan(0.0, |sum, length| {
            *sum += length;
            Some(*sum)
        });
        Some(Self {
            sums_ns: sums.collect(),
            lengths_ns,
            work_ns: work_ns.max(1) as f64,
        })
    }

    /// Length of the begins for which a phase of this length is seen, ns.
    fn room_ns(&self, phase_ns: f64) -> f64 {
        let longer = self.lengths_ns.partition_point(|ns| *ns > phase_ns);
        match longer {
            0 => 0.0,
            _ => self.sums_ns[longer - 1] - longer as f64 * phase_ns,
        }
    }

    /// Weight of a phase with this noise, relative to one without that needs `reach_ns` of the
    /// stretch, too: over which ranks are spread.
    pub fn weight(&self, noise_ns: f64, reach_ns: f64) -> f64 {
        let quiet_ns = self.work_ns + reach_ns;
        self.relative(quiet_ns, quiet_ns + noise_ns)
    }

    /// Weight of a phase with this noise that begins at a depth of an event, relative to one
    /// without noise. An event that began before the stretch is unknown, so all of it counts.
    pub fn weight_inside(&self, noise_ns: f64, depth_ns: f64) -> f64 {
        self.relative(self.work_ns, self.work_ns + noise_ns + depth_ns)
    }

    fn relative(&self, quiet_ns: f64, phase_ns: f64) -> f64 {
        let (all, seen) = (self.room_ns(quiet_ns), self.room_ns(phase_ns));
        if all > seen * MOST_WEIGHT {
            MOST_WEIGHT
        } else if seen > 0.0 {
            all / seen
        } else {
            1.0
        }
    }
}

/// Share of the noise that is in no phase of this work, even with its weight, percent; 0 without
/// unknown stretches.
///
/// A rank that never waits meets all noise, so the mean of its phases is known without them: the
/// noise of the known time over the rest of it.
pub(super) fn unseen_pct(trace: &JitterTrace, work_ns: u64, threads: usize) -> f64 {
    let cpus = map_each(threads, trace.cpus.len(), |at| {
        means(&trace.cpus[at], work_ns)
    });
    let each = cpus.into_iter().flatten();
    let (seen, all) = each.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    if all > 0.0 {
        ((1.0 - seen / all) * 100.0).max(0.0)
    } else {
        0.0
    }
}

/// The mean slowdown of a CPU by its phases, and by all its noise; `None` without unknown
/// stretches, or without phases.
fn means(cpu: &CpuTrace, work_ns: u64) -> Option<(f64, f64)> {
    let stretches = Stretches::new([cpu], work_ns)?;
    let cells = Cells::gather(Grid::new(FINE), Windows::new(cpu, work_ns));
    let noise_ns = cpu.noise_ns();
    let free_ns = cpu.known_ns().saturating_sub(noise_ns);
    // Among shorter events a phase seldom reaches an end; what is missing then is chance.
    let of_events = cpu.events.iter().map(|event| event.length_ns).max();
    let of_known = cpu.known.iter().map(Span::length_ns).max();
    let of_known = of_known.unwrap_or(0);
    let is_long = of_events.unwrap_or(0) >= of_known / LONG_PART || work_ns >= of_known / 2;
    if cells.weights().0 <= 0.0 || free_ns == 0 || !is_long {
        return None;
    }
    let mean_ns = cells.weighted(&stretches).noise(&RUNNING).mean();
    Some((mean_ns / work_ns as f64, noise_ns as f64 / free_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::super::{PredictOptions, Sync, TraceSource, predict};
    use super::*;
    use crate::chance::Chance;
    use crate::fixture::{by_chance, cpu, trace};

    const SECOND: u64 = 1_000_000_000;

    /// Only 0.8 s of each second; events are cut off at the ends.
    fn interrupted(whole: &CpuTrace) -> CpuTrace {
        let until_ns = whole.known[0].until_ns;
        let known: Vec<Span> = (0..until_ns / SECOND)
            .map(|second| Span::new(second * SECOND, second * SECOND + SECOND * 4 / 5))
            .collect();
        let events = whole
            .events
            .iter()
            .map(|e| Span::new(e.start_ns, e.end_ns()));
        let events: Vec<Span> = events.collect();
        let parts = common(&known, &events);
        let parts: Vec<(u64, u64)> = parts.iter().map(|p| (p.from_ns, p.length_ns())).collect();
        CpuTrace {
            known,
            ..cpu(&[], &parts)
        }
    }

    fn slowdown(cpu: &CpuTrace, sync: Sync, ranks: u64) -> (f64, bool, Vec<String>) {
        let trace = trace(vec![cpu.clone()]);
        let source = TraceSource {
            trace: &trace,
            share: 1,
        };
        let options = PredictOptions {
            quantum_ns: 10_000_000,
            ranks: vec![ranks],
            sync,
            intervals: false,
            ..PredictOptions::default()
        };
        let found = predict(&[source], &options).unwrap();
        let point = &found.points[0];
        (point.mean.slowdown_pct, point.saturated, found.warnings)
    }

    #[test]
    fn unknown_time_hides_no_noise() {
        // Phases with three or four of these rarely end where they began.
        let length_ns = |chance: &mut Chance| if chance.uniform() < 0.9 { 5e7 } else { 4e8 };
        let whole = by_chance(1, 20_000 * SECOND, 0.002, length_ns);
        let parts = interrupted(&whole);
        assert!(Stretches::new([&whole], 1).is_none());
        for (sync, ranks, tolerance) in [
            (Sync::None, 1, 0.02),
            (Sync::None, 16, 0.04),
            (Sync::Phases(1), 1, 0.06),
        ] {
            let (expected, ..) = slowdown(&whole, sync, ranks);
            let (found, too_low, warnings) = slowdown(&parts, sync, ranks);
            let apart = (found / expected - 1.0).abs();
            assert!(apart < tolerance, "{sync} {ranks}: {found} {expected}");
            assert!(!too_low && warnings.is_empty(), "{warnings:?}");
        }
    }

    #[test]
    fn phases_longer_than_a_stretch_are_reported() {
        let length_ns = |chance: &mut Chance| if chance.uniform() < 0.9 { 5e7 } else { 9e8 };
        let parts = interrupted(&by_chance(1, 1000 * SECOND, 0.002, length_ns));
        for sync in [Sync::None, Sync::Phases(1)] {
            let (_, too_low, warnings) = slowdown(&parts, sync, 1);
            assert!(too_low, "{sync}");
            assert!(
                warnings.iter().any(|w| w.contains("too low")),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn the_weight_of_a_phase_is_the_inverse_of_its_chance_to_be_seen() {
        let cpu = cpu(&[(0, 100), (200, 500), (600, 610)], &[]);
        // Of 100, 300 and 10 ns: phases of 20 begin in 80 + 280, of 40 in 60 + 260, and of 120 in
        // 180.
        let stretches = Stretches::new([&cpu], 20).unwrap();
        assert!((stretches.weight(100.0, 0.0) - 2.0).abs() < 1e-9);
        assert!((stretches.weight(80.0, 20.0) - 320.0 / 180.0).abs() < 1e-9);
        assert!((stretches.weight_inside(60.0, 40.0) - 2.0).abs() < 1e-9);
        assert_eq!(stretches.weight(0.0, 0.0), 1.0);
        assert_eq!(stretches.weight(279.0, 0.0), MOST_WEIGHT);
    }
}
