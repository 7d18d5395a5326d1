// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The prediction against brute force, and properties that hold for any trace.

use proptest::prelude::*;
use sandbag_jitter::{CpuNotes, CpuTrace, JitterTrace, Notes};
use sandbag_stats::range;

use super::replay::{Rank, anywhere, run};
use super::*;
use crate::Error;
use crate::chance::Chance;
use crate::fixture::{by_chance, cpu, trace};

const WORK: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Phases of brute force: enough for a few percent.
const PHASES: u64 = 20_000;

const COST: LogGp = LogGp::without_gaps(5_000.0, 2_000.0);

/// Short events mostly, some long.
fn noisy(seed: u64, known_ns: u64) -> CpuTrace {
    by_chance(seed, known_ns, 0.6, |chance| {
        if chance.uniform() < 0.1 {
            50_000.0 + 400_000.0 * chance.uniform()
        } else {
            5_000.0 + 10_000.0 * chance.uniform()
        }
    })
}

fn options(ranks: &[u64]) -> PredictOptions {
    PredictOptions {
        ranks: ranks.to_vec(),
        intervals: false,
        threads: 2,
        ..PredictOptions::default()
    }
}

fn predict_one(trace: &JitterTrace, options: &PredictOptions) -> Prediction {
    predict(&[TraceSource { trace, share: 1 }], options).unwrap()
}

/// The slowdown for the first number of ranks, percent.
fn slowdown(trace: &JitterTrace, options: &PredictOptions) -> f64 {
    predict_one(trace, options).points[0].mean.slowdown_pct
}

/// Slowdown by brute force, percent.
fn brute(ranks: &mut [Rank<'_>], phases: u64, barrier: &BarrierModel) -> f64 {
    let quiet = WORK as f64 + barrier.quiet_ns(ranks.len() as u64);
    (run(ranks, WORK, phases, barrier) as f64 / (phases as f64 * quiet) - 1.0) * 100.0
}

/// The difference of the times of a phase is at most this share, percent.
fn agree_on_phases(predicted: f64, found: f64, most_pct: f64) {
    let apart = (predicted - found).abs() / (100.0 + found) * 100.0;
    assert!(apart <= most_pct, "predicted {predicted}, found {found}");
}

/// As far as one run of brute force allows: 1 % of a phase, and this share of the slowdown.
fn agree(predicted: f64, found: f64, percent_of_slowdown: f64) {
    agree_on_phases(predicted, found, 1.0);
    let apart = (predicted - found).abs();
    assert!(
        apart <= percent_of_slowdown / 100.0 * found,
        "predicted {predicted}, found {found}"
    );
}

/// Ranks of nodes with all CPUs of the trace, each node at a random position.
fn nodes<'a>(trace: &'a JitterTrace, count: u64, chance: &mut Chance) -> Vec<Rank<'a>> {
    (0..count)
        .flat_map(|_| {
            let offset = chance.below(50 * SECOND);
            trace.cpus.iter().map(move |cpu| Rank::new(cpu, offset))
        })
        .collect()
}

#[test]
fn ranks_that_wait_for_each_other() {
    let trace = trace(vec![noisy(1, 100 * SECOND)]);
    for count in [1u64, 2, 8, 32] {
        let mut ranks = anywhere(&trace.cpus[0], count as usize, count);
        let found = brute(&mut ranks, PHASES, &BarrierModel::Ideal);
        agree(slowdown(&trace, &options(&[count])), found, 4.0);
    }
}

