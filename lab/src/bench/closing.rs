// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the parts add up? Per CPU and run, burner (its clock) + competitors (their clocks) +
//! idle (the CPU's clock) + others (all other clocks) must be the delivered time (wall minus
//! steal), to within 0.3 points.
//!
//! Where they are not, the kernel's own sum of all tasks per CPU (v1's cpuacct) shows why:
//! what it has beyond the parts is *unseen*, of tasks that lived only between the two
//! readings or moved to another CPU; what it and idle lack is in no task, such as interrupts
//! of an idle CPU. The load that sandbag reports is compared with the
//! burner's clock. Pure.

use serde::{Deserialize, Serialize};

use crate::bench::clocks::CpuClocks;

/// Largest closing error that is accepted, points of the delivered time.
pub const CLOSES_POINTS: f64 = 0.3;

/// The parts of one CPU over one run; shares in percent of the delivered
/// time, differences in points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    pub cpu: u32,
    /// Steal, percent of the wall time.
    pub steal_pct: f64,
    /// The burner, by its clock read from outside or, where it was not found,
    /// by what sandbag claims.
    pub burner_pct: f64,
    pub competitors_pct: f64,
    pub idle_pct: f64,
    pub other_pct: f64,
    /// The sum of the four minus 100.
    pub closing_points: f64,
    /// All tasks by the kernel's own sum, minus burner, competitors and others
    /// (v1 only).
    pub unseen_points: Option<f64>,
    /// 100 minus all tasks by the kernel's own sum, minus idle (v1 only).
    pub nobody_points: Option<f64>,
    /// What sandbag says it got over the run minus the burner's clock over
    /// the verified part.
    pub claim_points: Option<f64>,
}

/// What is known of one CPU besides its clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuUse {
    /// Run time of everyone else, nanoseconds.
    pub other_ns: u64,
    /// The load that sandbag says it got, percent.
    pub claimed_pct: Option<f64>,
}

pub fn close(cpu: u32, before: &CpuClocks, after: &CpuClocks, known: &CpuUse) -> Option<Closing> {
    let delta = |of: fn(&CpuClocks) -> u64| of(after).saturating_sub(of(before)) as f64;
    let wall = delta(|c| c.wall_ns);
    let steal = delta(|c| c.steal_ns);
    let delivered = wall - steal;
    if delivered <= 0.0 {
        return None;
    }
    let share = |ns: f64| 100.0 * ns / delivered;
    let seen = share(delta(|c| c.burner_ns));
    let found = after.burner_ns > before.burner_ns;
    let burner_pct = match known.claimed_pct {
        Some(claimed) if !found => claimed,
        _ => seen,
    };
    let competitors_pct = share(delta(|c| c.competitors_ns));
    let idle_pct = share(delta(|c| c.idle_ns));
    // The benchmark's own reading, as far as it fell between the clocks.
    let reading = (before.reading_after_ns + after.reading_before_ns) as f64;
    let other_pct = share(known.other_ns as f64 + reading);
    let busy = burner_pct + competitors_pct + other_pct;
    let tasks_pct = before
        .tasks_ns
        .zip(after.tasks_ns)
        .map(|(b, a)| share(a.saturating_sub(b) as f64));
    Some(Closing {
        cpu,
        steal_pct: 100.0 * steal / wall,
        burner_pct,
        competitors_pct,
        idle_pct,
        other_pct,
        closing_points: busy + idle_pct - 100.0,
        unseen_points: tasks_pct.map(|tasks| tasks - busy),
        nobody_points: tasks_pct.map(|tasks| 100.0 - tasks - idle_pct),
        claim_points: known.claimed_pct.filter(|_| found).map(|c| c - seen),
    })
}

/// The value of largest magnitude, with its sign.
pub fn worst(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(wall: u64, idle: u64, steal: u64, burner: u64, competitors: u64) -> CpuClocks {
        CpuClocks {
            wall_ns: wall,
            idle_ns: idle,
            steal_ns: steal,
            burner_ns: burner,
            competitors_ns: competitors,
            ..CpuClocks::default()
        }
    }

    #[test]
    fn parts_that_add_up_close() {
        let before = clocks(100, 10, 5, 7, 9);
        let after = clocks(1100, 110, 105, 457, 349);
        let known = CpuUse {
            other_ns: 10,
            claimed_pct: Some(50.1),
        };
        let c = close(3, &before, &after, &known).unwrap();
        assert!(c.closing_points.abs() < 1e-9, "{c:?}");
        assert!((c.burner_pct - 50.0).abs() < 1e-9);
        assert!((c.steal_pct - 10.0).abs() < 1e-9);
        assert!((c.claim_points.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!((c.unseen_points, c.nobody_points), (None, None));
    }

    #[test]
    fn the_kernels_sum_tells_short_lived_tasks_from_interrupts() {
        let before = CpuClocks {
            tasks_ns: Some(50),
            ..clocks(0, 0, 0, 0, 0)
        };
        // 2 % are of tasks that were not seen, 1 % of no task.
        let after = CpuClocks {
            tasks_ns: Some(950),
            ..clocks(1000, 90, 0, 500, 380)
        };
        let c = close(0, &before, &after, &CpuUse::default()).unwrap();
        assert!((c.closing_points + 3.0).abs() < 1e-9, "{c:?}");
        assert!((c.unseen_points.unwrap() - 2.0).abs() < 1e-9, "{c:?}");
        assert!((c.nobody_points.unwrap() - 1.0).abs() < 1e-9, "{c:?}");
    }

    #[test]
    fn the_readings_own_time_counts_where_it_fell() {
        let mut before = clocks(0, 0, 0, 0, 0);
        let mut after = clocks(1000, 980, 0, 0, 0);
        (before.reading_before_ns, before.reading_after_ns) = (70, 5);
        (after.reading_before_ns, after.reading_after_ns) = (15, 80);
        let c = close(0, &before, &after, &CpuUse::default()).unwrap();
        assert!(c.closing_points.abs() < 1e-9, "{c:?}");
        assert!((c.other_pct - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_burner_that_was_not_found_is_believed_and_not_confirmed() {
        let known = CpuUse {
            claimed_pct: Some(60.0),
            ..CpuUse::default()
        };
        let (still, after) = (clocks(0, 0, 0, 0, 0), clocks(1000, 400, 0, 0, 0));
        let c = close(0, &still, &after, &known).unwrap();
        assert!(c.closing_points.abs() < 1e-9);
        assert_eq!(c.claim_points, None);
        assert_eq!(close(0, &still, &still, &known), None, "nothing delivered");
    }

    #[test]
    fn the_worst_keeps_its_sign() {
        assert_eq!(worst([0.1, -0.4, 0.3].into_iter()), Some(-0.4));
        assert_eq!(worst(std::iter::empty()), None);
    }
}
