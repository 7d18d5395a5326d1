// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trains of a known period are found, and none where there is none.

use super::*;
use crate::synth::{Arrivals, Component as Part, Lengths, NoiseModel, synthesise};
use crate::{Span, TraceEvent};
use sandbag_stats::Chance;

const SECOND: u64 = 1_000_000_000;

/// One CPU with these components, looked at for so long.
fn make(parts: Vec<Part>, seconds: u64, seed: u64) -> CpuTrace {
    let model = NoiseModel {
        cpus: vec![0],
        duration_ns: seconds * SECOND,
        seed,
        components: parts,
    };
    synthesise(&model).unwrap().trace.cpus.remove(0)
}

fn periodic(period_ns: f64, jitter_ns: f64, lengths: Lengths) -> Part {
    Part::new(
        Arrivals::Periodic {
            period_ns,
            phase_ns: None,
            jitter_ns,
            share: 1.0,
        },
        lengths,
    )
}

fn poisson(per_s: f64, lengths: Lengths) -> Part {
    Part::new(Arrivals::Poisson { per_s }, lengths)
}

/// Without the events in these stretches, in which nobody looked.
fn with_gaps(mut cpu: CpuTrace, every_ns: u64, open_ns: u64) -> CpuTrace {
    let end = cpu.known[0].until_ns;
    cpu.known = (0..end / every_ns)
        .map(|i| Span::new(i * every_ns, i * every_ns + open_ns))
        .collect();
    let inside = |event: &TraceEvent| {
        let at = event.start_ns % every_ns;
        event.end_ns() < end && at + event.length_ns <= open_ns
    };
    cpu.events.retain(inside);
    cpu
}

fn lognormal() -> Lengths {
    Lengths::lognormal(2_000.0, 1.0)
}

#[test]
fn a_tick_among_random_events() {
    let cpu = make(
        vec![
            periodic(4e6, 3_000.0, Lengths::Fixed(5_000.0)),
            poisson(600.0, lognormal()),
        ],
        5,
        1,
    );
    let found = spectrum(&cpu).unwrap().components;
    assert_eq!(found.len(), 1, "{found:#?}");
    let tick = &found[0];
    assert!((tick.period_ns / 4e6 - 1.0).abs() < 1e-6, "{tick:?}");
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
fn one_long_event_hides_no_tick() {
    let mut cpu = make(
        vec![
            periodic(4e6, 2_000.0, Lengths::Fixed(5_000.0)),
            poisson(400.0, lognormal()),
        ],
        2,
        1,
    );
    let at = cpu.events.partition_point(|event| event.start_ns < SECOND);
    let start_ns = cpu.events[at].start_ns;
    cpu.events
        .retain(|event| event.start_ns < start_ns || event.start_ns > start_ns + 9_000_000);
    let length_ns = 8_400_000;
    cpu.events.insert(at, TraceEvent::new(start_ns, length_ns));
    let found = spectrum(&cpu).unwrap().components;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!((found[0].period_ns / 4e6 - 1.0).abs() < 1e-5, "{found:#?}");
    assert!(found[0].events > 450, "{found:#?}");
}

#[test]
fn a_segment_that_outweighs_others_makes_no_period() {
    // 16 segments; one has a third of the squared noise.
    for seed in 12..16 {
        let mut cpu = make(vec![poisson(20.0, Lengths::Fixed(10_000.0))], 800, seed);
        let mut chance = Chance::new(seed, "long events");
        for _ in 0..600 {
            cpu.events.push(TraceEvent::new(
                400 * SECOND + chance.below(50 * SECOND),
                34_000,
            ));
        }
        cpu.events.sort_unstable_by_key(|event| event.start_ns);
        cpu.events
            .dedup_by(|next, event| next.start_ns <= event.end_ns());
        let found = spectrum(&cpu).unwrap().components;
        assert_eq!(found, [], "seed {seed}");
    }
}

#[test]
fn a_few_sharp_events_have_one_period_whichever_multiple_stands_out() {
    for seed in 0..40 {
        let cpu = make(
            vec![
                periodic(40e6, 500.0, Lengths::Fixed(200_000.0)),
                poisson(100.0, Lengths::Fixed(3_000.0)),
            ],
            4,
            seed,
        );
        let found = spectrum(&cpu).unwrap().components;
        let periods: Vec<f64> = found.iter().map(|one| one.period_ns).collect();
        assert_eq!(found.len(), 1, "seed {seed}: {periods:?}");
        assert!(
            (periods[0] / 40e6 - 1.0).abs() < 1e-4,
            "seed {seed}: {periods:?}"
        );
    }
}

#[test]
fn two_periods_are_two_components() {
    let cpu = make(
        vec![
            periodic(4e6, 2_000.0, Lengths::Fixed(5_000.0)),
            periodic(100e6, 50_000.0, Lengths::Fixed(200_000.0)),
            poisson(100.0, lognormal()),
        ],
        8,
        2,
    );
    let found = spectrum(&cpu).unwrap().components;
    let periods: Vec<f64> = found.iter().map(|one| one.period_ns).collect();
    assert_eq!(found.len(), 2, "{periods:?}");
    assert!((periods[0] / 4e6 - 1.0).abs() < 1e-4, "{periods:?}");
    assert!((periods[1] / 100e6 - 1.0).abs() < 1e-3, "{periods:?}");
    // 80 events of 200 us are more than 2000 of 5 us.
    assert!(found[1].noise_pct > found[0].noise_pct);
}

#[test]
fn stretches_in_which_nobody_looked_make_no_period() {
    // As a recording of real-time tasks: 800 ms of each second.
    let cpu = make(vec![poisson(2000.0, lognormal())], 20, 3);
    let found = spectrum(&with_gaps(cpu, SECOND, SECOND * 4 / 5)).unwrap();
    assert_eq!(found.components, [], "{:#?}", found.components);
    // Nor beside a line.
    let cpu = make(
        vec![
            periodic(4e6, 1_000.0, Lengths::Fixed(5_000.0)),
            poisson(200.0, lognormal()),
        ],
        20,
        4,
    );
    let found = spectrum(&with_gaps(cpu, SECOND, SECOND * 4 / 5)).unwrap();
    assert_eq!(found.components.len(), 1, "{:#?}", found.components);
    let tick = &found.components[0];
    assert!((tick.period_ns / 4e6 - 1.0).abs() < 1e-4, "{tick:?}");
}

#[test]
fn a_period_of_many_seconds_in_a_long_trace() {
    let cpu = make(
        vec![
            periodic(12e9, 1e6, Lengths::Fixed(50_000.0)),
            poisson(0.2, Lengths::Fixed(5_000.0)),
        ],
        1000,
        5,
    );
    let found = spectrum(&cpu).unwrap();
    assert!(found.longest_ns > 100e9);
    let periods: Vec<f64> = found.components.iter().map(|one| one.period_ns).collect();
    assert!(
        periods.iter().any(|p| (p / 12e9 - 1.0).abs() < 1e-3),
        "{periods:?}"
    );
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
            events.push(TraceEvent::new(
                now as u64,
                500 + chance.exponential(1_000.0) as u64,
            ));
        }
    }
    let until_ns = events.last().unwrap().end_ns() + 1;
    let known = vec![Span::new(0, until_ns)];
    let cpu = CpuTrace::new(0, known, events);
    let found = spectrum(&cpu).unwrap();
    assert_eq!(found.components, [], "{:#?}", found.components);
}