/// The phases of a rank are not independent of each other then: after a long event many ranks are
/// released inside events.
#[test]
fn events_of_many_phases() {
    let predicted = |length_ns: f64, ranks: u64, barrier: BarrierModel| {
        // 2 % of the time.
        let per_ms = 2e4 / length_ns;
        let trace = trace(vec![by_chance(1, 400 * SECOND, per_ms, |_| length_ns)]);
        let options = PredictOptions {
            barrier,
            ..options(&[ranks])
        };
        let found = predict_one(&trace, &options);
        let is_warned = found.warnings.iter().any(|one| one.contains("too high"));
        (found.points[0].mean.slowdown_pct, is_warned, trace)
    };
    for (length_ns, count) in [(4e6, 64), (4e6, 128), (2e7, 16), (2e7, 64), (2e7, 128)] {
        let (predicted, is_warned, trace) = predicted(length_ns, count, BarrierModel::Ideal);
        let mut ranks = anywhere(&trace.cpus[0], count as usize, 1);
        let found = brute(&mut ranks, PHASES, &BarrierModel::Ideal);
        agree_on_phases(predicted, found, 8.0);
        assert!(!is_warned);
    }
    // The messages of a barrier meet the mean of all phases.
    let messages = BarrierModel::Dissemination(COST);
    assert!(predicted(2e7, 64, messages).1);
    assert!(!predicted(2e7, 8, messages).1);
    assert!(!predicted(1e6, 64, messages).1);
}

/// Noise of bounded events: the greatest hundredth is no beginning of more.
#[test]
fn a_tail_below_the_recorded_noise_is_warned_of() {
    let warned = |trace: &JitterTrace, tail| {
        let options = PredictOptions {
            tail,
            ..options(&[100_000])
        };
        let found = predict_one(trace, &options);
        let mut warnings = found.warnings.iter();
        warnings.any(|one| one.contains("the tail does not fit"))
    };
    let even = |chance: &mut Chance| 5e4 + 45e4 * chance.uniform();
    let bounded = trace(vec![by_chance(1, 200 * SECOND, 0.05, even)]);
    assert!(warned(&bounded, true));
    assert!(!warned(&bounded, false));
    let heavy = by_chance(1, 100 * SECOND, 0.6, |chance| 2e4 / chance.uniform().sqrt());
    assert!(!warned(&trace(vec![heavy]), true));
}

#[test]
fn ranks_that_only_compute() {
    let trace = trace(vec![noisy(2, 100 * SECOND)]);
    let options = PredictOptions {
        starts: Starts::Running,
        ..options(&[16])
    };
    let mut ranks = anywhere(&trace.cpus[0], 16, 1);
    let mut now = [0u64; 16];
    let mut sum = 0.0;
    for _ in 0..PHASES {
        let took = ranks.iter_mut().zip(&mut now).map(|(rank, now)| {
            let begin = *now;
            *now = rank.works(begin, WORK);
            *now - begin - WORK
        });
        sum += took.max().unwrap() as f64;
    }
    let found = sum / (PHASES * WORK) as f64 * 100.0;
    agree(slowdown(&trace, &options), found, 4.0);
}

#[test]
fn barriers_of_messages() {
    let trace = trace(vec![noisy(3, 100 * SECOND)]);
    for (barrier, count) in [
        (BarrierModel::Dissemination(COST), 16u64),
        (BarrierModel::Dissemination(COST), 128),
        (BarrierModel::Binomial(COST), 64),
    ] {
        let options = PredictOptions {
            barrier,
            ..options(&[count])
        };
        let mut ranks = anywhere(&trace.cpus[0], count as usize, 7);
        let found = brute(&mut ranks, PHASES / 4, &barrier);
        agree_on_phases(slowdown(&trace, &options), found, 2.0);
    }
}

