// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows of samples, boundaries and notes that are made up.

use super::*;

#[derive(Default)]
struct WindowLog(Vec<Window>, Vec<Window>, LogNotes);

#[derive(Default)]
struct LogNotes {
    hiding_steal: usize,
    programs: Vec<Option<u64>>,
}

impl Windows for WindowLog {
    fn short(&mut self, window: &Window) {
        self.0.push(window.clone());
    }
    fn whole(&mut self, window: &Window) {
        self.1.push(window.clone());
    }
    fn hiding_steal(&mut self, window: &Window) {
        self.2.hiding_steal += 1;
        self.whole(window);
    }
    fn programs(&mut self, used_ns: Option<u64>) {
        self.2.programs.push(used_ns);
    }
}

const SECOND: u64 = WINDOW_NS;

fn sample(at_ns: u64, busy: u64, steal: u64) -> CounterSample {
    CounterSample {
        at_ns,
        times: vec![Some(CpuTimes {
            user: busy,
            idle: (at_ns / 10_000_000).saturating_sub(busy + steal),
            steal,
            ..CpuTimes::default()
        })],
        command_ns: Some(vec![Some(at_ns / 4)]),
        ..CounterSample::default()
    }
}

fn half(cpu: usize, from: u64, to: u64) -> BurnerTime {
    assert_eq!(cpu, 0);
    BurnerTime {
        ns: (to - from) / 2,
        stolen_ns: 5_000_000,
        hole: false,
    }
}

fn meter() -> Meter {
    let mut meter = Meter::new(vec![3], 10_000_000);
    meter.ask(LoadPiece {
        start_ns: 0,
        end_ns: 100 * WINDOW_NS,
        asked_pct: vec![50.0],
    });
    meter
}

fn clock() -> RunClock {
    RunClock::starting_at(0)
}

/// The windows up to the last of some samples: time in half seconds, busy
/// and stolen ticks.
fn windows(
    samples: &[(u64, u64, u64)],
    taken: impl FnMut(usize, u64, u64) -> BurnerTime,
) -> WindowLog {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    for (halves, busy, steal) in samples {
        meter.sample(sample(halves * SECOND / 2, *busy, *steal));
    }
    let end = samples[samples.len() - 1].0 * SECOND / 2;
    meter.finish(&clock(), end, false, taken, &mut log);
    assert_eq!(meter.latest(0), log.1.last());
    log
}

#[test]
fn a_window_is_what_lies_between_two_samples() {
    assert!(windows(&[(0, 0, 0)], half).1.is_empty());
    let log = windows(&[(0, 0, 0), (2, 60, 10)], half);
    let window = &log.1[0];
    assert_eq!(
        (log.0.len(), window.cpu, window.steal_ns),
        (10, 3, 100_000_000)
    );
    assert_eq!(window.busy_ns, Some(600_000_000));
    assert_eq!(window.command_ns, Some(SECOND / 4));
    assert_eq!(window.burner_ns, SECOND / 2);
    assert!((window.asked_pct - 50.0).abs() < 1e-9);
    assert_eq!(log.0.iter().map(|w| w.steal_ns).sum::<u64>(), 100_000_000);
}

#[test]
fn what_was_idle_long_ago_says_nothing_about_now() {
    let mut meter = meter();
    meter.sample(sample(0, 0, 0));
    meter.sample(sample(SECOND, 88, 0));
    let share = meter.idle_share(0, SECOND * 5 / 4);
    assert!((share.unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(meter.idle_share(0, SECOND * 2), None);
    // The supervisor was late.
    meter.sample(sample(3 * SECOND, 188, 0));
    assert_eq!(meter.idle_share(0, 3 * SECOND), None);
}

#[test]
fn what_the_other_parts_of_a_run_used_is_no_foreign_load() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    for (second, beside_ns) in [(0, 7), (1, 100_000_007), (2, 300_000_007)] {
        meter.sample(CounterSample {
            beside_ns: Some(vec![beside_ns]),
            ..sample(second * SECOND, second * 90, 0)
        });
    }
    meter.finish(&clock(), 2 * SECOND, true, half, &mut log);
    let busy: Vec<_> = log.1.iter().map(|window| window.busy_ns).collect();
    assert_eq!(busy, [Some(800_000_000), Some(700_000_000)]);
    assert_eq!(
        (meter.beside_ns(0), meter.beside_ns(1)),
        (Some(300_000_000), None)
    );
}

#[test]
fn what_slows_a_node_as_a_whole_is_no_foreign_load() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    for (second, throttle_ns) in [(0, 5), (1, 50_000_005)] {
        meter.sample(CounterSample {
            throttle_ns: Some(vec![throttle_ns]),
            ..sample(second * SECOND, second * 90, 0)
        });
    }
    meter.finish(&clock(), SECOND, true, half, &mut log);
    assert_eq!(log.1[0].busy_ns, Some(850_000_000));
    // It is no load beside this one.
    assert_eq!(meter.beside_ns(0), None);
}

