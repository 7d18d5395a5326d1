// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of pacing: how much is due when. Pure.
//!
//! A burner works off a *due* amount: at every grid point k*P of the clock,
//! the asked load integrated over the coming period is added. What it has
//! *held* is its own CPU time plus what was stolen from it while it ran. The
//! difference is its debt; no other process corrects anything.
//!
//! Counting stolen time as held keeps the share of the *delivered* time right
//! on average: of the time the hypervisor takes, the part L hits the burner
//! and is not made up for, the part 1-L hits the others. Repaying it instead
//! would push the load above L by L*S/(1-S).

use sandbag_stats::chance::draw;

use crate::board::BOUNDARY_NS;

/// From `from_ns` on, take `level` (0 to 1) of the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadOrder {
    pub from_ns: u64,
    pub level: f64,
}

/// Source of a burner's orders: a slot of the board, or a list in a test.
pub trait Orders {
    fn published(&self) -> u64;
    fn restart(&self) -> u64;
    fn order(&self, n: u64) -> Option<LoadOrder>;
}

/// The asked level over time, as far as it is known.
#[derive(Debug, Default)]
pub struct LevelPlan {
    level: f64,
    began_ns: u64,
    next: u64,
}

impl LevelPlan {
    /// The level in force after the last call of [`LevelPlan::due`].
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Number of the first order that is not in force yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When the load ends next after `from_ns`, by the orders that are not in force yet: a
    /// burst of fixed length must not last longer.
    pub fn end_ns(&self, orders: &impl Orders, from_ns: u64) -> u64 {
        let mut ends = self
            .ahead(orders)
            .filter(|order| order.level == 0.0 && order.from_ns > from_ns);
        ends.next().map_or(u64::MAX, |order| order.from_ns)
    }

    /// When there is a load, by the orders that are not in force yet.
    pub fn load_ns(&self, orders: &impl Orders) -> Option<u64> {
        let mut loads = self.ahead(orders).filter(|order| order.level > 0.0);
        loads.next().map(|order| order.from_ns)
    }

    fn ahead(&self, orders: &impl Orders) -> impl Iterator<Item = LoadOrder> {
        let first = self.next.max(orders.restart());
        (first..orders.published()).filter_map(|n| orders.order(n))
    }

    /// When the load in force began: the first order after a level of 0.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Load asked between `from_ns` and `to_ns`, in ns: the integral of the
    /// level, exact also where the level changes in between. Must be called
    /// with adjoining intervals.
    pub fn due(&mut self, orders: &impl Orders, from_ns: u64, to_ns: u64) -> f64 {
        self.next = self.next.max(orders.restart());
        let mut due = 0.0;
        let mut at = from_ns;
        while self.next < orders.published() {
            // An order that left the ring was overtaken by a later one.
            if let Some(order) = orders.order(self.next) {
                if order.from_ns >= to_ns {
                    break;
                }
                let from = order.from_ns.max(at);
                due += self.level * (from - at) as f64;
                if self.level == 0.0 {
                    self.began_ns = order.from_ns;
                }
                self.level = order.level;
                at = from;
            }
            self.next += 1;
        }
        due + self.level * (to_ns - at) as f64
    }
}

/// The longest of the periods that follow a level, ns; a multiple of all of them.
pub const LONGEST_NS: u64 = 20_000_000;
/// Those periods, ns: divisors of the boundaries of all windows.
const PERIODS_NS: [u64; 3] = [5_000_000, 10_000_000, LONGEST_NS];
/// How long the kernel lets an ordinary task run beside others: to the next tick, which
/// comes every 4 ms with the usual 250 Hz. Fixed, so that a load is the same everywhere.
const BURST_NS: f64 = 4e6;

/// The period in which a task of this level takes a burst of 4 ms, by the nearest
/// factor, ns.
pub fn burst_period(level: f64) -> u64 {
    let exact = (BURST_NS / level).min(LONGEST_NS as f64);
    let away = |ns: &u64| (*ns as f64 / exact).ln().abs();
    let nearest = |a: &u64, b: &u64| away(a).total_cmp(&away(b));
    PERIODS_NS.into_iter().min_by(nearest).unwrap_or(LONGEST_NS)
}

/// Periods of a light burner, ns, and the level from which it has the shorter one: parts of
/// the windows' 100 ms that have only 1/8 and 1/16 ms in common with a tick of 4 ms.
const LIGHT_NS: [u64; 2] = [3_125_000, 1_562_500];
const SHORTER_FROM: f64 = 0.6;

/// The period of a burner of little weight, ns: a burst of less than 2 ms. Longer ones run into
/// a tick, and a task that waits then may wait until the next. With periods of 4 and 2 ms
/// the kernel, which counts CPU time by ticks, would see all bursts or none.
pub fn light_period(level: f64) -> u64 {
    LIGHT_NS[usize::from(level >= SHORTER_FROM)]
}

