// SPDX-License-Identifier: Apache-2.0 OR MIT
//! With speeds that take effect when they are set, or some time later, or not.

use super::*;

const MS: u64 = 1_000_000;
const PERIOD: u64 = 100 * MS;

#[derive(Debug, Default)]
struct FakeHardware {
    speeds: Vec<f64>,
    set: Vec<(u64, Option<usize>)>,
    /// How long after the order a standstill begins, ns.
    lag: u64,
    stuck: bool,
    released: bool,
    /// Another program has set something else.
    changed: bool,
}

impl Speeds for FakeHardware {
    fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    fn set(&mut self, step: Option<usize>, now: u64) -> Result<Option<u64>> {
        if step.is_none() && self.stuck {
            return Ok(None);
        }
        self.set.push((now, step));
        Ok(Some(now + if step.is_none() { self.lag } else { 0 }))
    }

    fn keep(&mut self) -> Result<bool> {
        Ok(!std::mem::take(&mut self.changed))
    }

    fn release(&mut self) -> Result<()> {
        self.released = true;
        Ok(())
    }
}

fn governor(speeds: &[f64]) -> Governor<FakeHardware> {
    let fake = FakeHardware {
        speeds: speeds.to_vec(),
        ..FakeHardware::default()
    };
    Governor::new(fake, PERIOD)
}

/// Acts as often as it asks to, each time `late` ns late; returns the end.
fn run(governor: &mut Governor<FakeHardware>, level: f64, from: u64, to: u64, late: u64) {
    let mut now = from;
    while now < to {
        now = governor.act(now, level).unwrap() + late;
    }
}

#[test]
fn it_stands_still_first_and_runs_then_on_the_grid() {
    let mut governor = governor(&[1.0]);
    let at = 7 * PERIOD;
    assert_eq!(governor.act(at, 0.3).unwrap(), at + 30 * MS);
    assert_eq!(governor.act(at + 10 * MS, 0.3).unwrap(), at + 30 * MS);
    assert_eq!(governor.act(at + 30 * MS, 0.3).unwrap(), at + PERIOD);
    assert_eq!(governor.act(at + PERIOD, 0.3).unwrap(), at + 130 * MS);
    let expected = [(at, None), (at + 30 * MS, Some(0)), (at + PERIOD, None)];
    assert_eq!(governor.hardware.set, expected);
    assert_eq!(governor.taken_ns(at + PERIOD), 30 * MS);
}

#[test]
fn neighbouring_frequencies_as_in_the_paper() {
    // 2.0 and 2.4 GHz; 2.1 GHz is 75 % of the time at 2.0.
    let mut governor = governor(&[2.0 / 2.4, 1.0]);
    let level = 1.0 - 2.1 / 2.4;
    assert_eq!(governor.act(PERIOD, level).unwrap(), PERIOD + 75 * MS);
    run(&mut governor, level, PERIOD + 75 * MS, 9 * PERIOD, 1);
    assert_eq!(governor.hardware.set[0].1, Some(0));
    assert_eq!(governor.hardware.set[1].1, Some(1));
    assert!((governor.taken_ns(9 * PERIOD) as f64 / (8.0 * PERIOD as f64) - level).abs() < 1e-6);
}

#[test]
fn late_switches_are_made_up_for() {
    for (lag, late) in [(0, 0), (2 * MS, 0), (0, 3 * MS), (2 * MS, 5 * MS)] {
        let mut governor = governor(&[1.0]);
        governor.hardware.lag = lag;
        run(&mut governor, 0.5, 10 * PERIOD, 30 * PERIOD, late);
        let got = governor.taken_ns(30 * PERIOD) as f64 / (20.0 * PERIOD as f64);
        assert!((got - 0.5).abs() < 0.003, "{lag} {late}: {got}");
    }
}

#[test]
fn an_order_counts_from_its_own_time() {
    let mut governor = governor(&[1.0]);
    governor.act(0, 0.5).unwrap();
    // In the standstill's middle: 20 ms are taken where 10 were asked so far
    // at the old level; the rest of the period takes so much less.
    let next = governor.act(20 * MS, 0.25).unwrap();
    assert_eq!(next, 20 * MS + 10 * MS);
    governor.act(next, 0.25).unwrap();
    assert_eq!(governor.taken_ns(PERIOD), 30 * MS);
    // Below the lowest step the standstill is short; full speed is none.
    assert_eq!(governor.act(PERIOD, 1e-6).unwrap(), 2 * PERIOD);
}

#[test]
fn a_node_that_cannot_stand_still_runs_and_is_not_punished_for_it() {
    let mut governor = governor(&[1.0]);
    governor.hardware.stuck = true;
    run(&mut governor, 0.5, 0, 10 * PERIOD, 0);
    assert_eq!(governor.taken_ns(10 * PERIOD), 0);
    assert!(
        governor
            .hardware
            .set
            .iter()
            .all(|(_, step)| *step == Some(0))
    );
    // What is owed has a bound.
    governor.hardware.stuck = false;
    run(&mut governor, 0.5, 10 * PERIOD, 20 * PERIOD, 0);
    let taken = governor.taken_ns(20 * PERIOD);
    assert!(taken <= 10 * PERIOD / 2 + PERIOD / 2, "{taken}");
}

#[test]
fn released_it_takes_nothing_and_owes_nothing() {
    let mut governor = governor(&[1.0]);
    governor.act(0, 0.5).unwrap();
    governor.release(10 * MS).unwrap();
    assert!(governor.hardware.released);
    assert_eq!(governor.taken_ns(PERIOD), 10 * MS);
    assert_eq!(governor.act(PERIOD, 0.5).unwrap(), PERIOD + 50 * MS);
}

#[test]
fn the_nearest_frequency_is_set_once() {
    let fake = FakeHardware {
        speeds: vec![0.5, 0.75, 1.0],
        ..FakeHardware::default()
    };
    let mut nearest = Nearest::new(fake);
    for now in 0..5 {
        assert_eq!(nearest.act(now, 0.3).unwrap(), LOOK_NS);
    }
    assert_eq!(nearest.hardware.set, [(0, Some(1))]);
    assert_eq!(nearest.taken_ns(1000), 250);
    nearest.act(1000, 0.9).unwrap();
    assert_eq!(nearest.hardware.set[1], (1000, Some(0)));
    nearest.release(2000).unwrap();
    assert_eq!(nearest.taken_ns(9000), 750);
}

#[test]
fn a_frequency_that_another_program_changed_slowed_nothing() {
    let fake = FakeHardware {
        speeds: vec![0.5, 1.0],
        ..FakeHardware::default()
    };
    let mut nearest = Nearest::new(fake);
    let mut run = |from: u64, looks: u64, changed: bool| {
        let mut now = from;
        for _ in 0..looks {
            nearest.hardware.changed = changed;
            now = nearest.act(now, 0.5).unwrap();
        }
        nearest.taken_ns(now)
    };
    assert_eq!(run(0, 4, false), 2 * LOOK_NS);
    // It was not in force in the last of these seconds and the two that follow.
    assert_eq!(run(4 * LOOK_NS, 3, true), 2 * LOOK_NS);
    // So it was in nine of twelve.
    assert_eq!(run(7 * LOOK_NS, 5, false), 9 * LOOK_NS / 2);
}
