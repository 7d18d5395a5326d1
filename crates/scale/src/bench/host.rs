// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be expected of ranks that meet noise on a host that has noise of its
//! own. Pure.
//!
//! Where one rank is late already, because its CPU is the slower one or the host was
//! there, the noise of the others is hidden: with jitter the slowest is later than
//! without by less than on a host that treats all alike.

use sandbag_jitter::replay::{ReplayPlan, Sync};
use serde::Serialize;

use super::meets::{WorkStart, is_full, met_ns};
use super::position::Position;
use super::times::BenchTimes;
use crate::chance::Chance;

/// By a replay of the trace with what the ranks took in the phases without jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnHost {
    /// Percent more than those phases.
    pub pct: f64,
    /// The same of a host that has nothing of its own: over the calibrated quantum. Who is
    /// not synchronised begins outside events ([`Starts::Running`](crate::predict::Starts)), while
    /// the prediction is of ranks that wait: only the difference of these two is meant.
    pub alone_pct: f64,
}

impl OnHost {
    /// What the host adds to a prediction, points.
    #[must_use]
    pub fn adds_points(&self) -> f64 {
        self.pct - self.alone_pct
    }
}

/// Works that are replayed, about.
const WORKS: u64 = 1 << 22;

impl BenchTimes {
    /// Each phase without jitter once more, with noise at positions by chance. `None`
    /// without such phases, and where noise leaves hardly anything.
    #[must_use]
    pub fn on_host(&self, plan: &ReplayPlan, seed: u64) -> Option<OnHost> {
        let ranks = self.ranks.max(1) as usize;
        let quiet = || self.segments.iter().filter(|segment| !segment.jitter);
        let phases: usize = quiet().map(|segment| segment.qt_ns.len() / ranks).sum();
        let each = phases as u64 * ranks as u64;
        if is_full(plan) || each == 0 {
            return None;
        }
        let step = each.div_ceil(WORKS).max(1);
        let draws = (WORKS * step / each).clamp(1, 64);
        let all = quiet().flat_map(|segment| {
            let bt_ns = segment.bt_ns.chunks_exact(ranks);
            segment.qt_ns.chunks_exact(ranks).zip(bt_ns)
        });
        // What phases took, and by how much longer they would be.
        let (mut took_ns, mut more_ns, mut alone_ns, mut count) = (0.0, 0.0, 0.0, 0.0);
        for (number, (qt_ns, bt_ns)) in (0u64..).zip(all) {
            // Not every so many: a host may do things regularly.
            if Chance::new(!seed, number).below(step) != 0 {
                continue;
            }
            let both = qt_ns.iter().zip(bt_ns);
            let both = both.map(|(qt, bt)| u64::from(*qt) + u64::from(*bt));
            let slowest = qt_ns.iter().max().map_or(0, |ns| u64::from(*ns));
            for draw in 0..draws {
                let mut position = Position::new(seed, number * draws + draw);
                let (mut most, mut most_alone) = (0, 0);
                for (rank, qt_ns) in (0u64..).zip(qt_ns) {
                    let column = plan.column(rank);
                    let group = rank / u64::from(plan.options().group.max(1));
                    let begin = match plan.options().sync {
                        Sync::None => WorkStart::After(position.of_group(group, column)),
                        Sync::Once | Sync::Phases(_) => WorkStart::At(position.common(column)),
                    };
                    let work_ns = u64::from(*qt_ns);
                    most = most.max(work_ns + met_ns(column, begin, work_ns));
                    most_alone = most_alone.max(met_ns(column, begin, self.calibrated_ns));
                }
                more_ns += (most - slowest) as f64;
                alone_ns += most_alone as f64;
            }
            took_ns += both.max().unwrap_or(0) as f64;
            count += 1.0;
        }
        let quantum_ns = self.calibrated_ns.max(1) as f64;
        (took_ns > 0.0).then(|| OnHost {
            pct: more_ns / draws as f64 / took_ns * 100.0,
            alone_pct: alone_ns / draws as f64 / count / quantum_ns * 100.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::plan;
    use super::super::times::Segment;
    use super::*;

    /// Two ranks that take so long in each of 1000 phases without jitter.
    fn measured(qt_ns: [u32; 2]) -> BenchTimes {
        let bt_ns = [
            qt_ns[1].saturating_sub(qt_ns[0]),
            qt_ns[0].saturating_sub(qt_ns[1]),
        ];
        BenchTimes {
            ranks: 2,
            oversubscribed: false,
            iterations: 1,
            calibrated_ns: 400,
            segments: vec![
                Segment::of_phases(false, &qt_ns.repeat(1000), &bt_ns.repeat(1000)),
                Segment::of_phases(true, &[9999; 2], &[0; 2]),
            ],
            clocks: [Vec::new(), Vec::new()],
        }
    }

    #[test]
    fn a_host_that_treats_all_alike_adds_nothing() {
        for sync in [Sync::None, Sync::Once, Sync::Phases(1), Sync::Phases(7)] {
            let found = measured([400; 2]).on_host(&plan(sync), 1).unwrap();
            // Of two ranks: 50 ns in two of three phases, more or less.
            assert!((6.0..11.5).contains(&found.pct), "{sync:?} {found:?}");
            assert!(found.adds_points().abs() < 1e-9, "{sync:?} {found:?}");
        }
    }

    #[test]
    fn who_is_late_already_hides_what_others_meet() {
        // The second is later by more than an event: only what it meets itself counts.
        let found = measured([400, 500]).on_host(&plan(Sync::None), 1).unwrap();
        // One in each 950 ns of work: 50 of 950 of its time.
        assert!((found.pct - 100.0 * 50.0 / 950.0).abs() < 0.3, "{found:?}");
        assert!(found.adds_points() < -1.0, "{found:?}");
    }

    #[test]
    fn without_phases_nothing_is_expected() {
        let mut none = measured([400; 2]);
        none.segments.remove(0);
        assert_eq!(none.on_host(&plan(Sync::None), 1), None);
    }
}
