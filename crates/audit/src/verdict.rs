// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on each CPU, test and audit. Pure.
//!
//! In this order: *equal* if the interval that holds for all comparisons lies within
//! the tolerance, or below it (a faster CPU costs nothing); *unequal* if the corrected
//! probability says that the CPU is slower by no chance, and the estimate is above the
//! tolerance; *not resolvable* if the kernel's ticks cannot resolve differences as
//! small as the tolerance; else *undecided*. So the confidence is that there is a
//! difference; the interval says how large it may be.
//!
//! CPUs that are built differently (kinds of cores; NUMA nodes, where the test
//! touches memory) are held against those of their own build, in times. If all of a build are
//! slower, they are so by design, but by no more than a lower maximum frequency explains. Of the
//! time in which a CPU was not had no build is the cause: there all are equals.
//!
//! A CPU that is slower only for a part of the test was disturbed meanwhile (by other
//! guests of the hypervisor, by a build), which says nothing of the CPU. An effect has
//! to be there in every quarter of the time, at least a third of it ([`LASTS`]); else
//! it is undecided.
//!
//! A time of which a program has little can differ by any factor and not
//! matter: system (or user) time counts as different only if the difference is
//! also something of the CPU's whole time ([`WEIGHT`]).

mod builds;
mod words;

use std::collections::BTreeMap;

use crate::accounting::Accounting;
use crate::design;
use crate::effects::{self, TestLevel, median, share};
use crate::model::{Audit, AuditVerdict, Cpu, CpuVerdict, Effect, Nature, Quantity, Test, unique};
use builds::BuildEffects;

/// A difference of user or system time counts from this part of the tolerance
/// on, as percent of all CPU time.
pub const WEIGHT: f64 = 0.1;
/// In every quarter of the time there must be this part of an effect.
pub const LASTS: f64 = 1.0 / 3.0;
/// Elapsed time that differs by more than this multiple of the CPU time is contention.
const CONTENTION: f64 = 2.0;

/// Interrupts explain an effect from this part of it on.
const INTERRUPTS: f64 = 0.5;

/// A busy sibling costs a thread up to this part of the time that it is busy:
/// half of a core.
pub const SIBLING: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    pub level: TestLevel,
    /// What does not count, percent.
    pub tolerance_pct: f64,
    /// What the kernel can tell.
    pub accounting: &'a Accounting,
    /// Whether a CPU that others disturb makes a test unequal.
    pub contention_fails: bool,
    /// By CPU: how much busier the other threads of its core were than those of
    /// others', percent of a CPU.
    pub beside_pct: &'a BTreeMap<u32, f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EffectClass {
    Within,
    /// Nor slower by more, however much faster.
    NotSlower,
    /// Of a time that hardly matters.
    Little,
    Slower,
    /// Beyond chance, but not all the time.
    Passing,
    Blind,
    Open,
}

/// Fills in the verdicts of a test from its effects.
pub fn judge(test: &mut Test, cpus: &[Cpu], rule: &Rule<'_>) {
    let alike = BuildEffects::of(test, cpus, rule.level);
    let verdicts = test.effects.iter().map(|effect| {
        let (verdict, nature, because) = match alike.look(effect, rule) {
            Some((own, looked)) => among_alike(effect, own, looked, test, cpus, rule),
            None => among_all(effect, test, cpus, rule),
        };
        CpuVerdict {
            cpu: effect.cpu,
            quantity: effect.quantity,
            verdict,
            nature,
            because,
        }
    });
    let verdicts: Vec<CpuVerdict> = verdicts.collect();
    test.verdict = of_test(&verdicts, rule.contention_fails);
    test.verdicts = verdicts;
}