#[test]
fn ranks_that_drift_apart() {
    let trace = trace(vec![noisy(4, 100 * SECOND)]);
    let drift = Drift {
        end_ns: 4_000_000,
        spread: Spread::Uniform,
    };
    for count in [16u64, 256] {
        let options = PredictOptions {
            sync: Sync::Once,
            drift: Some(drift),
            phases: PHASES,
            seed: 1,
            ..options(&[count])
        };
        // Brute force: every rank's position moves on by itself.
        let mut chance = Chance::new(9, 9);
        let places: Vec<f64> = (0..count).map(|_| chance.uniform()).collect();
        let (first, last) = range(&places).unwrap();
        let distance = last - first;
        let places: Vec<f64> = places.iter().map(|at| (at - first) / distance).collect();
        let mut ranks: Vec<Rank<'_>> = places
            .iter()
            .map(|_| Rank::new(&trace.cpus[0], 0))
            .collect();
        let (mut now, mut noise) = (chance.below(40 * SECOND), 0);
        for phase in 0..PHASES {
            let reach = drift.end_ns as f64 * phase as f64 / PHASES as f64;
            let took = ranks.iter_mut().zip(&places).map(|(rank, place)| {
                let begin = now + (place * reach) as u64;
                rank.works(begin, WORK) - begin - WORK
            });
            let most = took.max().unwrap();
            noise += most;
            now += WORK + most;
        }
        let found = noise as f64 / (PHASES * WORK) as f64 * 100.0;
        agree(slowdown(&trace, &options), found, 6.0);
    }
}

#[test]
fn nodes_of_two_keep_what_they_have_in_common() {
    // The second CPU has the same events a little later.
    let first = noisy(5, 100 * SECOND);
    let mut second = first.clone();
    for event in &mut second.events {
        event.start_ns += 20_000;
    }
    second.events.retain(|event| event.end_ns() < 100 * SECOND);
    let both = trace(vec![first, second]);
    let grouped = |ranks: &[u64]| PredictOptions {
        group: 2,
        ..options(ranks)
    };
    let mut chance = Chance::new(3, 3);
    for count in [2u64, 16] {
        let mut ranks = nodes(&both, count / 2, &mut chance);
        let found = brute(&mut ranks, PHASES, &BarrierModel::Ideal);
        agree(slowdown(&both, &grouped(&[count])), found, 5.0);
    }
    // As many independent ranks wait longer.
    let independent = slowdown(&both, &options(&[16]));
    assert!(independent > slowdown(&both, &grouped(&[16])) * 1.2);
}

#[test]
fn nodes_whose_ranks_wait_for_messages() {
    let barrier = BarrierModel::Dissemination(COST);
    let independent: Vec<CpuTrace> = (20..24).map(|seed| noisy(seed, 100 * SECOND)).collect();
    let equal = vec![independent[0].clone(); 4];
    for cpus in [independent, equal] {
        let trace = trace(cpus);
        let options = PredictOptions {
            group: 4,
            barrier,
            ..options(&[64])
        };
        let mut ranks = nodes(&trace, 16, &mut Chance::new(9, 9));
        let found = brute(&mut ranks, PHASES / 4, &barrier);
        agree_on_phases(slowdown(&trace, &options), found, 1.0);
    }
}

#[test]
fn ranks_synchronised_at_each_phase_meet_the_mean() {
    let trace = trace(vec![noisy(6, 60 * SECOND)]);
    let with = |sync, starts, ranks: u64| {
        let options = PredictOptions {
            sync,
            starts,
            ..options(&[ranks])
        };
        slowdown(&trace, &options)
    };
    let mean = with(Sync::None, Starts::Running, 1);
    let each = [16, 2048, 1_000_000].map(|ranks| with(Sync::Phases(1), Starts::Waiting, ranks));
    assert!((each[0] / mean - 1.0).abs() < 0.05, "{each:?} {mean}");
    assert_eq!(each, [each[0]; 3]);
}

#[test]
fn the_cpus_of_a_trace_count_equally() {
    // Alone they slow a rank by 400 % and 0.1 %.
    let regular = |length: u64| {
        let events: Vec<(u64, u64)> = (0..10_000).map(|i| (i * WORK + 10, length)).collect();
        cpu(&[(0, 10 * SECOND)], &events)
    };
    let both = trace(vec![regular(800_000), regular(1_000)]);
    for starts in [Starts::Running, Starts::Waiting] {
        let options = PredictOptions {
            quantum_ns: 10 * WORK,
            intervals: true,
            starts,
            ..options(&[1])
        };
        let found = predict_one(&both, &options).points[0].mean;
        let (low, high) = found.interval_pct.unwrap();
        assert!((found.slowdown_pct - 200.05).abs() < 0.1, "{found:?}");
        assert!(high - low < 5.0, "{found:?}");
    }
}

