// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts of made-up effects.

use rstest::rstest;

use super::*;
use crate::model::{AuditSample, STOPPED};

fn effect(cpu: u32, quantity: Quantity, pct: f64, half: f64, p: f64) -> Effect {
    Effect {
        quantity,
        cpu,
        pct,
        interval_pct: (pct - half / 2.0, pct + half / 2.0),
        together_pct: (pct - half, pct + half),
        p,
        p_together: p,
        detectable_pct: Some(half * 1.4),
        ..Effect::default()
    }
}

fn test_of(name: &str, effects: Vec<Effect>, system: u64) -> Test {
    // No other CPU ran: nothing is known of parts of the time.
    let sample = |cpu| AuditSample {
        cpu,
        length: cpu as usize,
        elapsed_ns: 40_000_000_000,
        user_ns: 40_000_000_000 - system,
        system_ns: system,
        ..AuditSample::default()
    };
    Test {
        lengths: vec![1, 2, 4],
        unit: "calls".into(),
        samples: vec![sample(0), sample(1)],
        effects,
        ..Test::empty(name)
    }
}

fn cpu(number: u32, kind: Option<&str>, node: u32) -> Cpu {
    Cpu {
        cpu: number,
        node: Some(node),
        kind: kind.map(str::to_owned),
        ..Cpu::default()
    }
}

fn judged(test: Test, cpus: &[Cpu]) -> Test {
    judged_beside(test, cpus, &BTreeMap::new())
}

fn judged_beside(test: Test, cpus: &[Cpu], beside_pct: &BTreeMap<u32, f64>) -> Test {
    judged_by(TICKS, test, cpus, beside_pct)
}

fn judged_by(config: &str, mut test: Test, cpus: &[Cpu], beside_pct: &BTreeMap<u32, f64>) -> Test {
    let accounting = Accounting::find(&format!("{config}\nCONFIG_HZ=250"), false, None);
    let rule = Rule {
        level: TestLevel {
            confidence: 0.99,
            comparisons: 20,
        },
        tolerance_pct: 0.5,
        accounting: &accounting,
        contention_fails: true,
        beside_pct,
    };
    judge(&mut test, cpus, &rule);
    test
}

#[rstest]
#[case::surely_within(0.1, 0.3, 1.0, AuditVerdict::Equal)]
#[case::surely_and_yet_within(0.3, 0.1, 1e-9, AuditVerdict::Equal)]
#[case::beyond(1.0, 0.4, 1e-6, AuditVerdict::Unequal)]
#[case::slower_by_too_little(0.4, 0.3, 1e-6, AuditVerdict::Undecided)]
#[case::perhaps(0.6, 0.7, 0.03, AuditVerdict::Undecided)]
fn one_quantity(#[case] pct: f64, #[case] half: f64, #[case] p: f64, #[case] wanted: AuditVerdict) {
    let effects = vec![
        effect(0, Quantity::Cpu, -pct, half, p),
        effect(1, Quantity::Cpu, pct, half, p),
    ];
    let test = judged(test_of("compute", effects, 20_000_000_000), &[]);
    assert_eq!(test.verdict, wanted, "{test:?}");
    // The mirror image is never the one to blame.
    assert_ne!(test.verdicts[0].verdict, AuditVerdict::Unequal);
}

/// By how much CPU 1 takes longer, elapsed and CPU time, and its sibling is busier.
#[rstest]
#[case::waits(3.0, 0.1, 0.0, [Some(Nature::Contention), None])]
#[case::works(3.0, 2.8, 0.0, [Some(Nature::Inequality); 2])]
#[case::beside_a_busy_sibling(20.0, 20.0, 80.0, [Some(Nature::Contention); 2])]
#[case::beside_an_idle_sibling(20.0, 20.0, 10.0, [Some(Nature::Inequality); 2])]
fn natures(
    #[case] elapsed: f64,
    #[case] cpu: f64,
    #[case] busy: f64,
    #[case] wanted: [Option<Nature>; 2],
) {
    let effects = [(Quantity::Elapsed, elapsed), (Quantity::Cpu, cpu)];
    let effects = effects.map(|(quantity, pct)| effect(1, quantity, pct, 0.3, 1e-9));
    let test = test_of("compute", effects.to_vec(), 0);
    let test = judged_beside(test, &[], &BTreeMap::from([(1, busy)]));
    for (found, wanted) in test.verdicts.iter().zip(wanted) {
        assert_eq!(found.nature, wanted);
        let verdict = wanted.map_or(AuditVerdict::Equal, |_| AuditVerdict::Unequal);
        assert_eq!(found.verdict, verdict);
    }
}

