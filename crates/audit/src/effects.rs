// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the runs of a test to one effect per CPU and quantity. Pure.

use std::collections::BTreeMap;

use crate::model::{AuditSample, Effect, LengthEffect, Quantity, Test};
use crate::ranks::{
    Blocks, Scale, ShiftEstimate, compare_all, compare_with_middle, half_width, holm, quantile,
    rank_shift,
};

/// How sure effects are to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestLevel {
    /// Of each for itself, and of all together.
    pub confidence: f64,
    /// How many there are in the audit.
    pub comparisons: usize,
}

impl TestLevel {
    /// Probability with which an interval alone may miss the truth.
    pub fn pointwise_alpha(self) -> f64 {
        1.0 - self.confidence
    }

    /// The same where all are to hold at once (Bonferroni).
    pub fn joint_alpha(self) -> f64 {
        self.pointwise_alpha() / self.comparisons.max(1) as f64
    }

    /// The half width of the simultaneous intervals in standard errors.
    pub fn z(self) -> f64 {
        quantile(1.0 - self.joint_alpha() / 2.0)
    }
}

/// With this probability what is called detectable would have been seen.
const POWER: f64 = 0.9;

/// What a test of a kind measures.
pub fn quantities(noise: bool) -> &'static [Quantity] {
    if noise {
        &[Quantity::Noise]
    } else {
        &[
            Quantity::Elapsed,
            Quantity::Cpu,
            Quantity::User,
            Quantity::System,
            Quantity::Waiting,
        ]
    }
}

/// Those whose precision decides when a test has enough: the others may be
/// beyond what the kernel tells.
pub fn deciding(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::Elapsed | Quantity::Cpu | Quantity::Waiting | Quantity::Noise
    )
}

/// Number of comparisons of `cpus` CPUs by tests of these kinds (true: noise). Two CPUs
/// are compared once: each is what the other is not.
pub fn comparisons(noise: &[bool], cpus: usize) -> usize {
    let each = match cpus {
        0 | 1 => 0,
        2 => 1,
        more => more,
    };
    noise
        .iter()
        .map(|noise| quantities(*noise).len() * each)
        .sum()
}

/// The blocks of these CPUs that are whole, of one length or all.
pub fn blocks(
    samples: &[AuditSample],
    cpus: &[u32],
    quantity: Quantity,
    length: Option<usize>,
) -> Blocks {
    let mut table: BTreeMap<(u32, usize), Vec<Option<f64>>> = BTreeMap::new();
    let places: BTreeMap<u32, usize> = cpus.iter().copied().zip(0..).collect();
    for sample in samples {
        let place = places.get(&sample.cpu).copied();
        let wanted = length.is_none_or(|length| length == sample.length);
        if let (Some(place), true) = (place, wanted) {
            let row = table.entry((sample.round, sample.length));
            let row = row.or_insert_with(|| vec![None; cpus.len()]);
            row[place] = sample.figure(quantity);
        }
    }
    let mut blocks = Blocks::new(cpus.len());
    for ((round, _), row) in table {
        if let Some(row) = row.into_iter().collect::<Option<Vec<f64>>>() {
            blocks.push(round, &row);
        }
    }
    blocks
}

/// Keeps the samples of blocks in which each of these CPUs ran.
pub fn keep_whole(samples: &mut Vec<AuditSample>, cpus: &[u32]) {
    let mut count: BTreeMap<(u32, usize), usize> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| cpus.contains(&sample.cpu)) {
        *count.entry((sample.round, sample.length)).or_default() += 1;
    }
    samples.retain(|sample| {
        cpus.contains(&sample.cpu) && count.get(&(sample.round, sample.length)) == Some(&cpus.len())
    });
}

/// How a quantity's figures are compared.
pub fn scale(quantity: Quantity, blocks: &Blocks) -> Scale {
    match (quantity, blocks.has_zeros()) {
        (Quantity::Noise, _) => Scale::Points,
        // What another program takes it takes in slices: most runs wait for nothing,
        // and a few for long. The middle says nothing of that.
        (Quantity::Waiting, _) => Scale::Means,
        (_, true) => Scale::Sums,
        (_, false) => Scale::Ratio,
    }
}