#[test]
fn ranks_that_take_the_cpus_in_turn() {
    let quiet = by_chance(12, 100 * SECOND, 0.1, |_| 20_000.0);
    let both = trace(vec![noisy(13, 100 * SECOND), quiet]);
    let in_turn = |ranks: u64| PredictOptions {
        in_turn: true,
        ..options(&[ranks])
    };
    let first = trace(vec![both.cpus[0].clone()]);
    let alone = slowdown(&first, &options(&[1]));
    assert_eq!(slowdown(&both, &in_turn(1)), alone);
    // Two of the first CPU, one of the second.
    let mut ranks = anywhere(&both.cpus[0], 2, 1);
    ranks.extend(anywhere(&both.cpus[1], 1, 2));
    let found = brute(&mut ranks, PHASES, &BarrierModel::Ideal);
    agree(slowdown(&both, &in_turn(3)), found, 4.0);
}

#[test]
fn mixed_nodes_lie_between_their_kinds() {
    let quiet = trace(vec![cpu(&[(0, 60 * SECOND)], &[])]);
    let loud = trace(vec![noisy(7, 60 * SECOND)]);
    let source = |trace, share| TraceSource { trace, share };
    let mixed = [source(&quiet, 3), source(&loud, 1)];
    let mixed = predict(&mixed, &options(&[100])).unwrap().points[0]
        .mean
        .slowdown_pct;
    let quarter = slowdown(&loud, &options(&[25]));
    assert!(
        mixed >= quarter * 0.99 && mixed < slowdown(&loud, &options(&[100])),
        "{mixed} {quarter}"
    );
    // A source without a share of the ranks does no harm.
    assert!(predict(&[source(&quiet, 1), source(&loud, 9)], &options(&[1])).is_ok());
}

#[test]
fn a_short_trace_says_so() {
    let trace = trace(vec![noisy(8, SECOND)]);
    // 100 ranks need 145 ms, of which ten are more than the trace has.
    let points = predict_one(&trace, &options(&[16, 100, 100_000])).points;
    let saturated: Vec<bool> = points.iter().map(|point| point.saturated).collect();
    assert_eq!(saturated, [false, true, true]);
    let with_tail = PredictOptions {
        tail: true,
        ..options(&[100_000])
    };
    let tail = predict_one(&trace, &with_tail).points[0].tail.unwrap();
    assert!(tail.slowdown_pct > 0.0 && tail.slowdown_pct.is_finite());
}