/// By how much CPU 1 takes longer, elapsed and CPU time, where both CPUs lose time to the
/// hypervisor: in percent of their time, and whether the kernel counts it as CPU time.
#[rstest]
#[case::of_cpu_1([0, 4], true, Some(Nature::Contention))]
#[case::of_both([4, 4], true, Some(Nature::Inequality))]
#[case::of_less([0, 2], true, Some(Nature::Inequality))]
#[case::that_is_waiting([0, 4], false, Some(Nature::Inequality))]
fn stolen_time_that_is_counted_as_cpu_time_is_contention(
    #[case] stolen_pct: [u64; 2],
    #[case] counted: bool,
    #[case] wanted: Option<Nature>,
) {
    let quantities = [Quantity::Elapsed, Quantity::Cpu];
    let effects = quantities.map(|quantity| effect(1, quantity, 3.0, 0.3, 1e-9));
    let mut test = test_of("compute", effects.to_vec(), 0);
    for (sample, pct) in test.samples.iter_mut().zip(stolen_pct) {
        sample.evidence.steal_ns = sample.elapsed_ns / 100 * pct;
        if !counted {
            sample.user_ns -= sample.evidence.steal_ns;
        }
    }
    let test = judged(test, &[]);
    for one in &test.verdicts {
        assert_eq!(one.verdict, AuditVerdict::Unequal, "{one:?}");
        assert_eq!(one.nature, wanted, "{one:?}");
        let is_told = one.because.contains("the hypervisor");
        assert_eq!(is_told, wanted == Some(Nature::Contention), "{one:?}");
    }
    assert_eq!(test.verdict, AuditVerdict::Unequal);
    assert_eq!(
        of_test(&test.verdicts, false),
        match wanted {
            Some(Nature::Contention) => AuditVerdict::Equal,
            _ => AuditVerdict::Unequal,
        }
    );
}

/// CPU 1 is away for 3 % of its time, of which interrupts have so much; and what a run waited in
/// the run queue.
#[rstest]
#[case::all(3, 0, Nature::Inequality)]
#[case::most(2, 1, Nature::Inequality)]
#[case::few(1, 2, Nature::Contention)]
#[case::none(0, 3, Nature::Contention)]
#[case::that_are_in_the_cpu_time(3, 3, Nature::Contention)]
fn time_of_interrupts_is_no_contention(
    #[case] softirq_pct: u64,
    #[case] queued_pct: u64,
    #[case] wanted: Nature,
) {
    let quantities = [Quantity::Elapsed, Quantity::Waiting];
    let effects = quantities.map(|quantity| effect(1, quantity, 3.0, 0.3, 1e-9));
    let effects = [&effects[..], &[effect(1, Quantity::Cpu, 0.0, 0.3, 1.0)]].concat();
    let mut test = test_of("compute", effects, 0);
    let sample = &mut test.samples[1];
    let pct = |pct: u64| sample.elapsed_ns / 100 * pct;
    sample.user_ns -= pct(3);
    sample.evidence.softirq_ns = pct(softirq_pct);
    sample.evidence.waited_ns = pct(queued_pct);
    let test = judged(test, &[]);
    for one in &test.verdicts[..2] {
        assert_eq!(
            (one.verdict, one.nature),
            (AuditVerdict::Unequal, Some(wanted))
        );
        let is_told = one.because.contains("interrupts");
        assert_eq!(is_told, wanted == Nature::Inequality, "{one:?}");
    }
    let is_alarm = of_test(&test.verdicts, false) == AuditVerdict::Unequal;
    assert_eq!(is_alarm, wanted == Nature::Inequality);
    // A busy sibling explains it as well.
    let busy = BTreeMap::from([(1, 80.0)]);
    let test = judged_beside(test, &[], &busy);
    assert_eq!(test.verdicts[0].nature, Some(Nature::Contention));
}