/// The effects that verdicts are about: where builds matter, each among the CPUs of its own.
pub fn judged_effects(
    test: &Test,
    cpus: &[Cpu],
    level: TestLevel,
    tolerance_pct: f64,
) -> Vec<Effect> {
    let alike = BuildEffects::of(test, cpus, level);
    let judged = test.effects.iter().map(|effect| {
        let own = alike.own(effect).map(|(own, _)| own);
        // All of its build may be slower than that explains.
        let own = own
            .filter(|own| own.pct > tolerance_pct || is_excused(effect, test, cpus, tolerance_pct));
        own.unwrap_or(effect).clone()
    });
    judged.collect()
}

type Judgement = (AuditVerdict, Option<Nature>, String);

/// Of a CPU among all; if it is the only one of its build, that may be the cause.
fn among_all(effect: &Effect, test: &Test, cpus: &[Cpu], rule: &Rule<'_>) -> Judgement {
    let (verdict, nature, because) = judge_class(effect, look(effect, test, rule), test, rule);
    match design::difference(cpus, effect.cpu, &test.name) {
        Some(why) if verdict == AuditVerdict::Unequal && !effect.quantity.is_share() => {
            by_design(effect, &why, test, cpus, rule)
        }
        _ => (verdict, nature, because),
    }
}

/// Of a CPU that is slower than others, and no equal of them.
fn by_design(effect: &Effect, why: &str, test: &Test, cpus: &[Cpu], rule: &Rule<'_>) -> Judgement {
    if is_excused(effect, test, cpus, rule.tolerance_pct) {
        let because = words::by_design(effect, why);
        return (AuditVerdict::Unequal, Some(Nature::Designed), because);
    }
    let (verdict, nature, because) = judge_class(effect, EffectClass::Slower, test, rule);
    let excused_pct = design::excused_pct(cpus, effect.cpu, &test.name);
    let because = because + &words::beyond_design(excused_pct, why);
    (verdict, nature, because)
}

/// Whether a CPU is slower than others by no more than its build may explain, as far as the
/// interval tells. Where half of the CPUs are slower, one end of it lies at the others: half of
/// its width counts. What nothing is faster than by design has no such allowance.
fn is_excused(effect: &Effect, test: &Test, cpus: &[Cpu], tolerance_pct: f64) -> bool {
    let excused_pct = design::excused_pct(cpus, effect.cpu, &test.name);
    let (low, high) = effect.together_pct;
    let least_pct = effect.pct - (high - low) / 2.0;
    effect.pct <= excused_pct + tolerance_pct || (excused_pct > 0.0 && least_pct <= excused_pct)
}

/// Of a CPU that is no equal of some by design: it has to be one of those that
/// are built as it is. What is left is the difference of the builds.
fn among_alike(
    effect: &Effect,
    own: &Effect,
    looked: (EffectClass, &Test),
    test: &Test,
    cpus: &[Cpu],
    rule: &Rule<'_>,
) -> Judgement {
    let (look_there, alike) = looked;
    let why = design::difference(cpus, effect.cpu, &test.name).unwrap_or_default();
    let (verdict, nature, because) = judge_class(own, look_there, alike, rule);
    if verdict != AuditVerdict::Equal {
        let same = alike.effects.iter();
        let count = same.filter(|other| other.quantity == own.quantity).count();
        let among = format!("among the {count} CPUs built as it is ({why}): {because}");
        return (verdict, nature, among);
    }
    match look(effect, test, rule) {
        EffectClass::Slower => by_design(effect, &why, test, cpus, rule),
        _ => (verdict, nature, format!("{because} of CPUs built as it is")),
    }
}