#[test]
fn a_cpu_that_noise_takes_nearly_all_of_is_saturated() {
    let regular = |length: u64| {
        let events: Vec<(u64, u64)> = (0..100).map(|i| (i * 10_000_000, length)).collect();
        trace(vec![cpu(&[(0, SECOND)], &[]), cpu(&[(0, SECOND)], &events)])
    };
    let found = predict_one(&regular(5_000_000), &options(&[1]));
    assert!((found.noise_pct - 50.0).abs() < 1e-9);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let found = predict_one(&regular(9_500_000), &options(&[1]));
    assert!((found.noise_pct - 95.0).abs() < 1e-9);
    assert!(
        found.warnings[0].starts_with("saturated"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn classes_rank_differently_at_scale() {
    // Short events take most time, long ones are rare.
    let trace = trace(vec![by_chance(10, 100 * SECOND, 2.0, |chance| {
        if chance.uniform() < 0.001 {
            2_000_000.0
        } else {
            5_000.0
        }
    })]);
    let source = TraceSource {
        trace: &trace,
        share: 1,
    };
    let costs = costs(&[source], &options(&[1, 10_000]), &EventClass::lengths()).unwrap();
    assert_eq!(costs.len(), 2);
    let (short, long) = (&costs[0], &costs[1]);
    assert!(short.noise_pct > long.noise_pct);
    assert!(short.saves_points[0] > long.saves_points[0]);
    assert!(short.saves_points[1] < long.saves_points[1]);
}

#[test]
fn impossible_predictions_are_refused() {
    let usual = trace(vec![noisy(11, SECOND)]);
    let error = |trace: &JitterTrace, change: &dyn Fn(&mut PredictOptions)| {
        let mut options = options(&[16]);
        change(&mut options);
        predict(&[TraceSource { trace, share: 1 }], &options).unwrap_err()
    };
    let out_of_range: [&dyn Fn(&mut PredictOptions); 4] = [
        &|o| o.ranks = vec![0],
        &|o| o.ranks.clear(),
        &|o| o.quantum_ns = 0,
        &|o| o.phases = 0,
    ];
    for change in out_of_range {
        assert!(matches!(error(&usual, change), Error::Option { .. }));
    }
    let far = |o: &mut PredictOptions| {
        o.sync = Sync::Once;
        o.drift = Some(Drift {
            end_ns: 10 * SECOND,
            spread: Spread::Uniform,
        });
    };
    let too_short: [&dyn Fn(&mut PredictOptions); 2] = [&|o| o.quantum_ns = 2 * SECOND, &far];
    for change in too_short {
        assert!(matches!(error(&usual, change), Error::TooShort { .. }));
    }
    assert_eq!(error(&usual, &|o| o.sync = Sync::Once), Error::NoDrift);
    let group = Error::Group { group: 2, held: 1 };
    assert_eq!(error(&usual, &|o| o.group = 2), group);
    let blind = JitterTrace {
        notes: Some(Notes {
            cpus: vec![CpuNotes {
                threshold_ns: 1e4,
                ..CpuNotes::default()
            }],
        }),
        ..usual.clone()
    };
    let short = error(&blind, &|o| o.quantum_ns = 1000);
    assert!(matches!(short, Error::BelowDetectable { .. }));
    let source = TraceSource {
        trace: &usual,
        share: 1,
    };
    let synchronised = PredictOptions {
        sync: Sync::Phases(1),
        ..options(&[16])
    };
    assert_eq!(
        predict(&[source, source], &synchronised).unwrap_err(),
        Error::NothingCommon
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn predictions_of_any_trace_hold(
        parts in prop::collection::vec((1u64..5_000_000, 1u64..2_000_000), 1..60),
        seed in 0u64..1000,
        once in any::<bool>(),
    ) {
        let mut at = 0;
        let mut events = Vec::new();
        for (gap, length) in parts {
            events.push((at + gap, length));
            at += gap + length;
        }
        let all = cpu(&[(0, at + 50_000_000)], &events);
        let some = cpu(&[(0, at + 50_000_000)], &events[..events.len() / 2]);
        let trace = trace(vec![all, some]);
        let with = |starts, threads, ranks: &[u64]| PredictOptions {
            starts,
            threads,
            seed,
            sync: if once { Sync::Once } else { Sync::None },
            drift: Some(Drift { end_ns: 3_000_000, spread: Spread::Uniform }),
            phases: 3000,
            ..options(ranks)
        };
        let ranks = [1, 7, 100, 5000, 1_000_000];
        for starts in [Starts::Running, Starts::Waiting, Starts::Any] {
            let found = predict_one(&trace, &with(starts, 1, &ranks));
            prop_assert_eq!(&found, &predict_one(&trace, &with(starts, 3, &ranks)));
            for point in &found.points {
                prop_assert!(point.mean.slowdown_pct.is_finite());
                prop_assert!(point.phases_pct.is_sorted());
            }
            if starts != Starts::Waiting && !once {
                let slow: Vec<f64> = found.points.iter().map(|p| p.mean.slowdown_pct).collect();
                prop_assert!(slow.windows(2).all(|w| w[0] <= w[1] * (1.0 + 1e-9)), "{slow:?}");
            }
        }
    }
}