/// Of noise and commands it is not known how long they waited in the run queue: CPU 1 is away for
/// 4 % of its time, and soft interrupts have 3 %.
#[rstest]
#[case("noise", "ms", &[Quantity::Noise])]
#[case("fft", crate::model::RUNS, &[Quantity::Elapsed, Quantity::Waiting])]
fn where_waits_are_not_known_the_kernel_decides(
    #[case] name: &str,
    #[case] unit: &str,
    #[case] quantities: &[Quantity],
) {
    let effects = quantities.iter();
    let effects = effects.map(|quantity| effect(1, *quantity, 4.0, 0.3, 1e-9));
    let mut test = test_of(name, effects.collect(), 0);
    test.unit = unit.to_owned();
    let sample = &mut test.samples[1];
    sample.user_ns -= sample.elapsed_ns / 100 * 4;
    sample.evidence.softirq_ns = sample.elapsed_ns / 100 * 3;
    for (config, wanted) in [
        ("", Nature::Contention),
        (TICKS, Nature::Contention),
        ("CONFIG_IRQ_TIME_ACCOUNTING=y", Nature::Inequality),
    ] {
        let test = judged_by(config, test.clone(), &[], &BTreeMap::new());
        for one in &test.verdicts {
            assert_eq!(one.nature, Some(wanted), "{config} {one:?}");
        }
    }
}

