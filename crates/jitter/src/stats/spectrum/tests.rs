// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Periodic components are found with their period, and none in random events.

use sandbag_stats::Chance;

use super::*;
use crate::fixture::{self, SECOND, periodic, poisson};
use crate::synth::{Component as Part, Lengths};
use crate::{Span, TraceEvent};

/// One CPU with these components.
fn make(seconds: u64, seed: u64, parts: Vec<Part>) -> CpuTrace {
    fixture::trace(1, seconds * SECOND, seed, parts)
        .cpus
        .remove(0)
}

/// Without the events outside of the first `open_ns` of every `every_ns`: the rest is
/// unknown.
fn with_gaps(mut cpu: CpuTrace, every_ns: u64, open_ns: u64) -> CpuTrace {
    let end = cpu.known[0].until_ns;
    let known = (0..end / every_ns).map(|i| Span::new(i * every_ns, i * every_ns + open_ns));
    cpu.known = known.collect();
    cpu.events.retain(|event| {
        let at = event.start_ns % every_ns;
        event.end_ns() < end && at + event.length_ns <= open_ns
    });
    cpu
}

fn lognormal() -> Lengths {
    Lengths::lognormal(2_000.0, 1.0)
}

fn fixed(ns: f64) -> Lengths {
    Lengths::Fixed(ns)
}

/// Adds events in any order; what overlaps an earlier one is left out.
fn add(cpu: &mut CpuTrace, events: impl IntoIterator<Item = TraceEvent>) {
    cpu.events.extend(events);
    cpu.events.sort_unstable_by_key(|event| event.start_ns);
    cpu.events
        .dedup_by(|next, event| next.start_ns <= event.end_ns());
}

fn components(cpu: &CpuTrace) -> Vec<Component> {
    spectrum(cpu).unwrap().components
}

/// The only component, of this period to a relative error.
#[track_caller]
fn only(cpu: &CpuTrace, period_ns: f64, error: f64) -> Component {
    let mut found = components(cpu);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        (found[0].period_ns / period_ns - 1.0).abs() < error,
        "{found:#?}"
    );
    found.remove(0)
}

#[test]
fn a_tick_among_random_events() {
    let tick = periodic(4e6, 3_000.0, fixed(5_000.0));
    let cpu = make(5, 1, vec![tick, poisson(600.0, lognormal())]);
    let tick = only(&cpu, 4e6, 1e-6);
    assert!((tick.events as f64 / 1250.0 - 1.0).abs() < 0.05, "{tick:?}");
    assert!((tick.share_of_periods - 1.0).abs() < 0.05);
    assert!((1_500.0..6_500.0).contains(&tick.jitter_ns), "{tick:?}");
    assert!(tick.harmonics >= 10, "{tick:?}");
    // 6.25 ms of some 16 ms.
    let noise = cpu.noise_ns() as f64;
    assert!((tick.noise_pct - 6.25e8 / noise).abs() < 6.0, "{tick:?}");
    let held = cpu.events.iter().filter(|event| tick.fold.holds(event));
    assert!((1200..1400).contains(&held.count()));
}

#[test]
fn a_phase_counts_from_the_begin_of_the_trace() {
    let tick = periodic(4e6, 2_000.0, fixed(5_000.0));
    let whole = make(5, 1, vec![tick, poisson(600.0, lognormal())]);
    // A CPU that was looked at later.
    let mut late = whole.clone();
    late.known[0].from_ns = 601_300_000;
    late.events.retain(|event| event.start_ns >= 601_300_000);
    let [a, b] = [&whole, &late].map(|cpu| only(cpu, 4e6, 1e-6).phase_ns);
    let apart = (a - b + 2e6).rem_euclid(4e6) - 2e6;
    assert!(apart.abs() < 20_000.0, "{a} {b}");
}

#[test]
fn one_long_event_hides_no_tick() {
    let tick = periodic(4e6, 2_000.0, fixed(5_000.0));
    let mut cpu = make(2, 1, vec![tick, poisson(400.0, lognormal())]);
    let at = cpu.events.partition_point(|event| event.start_ns < SECOND);
    let start_ns = cpu.events[at].start_ns;
    let replaced = start_ns..=start_ns + 9_000_000;
    cpu.events
        .retain(|event| !replaced.contains(&event.start_ns));
    cpu.events.insert(at, TraceEvent::new(start_ns, 8_400_000));
    let tick = only(&cpu, 4e6, 1e-5);
    assert!(tick.events > 450, "{tick:#?}");
}

#[test]
fn a_segment_that_outweighs_others_makes_no_period() {
    // 16 segments; one has a third of the squared noise.
    for seed in 12..16 {
        let mut cpu = make(800, seed, vec![poisson(20.0, fixed(10_000.0))]);
        let mut chance = Chance::new(seed, "long events");
        let mut start = || 400 * SECOND + chance.below(50 * SECOND);
        let long: Vec<_> = (0..600).map(|_| TraceEvent::new(start(), 34_000)).collect();
        add(&mut cpu, long);
        assert_eq!(components(&cpu), [], "seed {seed}");
    }
}

