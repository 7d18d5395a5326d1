// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loads of one run in the last second, from its board. Pure, but for the board.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use sandbag_linux::procstat::CpuDelta;

use crate::board::{BOUNDARIES, BOUNDARY_NS, Board, ORDERS, Slot};
use crate::pacing::{LoadOrder, Orders as _};

/// How far back is looked, boundaries: a second.
const SPAN: u64 = 10;
/// A burner that is kept off its CPU notes a boundary when it runs next.
const LATE: u64 = 2;

/// One CPU of a run in the last second, percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuReading {
    pub cpu: u32,
    /// The load that was asked.
    pub asked_pct: f64,
    /// The load that the run took.
    pub got_pct: f64,
    /// CPU time that the run has taken since it began, ns.
    pub total_ns: u64,
    /// Whether the load is CPU time. Of a method that slows a whole node it is not: it is
    /// time in which the node's programs were kept from running.
    pub burns: bool,
    /// What the kernel counted meanwhile, where it was looked at.
    pub kernel: Option<CpuDelta>,
}

impl CpuReading {
    /// Got minus asked, points.
    pub fn error_points(&self) -> f64 {
        self.got_pct - self.asked_pct
    }

    /// Load by anyone else than the run.
    pub fn others_pct(&self) -> Option<f64> {
        let busy = self.kernel?.load()? * 100.0;
        let burned = if self.burns { self.got_pct } else { 0.0 };
        Some((busy - burned).max(0.0))
    }

    pub fn steal_pct(&self) -> Option<f64> {
        Some(self.kernel?.steal()? * 100.0)
    }
}

/// A run in the last second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Ascending by number.
    pub cpus: Vec<CpuReading>,
    /// Stopped by Ctrl-Z, together with its program.
    pub paused: bool,
}

/// Reads a board at a time (monotonic), ns. `kernel` says what the kernel counted of a CPU.
pub fn read(board: &Board, now_ns: u64, kernel: impl Fn(u32) -> Option<CpuDelta>) -> Reading {
    let to = (now_ns / BOUNDARY_NS).saturating_sub(LATE);
    let span_ns = (SPAN * BOUNDARY_NS) as f64;
    let paused = board.is_paused();
    let mut loads = BTreeMap::<u32, Taken>::new();
    for slot in (0..board.len()).map(|n| board.slot(n)) {
        if slot.published() == 0 {
            continue;
        }
        let load = loads.entry(slot.cpu.load(Ordering::Relaxed)).or_default();
        let (cpu_ns, stolen_ns) = taken_ns(slot, to);
        load.cpu_ns += cpu_ns;
        load.stolen_ns += stolen_ns;
        load.total_ns += slot.cpu_ns.load(Ordering::Relaxed);
        if slot.ended.load(Ordering::Relaxed) == 0 {
            load.asked_ns += if paused {
                in_force(slot, now_ns) * span_ns
            } else {
                asked_ns(slot, to)
            };
        }
    }
    let cpus = loads.into_iter().map(|(cpu, load)| {
        let kernel = kernel(cpu);
        CpuReading {
            cpu,
            asked_pct: 100.0 * load.asked_ns / span_ns,
            got_pct: 100.0 * load.share(span_ns, kernel.and_then(|delta| delta.steal())),
            total_ns: load.total_ns,
            burns: true,
            kernel,
        }
    });
    Reading {
        cpus: cpus.collect(),
        paused,
    }
}

/// What the burners of a CPU took in the last second.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    asked_ns: f64,
    cpu_ns: f64,
    /// What the hypervisor withheld while they ran.
    stolen_ns: f64,
    total_ns: u64,
}

impl Taken {
    /// The share of what the hypervisor left. Where the kernel's `steal` is not known it is taken
    /// to be, while the burners ran, as at all other times.
    fn share(&self, span_ns: f64, steal: Option<f64>) -> f64 {
        let Some(steal) = steal else {
            return (self.cpu_ns + self.stolen_ns) / span_ns;
        };
        let delivered_ns = span_ns * (1.0 - steal);
        if delivered_ns > 0.0 {
            self.cpu_ns / delivered_ns
        } else {
            0.0
        }
    }
}

