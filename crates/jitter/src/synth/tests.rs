// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace has what was asked for.

use proptest::prelude::*;

use super::*;
use crate::fixture::{self, SECOND, poisson};
use crate::format;
use crate::stats::summarise;

fn model(components: Vec<Component>, seconds: u64) -> NoiseModel {
    NoiseModel {
        cpus: vec![0, 3],
        duration_ns: seconds * SECOND,
        seed: 7,
        components,
    }
}

fn periodic(period_ns: f64) -> Arrivals {
    Arrivals::Periodic {
        period_ns,
        phase_ns: Some(1_000.0),
        jitter_ns: 0.0,
        share: 1.0,
    }
}

#[test]
fn a_period_and_a_length() {
    let part = Component::new(periodic(10e6), Lengths::Fixed(25_000.0));
    let made = synthesise(&model(vec![part], 2)).unwrap();
    for cpu in &made.trace.cpus {
        assert_eq!(cpu.events.len(), 200);
        for (i, event) in cpu.events.iter().enumerate() {
            assert_eq!(event.start_ns, 1_000 + i as u64 * 10_000_000);
            assert_eq!(event.length_ns, 25_000);
        }
    }
    assert_eq!((made.drawn, made.merged, made.beyond), (400, 0, 0));
    let mut bytes = Vec::new();
    format::write(&made.trace, &mut bytes).unwrap();
    assert_eq!(format::read(&bytes[..]).unwrap(), made.trace);
}

#[test]
fn jitter_and_gaps_of_a_period() {
    let arrivals = Arrivals::Periodic {
        period_ns: 1e6,
        phase_ns: None,
        jitter_ns: 5_000.0,
        share: 0.7,
    };
    let part = Component::new(arrivals, Lengths::Fixed(100.0));
    let made = synthesise(&model(vec![part], 20)).unwrap();
    let [a, b] = &made.trace.cpus[..] else {
        unreachable!()
    };
    // Each CPU has its own phase.
    let phase = |cpu: &CpuTrace| cpu.events[10].start_ns % 1_000_000;
    assert!(phase(a).abs_diff(phase(b)) > 20_000);
    for cpu in [a, b] {
        assert!((cpu.events.len() as f64 / 14_000.0 - 1.0).abs() < 0.03);
        let beside = cpu
            .events
            .iter()
            .map(|event| (event.start_ns % 1_000_000) as f64);
        let beside: Vec<f64> = beside.collect();
        let mean = beside.iter().sum::<f64>() / beside.len() as f64;
        let variance = beside.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let sd = (variance / beside.len() as f64).sqrt();
        assert!((sd / 5_000.0 - 1.0).abs() < 0.05, "{sd}");
    }
}

#[test]
fn common_events_are_on_all_cpus() {
    let mut common = poisson(100.0, Lengths::exponential(1_000.0, 500.0));
    common.common = true;
    let mut only_3 = Component::new(periodic(1e8), Lengths::Fixed(1_000.0));
    only_3.cpus = Some(vec![3]);
    let made = synthesise(&model(vec![common.clone()], 5)).unwrap();
    assert_eq!(made.trace.cpus[0].events, made.trace.cpus[1].events);
    assert!((400..600).contains(&made.trace.cpus[0].events.len()));
    let both = synthesise(&model(vec![common, only_3], 5)).unwrap();
    assert_eq!(both.trace.cpus[0].events, made.trace.cpus[0].events);
    assert!(both.trace.cpus[1].events.len() >= made.trace.cpus[1].events.len() + 45);
}