#[test]
fn little_has_no_spectrum() {
    assert_eq!(spectrum(&CpuTrace::default()), None);
    let cpu = make(vec![poisson(3.0, lognormal())], 1, 6);
    assert!(spectrum(&cpu).is_none_or(|found| found.components.is_empty()));
    let mut cpu = make(vec![poisson(1e5, Lengths::Fixed(100.0))], 1, 6);
    cpu.known[0].until_ns = 1_000_000;
    cpu.events.retain(|event| event.end_ns() <= 1_000_000);
    assert_eq!(spectrum(&cpu), None);
}

#[test]
fn random_events_have_no_period_at_the_stated_rate() {
    // 60 traces with a false alarm each in 1000: one in 17 such tests.
    let alarms = (0..60).filter(|seed| {
        let per_s = [300.0, 3_000.0][*seed as usize % 2];
        let pareto = Lengths::pareto(500.0, 1.2);
        let cpu = make(vec![poisson(per_s, pareto)], 1, 100 + seed);
        !spectrum(&cpu).unwrap().components.is_empty()
    });
    assert!(alarms.count() <= 1);
}

/// The component nearest to a period of so many us among others, of three
/// seconds; `jitter` in periods, `others` per period.
fn recover(period_us: f64, jitter: f64, others: f64, seed: u64) -> Option<Component> {
    // A line of n among all events has a power of n * n / all.
    let cpu = make(
        vec![
            periodic(
                period_us * 1e3,
                jitter * period_us * 1e3,
                Lengths::Fixed(4_000.0),
            ),
            poisson(others * 1e6 / period_us, lognormal()),
        ],
        3,
        seed,
    );
    let beside = |one: &Component| (one.period_ns / period_us / 1e3 - 1.0).abs();
    let found = spectrum(&cpu).unwrap().components;
    let nearest = found
        .into_iter()
        .min_by(|a, b| beside(a).total_cmp(&beside(b)));
    nearest.filter(|one| beside(one) < 1e-3)
}