#[test]
fn a_few_sharp_events_have_one_period_whichever_multiple_stands_out() {
    for seed in 0..40 {
        let sharp = periodic(40e6, 500.0, fixed(200_000.0));
        let cpu = make(4, seed, vec![sharp, poisson(100.0, fixed(3_000.0))]);
        only(&cpu, 40e6, 1e-4);
    }
}

#[test]
fn two_periods_are_two_components() {
    let fast = periodic(4e6, 2_000.0, fixed(5_000.0));
    let slow = periodic(100e6, 50_000.0, fixed(200_000.0));
    let found = components(&make(8, 2, vec![fast, slow, poisson(100.0, lognormal())]));
    let periods: Vec<f64> = found.iter().map(|one| one.period_ns).collect();
    assert_eq!(found.len(), 2, "{periods:?}");
    assert!((periods[0] / 4e6 - 1.0).abs() < 1e-4, "{periods:?}");
    assert!((periods[1] / 100e6 - 1.0).abs() < 1e-3, "{periods:?}");
    // 80 events of 200 us are more than 2000 of 5 us.
    assert!(found[1].noise_pct > found[0].noise_pct);
}

#[test]
fn unknown_time_makes_no_period() {
    // As a recording of real-time tasks: 800 ms of each second.
    let with_gaps = |cpu| with_gaps(cpu, SECOND, SECOND * 4 / 5);
    let cpu = make(20, 3, vec![poisson(2000.0, lognormal())]);
    assert_eq!(components(&with_gaps(cpu)), []);
    // Nor beside a line.
    let tick = periodic(4e6, 1_000.0, fixed(5_000.0));
    let cpu = make(20, 4, vec![tick, poisson(200.0, lognormal())]);
    only(&with_gaps(cpu), 4e6, 1e-4);
}

#[test]
fn a_period_of_many_seconds_in_a_long_trace() {
    let slow = periodic(12e9, 1e6, fixed(50_000.0));
    let cpu = make(1000, 5, vec![slow, poisson(0.2, fixed(5_000.0))]);
    let found = spectrum(&cpu).unwrap();
    assert!(found.longest_ns > 100e9);
    let mut periods = found.components.iter().map(|one| one.period_ns);
    assert!(periods.any(|p| (p / 12e9 - 1.0).abs() < 1e-3), "{found:?}");
}

#[test]
fn bursts_are_not_periodic() {
    let mut chance = Chance::new(11, "bursts");
    let mut events = Vec::new();
    let mut now = 0.0;
    while now < 9e9 {
        now += chance.exponential(50e6);
        for _ in 0..(chance.uniform() * 60.0) as u32 {
            now += 3_000.0 + chance.exponential(100_000.0);
            let length_ns = 500 + chance.exponential(1_000.0) as u64;
            events.push(TraceEvent::new(now as u64, length_ns));
        }
    }
    let known = vec![Span::new(0, events.last().unwrap().end_ns() + 1)];
    assert_eq!(components(&CpuTrace::new(0, known, events)), []);
}

#[test]
fn few_events_and_short_traces_have_no_spectrum() {
    assert_eq!(spectrum(&CpuTrace::default()), None);
    let cpu = make(1, 6, vec![poisson(3.0, lognormal())]);
    assert!(spectrum(&cpu).is_none_or(|found| found.components.is_empty()));
    let mut cpu = make(1, 6, vec![poisson(1e5, fixed(100.0))]);
    cpu.known[0].until_ns = 1_000_000;
    cpu.events.retain(|event| event.end_ns() <= 1_000_000);
    assert_eq!(spectrum(&cpu), None);
}

#[test]
fn random_events_have_no_period_at_the_stated_rate() {
    // 60 traces with a false alarm each in 1000: one in 17 such tests.
    let alarms = (0..60).filter(|seed| {
        let per_s = [300.0, 3_000.0][*seed as usize % 2];
        let cpu = make(
            1,
            100 + seed,
            vec![poisson(per_s, Lengths::pareto(500.0, 1.2))],
        );
        !components(&cpu).is_empty()
    });
    assert!(alarms.count() <= 1);
}

/// The component nearest to `period_us` among random events, in three seconds; `jitter` in
/// periods, `others` per period.
fn recover(period_us: f64, jitter: f64, others: f64, seed: u64) -> Option<Component> {
    // A line of n among all events has a power of n * n / all.
    let own = periodic(period_us * 1e3, jitter * period_us * 1e3, fixed(4_000.0));
    let cpu = make(
        3,
        seed,
        vec![own, poisson(others * 1e6 / period_us, lognormal())],
    );
    let beside = |one: &Component| (one.period_ns / period_us / 1e3 - 1.0).abs();
    let found = components(&cpu).into_iter();
    let nearest = found.min_by(|a, b| beside(a).total_cmp(&beside(b)));
    nearest.filter(|one| beside(one) < 1e-3)
}

