// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn piece(from_ns: u64, until_ns: u64, noise_ns: u64) -> NoisePiece {
    NoisePiece {
        from_ns,
        until_ns,
        noise_ns,
        inside_ns: None,
    }
}

#[test]
fn the_first_piece_after_a_time_is_found() {
    let pieces = (0..100).map(|i| piece(i * 10, i * 10 + 10, 0));
    let pieces: Vec<NoisePiece> = pieces.collect();
    for t_ns in 0..1005 {
        let expected = pieces.partition_point(|piece| piece.until_ns <= t_ns);
        assert_eq!(first_after(&pieces, t_ns), expected, "{t_ns}");
    }
    assert_eq!(first_after(&[], 5), 0);
}

#[test]
fn rows_are_left_out_evenly() {
    assert_eq!(middles(5, 1), [0, 1, 2, 3, 4]);
    assert_eq!(middles(10, 3), [1, 3, 6, 8]);
    assert_eq!(middles(98, 98), [49]);
    assert_eq!(middles(98, 1000), [49]);
}

#[test]
fn the_shares_of_a_drift_add_up() {
    for spread in [Spread::Uniform, Spread::Normal] {
        let drift = Drift { end_ns: 1, spread };
        let parts = (0..10).map(|i| f64::from(i) / 10.0);
        let sum: f64 = parts
            .map(|at| drift.below(at + 0.1) - drift.below(at))
            .sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        let mut chance = Chance::new(1, 1);
        let places: Vec<f64> = (0..2000).map(|_| drift.place(&mut chance)).collect();
        let mean = places.iter().sum::<f64>() / 2000.0;
        assert!((mean - 0.5).abs() < 0.03, "{mean}");
        assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
    }
}

fn run(places: &[Vec<f64>]) -> DriftRun<'_> {
    DriftRun {
        phase_ns: 1,
        phases: 1,
        every: 1,
        drift: Drift {
            end_ns: 1,
            spread: Spread::Uniform,
        },
        places,
        anywhere: false,
        seed: 0,
        threads: 1,
    }
}

#[test]
fn a_drift_is_the_distance_from_the_first_rank_to_the_last() {
    let mut chance = Chance::new(1, 1);
    for ranks in 2..=FEW {
        let places = run(&[]).draw_places(ranks, 3, &mut chance);
        assert_eq!(places.len() as u64, ranks);
        assert_eq!(range(&places), Some((0.0, 1.0)));
    }
    let alone = run(&[]).draw_places(1, 3, &mut chance);
    assert!(alone[0] > 0.0 && alone[0] < 1.0);
    let measured = [vec![0.2, 0.4]];
    let places = run(&measured).draw_places(9, 1, &mut chance);
    assert!(places.iter().all(|place| measured[0].contains(place)));
}

#[test]
fn measured_places_are_those_of_the_ranks() {
    let places = [vec![0.0, 0.1, 0.1, 1.0], vec![0.7]];
    let run = run(&places);
    // Every place lies in one piece, the last one in the last.
    for (from, until, share) in [(0.0, 0.05, 0.25), (0.05, 0.5, 0.5), (0.5, 1.0, 0.25)] {
        assert!((run.share(0, from, until) - share).abs() < 1e-9);
    }
    assert!((run.share(0, 0.0, 1.1) - 1.0).abs() < 1e-9);
    assert_eq!(run.share(1, 0.0, 0.7), 0.0);
    let mut chance = Chance::new(1, 1);
    assert_eq!(run.place(1, &mut chance), 0.7);
    // A unit without measured places.
    assert!((run.share(2, 0.2, 0.4) - 0.2).abs() < 1e-9);
}

#[test]
fn only_the_cpus_of_the_ranks_make_them_wait() {
    let unit = |noise_ns| {
        vec![NoisePiece {
            from_ns: 0,
            until_ns: 1_000,
            noise_ns,
            inside_ns: None,
        }]
    };
    let units = Units::new(
        (0..80)
            .map(|at| unit(if at < 65 { 1 } else { 9 }))
            .collect(),
    );
    for (ranks, expected) in [(FEW, 1.0), (FEW + 1, 1.0), (FEW + 2, 9.0), (80, 9.0)] {
        for end_ns in [0, 100] {
            let run = DriftRun {
                drift: Drift {
                    end_ns,
                    spread: Spread::Uniform,
                },
                ..run(&[])
            };
            let found: Vec<f64> = units.slowest(ranks, &run).concat();
            assert_eq!(found, [expected], "{ranks} ranks, a drift of {end_ns} ns");
        }
    }
}

#[test]
fn all_parts_of_a_recording_count() {
    for (first, second) in [(0, 1000), (1000, 0)] {
        // Where noise doubles a phase there are half as many.
        let units = Units::new(vec![vec![
            piece(0, 500_000, first),
            piece(600_000, 1_100_000, second),
        ]]);
        let run = DriftRun {
            phase_ns: 1000,
            phases: 500_000,
            every: 500_000,
            ..run(&[])
        };
        let found = units.slowest(1, &run).concat();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((mean / 333.3 - 1.0).abs() < 0.03, "{first}: {mean}");
        let few = DriftRun { phases: 400, ..run };
        assert_eq!(units.slowest(1, &few).len(), 20);
    }
}

#[test]
fn positions_are_where_all_are_known() {
    let piece = |from_ns, until_ns| piece(from_ns, until_ns, 0);
    let units = Units::new(vec![
        vec![piece(0, 50), piece(50, 100), piece(200, 300)],
        vec![piece(20, 250)],
    ]);
    let valid: Vec<(u64, u64)> = units
        .valid
        .iter()
        .map(|s| (s.from_ns, s.until_ns))
        .collect();
    assert_eq!(valid, [(20, 100), (200, 250)]);
    assert_eq!(units.longest_ns(), 80);
}

#[test]
fn a_phase_under_way_ends_before_the_first_of_a_stretch() {
    let inside = |from_ns, until_ns| NoisePiece {
        inside_ns: Some(0),
        ..piece(from_ns, until_ns, 9)
    };
    let units = Units::new(vec![
        vec![
            inside(100, 150),
            piece(150, 160, 0),
            inside(160, 165),
            piece(165, 300, 0),
        ],
        vec![piece(100, 300, 0)],
        vec![piece(100, 152, 0), inside(152, 154), piece(154, 300, 0)],
    ]);
    let span = units.valid[0];
    // Work goes on from 150 to 152, from 154 to 160, and from 165.
    for (left_ns, begin_ns) in [
        (0, 150),
        (1, 151),
        (2, 154),
        (7, 159),
        (10, 167),
        (900, 300),
    ] {
        assert_eq!(units.enter(&span, left_ns), begin_ns, "{left_ns}");
    }
}