/// Effects of all lengths together; `p_together` is not yet corrected
/// ([`correct`]).
pub fn of_test(
    samples: &[AuditSample],
    cpus: &[u32],
    lengths: usize,
    noise: bool,
    level: TestLevel,
) -> Vec<Effect> {
    effects_by(compare_all, samples, cpus, lengths, noise, level)
}

/// The same, each compared with the middle of all. The time of each with all others grows with the
/// square of their number.
pub fn against_middle(
    samples: &[AuditSample],
    cpus: &[u32],
    lengths: usize,
    noise: bool,
    level: TestLevel,
) -> Vec<Effect> {
    effects_by(compare_with_middle, samples, cpus, lengths, noise, level)
}

fn effects_by(
    compare: fn(&Blocks, Scale, f64, f64) -> Vec<ShiftEstimate>,
    samples: &[AuditSample],
    cpus: &[u32],
    lengths: usize,
    noise: bool,
    level: TestLevel,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for quantity in quantities(noise) {
        let all = blocks(samples, cpus, *quantity, None);
        let scale = scale(*quantity, &all);
        let found = compare(&all, scale, level.pointwise_alpha(), level.joint_alpha());
        for (cpu, found) in cpus.iter().zip(found) {
            let detectable = found.error * (level.z() + quantile(POWER));
            let ends = [found.together.0, found.together.1, detectable];
            // An interval without an end says nothing of the scatter.
            let is_known = !ends.into_iter().any(|shift| scale.is_open(shift));
            effects.push(Effect {
                quantity: *quantity,
                cpu: *cpu,
                pct: scale.pct(found.shift),
                interval_pct: (scale.pct(found.alone.0), scale.pct(found.alone.1)),
                together_pct: (scale.pct(found.together.0), scale.pct(found.together.1)),
                p: found.p,
                p_together: found.p,
                runs: all.len() as u32,
                middle: longest(samples, *cpu, lengths, *quantity),
                detectable_pct: is_known.then(|| scale.pct(detectable)),
            });
        }
    }
    effects
}

/// The same of each length.
pub fn by_length(
    samples: &[AuditSample],
    cpus: &[u32],
    lengths: usize,
    noise: bool,
    level: TestLevel,
) -> Vec<LengthEffect> {
    let mut effects = Vec::new();
    for quantity in quantities(noise) {
        for length in 0..lengths {
            let some = blocks(samples, cpus, *quantity, Some(length));
            let scale = scale(*quantity, &some);
            let found = compare_all(
                &some,
                scale,
                level.pointwise_alpha(),
                level.pointwise_alpha(),
            );
            effects.extend(cpus.iter().zip(found).map(|(cpu, found)| LengthEffect {
                quantity: *quantity,
                cpu: *cpu,
                length,
                pct: scale.pct(found.shift),
                interval_pct: (scale.pct(found.alone.0), scale.pct(found.alone.1)),
            }));
        }
    }
    effects
}

/// The median of a CPU's figures at the greatest length.
fn longest(samples: &[AuditSample], cpu: u32, lengths: usize, quantity: Quantity) -> f64 {
    let own = samples.iter().filter(|sample| sample.cpu == cpu);
    let own = own.filter(|sample| sample.length + 1 == lengths);
    median(own.filter_map(|sample| sample.figure(quantity))).unwrap_or(0.0)
}

/// Parts of a test's time in which an effect has to last.
const PARTS: u32 = 4;