fn judge_class(effect: &Effect, looked: EffectClass, test: &Test, rule: &Rule<'_>) -> Judgement {
    match looked {
        EffectClass::Within => (AuditVerdict::Equal, None, words::within_words(effect, rule)),
        EffectClass::Little => (AuditVerdict::Equal, None, words::little(effect, test)),
        EffectClass::Slower if is_stolen(effect, test) => {
            let because = words::beyond_words(effect) + words::STOLEN;
            (AuditVerdict::Unequal, Some(Nature::Contention), because)
        }
        EffectClass::Slower if is_interrupted(effect, test, rule) => {
            let because = words::beyond_words(effect) + words::INTERRUPTED;
            (AuditVerdict::Unequal, Some(Nature::Inequality), because)
        }
        EffectClass::Slower => {
            let nature = nature(effect, test, rule);
            let because = words::beyond_words(effect) + words::of_nature(effect, nature);
            (AuditVerdict::Unequal, Some(nature), because)
        }
        EffectClass::NotSlower => (AuditVerdict::Equal, None, words::not_slower(effect)),
        EffectClass::Passing => (AuditVerdict::Undecided, None, words::passing(effect, test)),
        EffectClass::Blind => (
            AuditVerdict::NotResolvable,
            None,
            words::blind(effect, test, rule),
        ),
        EffectClass::Open => (AuditVerdict::Undecided, None, words::open(effect, rule)),
    }
}

/// What a CPU that is slower suffers from.
fn nature(effect: &Effect, test: &Test, rule: &Rule<'_>) -> Nature {
    match effect.quantity {
        _ if is_sibling_busy(effect, rule) => Nature::Contention,
        Quantity::Noise | Quantity::Waiting => Nature::Contention,
        Quantity::Elapsed if contends(effect, test) => Nature::Contention,
        _ => Nature::Inequality,
    }
}

/// Whether a busy sibling explains the effect.
fn is_sibling_busy(effect: &Effect, rule: &Rule<'_>) -> bool {
    let beside_pct = rule.beside_pct.get(&effect.cpu).copied().unwrap_or(0.0);
    beside_pct * SIBLING >= effect.pct
}

/// Whether interrupts took at least [`INTERRUPTS`] of the effect, and the kernel counts them in no
/// task's CPU time, as those with CONFIG_IRQ_TIME_ACCOUNTING do. They belong to the CPU: no other
/// program ran there. Of commands and noise no wait in the run queue is known, which would be
/// taken for interrupts: there the kernel has to be known to be one of those.
fn is_interrupted(effect: &Effect, test: &Test, rule: &Rule<'_>) -> bool {
    let may_be = match effect.quantity {
        Quantity::Noise | Quantity::Waiting => true,
        Quantity::Elapsed => contends(effect, test),
        Quantity::Cpu | Quantity::User | Quantity::System => false,
    };
    let has_waits = !test.is_noise() && !test.is_command();
    may_be
        && (has_waits || rule.accounting.interrupts_apart)
        && !is_sibling_busy(effect, rule)
        && more_than_elsewhere(effect.cpu, test, interrupted_pct) >= effect.pct * INTERRUPTS
}

/// Time of interrupts that is in no task's CPU time, percent of a CPU's runs. Of what runs waited
/// for, the run queue and the hypervisor have their part.
fn interrupted_pct(test: &Test, cpu: u32) -> f64 {
    let (mut elapsed, mut waited, mut interrupted) = (0.0, 0.0, 0.0);
    for sample in test.samples.iter().filter(|sample| sample.cpu == cpu) {
        let evidence = &sample.evidence;
        let ran_ns = sample.user_ns as f64 + sample.system_ns as f64;
        elapsed += sample.elapsed_ns as f64;
        waited += sample.elapsed_ns as f64 - ran_ns;
        waited -= evidence.waited_ns as f64 + evidence.steal_ns as f64;
        interrupted += evidence.irq_ns as f64 + evidence.softirq_ns as f64;
    }
    interrupted.min(waited).max(0.0) / elapsed.max(1.0) * 100.0
}

/// By how much a CPU has more of something than the median of the others.
fn more_than_elsewhere(cpu: u32, test: &Test, of: impl Fn(&Test, u32) -> f64) -> f64 {
    let cpus = unique(test.samples.iter().map(|sample| sample.cpu));
    let others = cpus.into_iter().filter(|other| *other != cpu);
    let elsewhere = median(others.map(|other| of(test, other)));
    of(test, cpu) - elsewhere.unwrap_or(0.0)
}