#[test]
fn the_programs_time_on_all_cpus_is_known_where_both_samples_have_it() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    for (second, program_ns) in [(0, Some(7)), (1, Some(57)), (2, None), (3, Some(90))] {
        meter.sample(CounterSample {
            program_ns,
            ..sample(second * SECOND, 0, 0)
        });
    }
    meter.finish(&clock(), 3 * SECOND, true, half, &mut log);
    assert_eq!(log.2.programs, [Some(50), None, None]);
}

#[test]
fn stolen_time_is_no_time_of_a_command_whose_clock_counts_it() {
    // Half of what was not idle was the command's: half of the steal is in its time.
    for (counts_steal, command_ns) in [(false, SECOND / 4), (true, SECOND / 4 - SECOND / 20)] {
        let (mut meter, mut log) = (meter(), WindowLog::default());
        for halves in [0, 2] {
            meter.sample(CounterSample {
                counts_steal,
                ..sample(halves * SECOND / 2, halves * 20, halves * 5)
            });
        }
        meter.finish(&clock(), SECOND, true, half, &mut log);
        assert_eq!(log.1[0].command_ns, Some(command_ns));
    }
}

/// As after a suspend: the CPU is there in every sample, and busy.
#[test]
fn a_command_whose_clock_stands_still_used_an_unknown_time() {
    for counts_steal in [true, false] {
        let (mut meter, mut log) = (meter(), WindowLog::default());
        for second in 0..4 {
            let mut at = CounterSample {
                counts_steal,
                ..sample(second * SECOND, second * 60, 0)
            };
            if second == 2 {
                at.command_ns = Some(vec![None]);
            }
            meter.sample(at);
        }
        meter.finish(&clock(), 3 * SECOND, true, half, &mut log);
        let windows = log.1.iter();
        let used: Vec<_> = windows.map(|w| (w.command_ns, w.busy_ns, w.hole)).collect();
        let (own, busy) = (Some(SECOND / 4), Some(SECOND * 6 / 10));
        assert_eq!(
            used,
            [(own, busy, false), (None, busy, false), (None, busy, false)]
        );
    }
}

#[test]
fn busy_time_follows_from_idle_time_and_an_offline_cpu_is_a_hole() {
    let mut after = sample(SECOND, 50, 0);
    if let Some(Some(times)) = after.times.first_mut() {
        times.user = 95;
    }
    let offline = CounterSample {
        times: vec![None],
        ..sample(SECOND, 0, 0)
    };
    for (after, busy_ns) in [(after, Some(SECOND / 2)), (offline, None)] {
        let (mut meter, mut log) = (meter(), WindowLog::default());
        meter.sample(sample(0, 0, 0));
        meter.sample(after);
        meter.finish(&clock(), SECOND, false, half, &mut log);
        assert_eq!(
            (log.1[0].busy_ns, log.1[0].hole),
            (busy_ns, busy_ns.is_none())
        );
    }
}

#[test]
fn idle_time_that_is_counted_anew_says_nothing_of_the_window() {
    // By a tick or two it falls in a race.
    for (idle_ticks, is_known) in [([500, 510, 508, 518], true), ([500, 510, 0, 10], false)] {
        let (mut meter, mut log) = (meter(), WindowLog::default());
        for (second, ticks) in (0..).zip(idle_ticks) {
            let mut at = sample(second * SECOND, second * 80, second * 10);
            if let Some(Some(times)) = at.times.first_mut() {
                times.idle = ticks;
            }
            meter.sample(at);
            if second == 2 {
                assert_eq!(meter.idle_share(0, 2 * SECOND).is_some(), is_known);
            }
        }
        meter.finish(&clock(), 3 * SECOND, true, half, &mut log);
        let windows = log.1.iter();
        let found: Vec<_> = windows.map(|w| (w.busy_ns.is_some(), w.hole)).collect();
        assert_eq!(found, [(true, false), (is_known, false), (true, false)]);
        assert!(log.1.iter().all(|window| window.steal_ns == SECOND / 10));
        assert_eq!(log.1[2].busy_ns, Some(SECOND * 8 / 10));
    }
}

#[test]
fn the_newest_windows_can_wait_for_their_notes() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    (0..3).for_each(|n| meter.sample(sample(n * SECOND, 0, 0)));
    let rest_ns = 2 * SECOND + BOUNDARY_NS;
    for (until_ns, end, windows) in [(SECOND, false, 1), (rest_ns, false, 2), (rest_ns, true, 3)] {
        if end {
            meter.sample(sample(rest_ns, 0, 0));
        }
        meter.finish(&clock(), until_ns, end, half, &mut log);
        assert_eq!(log.1.len(), windows);
    }
    assert_eq!(log.1[2].length_ns, BOUNDARY_NS);
}