#[test]
fn events_that_meet_are_one_and_as_long_as_both() {
    let a = Component::new(periodic(1e6), Lengths::Fixed(10_000.0));
    let mut b = a.clone();
    b.lengths = Lengths::Fixed(3_000.0);
    let made = synthesise(&model(vec![a, b], 1)).unwrap();
    assert_eq!(made.merged, 2_000);
    let cpu = &made.trace.cpus[0];
    assert!(cpu.events.iter().all(|event| event.length_ns == 13_000));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |arrivals| {
        let part = Component::new(arrivals, Lengths::Fixed(1.0));
        synthesise(&model(vec![part], 1)).is_err()
    };
    assert!(refused(periodic(0.0)) && refused(periodic(f64::NAN)));
    assert!(refused(Arrivals::Poisson {
        per_s: f64::INFINITY
    }));
    assert!(refused(Arrivals::Poisson { per_s: -1.0 }));
    // 10^9 of them.
    assert!(refused(Arrivals::Poisson { per_s: 1e9 }));
    assert!(synthesise(&model(vec![], 0)).is_err());
    assert_eq!(synthesise(&model(vec![], 1)).unwrap().drawn, 0);
}

/// The mean of the greatest noise that `n` stretches of a millisecond have,
/// from the stretches of a trace, ns.
fn greatest_ns(cpu: &CpuTrace, n: f64) -> f64 {
    let mut stretches = vec![0.0; (cpu.known_ns() / 1_000_000) as usize];
    for event in &cpu.events {
        if let Some(sum) = stretches.get_mut((event.start_ns / 1_000_000) as usize) {
            *sum += event.length_ns as f64;
        }
    }
    stretches.sort_unstable_by(f64::total_cmp);
    let all = stretches.len() as f64;
    let below = |i: usize| (i as f64 / all).powf(n);
    let terms = stretches.iter().enumerate();
    terms.map(|(i, ns)| ns * (below(i + 1) - below(i))).sum()
}

#[test]
fn what_was_published_is_in_the_models_that_say_so() {
    for (name, bound_ns, share, per_ms, noise_pct, greatest_us) in [
        ("linux-2007", 14_000, 0.98, 0.6, 0.70, 990.0),
        ("bgl-io-2007", 5_000, 0.995, 1.04, 0.40, 200.0),
    ] {
        let components = NamedModel::named(name).unwrap().components();
        let made = synthesise(&NoiseModel {
            cpus: vec![0],
            ..model(components, 600)
        });
        let cpu = &made.unwrap().trace.cpus[0];
        let s = summarise(cpu);
        let short = cpu.events.iter().filter(|event| event.length_ns < bound_ns);
        let short = short.count() as f64 / cpu.events.len() as f64;
        assert!((short - share).abs() < 0.001, "{name}: {short}");
        assert!(
            (s.rate_per_s / 1e3 / per_ms - 1.0).abs() < 0.02,
            "{name}: {s:?}"
        );
        assert!(
            (s.noise_pct / noise_pct - 1.0).abs() < 0.05,
            "{name}: {s:?}"
        );
        let greatest = greatest_ns(cpu, 2048.0) / 1e3;
        assert!(
            (greatest / greatest_us - 1.0).abs() < 0.06,
            "{name}: {greatest}"
        );
    }
    assert_eq!(NamedModel::named("linux"), None);
}

#[test]
fn a_fitted_model_makes_a_trace_like_the_recording() {
    let mut tick = fixture::periodic(4e6, 2_000.0, Lengths::Fixed(6_000.0));
    if let Arrivals::Periodic { phase_ns, .. } = &mut tick.arrivals {
        *phase_ns = Some(1.5e6);
    }
    let parts = vec![tick, poisson(300.0, Lengths::lognormal(2_000.0, 0.7))];
    let recorded = synthesise(&model(parts, 10)).unwrap().trace;
    let fitted = fit(&recorded);
    assert_eq!(fitted.len(), 4, "{:#?}", fitted.len());
    let Arrivals::Periodic {
        period_ns,
        phase_ns: Some(phase_ns),
        ..
    } = fitted[0].arrivals
    else {
        panic!("{:?}", fitted[0].arrivals)
    };
    assert!((period_ns / 4e6 - 1.0).abs() < 1e-5, "{period_ns}");
    assert!((phase_ns - 1.5e6).abs() < 20_000.0, "{phase_ns}");
    let again = synthesise(&model(fitted, 10)).unwrap().trace;
    for (a, b) in recorded.cpus.iter().zip(&again.cpus) {
        let (a, b) = (summarise(a), summarise(b));
        assert!(
            (b.rate_per_s / a.rate_per_s - 1.0).abs() < 0.06,
            "{a:?} {b:?}"
        );
        assert!(
            (b.noise_pct / a.noise_pct - 1.0).abs() < 0.08,
            "{a:?} {b:?}"
        );
    }
}

