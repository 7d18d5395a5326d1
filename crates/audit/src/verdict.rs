// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of each CPU, test and audit. Pure.
//!
//! In this order: *equal* if the interval that holds for all comparisons lies
//! within the tolerance; *unequal* if the CPU is slower by more than the
//! tolerance and the corrected probability says that this is no chance; *not
//! resolvable* if the kernel's ticks cannot tell differences as small as the
//! tolerance; else *undecided*.
//!
//! A CPU that is slower for a part of the test's time only was disturbed
//! meanwhile (by a hypervisor's other guests, by somebody's build): that says
//! nothing of the CPU. An effect has to be there in every quarter of the time, at
//! least a third of it ([`LASTS`]); else it is undecided.
//!
//! A time of which a program has little can differ by any factor and not
//! matter: system (or user) time counts as different only if the difference is
//! also something of the CPU's whole time ([`WEIGHT`]).

use crate::accounting::Accounting;
use crate::effects::{self, Level, share};
use crate::model::{Cpu, CpuVerdict, Effect, Nature, Quantity, Test, Verdict};

/// A difference of user or system time counts from this part of the tolerance
/// on, as percent of all CPU time.
pub const WEIGHT: f64 = 0.1;
/// In every quarter of the time there must be this part of an effect.
pub const LASTS: f64 = 1.0 / 3.0;
/// Elapsed time that differs by more than so many times the CPU time is
/// contention.
const CONTENTION: f64 = 2.0;

/// By what verdicts are given.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// How sure.
    pub level: Level,
    /// What does not count, percent.
    pub tolerance_pct: f64,
    /// What the kernel can tell.
    pub accounting: &'a Accounting,
}

/// What an effect looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Within,
    /// Of a time that hardly matters.
    Little,
    Slower,
    Faster,
    /// Beyond chance, but not all the time.
    Passing,
    Blind,
    Open,
}

/// Fills in the verdicts of a test from its effects.
pub fn judge(test: &mut Test, cpus: &[Cpu], rule: &Rule<'_>) {
    let looks: Vec<Look> = test
        .effects
        .iter()
        .map(|effect| look(effect, test, rule))
        .collect();
    let slower = |cpu: Option<u32>, quantity: Quantity| {
        let mut all = test.effects.iter().zip(&looks);
        all.any(|(effect, look)| {
            *look == Look::Slower
                && effect.quantity == quantity
                && cpu.is_none_or(|cpu| cpu == effect.cpu)
        })
    };
    let mut verdicts = Vec::new();
    for (effect, look) in test.effects.iter().zip(&looks) {
        let (verdict, why) = match look {
            Look::Within => (Verdict::Equal, within(effect, rule)),
            Look::Little => (Verdict::Equal, little(effect, test)),
            Look::Slower => (Verdict::Unequal, beyond(effect, "slower")),
            Look::Faster if slower(None, effect.quantity) => (
                Verdict::Equal,
                format!("not slower: {}", beyond(effect, "faster")),
            ),
            Look::Faster => (Verdict::Unequal, beyond(effect, "faster")),
            Look::Passing => (Verdict::Undecided, passing(effect, test)),
            Look::Blind => (Verdict::NotResolvable, blind(effect, test, rule)),
            Look::Open => (Verdict::Undecided, open(effect, rule)),
        };
        let designed = designed(cpus, effect.cpu, &test.name);
        let nature = (verdict == Verdict::Unequal).then(|| match effect.quantity {
            _ if designed.is_some() => Nature::Designed,
            Quantity::Noise | Quantity::Waiting => Nature::Contention,
            Quantity::Elapsed if contends(effect, &test.effects) => Nature::Contention,
            _ => Nature::Inequality,
        });
        let mut because = why;
        match (nature, designed) {
            (Some(Nature::Designed), Some(why)) => because += &format!("; by design: {why}"),
            (Some(Nature::Contention), _) if effect.quantity == Quantity::Waiting => {
                because += "; so much of its time it did not have the CPU";
            }
            (Some(Nature::Contention), _) if effect.quantity == Quantity::Elapsed => {
                because += "; its CPU time is not longer by as much: something else ran there";
            }
            _ => {}
        }
        verdicts.push(CpuVerdict {
            cpu: effect.cpu,
            quantity: effect.quantity,
            verdict,
            nature,
            because,
        });
    }
    test.verdict = of_test(&verdicts);
    test.verdicts = verdicts;
}