#[test]
fn the_windows_up_to_the_end_are_made_once() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    let end = SECOND + BOUNDARY_NS;
    for at in [0, SECOND, end] {
        meter.sample(sample(at, 0, 0));
    }
    for _ in 0..2 {
        meter.finish(&clock(), end, true, half, &mut log);
    }
    assert_eq!((log.0.len(), log.1.len()), (11, 2));
}

#[test]
fn a_part_that_ends_between_two_boundaries_has_what_is_noted_at_the_next() {
    let (mut meter, mut log) = (meter(), WindowLog::default());
    let end = SECOND + 90_000_000;
    for at in [0, SECOND, end] {
        meter.sample(sample(at, 0, 0));
    }
    // Half until the end of the load, known at the boundaries only.
    let noted = |ns: u64| (ns / BOUNDARY_NS * BOUNDARY_NS).min(end) / 2;
    let taken = |_, from, to| BurnerTime {
        ns: noted(to) - noted(from),
        stolen_ns: 0,
        hole: false,
    };
    meter.finish(&clock(), end, true, taken, &mut log);
    let last = &log.1[1];
    assert_eq!((last.length_ns, last.burner_ns), (90_000_000, 45_000_000));
    assert!(!last.hole && last.error_points().abs() < 1e-9);
}

#[test]
fn windows_that_the_supervisor_did_not_see_are_judged_by_the_burners_clocks() {
    // Stopped from 1 s to 3 s.
    let absent = |cpu, from, to| BurnerTime {
        ns: if (SECOND..3 * SECOND).contains(&from) {
            0
        } else {
            half(cpu, from, to).ns
        },
        stolen_ns: 0,
        hole: false,
    };
    let log = windows(&[(0, 0, 0), (9, 450, 0)], absent).1;
    let errors: Vec<f64> = log.iter().map(Window::error_points).collect();
    assert_eq!(errors, [0.0, -50.0, -50.0, 0.0]);
    assert!(log.iter().all(|w| !w.hole && w.busy_ns == Some(SECOND)));
}

#[test]
fn steal_at_an_unknown_time_and_time_before_the_first_sample_are_holes() {
    let holes = |samples: &[_], taken: fn(usize, u64, u64) -> BurnerTime| {
        let log = windows(samples, taken);
        let holes: Vec<bool> = log.1.iter().map(|w| w.hole).collect();
        (holes, log.2.hiding_steal)
    };
    let stolen = &[(0, 0, 0), (2, 50, 10), (8, 200, 50)];
    let late = vec![false, true, true, true];
    assert_eq!(holes(stolen, half), (late.clone(), 3));
    // Absent from the first of these, whenever the time was stolen.
    let absent = |cpu, from, to| BurnerTime {
        ns: if (SECOND..2 * SECOND).contains(&from) {
            0
        } else {
            half(cpu, from, to).ns
        },
        stolen_ns: 0,
        hole: false,
    };
    assert_eq!(holes(stolen, absent), (late, 2));
    assert_eq!(holes(&[(1, 0, 0), (4, 0, 0)], half), (vec![true, false], 0));
}

/// Paused for 2.45 s at 1.2 s of the run, which counts as 2.5 s.
fn pause_window(unloaded_ns: u64, taken_ns: u64) -> Window {
    let (mut meter, mut kept, mut clock) = (meter(), WindowLog::default(), clock());
    let (from, to) = (12 * BOUNDARY_NS, 36 * BOUNDARY_NS + BOUNDARY_NS / 2);
    meter.sample(sample(0, 0, 0));
    meter.sample(sample(SECOND, 0, 0));
    meter.sample(sample(from, 0, 0));
    clock.pause(from, to);
    meter.pause(clock.run_ns(from), sample(to, 240, 0), unloaded_ns);
    meter.sample(sample(45 * BOUNDARY_NS, 240, 0));
    let taken = |_, start, _| BurnerTime {
        ns: if start < SECOND { 50_000_000 } else { taken_ns },
        stolen_ns: 0,
        hole: false,
    };
    meter.finish(&clock, 2 * SECOND, false, taken, &mut kept);
    assert_eq!(kept.1.len(), 2);
    assert!(!kept.1[0].hole && kept.1[0].error_points().abs() < 1e-9);
    kept.1.remove(1)
}

#[test]
fn a_pause_is_no_part_of_the_window_that_contains_it() {
    // 50 % of the window's 1.05 s in its ten parts.
    let window = pause_window(0, 52_500_000);
    assert_eq!(window.length_ns, SECOND + BOUNDARY_NS / 2);
    assert_eq!((window.busy_ns, window.hole), (Some(0), false));
    assert!(window.error_points().abs() < 1e-9);
    // The rest of it is judged as any other.
    assert!(pause_window(0, 40_000_000).error_points() < -10.0);
}

#[test]
fn a_pause_in_which_the_program_ran_is_time_without_the_load() {
    let window = pause_window(52_500_000, 52_500_000);
    assert!(!window.hole && (-3.0..-2.0).contains(&window.error_points()));
    assert!(pause_window(2 * SECOND, 52_500_000).hole);
}
