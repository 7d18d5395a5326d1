// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs of one build among themselves, where a machine has several.

use super::{EffectClass, Rule, look};
use crate::design;
use crate::effects::{self, TestLevel};
use crate::model::{Cpu, Effect, Test, unique};

/// A test's effects among CPUs of one build; of each build that has several.
pub(super) struct BuildEffects(Vec<Test>);

impl BuildEffects {
    pub(super) fn of(test: &Test, cpus: &[Cpu], mut level: TestLevel) -> Self {
        // With one that was lost on the way no block would be whole.
        let measured = unique(test.effects.iter().map(|effect| effect.cpu));
        let left = cpus.iter().filter(|cpu| measured.contains(&cpu.cpu));
        let left: Vec<Cpu> = left.cloned().collect();
        let mut builds: Vec<Vec<u32>> = test
            .effects
            .iter()
            .filter(|effect| design::difference(cpus, effect.cpu, &test.name).is_some())
            .map(|effect| design::same_build(&left, effect.cpu, &test.name))
            .filter(|alike| alike.len() > 1)
            .collect();
        builds.sort_unstable();
        builds.dedup();
        // They are compared once more, and so as often again.
        level.comparisons *= 2;
        let of = |build: Vec<u32>| {
            let own = |cpu: u32| build.contains(&cpu);
            let mut alike = Test::empty(&test.name);
            alike.lengths.clone_from(&test.lengths);
            alike.unit.clone_from(&test.unit);
            let samples = test.samples.iter().filter(|sample| own(sample.cpu));
            alike.samples = samples.cloned().collect();
            let (lengths, noise) = (test.lengths.len(), test.is_noise());
            alike.effects = effects::of_test(&alike.samples, &build, lengths, noise, level);
            for effect in &mut alike.effects {
                effect.p_together = (effect.p * level.comparisons as f64).min(1.0);
            }
            alike
        };
        Self(builds.into_iter().map(of).collect())
    }

    /// A CPU's effect among those of its build, and their test; `None` if it has no
    /// others, or builds do not matter.
    pub(super) fn own(&self, effect: &Effect) -> Option<(&Effect, &Test)> {
        if effect.quantity.is_share() {
            return None;
        }
        self.0
            .iter()
            .find_map(|alike| Some((alike.effect(effect.cpu, effect.quantity)?, alike)))
    }

    /// The same, and what it looks like there.
    pub(super) fn look(
        &self,
        effect: &Effect,
        rule: &Rule<'_>,
    ) -> Option<(&Effect, (EffectClass, &Test))> {
        let (own, alike) = self.own(effect)?;
        Some((own, (look(own, alike, rule), alike)))
    }
}