/// The effect on a CPU in each part of the test's time, percent (of noise:
/// points).
pub fn in_time(samples: &[AuditSample], cpus: &[u32], quantity: Quantity, cpu: u32) -> Vec<f64> {
    let rounds = samples.iter().map(|sample| sample.round.saturating_add(1));
    let rounds = rounds.max().unwrap_or(0);
    let parts = PARTS.min(rounds);
    let Some(place) = cpus.iter().position(|other| *other == cpu) else {
        return Vec::new();
    };
    let of_part = |part: u32| {
        let within = |sample: &&AuditSample| {
            u64::from(sample.round) * u64::from(parts) / u64::from(rounds) == u64::from(part)
        };
        let own: Vec<AuditSample> = samples.iter().filter(within).cloned().collect();
        let some = blocks(&own, cpus, quantity, None);
        let scale = scale(quantity, &some);
        Some(scale.pct(rank_shift(&some, scale, place)?))
    };
    (0..parts).filter_map(of_part).collect()
}

/// Half of the widest simultaneous interval of the quantities that decide,
/// percent (of noise: points); `None` without figures, or where an interval has
/// no end.
pub fn half_width_pct(
    samples: &[AuditSample],
    cpus: &[u32],
    noise: bool,
    level: TestLevel,
) -> Option<f64> {
    let mut widest: Option<f64> = None;
    for quantity in quantities(noise).iter().filter(|one| deciding(**one)) {
        let all = blocks(samples, cpus, *quantity, None);
        if !all.is_empty() {
            let scale = scale(*quantity, &all);
            let half = scale.pct(half_width(&all, scale, level.joint_alpha())?);
            widest = Some(widest.map_or(half, |widest| widest.max(half)));
        }
    }
    widest
}

/// Holm's correction over all effects of an audit with this number of comparisons. Two
/// CPUs are mirror images: the first stands for both.
pub fn correct(tests: &mut [Test], comparisons: usize) {
    let mut compared: Vec<Vec<&mut Effect>> = Vec::new();
    for test in tests {
        let mut by_quantity: BTreeMap<Quantity, Vec<&mut Effect>> = BTreeMap::new();
        for effect in &mut test.effects {
            by_quantity.entry(effect.quantity).or_default().push(effect);
        }
        for all in by_quantity.into_values() {
            if all.len() == 2 {
                compared.push(all);
            } else {
                compared.extend(all.into_iter().map(|effect| vec![effect]));
            }
        }
    }
    let p: Vec<f64> = compared.iter().map(|effects| effects[0].p).collect();
    for (effects, p) in compared.into_iter().zip(holm(&p, comparisons)) {
        effects.into_iter().for_each(|effect| effect.p_together = p);
    }
}

/// Share of a quantity in the CPU time of all runs of a CPU, 0 to 1, and that
/// time, ns.
pub fn share(samples: &[AuditSample], cpu: u32, quantity: Quantity) -> (f64, f64) {
    let sum = |quantity| -> f64 {
        let own = samples.iter().filter(|sample| sample.cpu == cpu);
        own.filter_map(|sample| sample.figure(quantity)).sum()
    };
    match sum(Quantity::Cpu) {
        cpu_ns if cpu_ns > 0.0 => (sum(quantity) / cpu_ns, cpu_ns),
        _ => (0.0, 0.0),
    }
}

/// The median; `None` of nothing.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let all: Vec<f64> = figures.into_iter().collect();
    sandbag_stats::median(&all)
}

#[cfg(test)]
mod tests {
    use sandbag_stats::Chance;

    use super::*;

    pub(crate) fn sample(cpu: u32, round: u32, length: usize, ns: f64, system: f64) -> AuditSample {
        AuditSample {
            cpu,
            round,
            length,
            elapsed_ns: ns as u64,
            user_ns: (ns * (1.0 - system)) as u64,
            system_ns: (ns * system) as u64,
            ..AuditSample::default()
        }
    }

    fn samples(cpus: u32, rounds: u32, slow: f64) -> Vec<AuditSample> {
        let mut chance = Chance::new(1, "effects");
        let mut all = Vec::new();
        for round in 0..rounds {
            for length in 0..3 {
                for cpu in 0..cpus {
                    let factor = if cpu == 1 { slow } else { 1.0 };
                    let ns = 5e7 * f64::from(1 << length) * factor;
                    let noise = 1.0 + 0.005 * chance.normal();
                    all.push(sample(cpu, round, length, ns * noise, 0.25));
                }
            }
        }
        all
    }