/// The worst: unequal, undecided, not resolvable if there is nothing else,
/// equal. What is so by design is no alarm, and what this kernel cannot tell is
/// no doubt about the rest.
#[must_use]
pub fn of_test(verdicts: &[CpuVerdict]) -> Verdict {
    let has = |wanted: fn(&CpuVerdict) -> bool| verdicts.iter().any(wanted);
    if has(|v| v.verdict == Verdict::Unequal && v.nature != Some(Nature::Designed)) {
        Verdict::Unequal
    } else if verdicts.is_empty() || has(|v| v.verdict == Verdict::Undecided) {
        Verdict::Undecided
    } else if has(|v| v.verdict != Verdict::NotResolvable) {
        Verdict::Equal
    } else {
        Verdict::NotResolvable
    }
}

/// The worst of all tests.
#[must_use]
pub fn of_audit(tests: &[Test]) -> Verdict {
    let all = || tests.iter().map(|test| test.verdict);
    if all().any(|verdict| verdict == Verdict::Unequal) {
        Verdict::Unequal
    } else if tests.is_empty() || all().any(|verdict| verdict == Verdict::Undecided) {
        Verdict::Undecided
    } else if all().any(|verdict| verdict == Verdict::Equal) {
        Verdict::Equal
    } else {
        Verdict::NotResolvable
    }
}

fn look(effect: &Effect, test: &Test, rule: &Rule<'_>) -> Look {
    let (low, high) = effect.together_pct;
    if -rule.tolerance_pct <= low && high <= rule.tolerance_pct {
        return Look::Within;
    }
    let sampled = matches!(effect.quantity, Quantity::User | Quantity::System);
    if effect.p_together < rule.level.alone() && (low > 0.0 || high < 0.0) {
        if sampled && of_all_pct(effect, test).abs() < WEIGHT * rule.tolerance_pct {
            return Look::Little;
        }
        // A little slower for sure, and too little to count: for that the
        // interval is still too wide.
        if effect.pct.abs() > rule.tolerance_pct {
            if !lasts(effect, &in_time(effect, test)) {
                return Look::Passing;
            }
            return match effect.pct > 0.0 {
                true => Look::Slower,
                false => Look::Faster,
            };
        }
    }
    match sampled && resolvable(effect, test, rule) > rule.tolerance_pct {
        true => Look::Blind,
        false => Look::Open,
    }
}

/// The effect in each part of the test's time.
fn in_time(effect: &Effect, test: &Test) -> Vec<f64> {
    let alike = test
        .effects
        .iter()
        .filter(|other| other.quantity == effect.quantity);
    let cpus: Vec<u32> = alike.map(|other| other.cpu).collect();
    effects::in_time(&test.samples, &cpus, effect.quantity, effect.cpu)
}

/// Whether it is there all the time.
fn lasts(effect: &Effect, parts: &[f64]) -> bool {
    let least = effect.pct.abs() * LASTS;
    parts.iter().all(|part| part * effect.pct.signum() >= least)
}

/// The effect as percent of all CPU time of the test there.
fn of_all_pct(effect: &Effect, test: &Test) -> f64 {
    let (share, _) = share(&test.samples, effect.cpu, effect.quantity);
    // What is more than it would be without the effect.
    let factor = (1.0 + effect.pct / 100.0).max(0.01);
    share * (1.0 - 1.0 / factor) * 100.0
}

