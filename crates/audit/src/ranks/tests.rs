// SPDX-License-Identifier: Apache-2.0 OR MIT
use proptest::prelude::*;
use sandbag_stats::Chance;

use super::*;

fn noisy(cpus: usize, blocks: usize, effect: f64, seed: u64) -> Blocks {
    let mut chance = Chance::new(seed, "ranks");
    let mut all = Blocks::new(cpus);
    for block in 0..blocks {
        // Lengths and a drift that would hide any effect.
        let base = [50.0, 100.0, 200.0][block % 3] * (1.0 + 0.2 * chance.uniform());
        let figures: Vec<f64> = (0..cpus)
            .map(|cpu| {
                let more = if cpu == 1 { effect } else { 0.0 };
                base * (more + 0.01 * chance.normal()).exp()
            })
            .collect();
        all.push(block as u32 / 3, &figures);
    }
    all
}

#[test]
fn a_shift_is_found_and_its_mirror_image_is_not_slower() {
    for cpus in [2, 3, 8] {
        let blocks = noisy(cpus, 60, 0.01, 7);
        let found = compare(&blocks, Scale::Ratio, 1, 0.01, 0.001).unwrap();
        assert!((found.shift - 0.01).abs() < 0.005, "{cpus}: {found:?}");
        assert!(found.together.0 > 0.0 && found.p < 0.001, "{found:?}");
        assert!(found.alone.0 >= found.together.0 && found.alone.1 <= found.together.1);
        let other = compare(&blocks, Scale::Ratio, 0, 0.01, 0.001).unwrap();
        assert!(other.shift < 0.001, "{other:?}");
        if cpus == 2 {
            assert!(
                (other.shift + found.shift).abs() < 1e-5,
                "{other:?} {found:?}"
            );
            assert!((other.p - found.p).abs() < 1e-9);
        }
    }
}

/// Blocks of CPUs that differ by these shifts. One run in six is slower by 3 %.
fn levels(levels: &[f64], seed: u64) -> Blocks {
    let mut chance = Chance::new(seed, "levels");
    let mut all = Blocks::new(levels.len());
    for block in 0..36u32 {
        let base = 50.0 * (1.0 + 0.2 * chance.uniform());
        let row = levels.iter().map(|level| {
            let late = if chance.uniform() < 1.0 / 6.0 {
                0.03
            } else {
                0.0
            };
            base * (level + late + 0.001 * chance.normal()).exp()
        });
        let row: Vec<f64> = row.collect();
        all.push(block / 3, &row);
    }
    all
}

/// Levels of three CPUs, and the difference of each from the middle one.
#[test]
fn of_three_a_difference_is_that_from_the_middle_one() {
    let cases: [(&[f64], &[f64]); 4] = [
        (&[0.0, 0.0, 0.1], &[0.0, 0.0, 0.1]),
        (&[0.0, 0.0, -0.1], &[0.0, 0.0, -0.1]),
        (&[0.0, 0.05, 0.1], &[-0.05, 0.0, 0.05]),
        (&[0.0, 0.1, 0.1], &[-0.1, 0.0, 0.0]),
    ];
    for (at, expected) in cases {
        for seed in 0..10 {
            let found = compare_all(&levels(at, seed), Scale::Ratio, 0.01, 0.001);
            for (cpu, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert!(
                    (found.shift - expected).abs() < 0.0015,
                    "{at:?}, seed {seed}, CPU {cpu}: {found:?}"
                );
                let (low, high) = found.together;
                assert!(low <= found.shift && found.shift <= high, "{found:?}");
            }
        }
    }
}

#[test]
fn equal_figures_have_equal_differences() {
    let mut all = Blocks::new(3);
    for (round, row) in levels(&[0.0, 0.1], 3).iter() {
        all.push(round, &[row[0], row[0], row[1]]);
    }
    let found = compare_all(&all, Scale::Ratio, 0.01, 0.001);
    assert_eq!(found[0], found[1]);
    assert!(found[0].shift.abs() < 1e-6 && (found[2].shift - 0.1).abs() < 0.002);
}

#[test]
fn where_no_thread_can_be_had_the_rest_is_done_here() {
    let of = |cpu: usize| cpu * 2;
    let wanted: Vec<usize> = (0..10).map(of).collect();
    // No stack is as large.
    let fails = || thread::Builder::new().stack_size(usize::MAX / 2);
    assert!(fails().spawn(|| ()).is_err());
    for threads_to_be_had in [0, 1, 9] {
        let builder = |number| match number {
            number if number < threads_to_be_had => thread::Builder::new(),
            _ => fails(),
        };
        assert_eq!(in_threads(10, 4, builder, of), wanted);
    }
}