/// The component has one event in a period; the others are not lost, nor is their length.
#[test]
fn several_events_in_a_period_are_as_much_noise() {
    let tick = |phase: f64| {
        let mut tick = fixture::periodic(1e7, 70_000.0, Lengths::Fixed(40_000.0));
        if let Arrivals::Periodic { phase_ns, .. } = &mut tick.arrivals {
            *phase_ns = Some(phase);
        }
        tick
    };
    let others = poisson(20_000.0, Lengths::lognormal(200.0, 0.7));
    let parts = vec![tick(1.5e6), tick(1.6e6), tick(1.7e6), others];
    let recorded = synthesise(&model(parts, 10)).unwrap().trace;
    let again = synthesise(&model(fit(&recorded), 10)).unwrap().trace;
    for (a, b) in recorded.cpus.iter().zip(&again.cpus) {
        let (a, b) = (summarise(a), summarise(b));
        let times = b.noise_pct / a.noise_pct;
        assert!((times - 1.0).abs() < 0.08, "{a:?} {b:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_same_seed_gives_the_same_and_all_can_be_written(
        seed: u64,
        period_ns in 1e4f64..1e8,
        jitter_ns in 0.0f64..1e5,
        per_s in 0.0f64..20_000.0,
        sigma in 0.0f64..3.0,
        common: bool,
    ) {
        let arrivals = Arrivals::Periodic { period_ns, phase_ns: None, jitter_ns, share: 0.9 };
        let lengths = Lengths::lognormal(3_000.0, sigma);
        let mut parts = vec![
            Component::new(arrivals, Lengths::Fixed(8_000.0)),
            Component::new(Arrivals::Poisson { per_s }, lengths),
        ];
        parts[1].common = common;
        let model = NoiseModel { seed, ..model(parts, 1) };
        let made = synthesise(&model).unwrap();
        prop_assert_eq!(&synthesise(&model).unwrap(), &made);
        let mut bytes = Vec::new();
        format::write(&made.trace, &mut bytes).unwrap();
        prop_assert_eq!(format::read(&bytes[..]).unwrap(), made.trace);
    }
}

#[test]
fn the_mean_of_lengths_is_that_of_what_is_drawn() {
    let all = [
        Lengths::Fixed(700.0),
        Lengths::lognormal(5_000.0, 0.8),
        Lengths::exponential(100.0, 900.0),
        Lengths::pareto(1_000.0, 3.0),
        Lengths::Mixed(vec![
            (1.0, Lengths::Fixed(100.0)),
            (3.0, Lengths::Fixed(500.0)),
        ]),
    ];
    for lengths in all {
        let mut chance = Chance::new(7, "mean");
        let drawn: u64 = (0..100_000).map(|_| lengths.draw(&mut chance)).sum();
        let (mean, said) = (drawn as f64 / 1e5, lengths.mean_ns().unwrap());
        assert!(
            (mean / said - 1.0).abs() < 0.03,
            "{lengths:?}: {mean} {said}"
        );
    }
    // Without a bound of its own it has that of the longest event.
    let pareto = |alpha| Lengths::pareto(1_000.0, alpha);
    let means: Vec<f64> = [0.1, 0.999_999_999_9, 1.0, 1.1]
        .map(|alpha| pareto(alpha).mean_ns().unwrap())
        .to_vec();
    assert!(means.is_sorted_by(|a, b| a >= b), "{means:?}");
    assert!(means[0] < 600e9 && means[3] > 1_000.0, "{means:?}");
    let component = Component::new(
        Arrivals::Poisson { per_s: 1000.0 },
        Lengths::Fixed(250_000.0),
    );
    assert!((component.asks_for().unwrap() - 0.25).abs() < 1e-12);
}