#[test]
fn a_period_is_recovered_with_its_events() {
    // Periods, jitter and others spread evenly, the same each time. (Of very many
    // such traces a few have a multiple of their period by chance: none of these.)
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
    // 124 events, spread over a quarter of the period: two in a fine bin. One
    // with eight by chance was once taken for all of them, and its place for
    // the frequency.
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
    let cpu = make(
        vec![
            periodic(4e6, 1_000.0, Lengths::Fixed(5_000.0)),
            poisson(20_000.0, Lengths::Fixed(300.0)),
        ],
        2,
        8,
    );
    let found = spectrum(&cpu).unwrap().components;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!((found[0].period_ns / 4e6 - 1.0).abs() < 1e-5, "{found:#?}");
}

#[test]
fn what_lies_beyond_the_bins_makes_no_period() {
    // 23 us: six times above what the bins can tell.
    let cpu = make(vec![periodic(23_003.0, 0.0, Lengths::Fixed(1_000.0))], 1, 9);
    let found = spectrum(&cpu).unwrap().components;
    assert_eq!(found, [], "{found:#?}");
}

/// A tick of a kernel among random events: what is found of it, and what it has.
struct Tick {
    period_ns: f64,
    share_pct: f64,
    found: Vec<Component>,
}

impl Tick {
    fn new(hz: f64, error_ppm: f64, jitter_ns: f64, others: Part, seed: u64) -> Self {
        let period_ns = 1e9 / hz * (1.0 + error_ppm / 1e6);
        let lengths = || Lengths::lognormal(4_000.0, 0.3);
        // Alone it has the same events: each component has a stream of its own.
        let alone = make(vec![periodic(period_ns, jitter_ns, lengths())], 6, seed);
        let parts = vec![periodic(period_ns, jitter_ns, lengths()), others];
        let cpu = make(parts, 6, seed);
        Self {
            period_ns,
            share_pct: alone.noise_ns() as f64 * 100.0 / cpu.noise_ns() as f64,
            found: spectrum(&cpu).unwrap().components,
        }
    }

    fn assert_found(&self) {
        let found = &self.found;
        assert_eq!(found.len(), 1, "{} ns: {found:#?}", self.period_ns);
        let beside = found[0].period_ns / self.period_ns - 1.0;
        assert!(beside.abs() < 100e-6, "{beside}: {found:#?}");
        let noise_pct = found[0].noise_pct;
        let off = noise_pct - self.share_pct;
        assert!(
            off.abs() < 2.0,
            "{noise_pct} of {}: {found:#?}",
            self.share_pct
        );
    }
}

/// Random events: of lengths as the tick's, and with a heavy tail.
fn other_part(which: usize) -> Part {
    let pareto = Lengths::pareto(500.0, 1.2);
    match which {
        0 => poisson(200.0, lognormal()),
        1 => poisson(1_000.0, lognormal()),
        _ => poisson(100.0, pareto),
    }
}

#[test]
fn ticks_of_wrong_clocks_are_found_with_their_noise() {
    let of_rate = |i: usize, hz: f64| {
        for (j, error_ppm) in [0.0, 50.0, 100.0, 200.0].into_iter().enumerate() {
            for (k, jitter_ns) in [0.0, 20e3, 40e3, 60e3].into_iter().enumerate() {
                // Fast clocks and slow ones, beside each kind of random events.
                let n = i + j + k;
                let error_ppm = [error_ppm, -error_ppm][n % 2];
                Tick::new(hz, error_ppm, jitter_ns, other_part(n % 3), n as u64).assert_found();
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
    // The rate of its clock goes up and down by so many ppm within so long.
    for (hz, ppm, swing_s) in [(250.0, 200.0, 20.0), (1_000.0, 50.0, 20.0)] {
        let mut cpu = make(vec![other_part(0)], 30, 4);
        let mut chance = Chance::new(5, "tick");
        let period_ns = 1e9 / hz;
        let turn = std::f64::consts::TAU / swing_s;
        for i in 0..(29.9 * hz) as u64 {
            let due_ns = (i as f64 + 0.5) * period_ns;
            let late_ns = ppm * 1e3 / turn * (turn * due_ns / 1e9).sin();
            let at_ns = due_ns + late_ns + 2_000.0 * chance.normal();
            cpu.events.push(TraceEvent::new(at_ns as u64, 4_000));
        }
        let tick_ns = 4_000.0 * (29.9 * hz).floor();
        cpu.events.sort_unstable_by_key(|event| event.start_ns);
        cpu.events
            .dedup_by(|next, event| next.start_ns <= event.end_ns());
        let tick = Tick {
            period_ns,
            share_pct: tick_ns * 100.0 / cpu.noise_ns() as f64,
            found: spectrum(&cpu).unwrap().components,
        };
        tick.assert_found();
    }
}