/// CPU time of a burner in the second that ends with a boundary, and what it saw stolen. One
/// that has nothing to do sleeps and notes no boundaries; its clock stands.
fn taken_ns(slot: &Slot, to: u64) -> (f64, f64) {
    let at = |last: u64| {
        let first = last.saturating_sub(BOUNDARIES as u64 - 2 * SPAN).max(1);
        (first..=last)
            .rev()
            .find_map(|number| slot.boundary(number))
    };
    let from = to.saturating_sub(SPAN);
    let (Some(now), before) = (at(to), at(from)) else {
        return (0.0, 0.0);
    };
    // A burner that began within the second: from its first note on.
    let first = || (from..=to).find_map(|number| slot.boundary(number));
    let before = before.or_else(first).unwrap_or(now);
    (
        now.cpu_ns.saturating_sub(before.cpu_ns) as f64,
        now.stolen_ns.saturating_sub(before.stolen_ns) as f64,
    )
}

/// Time that was asked of a burner in that second, ns.
fn asked_ns(slot: &Slot, to: u64) -> f64 {
    let (orders, lost) = orders(slot);
    let from = to.saturating_sub(SPAN);
    integral_ns(&orders, lost, from * BOUNDARY_NS, to * BOUNDARY_NS)
}

/// The level that a burner which stands still has had, and will have; a pause may have come
/// before the first order.
fn in_force(slot: &Slot, now_ns: u64) -> f64 {
    let (orders, _) = orders(slot);
    let begun = orders.partition_point(|order| order.from_ns <= now_ns);
    let order = orders.get(begun.saturating_sub(1));
    order.map_or(0.0, |order| order.level)
}

/// The orders of a burner, and whether there were others before them.
fn orders(slot: &Slot) -> (Vec<LoadOrder>, bool) {
    let published = slot.published();
    let first = published.saturating_sub(ORDERS as u64 - 1);
    let mut orders: Vec<LoadOrder> = Vec::new();
    for order in (first..published).filter_map(|n| slot.order(n)) {
        // Times ascend, and begin again once orders were voided. One that would begin no
        // earlier than a later one never came into force: what was in force held until then.
        orders.truncate(orders.partition_point(|o| o.from_ns < order.from_ns));
        orders.push(order);
    }
    // With the first of all orders known, nothing was asked before it.
    (orders, first > 0)
}