#[test]
fn a_period_is_recovered_with_its_events() {
    // Periods, jitter and others spread evenly, the same each time. (Of very many such
    // traces a few have a multiple of their period by chance: none of these.)
    let spread = |i: u64, by: f64| (i as f64 * by).fract();
    let (mut missed, mut few) = (0, 0);
    for i in 1..=60 {
        let period_us = 500.0 + 24_500.0 * spread(i, 0.618_034);
        let jitter = 0.05 * spread(i, 0.414_214);
        match recover(period_us, jitter, 1.5 * spread(i, 0.732_051), i) {
            Some(one) => {
                let ratio = one.jitter_ns / (jitter * period_us * 1e3);
                few += usize::from(one.share_of_periods < 0.65 || !(0.5..1.5).contains(&ratio));
            }
            None => missed += 1,
        }
    }
    assert_eq!((missed, few), (0, 0));
}

#[test]
fn a_wide_component_of_few_events_is_seen_whole() {
    // 124 events, spread over a quarter of the period: two in a fine bin. One with eight by
    // chance was once taken for all of them, and its place for the frequency.
    let (period_us, jitter) = (24_225.936_291_627_484, 0.045_471_321_223_744_44);
    let one = recover(period_us, jitter, 0.0, 15_682_313_658_539_577_089);
    let one = one.expect("the period");
    // The tails of so few do not stand out.
    assert!(one.events > 90, "{one:?}");
    let ratio = one.jitter_ns / (jitter * period_us * 1e3);
    assert!((0.5..1.3).contains(&ratio), "{one:?}");
}

#[test]
fn a_tick_that_stands_out_in_no_line_alone() {
    // 500 of 40 500 events: a power of 6 in each line.
    let tick = periodic(4e6, 1_000.0, fixed(5_000.0));
    only(
        &make(2, 8, vec![tick, poisson(20_000.0, fixed(300.0))]),
        4e6,
        1e-5,
    );
}

#[test]
fn periods_shorter_than_the_bins_resolve_make_no_period() {
    // 23 us: six times above what the bins resolve.
    let cpu = make(1, 9, vec![periodic(23_003.0, 0.0, fixed(1_000.0))]);
    assert_eq!(components(&cpu), []);
}

/// Asserts that a tick is found within 100 ppm, with its share of the noise within 2 points.
fn assert_tick(cpu: &CpuTrace, period_ns: f64, share_pct: f64) {
    let noise_pct = only(cpu, period_ns, 100e-6).noise_pct;
    assert!(
        (noise_pct - share_pct).abs() < 2.0,
        "{period_ns}: {noise_pct} of {share_pct}"
    );
}

/// Random events: of lengths as the tick's, and with a heavy tail.
fn other_part(which: usize) -> Part {
    match which {
        0 => poisson(200.0, lognormal()),
        1 => poisson(1_000.0, lognormal()),
        _ => poisson(100.0, Lengths::pareto(500.0, 1.2)),
    }
}

#[test]
fn ticks_of_wrong_clocks_are_found_with_their_noise() {
    let of_rate = |i: usize, hz: f64| {
        for (j, error_ppm) in [0.0, 50.0, 100.0, 200.0].into_iter().enumerate() {
            for (k, jitter_ns) in [0.0, 20e3, 40e3, 60e3].into_iter().enumerate() {
                // Fast clocks and slow ones, beside each kind of random events.
                let n = i + j + k;
                let period_ns = 1e9 / hz * (1.0 + [error_ppm, -error_ppm][n % 2] / 1e6);
                let tick = periodic(period_ns, jitter_ns, Lengths::lognormal(4_000.0, 0.3));
                // Alone it has the same events: each component has a stream of its own.
                let alone = make(6, n as u64, vec![tick.clone()]).noise_ns();
                let cpu = make(6, n as u64, vec![tick, other_part(n % 3)]);
                assert_tick(
                    &cpu,
                    period_ns,
                    alone as f64 * 100.0 / cpu.noise_ns() as f64,
                );
            }
        }
    };
    std::thread::scope(|scope| {
        for (i, hz) in [100.0, 250.0, 300.0, 1_000.0].into_iter().enumerate() {
            scope.spawn(move || of_rate(i, hz));
        }
    });
}

#[test]
fn a_tick_of_a_drifting_clock_is_one_component() {
    // The rate of its clock oscillates by `ppm` within `swing_s`.
    for (hz, ppm, swing_s) in [(250.0, 200.0, 20.0), (1_000.0, 50.0, 20.0)] {
        let mut cpu = make(30, 4, vec![other_part(0)]);
        let mut chance = Chance::new(5, "tick");
        let period_ns = 1e9 / hz;
        let turn = std::f64::consts::TAU / swing_s;
        let ticks = (0..(29.9 * hz) as u64).map(|i| {
            let due_ns = (i as f64 + 0.5) * period_ns;
            let late_ns = ppm * 1e3 / turn * (turn * due_ns / 1e9).sin();
            TraceEvent::new((due_ns + late_ns + 2_000.0 * chance.normal()) as u64, 4_000)
        });
        add(&mut cpu, ticks);
        let tick_ns = 4_000.0 * (29.9 * hz).floor();
        assert_tick(&cpu, period_ns, tick_ns * 100.0 / cpu.noise_ns() as f64);
    }
}