/// Whether the hypervisor took as much more of a CPU's time, and the kernel counts that as CPU
/// time, as those without CONFIG_PARAVIRT_TIME_ACCOUNTING do.
fn is_stolen(effect: &Effect, test: &Test) -> bool {
    let more = more_than_elsewhere(effect.cpu, test, stolen_pct);
    !effect.quantity.is_share() && more > 0.0 && more >= effect.pct
}

/// Stolen time that runs did not wait for, percent of the rest of their time: so much longer they
/// seem to have worked.
fn stolen_pct(test: &Test, cpu: u32) -> f64 {
    let (mut elapsed, mut stolen) = (0.0, 0.0);
    for sample in test.samples.iter().filter(|sample| sample.cpu == cpu) {
        let ran_ns = sample.user_ns as f64 + sample.system_ns as f64;
        let waited_ns = (sample.elapsed_ns as f64 - ran_ns).max(0.0);
        elapsed += sample.elapsed_ns as f64;
        stolen += sample.evidence.steal_ns as f64 - waited_ns;
    }
    let stolen = stolen.clamp(0.0, elapsed);
    stolen / (elapsed - stolen).max(1.0) * 100.0
}

/// Whether a verdict is an alarm: what is so by design is none.
pub fn alarms(verdict: AuditVerdict, nature: Option<Nature>, contention_fails: bool) -> bool {
    verdict == AuditVerdict::Unequal
        && match nature {
            Some(Nature::Designed) => false,
            Some(Nature::Contention) => contention_fails,
            Some(Nature::Inequality) | None => true,
        }
}

/// The worst: unequal, undecided, not resolvable if there is nothing else,
/// equal. What this kernel cannot tell is no doubt about the rest.
pub fn of_test(verdicts: &[CpuVerdict], contention_fails: bool) -> AuditVerdict {
    let has = |wanted: fn(&CpuVerdict) -> bool| verdicts.iter().any(wanted);
    let alarms = |one: &CpuVerdict| alarms(one.verdict, one.nature, contention_fails);
    if verdicts.iter().any(alarms) {
        AuditVerdict::Unequal
    } else if verdicts.is_empty() || has(|v| v.verdict == AuditVerdict::Undecided) {
        AuditVerdict::Undecided
    } else if has(|v| v.verdict != AuditVerdict::NotResolvable) {
        AuditVerdict::Equal
    } else {
        AuditVerdict::NotResolvable
    }
}

/// Whether a CPU is faster than the middle one by more than the tolerance, in a time that matters.
/// Its verdict is *equal*, which is about slower ones.
pub(crate) fn is_faster(effect: &Effect, test: &Test, tolerance_pct: f64) -> bool {
    let sampled = matches!(effect.quantity, Quantity::User | Quantity::System);
    let is_little = sampled && of_all_pct(effect, effect.pct, test).abs() < WEIGHT * tolerance_pct;
    effect.together_pct.1 < -tolerance_pct && !is_little
}

/// An audit as it is if contention fails it, or does not.
pub fn again(audit: &mut Audit, contention_fails: bool) {
    audit.design.contention_fails = contention_fails;
    for test in &mut audit.tests {
        test.verdict = of_test(&test.verdicts, contention_fails);
    }
    // Files from before 0.1 do not say it otherwise; no option decides what was undecided.
    let incomplete = audit.incomplete || audit.verdict == AuditVerdict::Undecided;
    audit.verdict = of_whole(&audit.tests, incomplete);
}

/// The verdict on an audit; of one that is `incomplete`, or a test of which failed, at best
/// undecided.
pub fn of_whole(tests: &[Test], incomplete: bool) -> AuditVerdict {
    let of_tests = of_audit(tests);
    if incomplete || tests.iter().any(Test::has_failed) {
        of_tests.max(AuditVerdict::Undecided)
    } else {
        of_tests
    }
}