fn resolvable(effect: &Effect, test: &Test, rule: &Rule<'_>) -> f64 {
    let (share, cpu_ns) = share(&test.samples, effect.cpu, effect.quantity);
    let others = test
        .effects
        .iter()
        .filter(|other| other.quantity == effect.quantity);
    let others = others.count().saturating_sub(1);
    let accounting = rule.accounting;
    accounting.resolvable_pct(share, cpu_ns, others, rule.level.z())
}

/// The CPU time of the same CPU is longer by far less, if at all.
fn contends(elapsed: &Effect, effects: &[Effect]) -> bool {
    let own = effects
        .iter()
        .find(|effect| effect.cpu == elapsed.cpu && effect.quantity == Quantity::Cpu);
    own.is_none_or(|own| own.pct.max(0.0) * CONTENTION < elapsed.pct)
}

/// Why a CPU is another one than most by how the machine is built.
#[must_use]
pub fn designed(cpus: &[Cpu], cpu: u32, test: &str) -> Option<String> {
    let own = cpus.iter().find(|known| known.cpu == cpu)?;
    let others = || cpus.iter().filter(|other| other.cpu != cpu);
    if let Some(kind) = &own.kind
        && let Some(other) = others()
            .filter_map(|other| other.kind.as_ref())
            .find(|o| *o != kind)
    {
        return Some(format!(
            "it is of the kind `{kind}`, others are of `{other}`"
        ));
    }
    let memory = test == "memory" || test == "both";
    if memory
        && let Some(node) = own.node
        && others().any(|other| other.node.is_some_and(|other| other != node))
    {
        return Some(format!(
            "it is on NUMA node {node}, and the array lies on one node for all CPUs"
        ));
    }
    None
}

/// What an effect's figures are called.
fn unit(quantity: Quantity) -> &'static str {
    match quantity.is_share() {
        true => "points",
        false => "%",
    }
}

fn interval(effect: &Effect) -> String {
    let (low, high) = effect.together_pct;
    format!("{low:+.2} to {high:+.2} {}", unit(effect.quantity))
}

fn within(effect: &Effect, rule: &Rule<'_>) -> String {
    format!(
        "the difference is surely from {}, within the tolerance of {} {}",
        interval(effect),
        rule.tolerance_pct,
        unit(effect.quantity)
    )
}

fn little(effect: &Effect, test: &Test) -> String {
    format!(
        "it differs by {:+.1} %, but that is {:.3} % of the CPU's time only",
        effect.pct,
        of_all_pct(effect, test).abs()
    )
}

fn beyond(effect: &Effect, how: &str) -> String {
    format!(
        "{how} by {:.2} {} ({}; p = {:.1e} after correction)",
        effect.pct.abs(),
        unit(effect.quantity),
        interval(effect),
        effect.p_together
    )
}

fn passing(effect: &Effect, test: &Test) -> String {
    let parts = in_time(effect, test);
    let parts: Vec<String> = parts.iter().map(|part| format!("{part:+.2}")).collect();
    format!(
        "{}, but not all the time: {} {} in the parts of the test, one after the other; something \
         passed by",
        beyond(effect, if effect.pct > 0.0 { "slower" } else { "faster" }),
        parts.join(", "),
        unit(effect.quantity)
    )
}

fn blind(effect: &Effect, test: &Test, rule: &Rule<'_>) -> String {
    let pct = resolvable(effect, test, rule);
    let words = &rule.accounting.words;
    match pct >= 1e5 {
        true => format!("no tick fell into it ({words}): nothing can be said of it"),
        false => format!("{words}: so many runs tell differences above {pct:.1} % only"),
    }
}