/// Places in a period at which the periods of a window may begin.
const PHASES: u64 = 16;

/// The point after `grid` at which something is due next, ns: every period of the clock; or of
/// a burner with an own `phase`, its CPU, at the beginning of each window and then every
/// period from a place on that is drawn for each window anew. Every window is a point of
/// both, so that its level is met exactly.
pub fn next_point(grid: u64, period_ns: u64, phase: Option<u32>) -> u64 {
    let window = grid / BOUNDARY_NS;
    let shift = match phase {
        Some(cpu) => (1 + draw(0, u64::from(cpu), window, PHASES - 1)) * period_ns / PHASES,
        None => 0,
    };
    let since = grid - window * BOUNDARY_NS;
    let next = match since.checked_sub(shift) {
        Some(since) => shift + (since / period_ns + 1) * period_ns,
        None => shift,
    };
    window * BOUNDARY_NS + next.min(BOUNDARY_NS)
}

/// What a burner owes. Times are ns.
#[derive(Debug)]
pub struct Debt {
    due: f64,
    /// Time of which the level is kept as debt at most.
    kept: f64,
}

/// Time of which an ordinary burner keeps the level as debt at most, in periods and ns,
/// whichever is longer: enough to make up
/// within the same second for a weight that was too small, little enough that
/// a burner which was stopped does not take the CPU for long afterwards. In
/// proportion to the level, so that several burners on a CPU keep no more
/// between them than one would.
const KEPT: (u64, u64) = (5, 100_000_000);

/// Time of which a burner of this period keeps the level as debt at most, ns.
pub fn kept_ns(period_ns: u64) -> u64 {
    (KEPT.0 * period_ns).max(KEPT.1)
}

impl Debt {
    /// Keeps the level of `kept_ns` at most.
    pub fn new(kept_ns: u64) -> Self {
        Self {
            due: 0.0,
            kept: kept_ns as f64,
        }
    }

    pub fn bound(&self, level: f64) -> f64 {
        level * self.kept
    }

    pub fn add(&mut self, due_ns: f64) {
        self.due += due_ns;
    }

    /// What is still owed after `held_ns` were held in all; never negative.
    pub fn debt_ns(&self, held_ns: u64) -> u64 {
        (self.due - held_ns as f64).max(0.0) as u64
    }

    /// Gives up what exceeds the bound; returns how much, ns.
    pub fn forgive(&mut self, held_ns: u64, level: f64) -> u64 {
        let excess = self.due - held_ns as f64 - self.bound(level);
        if excess > 0.0 {
            self.due -= excess;
            excess as u64
        } else {
            0
        }
    }