    const LEVEL: TestLevel = TestLevel {
        confidence: 0.99,
        comparisons: 8,
    };

    #[test]
    fn a_slower_cpu_is_found_at_every_length() {
        let samples = samples(4, 12, 1.02);
        let cpus = [0, 1, 2, 3];
        let effects = of_test(&samples, &cpus, 3, false, LEVEL);
        let by_length = by_length(&samples, &cpus, 3, false, LEVEL);
        assert_eq!((effects.len(), by_length.len()), (20, 60));
        let one = effects
            .iter()
            .find(|e| e.cpu == 1 && e.quantity == Quantity::Cpu)
            .unwrap();
        assert!(
            (one.pct - 2.0).abs() < 0.5 && one.together_pct.0 > 1.0,
            "{one:?}"
        );
        assert!(
            one.detectable_pct.is_some_and(|pct| pct > 0.1 && pct < 1.5),
            "{one:?}"
        );
        assert!((one.middle - 2.04e8).abs() < 2e6 && one.runs == 36);
        for length in by_length
            .iter()
            .filter(|e| e.cpu == 1 && !e.quantity.is_share())
        {
            assert!((length.pct - 2.0).abs() < 1.0, "{length:?}");
        }
        let half = half_width_pct(&samples, &cpus, false, LEVEL).unwrap();
        assert!(half > 0.1 && half < 1.0, "{half}");
    }

    #[test]
    fn few_runs_have_no_figure_in_place_of_a_bound() {
        let samples = samples(2, 1, 1.0);
        assert_eq!(half_width_pct(&samples, &[0, 1], false, LEVEL), None);
        for effect in of_test(&samples, &[0, 1], 3, false, LEVEL) {
            assert_eq!(effect.detectable_pct, None, "{effect:?}");
        }
    }

    #[test]
    fn blocks_that_are_not_whole_do_not_count() {
        let mut samples = samples(2, 4, 1.0);
        samples.pop();
        let all = blocks(&samples, &[0, 1], Quantity::Elapsed, None);
        assert_eq!(all.len(), 11);
        assert_eq!(blocks(&samples, &[0, 7], Quantity::Elapsed, None).len(), 0);
    }

    #[test]
    fn only_whole_blocks_of_the_cpus_that_are_left_count() {
        let sample = |cpu, round| AuditSample {
            cpu,
            round,
            elapsed_ns: 1,
            user_ns: 1,
            ..AuditSample::default()
        };
        let mut samples = vec![
            sample(0, 0),
            sample(1, 0),
            sample(2, 0),
            sample(0, 1),
            sample(2, 1),
            sample(0, 2),
        ];
        keep_whole(&mut samples, &[0, 2]);
        let left: Vec<(u32, u32)> = samples.iter().map(|s| (s.cpu, s.round)).collect();
        assert_eq!(left, [(0, 0), (2, 0), (0, 1), (2, 1)]);
    }

    #[test]
    fn two_cpus_are_one_comparison() {
        assert_eq!(comparisons(&[false, true], 2), 6);
        assert_eq!(comparisons(&[false, true], 8), 48);
        assert_eq!(comparisons(&[false], 1), 0);
        let samples = samples(2, 8, 1.05);
        let effects = of_test(&samples, &[0, 1], 3, false, LEVEL);
        let mut tests = [Test {
            lengths: vec![1, 2, 4],
            samples,
            effects,
            ..crate::model::Test::empty("x")
        }];
        correct(&mut tests, 4);
        // No CPU waited.
        let times = tests[0].effects.iter().filter(|e| !e.quantity.is_share());
        for effect in times {
            assert!(
                effect.p_together >= effect.p && effect.p_together < 0.01,
                "{effect:?}"
            );
        }
    }
}