#[test]
fn many_cpus_side_by_side_are_in_their_order() {
    let blocks = noisy(40, 30, 0.02, 3);
    assert!(blocks.len() * 40 > MANY);
    let all = compare_all(&blocks, Scale::Ratio, 0.01, 0.001);
    assert_eq!(all.len(), 40);
    let slowest = (0..40).max_by(|a, b| all[*a].shift.total_cmp(&all[*b].shift));
    assert_eq!(slowest, Some(1));
    assert_eq!(
        all[7],
        compare(&blocks, Scale::Ratio, 7, 0.01, 0.001).unwrap()
    );
    let half = half_width(&blocks, Scale::Ratio, 0.001).unwrap();
    let widest = all.iter().map(|f| (f.together.1 - f.together.0) / 2.0);
    let widest = widest.reduce(f64::max).unwrap();
    assert!((half / widest - 1.0).abs() < 0.05, "{half} {widest}");
}

#[test]
fn two_cpus_are_wilcoxon_s_signed_ranks() {
    // Differences 1, -2, 3, 4, 5: the positive ranks sum to 13 of 15, and 6 of
    // 32 signs give 13 or more, or 2 or less.
    let mut blocks = Blocks::new(2);
    for (round, difference) in [1.0, -2.0, 3.0, 4.0, 5.0].into_iter().enumerate() {
        blocks.push(round as u32, &[100.0, 100.0 + difference]);
    }
    let looked = ShiftedBlocks::new(&blocks, Scale::Points, 1);
    let p = exact_p(&looked.ranks(0.0), 2, 1);
    assert!((p - 6.0 / 32.0).abs() < 1e-12, "{p}");
}

#[test]
fn sums_are_compared_where_there_are_zeros() {
    let mut blocks = Blocks::new(2);
    let mut chance = Chance::new(3, "zeros");
    for round in 0..200 {
        let count = |mean: f64, chance: &mut Chance| {
            (0..40).filter(|_| chance.uniform() < mean / 40.0).count() as f64 * 4e6
        };
        let figures = [count(0.5, &mut chance), count(2.0, &mut chance)];
        blocks.push(round, &figures);
    }
    assert!(blocks.has_zeros());
    let found = compare(&blocks, Scale::Sums, 1, 0.01, 0.001).unwrap();
    assert!((found.shift - 4f64.ln()).abs() < 0.4, "{found:?}");
    assert!(found.together.0 > 0.5 && found.together.1 < 2.3 && found.p < 1e-6);
}

#[test]
fn rounds_that_are_alike_count_for_less() {
    // One CPU slower for ten rounds, the other for the next ten.
    let mut blocks = Blocks::new(2);
    let mut chance = Chance::new(5, "alike");
    for round in 0..60u32 {
        for _ in 0..3 {
            let slow = usize::from(round / 10 % 2 == 0);
            let mut figures = [100.0 + chance.normal(), 100.0 + chance.normal()];
            figures[slow] *= 1.05;
            blocks.push(round, &figures);
        }
    }
    let found = compare(&blocks, Scale::Ratio, 0, 0.01, 0.001).unwrap();
    assert!(found.inflation > 3.0, "{found:?}");
    assert!(found.p > 0.01, "{found:?}");
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(compare(&Blocks::new(2), Scale::Ratio, 0, 0.01, 0.01), None);
    let mut one = Blocks::new(1);
    one.push(0, &[1.0]);
    assert_eq!(compare(&one, Scale::Ratio, 0, 0.01, 0.01), None);
    let mut bad = Blocks::new(2);
    bad.push(0, &[1.0, f64::NAN]);
    bad.push(0, &[1.0, -1.0]);
    bad.push(0, &[1.0]);
    assert!(bad.is_empty());
}

#[test]
fn figures_that_are_all_the_same_are_equal() {
    let mut same = Blocks::new(3);
    for round in 0..10 {
        same.push(round, &[5.0; 3]);
    }
    for scale in [Scale::Ratio, Scale::Sums, Scale::Points] {
        let found = compare(&same, scale, 2, 0.01, 0.001).unwrap();
        assert!(
            found.shift.abs() < 1e-3 && found.p > 0.99,
            "{scale:?} {found:?}"
        );
    }
}

#[test]
fn few_blocks_leave_everything_open() {
    let blocks = noisy(2, 3, 0.0, 1);
    let found = compare(&blocks, Scale::Ratio, 0, 0.01, 0.0001).unwrap();
    let widest = Scale::Ratio.widest();
    assert!(found.together.0 <= -widest + 1e-3 && found.together.1 >= widest - 1e-3);
    assert_eq!(half_width(&blocks, Scale::Ratio, 0.0001), None);
}

#[test]
fn a_cpu_that_is_twenty_times_slower_is_shown_as_that() {
    let mut blocks = Blocks::new(2);
    for round in 0..12u32 {
        let drift = 1.0 + f64::from(round % 5) / 100.0;
        blocks.push(round, &[drift, 20.0 * (2.02 - drift)]);
    }
    for scale in [Scale::Ratio, Scale::Sums] {
        for (cpu, factor) in [(0, 0.05), (1, 20.0)] {
            let found = compare(&blocks, scale, cpu, 0.01, 0.0001).unwrap();
            let share = found.shift.exp() / factor;
            assert!((share - 1.0).abs() < 0.05, "{scale:?} {cpu}: {share}");
            assert!(scale.is_open(found.together.0) && scale.is_open(found.together.1));
        }
    }
}