fn open(effect: &Effect, rule: &Rule<'_>) -> String {
    format!(
        "the difference is from {}: neither within the tolerance of {} {} nor beyond chance \
         (differences above {:.2} {} would have been seen)",
        interval(effect),
        rule.tolerance_pct,
        unit(effect.quantity),
        effect.detectable_pct,
        unit(effect.quantity)
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::{Evidence, Sample};

    fn effect(cpu: u32, quantity: Quantity, pct: f64, half: f64, p: f64) -> Effect {
        Effect {
            quantity,
            cpu,
            pct,
            interval_pct: (pct - half / 2.0, pct + half / 2.0),
            together_pct: (pct - half, pct + half),
            p,
            p_together: p,
            runs: 36,
            middle: 1e8,
            detectable_pct: half * 1.4,
        }
    }

    fn test_of(name: &str, effects: Vec<Effect>, system: u64) -> Test {
        // No other CPU ran: nothing is known of parts of the time.
        let sample = |cpu| Sample {
            cpu,
            round: 0,
            length: cpu as usize,
            at_ns: 0,
            elapsed_ns: 40_000_000_000,
            user_ns: 40_000_000_000 - system,
            system_ns: system,
            noise_pct: None,
            evidence: Evidence::default(),
        };
        Test {
            lengths: vec![1, 2, 4],
            unit: "calls".into(),
            samples: vec![sample(0), sample(1)],
            effects,
            ..Test::begun(name)
        }
    }

    fn cpu(number: u32, kind: Option<&str>, node: u32) -> Cpu {
        Cpu {
            cpu: number,
            package: None,
            core: None,
            node: Some(node),
            siblings: vec![],
            kind: kind.map(str::to_owned),
            settings: vec![],
        }
    }

    fn judged(mut test: Test, cpus: &[Cpu]) -> Test {
        let accounting =
            Accounting::find("CONFIG_TICK_CPU_ACCOUNTING=y\nCONFIG_HZ=250", false, None);
        let rule = Rule {
            level: Level {
                confidence: 0.99,
                comparisons: 20,
            },
            tolerance_pct: 0.5,
            accounting: &accounting,
        };
        judge(&mut test, cpus, &rule);
        test
    }

    #[rstest]
    #[case::surely_within(0.1, 0.3, 1.0, Verdict::Equal)]
    #[case::surely_and_yet_within(0.3, 0.1, 1e-9, Verdict::Equal)]
    #[case::beyond(1.0, 0.4, 1e-6, Verdict::Unequal)]
    #[case::slower_by_too_little(0.4, 0.3, 1e-6, Verdict::Undecided)]
    #[case::perhaps(0.6, 0.7, 0.03, Verdict::Undecided)]
    fn one_quantity(#[case] pct: f64, #[case] half: f64, #[case] p: f64, #[case] wanted: Verdict) {
        let effects = vec![
            effect(0, Quantity::Cpu, -pct, half, p),
            effect(1, Quantity::Cpu, pct, half, p),
        ];
        let test = judged(test_of("compute", effects, 20_000_000_000), &[]);
        assert_eq!(test.verdict, wanted, "{test:?}");
        // The mirror image is never the one to blame.
        assert_ne!(test.verdicts[0].verdict, Verdict::Unequal);
    }

    #[test]
    fn contention_and_inequality_are_told_apart() {
        let both = |cpu_pct| {
            vec![
                effect(1, Quantity::Elapsed, 3.0, 0.3, 1e-9),
                effect(1, Quantity::Cpu, cpu_pct, 0.3, 1e-9),
            ]
        };
        let test = judged(test_of("compute", both(0.1), 0), &[]);
        assert_eq!(test.verdicts[0].nature, Some(Nature::Contention));
        assert_eq!(test.verdicts[1].verdict, Verdict::Equal);
        let test = judged(test_of("compute", both(2.8), 0), &[]);
        assert_eq!(test.verdicts[0].nature, Some(Nature::Inequality));
        assert_eq!(test.verdicts[1].nature, Some(Nature::Inequality));
    }

    #[test]
    fn what_passes_by_is_no_verdict() {
        let with = |slow: fn(u32) -> bool| {
            let sample = |cpu: u32, round: u32| Sample {
                cpu,
                round,
                length: 0,
                at_ns: 0,
                elapsed_ns: 100_000_000
                    + if cpu == 1 && slow(round) {
                        5_000_000
                    } else {
                        0
                    },
                user_ns: 100_000_000,
                system_ns: 0,
                noise_pct: None,
                evidence: Evidence::default(),
            };
            let effects = vec![
                effect(0, Quantity::Elapsed, -5.0, 1.0, 1e-9),
                effect(1, Quantity::Elapsed, 5.0, 1.0, 1e-9),
            ];
            let mut test = test_of("compute", effects, 0);
            let rounds = (0..16).flat_map(|round| [sample(0, round), sample(1, round)]);
            test.samples = rounds.collect();
            judged(test, &[])
        };
        assert_eq!(with(|_| true).verdict, Verdict::Unequal);
        let passed = with(|round| round < 12);
        assert_eq!(passed.verdict, Verdict::Undecided);
        assert!(
            passed.verdicts[1].because.contains("passed by"),
            "{passed:?}"
        );
    }

    #[test]
    fn ticks_cannot_tell_everything() {
        let effects = vec![
            effect(0, Quantity::Cpu, 0.0, 0.2, 1.0),
            effect(1, Quantity::Cpu, 0.0, 0.2, 1.0),
            effect(0, Quantity::System, 1.0, 4.0, 1.0),
            effect(1, Quantity::System, -1.0, 4.0, 1.0),
        ];
        let test = judged(test_of("syscall", effects, 20_000_000_000), &[]);
        assert_eq!(test.verdicts[2].verdict, Verdict::NotResolvable);
        assert!(
            test.verdicts[2].because.contains("250 Hz"),
            "{:?}",
            test.verdicts[2]
        );
        // The rest is known.
        assert_eq!(test.verdict, Verdict::Equal);
    }

    #[test]
    fn a_large_difference_of_next_to_nothing_is_none() {
        // 80 % more of 0.05 %.
        let effects = vec![effect(1, Quantity::System, 80.0, 20.0, 1e-9)];
        let test = judged(test_of("compute", effects, 20_000_000), &[]);
        assert_eq!(test.verdicts[0].verdict, Verdict::Equal, "{test:?}");
        // 80 % more of 2 %.
        let effects = vec![effect(1, Quantity::System, 80.0, 20.0, 1e-9)];
        let test = judged(test_of("compute", effects, 800_000_000), &[]);
        assert_eq!(test.verdict, Verdict::Unequal);
    }

    #[test]
    fn what_is_so_by_design_is_no_alarm() {
        let effects = || vec![effect(1, Quantity::Cpu, 30.0, 1.0, 1e-9)];
        let kinds = [cpu(0, Some("a"), 0), cpu(1, Some("b"), 0)];
        let test = judged(test_of("compute", effects(), 0), &kinds);
        assert_eq!(test.verdicts[0].nature, Some(Nature::Designed));
        assert_ne!(test.verdict, Verdict::Unequal);
        let nodes = [cpu(0, None, 0), cpu(1, None, 1)];
        let test = judged(test_of("memory", effects(), 0), &nodes);
        assert_eq!(test.verdicts[0].nature, Some(Nature::Designed));
        let test = judged(test_of("compute", effects(), 0), &nodes);
        assert_eq!(test.verdict, Verdict::Unequal);
    }

    #[test]
    fn an_audit_is_as_its_worst_test() {
        let of = |verdicts: &[Verdict]| {
            let tests: Vec<Test> = verdicts
                .iter()
                .map(|verdict| Test {
                    verdict: *verdict,
                    ..test_of("x", vec![], 0)
                })
                .collect();
            of_audit(&tests)
        };
        use Verdict::{Equal, NotResolvable, Undecided, Unequal};
        assert_eq!(of(&[Equal, Undecided, Unequal]), Unequal);
        assert_eq!(of(&[Equal, Undecided, NotResolvable]), Undecided);
        assert_eq!(of(&[Equal, NotResolvable]), Equal);
        assert_eq!(of(&[NotResolvable]), NotResolvable);
        assert_eq!(of(&[]), Undecided);
    }
}