/// Time that orders ask for between two times. `lost`: there were others before them, of
/// which only the time is known: that of the first one that is left.
fn integral_ns(orders: &[LoadOrder], lost: bool, from_ns: u64, to_ns: u64) -> f64 {
    let pieces = orders.iter().enumerate().map(|(n, order)| {
        let begins = if lost && n == 0 { 0 } else { order.from_ns };
        let ends = orders.get(n + 1).map_or(u64::MAX, |next| next.from_ns);
        let overlap = to_ns.min(ends).saturating_sub(from_ns.max(begins));
        order.level * overlap as f64
    });
    pieces.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Boundary;

    fn order(from_s: f64, level: f64) -> LoadOrder {
        LoadOrder {
            from_ns: (from_s * 1e9) as u64,
            level,
        }
    }

    fn note(slot: &Slot, number: u64, cpu_ns: u64) {
        slot.note_boundary(
            number,
            Boundary {
                cpu_ns,
                stolen_ns: 0,
                away: false,
            },
        );
    }

    #[test]
    fn orders_are_asked_for_as_long_as_they_hold() {
        let orders = [order(1.0, 0.2), order(2.5, 0.6)];
        let asked = |lost, from: f64, to: f64| {
            integral_ns(&orders, lost, (from * 1e9) as u64, (to * 1e9) as u64) / 1e9
        };
        assert!((asked(false, 2.0, 3.0) - (0.5 * 0.2 + 0.5 * 0.6)).abs() < 1e-9);
        assert!((asked(false, 0.5, 1.5) - 0.1).abs() < 1e-9);
        assert!((asked(true, 0.5, 1.5) - 0.2).abs() < 1e-9);
        assert!((asked(false, 9.0, 10.0) - 0.6).abs() < 1e-9);
    }

    #[test]
    fn what_was_ordered_before_a_change_was_asked_until_it() {
        let board = Board::create(2).unwrap();
        let slot = board.slot(0);
        slot.publish(order(0.0, 0.2));
        // Announced and voided, twice.
        for level in [0.9, 0.4] {
            slot.publish(order(20.0, level));
            slot.void_orders();
        }
        slot.publish(order(9.75, 0.6));
        let asked = || {
            let reading = read(&board, 102 * BOUNDARY_NS, |_| None);
            reading.cpus[0].asked_pct
        };
        assert!((asked() - 30.0).abs() < 1e-9, "{}", asked());
        // A second burner takes half of it.
        for n in 0..2 {
            board.slot(n).void_orders();
            board.slot(n).publish(order(9.9, 0.3));
        }
        assert!((asked() - 30.0).abs() < 1e-9, "{}", asked());
    }

    #[test]
    fn a_load_that_stands_still_keeps_what_is_asked() {
        let board = Board::create(1).unwrap();
        let asked = || read(&board, 102 * BOUNDARY_NS, |_| None).cpus[0].asked_pct;
        // It begins when the last second is nearly over.
        board.slot(0).publish(order(9.95, 0.4));
        assert!(asked() < 10.0);
        board.set_paused(true);
        assert_eq!(asked(), 40.0);
        board.slot(0).publish(order(20.0, 0.6));
        assert_eq!(asked(), 40.0);
    }

    #[test]
    fn a_cpu_has_the_sum_of_its_burners_and_the_asked_load_of_those_that_live() {
        let board = Board::create(4).unwrap();
        for (n, cpu) in [(0, 1), (1, 1), (2, 3)] {
            let slot = board.slot(n);
            slot.cpu.store(cpu, Ordering::Relaxed);
            slot.publish(order(1.0, 0.25));
            for number in 50..=100 {
                note(slot, number, (number - 50) * 25_000_000);
            }
        }
        // Its successor has what it was asked for.
        board.slot(1).ended.store(1, Ordering::Relaxed);
        let reading = read(&board, 102 * BOUNDARY_NS + 5, |_| None);
        let loads: Vec<_> = reading
            .cpus
            .iter()
            .map(|c| (c.cpu, c.asked_pct, c.got_pct))
            .collect();
        assert_eq!(loads, [(1, 25.0, 50.0), (3, 25.0, 25.0)]);
        assert_eq!(reading.cpus[0].error_points(), 25.0);
    }

    #[test]
    fn steal_is_taken_out_also_at_the_first_look() {
        let board = Board::create(1).unwrap();
        let slot = board.slot(0);
        slot.publish(order(0.0, 0.5));
        // A tenth of the time in which it ran was stolen.
        for number in 50..=100 {
            let boundary = Boundary {
                cpu_ns: (number - 50) * 45_000_000,
                stolen_ns: (number - 50) * 5_000_000,
                away: false,
            };
            slot.note_boundary(number, boundary);
        }
        let reading = read(&board, 102 * BOUNDARY_NS, |_| None);
        assert!((reading.cpus[0].got_pct - 50.0).abs() < 1e-9);
    }

    #[test]
    fn one_that_sleeps_has_taken_nothing_and_one_that_began_counts_from_its_first_note() {
        let board = Board::create(2).unwrap();
        for n in 0..2 {
            board.slot(n).cpu.store(n as u32, Ordering::Relaxed);
            board.slot(n).publish(order(0.0, 0.0));
        }
        note(board.slot(0), 80, 500);
        note(board.slot(1), 96, 300_000_000);
        note(board.slot(1), 100, 400_000_000);
        let reading = read(&board, 102 * BOUNDARY_NS, |_| None);
        let got: Vec<f64> = reading.cpus.iter().map(|cpu| cpu.got_pct).collect();
        assert_eq!(got, [0.0, 10.0]);
    }
}
