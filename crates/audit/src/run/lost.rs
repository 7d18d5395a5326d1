// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs that went offline on the way: what was found on them before. CPUs that are slow for a
//! defect may be taken offline for it.

use crate::effects::{self, TestLevel};
use crate::model::{Cpu, Test};
use crate::verdict::{self, Rule};

/// A CPU that was lost, beside those that are left, in the blocks before its loss.
#[derive(Debug)]
pub struct LostCpu {
    cpu: u32,
    /// The only one that is left: what it is slower than is the lost one.
    last: Option<u32>,
    test: Test,
}

impl LostCpu {
    /// From all samples of a test; `None` without a whole block.
    pub fn of(test: &Test, left: &[u32], cpu: u32, level: TestLevel) -> Option<Self> {
        let mut cpus = left.to_vec();
        cpus.push(cpu);
        cpus.sort_unstable();
        let mut samples = test.samples.clone();
        effects::keep_whole(&mut samples, &cpus);
        let (lengths, noise) = (test.lengths.len(), test.is_noise());
        let mut found = effects::of_test(&samples, &cpus, lengths, noise, level);
        // Those of the CPUs that are left are corrected with all their blocks.
        for effect in &mut found {
            effect.p_together = (effect.p * level.comparisons as f64).min(1.0);
        }
        let test = Test {
            lengths: test.lengths.clone(),
            unit: test.unit.clone(),
            by_length: effects::by_length(&samples, &cpus, lengths, noise, level),
            effects: found,
            samples,
            ..Test::empty(&test.name)
        };
        let last = match left {
            [last] => Some(*last),
            _ => None,
        };
        (!test.effects.is_empty()).then_some(Self { cpu, last, test })
    }

    /// Judges it, and adds what is of this CPU to its test; of the last one that is left, too.
    pub fn judge(mut self, tests: &mut [Test], cpus: &[Cpu], rule: &Rule<'_>) {
        verdict::judge(&mut self.test, cpus, rule);
        let (cpu, last, found) = (self.cpu, self.last, self.test);
        let mut tests = tests.iter_mut();
        let Some(test) = tests.find(|test| test.name == found.name) else {
            return;
        };
        let samples = found.samples.into_iter();
        test.samples.extend(samples.filter(|one| one.cpu == cpu));
        test.samples.sort_by_key(|sample| sample.at_ns);
        // If several were lost, the last one has figures already.
        let last = last.filter(|last| test.effects.iter().all(|one| one.cpu != *last));
        let is_new = |of: u32| of == cpu || last == Some(of);
        let effects = found.effects.into_iter();
        test.effects.extend(effects.filter(|one| is_new(one.cpu)));
        let by_length = found.by_length.into_iter();
        test.by_length
            .extend(by_length.filter(|one| is_new(one.cpu)));
        let verdicts = found.verdicts.into_iter();
        test.verdicts.extend(verdicts.filter(|one| is_new(one.cpu)));
        test.verdict = verdict::of_test(&test.verdicts, rule.contention_fails);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::accounting::Accounting;
    use crate::model::{AuditSample, AuditVerdict, CpuVerdict, Nature, Quantity};

    /// A test of these CPUs, one of them slower by a fifth, before and after one that was lost in
    /// the last block is judged.
    fn judged(cpus: &[u32], slow: u32, lost: u32) -> [Test; 2] {
        let level = TestLevel {
            confidence: 0.99,
            comparisons: 15,
        };
        let accounting = Accounting::find("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y", false, None);
        let rule = Rule {
            level,
            tolerance_pct: 0.5,
            accounting: &accounting,
            contention_fails: true,
            beside_pct: &BTreeMap::new(),
        };
        let mut chance = sandbag_stats::Chance::new(1, "lost");
        let mut sample = |cpu: u32, round: u32, length: usize| {
            let factor = if cpu == slow { 1.2 } else { 1.0 };
            let ns = (1e8 * factor * (1.0 + 0.001 * chance.normal())) as u64;
            AuditSample {
                cpu,
                round,
                length,
                at_ns: u64::from(round * 9 + length as u32 * 3 + cpu),
                elapsed_ns: ns,
                user_ns: ns,
                ..AuditSample::default()
            }
        };
        let mut test = Test {
            lengths: vec![1, 2, 4],
            ..Test::empty("compute")
        };
        for round in 0..12 {
            for length in 0..3 {
                for cpu in cpus.iter().copied().rev() {
                    if (cpu, round, length) != (lost, 11, 2) {
                        test.samples.push(sample(cpu, round, length));
                    }
                }
            }
        }
        let left: Vec<u32> = cpus.iter().copied().filter(|cpu| *cpu != lost).collect();
        let found = LostCpu::of(&test, &left, lost, level).unwrap();
        assert!(LostCpu::of(&test, &left, 7, level).is_none());
        effects::keep_whole(&mut test.samples, &left);
        test.effects = effects::of_test(&test.samples, &left, 3, false, level);
        let mut tests = [test];
        effects::correct(&mut tests, level.comparisons);
        verdict::judge(&mut tests[0], &[], &rule);
        let before = tests[0].clone();
        found.judge(&mut tests, &[], &rule);
        let [test] = tests;
        [before, test]
    }

    fn of_cpu_time(test: &Test, cpu: u32) -> &CpuVerdict {
        let mut verdicts = test.verdicts.iter();
        let found = verdicts.find(|one| (one.cpu, one.quantity) == (cpu, Quantity::Cpu));
        found.unwrap()
    }

    const ODD: (AuditVerdict, Option<Nature>) = (AuditVerdict::Unequal, Some(Nature::Inequality));

    #[test]
    fn a_slow_cpu_that_goes_offline_is_unequal_and_its_samples_are_kept() {
        let [before, test] = judged(&[0, 1, 2], 2, 2);
        assert_ne!(before.verdict, AuditVerdict::Unequal);
        assert_eq!(test.verdict, AuditVerdict::Unequal);
        let slow = of_cpu_time(&test, 2);
        assert_eq!((slow.verdict, slow.nature), ODD, "{slow:?}");
        let effect = test.effect(2, Quantity::Cpu).unwrap();
        assert!((effect.pct - 20.0).abs() < 1.0 && effect.runs == 35);
        let kept = |cpu| test.samples.iter().filter(|one| one.cpu == cpu).count();
        assert_eq!([0, 1, 2].map(kept), [36, 36, 35]);
        // Nothing changes for the others.
        let others = &test.effects[..before.effects.len()];
        assert_eq!(others, before.effects);
        assert_eq!(&test.verdicts[..before.verdicts.len()], before.verdicts);
    }

    #[test]
    fn of_two_cpus_the_one_that_is_left_is_judged_as_well() {
        let [before, test] = judged(&[0, 1], 0, 1);
        assert!(before.effects.is_empty());
        assert_eq!(test.verdict, AuditVerdict::Unequal);
        let slow = of_cpu_time(&test, 0);
        assert_eq!((slow.verdict, slow.nature), ODD, "{slow:?}");
        assert_eq!(of_cpu_time(&test, 1).verdict, AuditVerdict::Equal);
        let kept = |cpu| test.samples.iter().filter(|one| one.cpu == cpu).count();
        assert_eq!([0, 1].map(kept), [36, 35]);
    }
}