#[test]
fn holm_is_as_published() {
    let corrected = holm(&[0.01, 0.04, 0.03, 0.005], 4);
    let expected = [0.03, 0.06, 0.06, 0.02];
    for (got, wanted) in corrected.iter().zip(expected) {
        assert!((got - wanted).abs() < 1e-12, "{corrected:?}");
    }
    assert_eq!(holm(&[0.5, 0.001], 10), [1.0, 0.01]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_figures_the_answer_is_finite_and_in_order(
        cpus in 2usize..5,
        figures in prop::collection::vec(0.0f64..1e12, 0..120),
        pick in 0usize..4,
        scale in prop::sample::select(vec![Scale::Ratio, Scale::Sums, Scale::Points]),
    ) {
        let mut blocks = Blocks::new(cpus);
        for (round, block) in figures.chunks_exact(cpus).enumerate() {
            blocks.push(round as u32 / 3, block);
        }
        if let Some(found) = compare(&blocks, scale, pick % cpus, 0.01, 0.001) {
            for x in [found.shift, found.alone.0, found.alone.1, found.together.0,
                      found.together.1, found.error, found.p, found.inflation] {
                prop_assert!(x.is_finite(), "{found:?}");
            }
            prop_assert!(found.together.0 <= found.shift && found.shift <= found.together.1);
            prop_assert!((0.0..=1.0).contains(&found.p) && found.inflation >= 1.0);
        }
    }

    /// A drift of the whole machine, whatever it is, changes nothing.
    #[test]
    fn what_a_block_has_in_common_does_not_matter(
        seed in 0u64..1000,
        drift in prop::collection::vec(0.1f64..10.0, 30),
    ) {
        let blocks = noisy(3, 30, 0.005, seed);
        let mut drifted = Blocks::new(3);
        for ((round, block), factor) in blocks.iter().zip(&drift) {
            let block: Vec<f64> = block.iter().map(|x| x * factor).collect();
            drifted.push(round, &block);
        }
        let one = compare(&blocks, Scale::Ratio, 1, 0.01, 0.001).unwrap();
        let other = compare(&drifted, Scale::Ratio, 1, 0.01, 0.001).unwrap();
        prop_assert!((one.shift - other.shift).abs() < 1e-6);
        prop_assert!((one.p - other.p).abs() < 1e-6);
    }

    /// Shifting the figures shifts the estimate and its interval.
    #[test]
    fn the_estimate_follows_the_figures(seed in 0u64..1000, effect in -0.2f64..0.2) {
        let none = compare(&noisy(4, 30, 0.0, seed), Scale::Ratio, 1, 0.01, 0.001).unwrap();
        let some = compare(&noisy(4, 30, effect, seed), Scale::Ratio, 1, 0.01, 0.001).unwrap();
        prop_assert!((some.shift - none.shift - effect).abs() < 1e-4, "{none:?} {some:?}");
    }
}

/// Waits of 7.5 % in a share of the runs of each CPU.
fn seldom(shares: [f64; 2], blocks: usize, seed: u64) -> Blocks {
    let mut chance = Chance::new(seed, "seldom");
    let mut all = Blocks::new(2);
    for block in 0..blocks {
        let figures = shares.map(|share| if chance.uniform() < share { 7.5 } else { 0.0 });
        all.push(block as u32 / 3, &figures);
    }
    all
}

#[test]
fn what_comes_seldom_is_found_by_means_and_not_by_ranks() {
    // 1.5 points in the mean; four in five runs know nothing of it.
    let blocks = seldom([0.0, 0.2], 150, 3);
    let means = compare(&blocks, Scale::Means, 1, 0.01, 0.001).unwrap();
    assert!(means.together.0 > 0.3 && means.p < 1e-4, "{means:?}");
    assert!((means.shift - 1.5).abs() < 0.5, "{means:?}");
    let ranks = compare(&blocks, Scale::Points, 1, 0.01, 0.001).unwrap();
    assert!(ranks.shift.abs() < 0.01, "{ranks:?}");
    let other = compare(&blocks, Scale::Means, 0, 0.01, 0.001).unwrap();
    assert!((other.shift + means.shift).abs() < 1e-3, "{other:?}");
}

#[test]
fn means_of_alike_cpus_are_called_different_no_oftener_than_asked() {
    let wrong = (0..400)
        .filter(|seed| {
            let blocks = seldom([0.1, 0.1], 60, *seed);
            compare(&blocks, Scale::Means, 1, 0.05, 0.05).unwrap().p < 0.05
        })
        .count();
    // 20 expected at most.
    assert!(wrong < 36, "{wrong}");
}

#[test]
fn one_long_wait_is_no_difference() {
    let mut blocks = Blocks::new(2);
    for round in 0..40 {
        let long = if round == 7 { 95.0 } else { 0.1 };
        blocks.push(round, &[0.1, long]);
    }
    let found = compare(&blocks, Scale::Means, 1, 0.01, 0.001).unwrap();
    assert!(found.p > 0.2 && found.together.0 < 0.0, "{found:?}");
}