#[test]
fn what_passes_by_is_no_verdict() {
    let with = |slow: fn(u32) -> bool| {
        let sample = |cpu: u32, round: u32| AuditSample {
            cpu,
            round,
            elapsed_ns: 100_000_000 + 5_000_000 * u64::from(cpu == 1 && slow(round)),
            user_ns: 100_000_000,
            ..AuditSample::default()
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
    assert_eq!(with(|_| true).verdict, AuditVerdict::Unequal);
    let passed = with(|round| round < 12);
    assert_eq!(passed.verdict, AuditVerdict::Undecided);
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
    assert_eq!(test.verdicts[2].verdict, AuditVerdict::NotResolvable);
    assert!(
        test.verdicts[2].because.contains("250 Hz"),
        "{:?}",
        test.verdicts[2]
    );
    // The rest is known.
    assert_eq!(test.verdict, AuditVerdict::Equal);
}

const TICKS: &str = "CONFIG_TICK_CPU_ACCOUNTING=y";
const EXACT: &str = "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y";

/// System time of 0.05 % or 2 % of the CPU time, and what it may be more.
#[rstest]
#[case::much_more_of_nothing(TICKS, 20_000_000, (80.0, 20.0, 1e-9), AuditVerdict::Equal)]
#[case::much_more_of_much(TICKS, 800_000_000, (80.0, 20.0, 1e-9), AuditVerdict::Unequal)]
#[case::perhaps_more_of_nothing(EXACT, 20_000_000, (0.0, 60.0, 1.0), AuditVerdict::Equal)]
#[case::perhaps_more_of_much(EXACT, 800_000_000, (0.0, 60.0, 1.0), AuditVerdict::Undecided)]
#[case::between_ticks(TICKS, 20_000_000, (0.0, 60.0, 1.0), AuditVerdict::NotResolvable)]
fn differences_of_little_time_do_not_count(
    #[case] config: &str,
    #[case] system_ns: u64,
    #[case] (pct, half, p): (f64, f64, f64),
    #[case] wanted: AuditVerdict,
) {
    let effects = (0..2).map(|cpu| effect(cpu, Quantity::System, pct, half, p));
    let test = test_of("compute", effects.collect(), system_ns);
    let test = judged_by(config, test, &[], &BTreeMap::new());
    assert_eq!(test.verdict, wanted, "{test:?}");
}

#[test]
fn what_is_so_by_design_is_no_alarm() {
    let effects = || vec![effect(1, Quantity::Cpu, 30.0, 1.0, 1e-9)];
    let kinds = [cpu(0, Some("a"), 0), cpu(1, Some("b"), 0)];
    let test = judged(test_of("compute", effects(), 0), &kinds);
    assert_eq!(test.verdicts[0].nature, Some(Nature::Designed));
    assert_ne!(test.verdict, AuditVerdict::Unequal);
    let nodes = [cpu(0, None, 0), cpu(1, None, 1)];
    let test = judged(test_of("memory", effects(), 0), &nodes);
    assert_eq!(test.verdicts[0].nature, Some(Nature::Designed));
    let test = judged(test_of("compute", effects(), 0), &nodes);
    assert_eq!(test.verdict, AuditVerdict::Unequal);
}

/// Four CPUs of each of two kinds, the second a third slower; CPUs of these
/// numbers take so much longer, or wait for so much, percent.
fn hybrid(slower: &[(u32, f64)], waits: &[(u32, f64)]) -> Test {
    hybrid_with(&[0, 1, 2, 3, 4, 5, 6, 7], slower, waits)
}

/// The same, where only these CPUs are left.
fn hybrid_with(left: &[u32], slower: &[(u32, f64)], waits: &[(u32, f64)]) -> Test {
    let of = |all: &[(u32, f64)], cpu: u32| {
        let own = all.iter().find(|(other, _)| *other == cpu);
        own.map_or(0.0, |(_, pct)| pct / 100.0)
    };
    let mut chance = sandbag_stats::Chance::new(1, "hybrid");
    let mut samples = Vec::new();
    for round in 0..24 {
        for cpu in left.iter().copied() {
            let kind = if cpu < 4 { 1.0 } else { 1.33 };
            let ns = 1e8 * kind * (1.0 + of(slower, cpu)) * (1.0 + 0.001 * chance.normal());
            samples.push(AuditSample {
                cpu,
                round,
                elapsed_ns: (ns * (1.0 + of(waits, cpu))) as u64,
                user_ns: ns as u64,
                ..AuditSample::default()
            });
        }
    }
    let level = TestLevel {
        confidence: 0.99,
        comparisons: 40,
    };
    let mut tests = [Test {
        lengths: vec![1],
        effects: effects::of_test(&samples, left, 1, false, level),
        samples,
        ..Test::empty("compute")
    }];
    effects::correct(&mut tests, level.comparisons);
    let [test] = tests;
    let kinds: Vec<Cpu> = (0..8)
        .map(|number| cpu(number, Some(if number < 4 { "big" } else { "little" }), 0))
        .collect();
    judged(test, &kinds)
}

#[test]
fn kinds_of_cores_are_compared_among_themselves() {
    let of = |test: &Test, cpu: u32, quantity: Quantity| {
        let one = test
            .verdicts
            .iter()
            .find(|one| one.cpu == cpu && one.quantity == quantity)
            .unwrap();
        (one.verdict, one.nature)
    };
    let designed = (AuditVerdict::Unequal, Some(Nature::Designed));
    // As they are built.
    let test = hybrid(&[], &[]);
    assert_eq!(test.verdict, AuditVerdict::Equal, "{:#?}", test.verdicts);
    assert_eq!(of(&test, 0, Quantity::Cpu), (AuditVerdict::Equal, None));
    assert_eq!(of(&test, 7, Quantity::Cpu), designed);
    // A large core that is slower than large ones, and faster than small ones.
    let test = hybrid(&[(2, 5.0)], &[]);
    assert_eq!(test.verdict, AuditVerdict::Unequal);
    let odd = (AuditVerdict::Unequal, Some(Nature::Inequality));
    assert_eq!(of(&test, 2, Quantity::Cpu), odd);
    assert_eq!(
        of(&test, 1, Quantity::Cpu),
        (AuditVerdict::Equal, None),
        "{:#?}",
        test.verdicts
    );
    assert_eq!(of(&test, 6, Quantity::Cpu), designed);
    // Waiting is not by design.
    let test = hybrid(&[], &[(5, 3.0)]);
    let contended = (AuditVerdict::Unequal, Some(Nature::Contention));
    assert_eq!(of(&test, 5, Quantity::Waiting), contended);
    assert_eq!(test.verdict, AuditVerdict::Unequal);
}

/// Four CPUs of which those of these numbers take so much longer, percent; with their highest
/// frequencies.
fn favoured(mhz: [u32; 4], slow: &[u32], pct: f64) -> (Test, Vec<Cpu>) {
    let mut chance = sandbag_stats::Chance::new(1, "favoured");
    let mut samples = Vec::new();
    for round in 0..40 {
        for cpu in 0..4 {
            let more = if slow.contains(&cpu) { pct } else { 0.0 };
            let ns = 1e8 * (1.0 + more / 100.0) * (1.0 + 0.001 * chance.normal());
            samples.push(AuditSample {
                cpu,
                round,
                elapsed_ns: ns as u64,
                user_ns: ns as u64,
                ..AuditSample::default()
            });
        }
    }
    let level = TestLevel {
        confidence: 0.99,
        comparisons: 20,
    };
    let mut tests = [Test {
        lengths: vec![1],
        effects: effects::of_test(&samples, &[0, 1, 2, 3], 1, false, level),
        samples,
        ..Test::empty("compute")
    }];
    effects::correct(&mut tests, level.comparisons);
    let [test] = tests;
    let kind = |mhz| format!("up to {mhz} MHz");
    let cpus = mhz.into_iter().zip(0..);
    let cpus: Vec<Cpu> = cpus
        .map(|(mhz, number)| cpu(number, Some(&kind(mhz)), 0))
        .collect();
    (judged(test, &cpus), cpus)
}

#[rstest]
#[case::the_fast_pair([5000, 5000, 4800, 4800], &[0, 1], 20.0, Nature::Inequality)]
#[case::the_slow_pair([5000, 5000, 4800, 4800], &[2, 3], 4.0, Nature::Designed)]
#[case::by_more([5000, 5000, 4800, 4800], &[2, 3], 20.0, Nature::Inequality)]
#[case::the_fastest([4800, 4800, 4800, 5000], &[3], 20.0, Nature::Inequality)]
#[case::the_slowest([5000, 5000, 5000, 4800], &[3], 4.0, Nature::Designed)]
#[case::the_slowest_by_more([5000, 5000, 5000, 4800], &[3], 20.0, Nature::Inequality)]
fn a_lower_frequency_explains_what_it_costs(
    #[case] mhz: [u32; 4],
    #[case] slow: &[u32],
    #[case] pct: f64,
    #[case] wanted: Nature,
) {
    let (test, cpus) = favoured(mhz, slow, pct);
    for cpu in slow {
        let mut verdicts = test.verdicts.iter();
        let one = verdicts.find(|one| (one.cpu, one.quantity) == (*cpu, Quantity::Cpu));
        let one = one.unwrap();
        let found = (one.verdict, one.nature);
        assert_eq!(found, (AuditVerdict::Unequal, Some(wanted)), "{one:?}");
        // An alarm is judged by what it is about.
        let level = TestLevel {
            confidence: 0.99,
            comparisons: 1,
        };
        let effects = judged_effects(&test, &cpus, level, 0.5);
        let mut effects = effects.iter();
        let effect = effects.find(|one| (one.cpu, one.quantity) == (*cpu, Quantity::Cpu));
        if wanted == Nature::Inequality {
            assert!(effect.unwrap().pct > 10.0, "{effect:?}");
        }
    }
    let is_unequal = test.verdict == AuditVerdict::Unequal;
    assert_eq!(is_unequal, wanted == Nature::Inequality, "{test:?}");
}

#[test]
fn a_wide_interval_excuses_no_cpu_of_the_fastest_kind() {
    let cpus = [0, 1, 2].map(|number| {
        let mhz = if number == 1 { 5000 } else { 4800 };
        cpu(number, Some(&format!("up to {mhz} MHz")), 0)
    });
    // Others of two speeds make it wide upwards.
    let slow = Effect {
        together_pct: (0.2, 60.0),
        ..effect(1, Quantity::Cpu, 20.0, 1.0, 1e-9)
    };
    let test = judged(test_of("compute", vec![slow], 0), &cpus);
    let one = &test.verdicts[0];
    let odd = (AuditVerdict::Unequal, Some(Nature::Inequality));
    assert_eq!((one.verdict, one.nature), odd, "{one:?}");
}

#[test]
fn a_cpu_that_was_lost_does_not_hide_one_of_its_kind() {
    let odd = (AuditVerdict::Unequal, Some(Nature::Inequality));
    for (lost, slow) in [(7, 6), (3, 2)] {
        let left: Vec<u32> = (0..8).filter(|cpu| *cpu != lost).collect();
        let test = hybrid_with(&left, &[(slow, 5.0)], &[]);
        let mut verdicts = test.verdicts.iter();
        let one = verdicts.find(|one| (one.cpu, one.quantity) == (slow, Quantity::Cpu));
        let one = one.unwrap();
        assert_eq!((one.verdict, one.nature), odd, "{one:?}");
        assert!(one.because.contains("among the 3 CPUs"), "{one:?}");
        assert_eq!(test.verdict, AuditVerdict::Unequal);
    }
}

#[test]
fn an_audit_is_as_its_worst_test() {
    let of = |verdicts: &[AuditVerdict]| {
        let tests: Vec<Test> = verdicts
            .iter()
            .map(|verdict| Test {
                verdict: *verdict,
                ..test_of("x", vec![], 0)
            })
            .collect();
        of_audit(&tests)
    };
    use AuditVerdict::{Equal, NotResolvable, Undecided, Unequal};
    assert_eq!(of(&[Equal, Undecided, Unequal]), Unequal);
    assert_eq!(of(&[Equal, Undecided, NotResolvable]), Undecided);
    assert_eq!(of(&[Equal, NotResolvable]), Equal);
    assert_eq!(of(&[NotResolvable]), NotResolvable);
    assert_eq!(of(&[]), Undecided);
}

#[test]
fn an_audit_that_lost_a_cpu_is_undecided_whatever_does_not_count() {
    let mut audit = crate::fixture::eight();
    assert_eq!(audit.verdict, AuditVerdict::Unequal);
    // Nothing of it would be an alarm.
    for test in &mut audit.tests {
        test.verdicts
            .retain(|one| one.verdict == AuditVerdict::Equal);
    }
    again(&mut audit, false);
    assert_eq!(audit.verdict, AuditVerdict::Equal);
    audit.incomplete = true;
    audit.verdict = AuditVerdict::Unequal;
    again(&mut audit, false);
    assert_eq!(audit.verdict, AuditVerdict::Undecided);
}

#[test]
fn a_test_that_failed_is_not_equal_and_one_that_was_stopped_may_be() {
    let mut audit = crate::fixture::Maker::eight().odd(None).make();
    assert_eq!(of_whole(&audit.tests, false), AuditVerdict::Equal);
    audit.tests[1].failure = Some(STOPPED.to_owned());
    assert_eq!(of_whole(&audit.tests, false), AuditVerdict::Equal);
    audit.tests[1].failure = Some("on CPU 3 it ended with exit code 1".to_owned());
    assert_eq!(of_whole(&audit.tests, false), AuditVerdict::Undecided);
    // What was found is found.
    audit.tests[0].verdict = AuditVerdict::Unequal;
    assert_eq!(of_whole(&audit.tests, false), AuditVerdict::Unequal);
}

#[test]
fn a_noise_test_of_which_nothing_is_known_is_undecided_and_measures_nothing_else() {
    let audit = crate::fixture::Maker::eight().odd(None).make();
    let (cpus, mut tests) = (audit.cpus, audit.tests.into_iter());
    let mut test = tests.find(Test::is_noise).unwrap();
    for sample in &mut test.samples {
        sample.noise_pct = None;
    }
    let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.cpu).collect();
    let level = TestLevel {
        confidence: 0.99,
        comparisons: 20,
    };
    test.effects = crate::effects::of_test(&test.samples, &numbers, 3, test.is_noise(), level);
    let test = judged(test, &cpus);
    assert_eq!(test.verdict, AuditVerdict::Undecided);
    assert!(test.verdicts.is_empty(), "{:?}", test.verdicts);
}