pub fn of_audit(tests: &[Test]) -> AuditVerdict {
    let has = |verdict| tests.iter().any(|test| test.verdict == verdict);
    if has(AuditVerdict::Unequal) {
        AuditVerdict::Unequal
    } else if tests.is_empty() || has(AuditVerdict::Undecided) {
        AuditVerdict::Undecided
    } else if has(AuditVerdict::Equal) {
        AuditVerdict::Equal
    } else {
        AuditVerdict::NotResolvable
    }
}

fn look(effect: &Effect, test: &Test, rule: &Rule<'_>) -> EffectClass {
    let (low, high) = effect.together_pct;
    if high <= rule.tolerance_pct {
        return if low >= -rule.tolerance_pct {
            EffectClass::Within
        } else {
            EffectClass::NotSlower
        };
    }
    let sampled = matches!(effect.quantity, Quantity::User | Quantity::System);
    if is_beyond_chance(effect, rule) {
        if sampled && of_all_pct(effect, effect.pct, test) < WEIGHT * rule.tolerance_pct {
            return EffectClass::Little;
        }
        // A little slower for sure, and too little to count: for that the
        // interval is still too wide.
        if effect.pct > rule.tolerance_pct {
            return if lasts(effect, test) {
                EffectClass::Slower
            } else {
                EffectClass::Passing
            };
        }
    }
    if sampled && resolvable(effect, test, rule) > rule.tolerance_pct {
        return EffectClass::Blind;
    }
    // However many times it may be more, of so little it is nothing: where times are counted
    // exactly, a test that hardly enters the kernel would be open for ever.
    if sampled && of_all_pct(effect, high, test) < WEIGHT * rule.tolerance_pct {
        EffectClass::Little
    } else {
        EffectClass::Open
    }
}

/// Whether the CPU is slower for sure, however little.
fn is_beyond_chance(effect: &Effect, rule: &Rule<'_>) -> bool {
    effect.p_together < rule.level.pointwise_alpha() && effect.together_pct.0 > 0.0
}

/// The effect in each part of the test's time.
fn in_time(effect: &Effect, test: &Test) -> Vec<f64> {
    let same = test.effects.iter();
    let same = same.filter(|other| other.quantity == effect.quantity);
    let cpus: Vec<u32> = same.map(|other| other.cpu).collect();
    effects::in_time(&test.samples, &cpus, effect.quantity, effect.cpu)
}

/// Whether it is there all the time.
pub fn lasts(effect: &Effect, test: &Test) -> bool {
    let least = effect.pct * LASTS;
    in_time(effect, test).iter().all(|part| *part >= least)
}

/// An effect of so much as percent of all CPU time of the test there.
fn of_all_pct(effect: &Effect, pct: f64, test: &Test) -> f64 {
    let (share, _) = share(&test.samples, effect.cpu, effect.quantity);
    // What is more than it would be without the effect.
    let factor = (1.0 + pct / 100.0).max(0.01);
    share * (1.0 - 1.0 / factor) * 100.0
}

fn resolvable(effect: &Effect, test: &Test, rule: &Rule<'_>) -> f64 {
    let (share, cpu_ns) = share(&test.samples, effect.cpu, effect.quantity);
    let same = test.effects.iter();
    let same = same.filter(|other| other.quantity == effect.quantity);
    let others = same.count().saturating_sub(1);
    rule.accounting
        .resolvable_pct(share, cpu_ns, others, rule.level.z())
}

/// Whether the CPU time of the same CPU is longer by far less, if at all.
fn contends(elapsed: &Effect, test: &Test) -> bool {
    let own = test.effect(elapsed.cpu, Quantity::Cpu);
    own.is_none_or(|own| own.pct.max(0.0) * CONTENTION < elapsed.pct)
}

#[cfg(test)]
mod tests;