    /// Forgets everything: from here on nothing is owed for the past.
    pub fn settle(&mut self, held_ns: u64) {
        self.due = held_ns as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct List(Vec<LoadOrder>, u64);

    impl Orders for List {
        fn published(&self) -> u64 {
            self.0.len() as u64
        }
        fn restart(&self) -> u64 {
            self.1
        }
        fn order(&self, n: u64) -> Option<LoadOrder> {
            self.0.get(n as usize).copied()
        }
    }

    fn order(from_ns: u64, level: f64) -> LoadOrder {
        LoadOrder { from_ns, level }
    }

    #[test]
    fn a_change_inside_a_period_is_met_exactly() {
        let orders = List(vec![order(0, 0.2), order(15, 0.8)], 0);
        let mut plan = LevelPlan::default();
        assert!((plan.due(&orders, 0, 10) - 2.0).abs() < 1e-12);
        assert!((plan.due(&orders, 10, 20) - (1.0 + 4.0)).abs() < 1e-12);
        assert!((plan.level() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn an_order_from_the_past_holds_from_now() {
        let orders = List(vec![order(5, 1.0)], 0);
        let mut plan = LevelPlan::default();
        assert!((plan.due(&orders, 100, 120) - 20.0).abs() < 1e-12);
    }

    #[test]
    fn void_orders_are_skipped() {
        let orders = List(vec![order(0, 0.2), order(10, 0.9), order(10, 0.4)], 2);
        let mut plan = LevelPlan::default();
        assert!(plan.due(&orders, 0, 10).abs() < 1e-12);
        assert!((plan.due(&orders, 10, 20) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_load_begins_after_a_level_of_nothing() {
        let orders = List(
            vec![
                order(5, 0.2),
                order(12, 0.4),
                order(15, 0.0),
                order(33, 0.4),
            ],
            0,
        );
        let mut plan = LevelPlan::default();
        let mut began = |from, to| {
            plan.due(&orders, from, to);
            plan.began_ns()
        };
        assert_eq!([began(0, 10), began(10, 14), began(14, 40)], [5, 5, 33]);
    }

    #[test]
    fn the_end_is_known_before_it_comes() {
        let orders = List(vec![order(0, 0.2), order(15, 0.0), order(20, 0.4)], 0);
        let mut plan = LevelPlan::default();
        // Also where the load begins in the same period.
        assert_eq!(plan.end_ns(&orders, 0), 15);
        // A level of 0 that is over already.
        assert_eq!(plan.end_ns(&orders, 15), u64::MAX);
        plan.due(&orders, 10, 20);
        assert_eq!(plan.end_ns(&orders, 10), u64::MAX);
        // Void, and nothing after it.
        let orders = List(vec![order(5, 0.0)], 1);
        assert_eq!(LevelPlan::default().end_ns(&orders, 0), u64::MAX);
    }

    #[test]
    fn a_period_has_a_burst_of_about_4_ms() {
        let ms = |level: f64| burst_period(level) / 1_000_000;
        let levels = [0.0, 0.01, 0.2, 0.28, 0.29, 0.5, 0.56, 0.57, 0.8, 1.0];
        assert_eq!(levels.map(ms), [20, 20, 20, 20, 10, 10, 10, 5, 5, 5]);
        for ns in PERIODS_NS {
            assert!(crate::board::BOUNDARY_NS.is_multiple_of(ns) && LONGEST_NS.is_multiple_of(ns));
        }
    }

    #[test]
    fn a_light_period_has_bursts_at_all_distances_from_a_tick() {
        const TICK_NS: u64 = 4_000_000;
        for ns in LIGHT_NS {
            assert!(crate::board::BOUNDARY_NS.is_multiple_of(ns));
            let phases: std::collections::BTreeSet<u64> =
                (0..1000).map(|tick| tick * TICK_NS % ns).collect();
            assert_eq!(phases.len(), 25);
        }
        let longest = [0.59, 1.0].map(|level| level * light_period(level) as f64);
        assert!(longest.iter().all(|ns| *ns < 2e6));
    }

    #[test]
    fn on_the_common_grid_every_period_is_a_point() {
        for period in [LIGHT_NS[1], 5_000_000, LONGEST_NS, BOUNDARY_NS] {
            for at in [0, 1, period - 1, period, 7 * BOUNDARY_NS + period / 3] {
                let next = (at / period + 1) * period;
                assert_eq!(next_point(at, period, None), next);
            }
        }
    }

    #[test]
    fn burners_with_own_phases_meet_at_windows_only() {
        for period in PERIODS_NS.into_iter().chain(LIGHT_NS) {
            let points = |cpu| {
                let next = |at: &u64| Some(next_point(*at, period, Some(cpu)));
                std::iter::successors(Some(3 * BOUNDARY_NS), next)
                    .take_while(|at| *at < 403 * BOUNDARY_NS)
                    .collect::<std::collections::BTreeSet<u64>>()
            };
            let (one, other) = (points(0), points(1));
            for set in [&one, &other] {
                assert!((3..403).all(|window| set.contains(&(window * BOUNDARY_NS))));
                let gaps = set.iter().zip(set.iter().skip(1)).map(|(a, b)| b - a);
                assert!(gaps.max().unwrap() <= period);
                let count = 400 * (BOUNDARY_NS / period + 1);
                assert_eq!(set.len() as u64, count);
            }
            // The same place by chance in one of fifteen windows.
            let common = one.intersection(&other).count() as u64;
            let by_chance = 400 * (BOUNDARY_NS / period) / (PHASES - 1);
            assert!(common < 400 + 2 * by_chance, "{common}");
        }
    }

    #[test]
    fn debt_is_bounded() {
        let mut debt = Debt::new(100);
        debt.add(150.0);
        assert_eq!(debt.debt_ns(10), 140);
        assert_eq!(debt.forgive(10, 1.0), 40);
        assert_eq!(debt.debt_ns(10), 100);
        assert_eq!(debt.forgive(10, 0.5), 50);
        assert_eq!(debt.debt_ns(1000), 0);
    }

    proptest! {
        #[test]
        fn periods_add_up_to_the_whole(
            levels in prop::collection::vec((1u64..50, 0.0f64..1.0), 1..10),
            period in 1u64..30,
        ) {
            let mut at = 0;
            let orders = List(levels.iter().map(|(length, level)| {
                let o = order(at, *level);
                at += length;
                o
            }).collect(), 0);
            let end = at.next_multiple_of(period);
            let mut plan = LevelPlan::default();
            let sum: f64 = (0..end / period)
                .map(|k| plan.due(&orders, k * period, (k + 1) * period))
                .sum();
            let whole = LevelPlan::default().due(&orders, 0, end);
            prop_assert!((sum - whole).abs() < 1e-9);
        }
    }
}
