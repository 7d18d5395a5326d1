// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Audits of many hosts as one: which host, and which CPU of which host, is slower.
//!
//! Hosts are compared as the CPUs of one machine are ([`effects`]): what a host took in a round
//! is the mean over its CPUs, and rounds of the same number and length are a block. Nothing
//! that happens on one host disturbs another, so blocks take no common noise away; the
//! probabilities are right all the same, because within a block hosts that are equal could have
//! changed places. CPUs keep the effects of their own audit, and only those can be odd of which
//! that audit makes an alarm: it knows what is so by design and what passes by. The correction
//! is that for all comparisons of all hosts.

pub mod report;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::difference_of_work;
use crate::effects::{self, TestLevel, deciding};
use crate::model::{Audit, AuditSample, AuditVerdict, CpuVerdict, Effect, Quantity, Test, unique};
use crate::ranks::holm;
use crate::verdict;

/// More hosts than this are compared with their middle. The time of each with all others grows
/// with the square of their number.
const MANY: usize = 32;

/// Version of the record.
const FORMAT: u32 = 1;

/// What the audits of many hosts say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cluster {
    pub format: u32,
    pub sandbag: String,
    pub hosts: Vec<String>,
    pub confidence: f64,
    pub tolerance_pct: f64,
    pub verdict: AuditVerdict,
    /// By test and quantity; hosts that need a look first.
    pub differences: Vec<HostDifference>,
    /// CPUs that differ from the others of their host, the largest first.
    pub cpus: Vec<CpuDifference>,
    /// Files that could not be used, hosts without figures of a test or with those of other
    /// work, and tests of which the hosts have no round in common; and why.
    pub left_out: Vec<(String, String)>,
    /// Hosts whose own audit is not complete, and why.
    pub incomplete: Vec<(String, String)>,
}

/// A host against the middle of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostDifference {
    pub host: String,
    pub test: String,
    pub quantity: Quantity,
    /// Percent, of shares of time points; above 0: slower.
    pub pct: f64,
    /// Interval that holds for all comparisons at once.
    pub together_pct: (f64, f64),
    /// Corrected for all comparisons.
    pub p: f64,
    pub verdict: AuditVerdict,
}

/// A CPU against the middle CPU of its host, of its build where builds matter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuDifference {
    pub host: String,
    pub cpu: u32,
    pub test: String,
    pub quantity: Quantity,
    pub pct: f64,
    /// Corrected for all CPUs of all hosts.
    pub p: f64,
}

/// Audits as they are read; each is needed only once.
#[derive(Debug, Default)]
pub struct Gatherer {
    hosts: Vec<String>,
    confidence: f64,
    tolerance_pct: f64,
    tests: BTreeMap<String, MergedTest>,
    /// And whether it is an alarm of its own audit.
    cpus: Vec<(CpuDifference, bool)>,
    /// Hosts whose own audit is not complete, and why.
    incomplete: Vec<(String, String)>,
}

#[derive(Debug)]
struct MergedTest {
    /// Of the first host, with the samples of all: others' times are those of as much work.
    test: Test,
    /// Hosts whose unit of length is other work, which has no common measure; and how it differs.
    unlike: BTreeMap<u32, String>,
}

impl Gatherer {
    /// # Errors
    /// A host of this name is there already.
    pub fn add(&mut self, host: &str, audit: &Audit) -> Result<(), String> {
        if self.hosts.iter().any(|known| known == host) {
            return Err(format!("another audit of {host} was read before it"));
        }
        let number = self.hosts.len() as u32;
        self.hosts.push(host.to_owned());
        if audit.incomplete {
            let why = "not all of its CPUs were tested to the end".to_owned();
            self.incomplete.push((host.to_owned(), why));
        }
        for test in audit.tests.iter().filter(|test| test.has_failed()) {
            let cause = test.failure.as_deref().unwrap_or_default();
            let why = format!("the test {} failed: {cause}", test.name);
            self.incomplete.push((host.to_owned(), why));
        }
        self.confidence = self.confidence.max(audit.design.confidence);
        self.tolerance_pct = self.tolerance_pct.max(audit.design.tolerance_pct);
        for test in audit.tests.iter().filter(|test| !test.samples.is_empty()) {
            let merged = self.tests.entry(test.name.clone());
            let merged = merged.or_insert_with(|| MergedTest {
                test: Test {
                    about: test.about.clone(),
                    lengths: test.lengths.clone(),
                    unit: test.unit.clone(),
                    ..Test::empty(&test.name)
                },
                unlike: BTreeMap::new(),
            });
            if let Some(difference) = difference_of_work(test, &merged.test) {
                merged.unlike.insert(number, difference);
            } else {
                let samples = of_host(test, number, &merged.test.lengths);
                merged.test.samples.extend(samples);
            }
            let alarms = |effect: &Effect| {
                let of =
                    |one: &&CpuVerdict| one.cpu == effect.cpu && one.quantity == effect.quantity;
                let fails = audit.design.contention_fails;
                let own = test.verdicts.iter().find(of);
                own.is_some_and(|own| verdict::alarms(own.verdict, own.nature, fails))
            };
            // Intervals are not used, only the probability of each alone.
            let level = TestLevel {
                confidence: audit.design.confidence,
                comparisons: 1,
            };
            let effects = verdict::judged_effects(test, &audit.cpus, level);
            self.cpus.extend(mirrored(&effects).map(|effect| {
                let difference = CpuDifference {
                    host: host.to_owned(),
                    cpu: effect.cpu,
                    test: test.name.clone(),
                    quantity: effect.quantity,
                    pct: effect.pct,
                    p: effect.p,
                };
                (difference, alarms(effect))
            }));
        }
        Ok(())
    }

    /// The hosts together; `left_out` are files that could not be used.
    pub fn finish(self, mut left_out: Vec<(String, String)>) -> Cluster {
        let numbers: Vec<u32> = (0..self.hosts.len() as u32).collect();
        let noise = self.tests.values().map(|merged| merged.test.is_noise());
        let noise: Vec<bool> = noise.collect();
        let level = TestLevel {
            confidence: self.confidence,
            comparisons: effects::comparisons(&noise, numbers.len()),
        };
        let compare = if numbers.len() > MANY {
            effects::against_middle
        } else {
            effects::of_test
        };
        let mut tests: Vec<Test> = Vec::new();
        for (name, MergedTest { test, unlike }) in self.tests {
            let (noise, lengths) = (test.is_noise(), test.lengths.len());
            // Blocks are of all that are compared: a host without figures would leave none.
            let present = unique(test.samples.iter().map(|sample| sample.cpu));
            for number in numbers.iter().filter(|number| !present.contains(number)) {
                let why = match unlike.get(number) {
                    Some(difference) => format!(
                        "from the test {name}, which is other work there than on the first host: \
                         {difference}"
                    ),
                    None => format!("from the test {name}, of which it has no figures"),
                };
                left_out.push((self.hosts[*number as usize].clone(), why));
            }
            let effects = compare(&test.samples, &present, lengths, noise, level);
            if effects.is_empty() && present.len() > 1 {
                let why = "the hosts have no round of it in common".to_owned();
                left_out.push((name.clone(), why));
            }
            tests.push(Test {
                effects,
                ..Test::empty(name)
            });
        }
        effects::correct(&mut tests, level.comparisons);
        let alpha = level.pointwise_alpha();
        let mut differences = Vec::new();
        for test in &tests {
            let shown = test
                .effects
                .iter()
                .filter(|effect| deciding(effect.quantity));
            differences.extend(shown.map(|effect| HostDifference {
                host: self.hosts[effect.cpu as usize].clone(),
                test: test.name.clone(),
                quantity: effect.quantity,
                pct: effect.pct,
                together_pct: effect.together_pct,
                p: effect.p_together,
                verdict: judge(effect, alpha, self.tolerance_pct),
            }));
        }
        let order = |one: &HostDifference| std::cmp::Reverse(one.verdict);
        differences.sort_by(|a, b| order(a).cmp(&order(b)).then(b.pct.total_cmp(&a.pct)));
        // All were looked at, so the correction is for all and not only for the alarms.
        let p: Vec<f64> = self.cpus.iter().map(|(one, _)| one.p).collect();
        let corrected = self.cpus.into_iter().zip(holm(&p, p.len()));
        let alarms = corrected.filter(|((_, alarms), _)| *alarms);
        let mut cpus: Vec<CpuDifference> = alarms
            .map(|((one, _), p)| CpuDifference { p, ..one })
            .collect();
        cpus.retain(|one| one.p <= alpha && one.pct > self.tolerance_pct && deciding(one.quantity));
        cpus.sort_by(|a, b| b.pct.total_cmp(&a.pct));
        let hosts = differences.iter().map(|one| one.verdict).max();
        let mut verdict = match (hosts, cpus.is_empty()) {
            (_, false) => AuditVerdict::Unequal,
            (found, true) => found.unwrap_or_default(),
        };
        // Who was not compared is not known to be equal.
        if !left_out.is_empty() || !self.incomplete.is_empty() {
            verdict = verdict.max(AuditVerdict::Undecided);
        }
        Cluster {
            format: FORMAT,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            hosts: self.hosts,
            confidence: self.confidence,
            tolerance_pct: self.tolerance_pct,
            verdict,
            differences,
            cpus,
            left_out,
            incomplete: self.incomplete,
        }
    }
}

/// Of two CPUs, mirror images, the slower one; else all.
fn mirrored(all: &[Effect]) -> impl Iterator<Item = &Effect> {
    let alone = |effect: &Effect| {
        let same = all.iter().filter(|other| other.quantity == effect.quantity);
        same.count() == 2
    };
    all.iter()
        .filter(move |effect| !alone(effect) || effect.pct > 0.0)
}

fn judge(effect: &Effect, alpha: f64, tolerance_pct: f64) -> AuditVerdict {
    if effect.p_together <= alpha && effect.pct > tolerance_pct {
        AuditVerdict::Unequal
    } else if effect.together_pct.1 <= tolerance_pct {
        AuditVerdict::Equal
    } else {
        AuditVerdict::Undecided
    }
}

/// One sample for each round and length: the mean over the host's CPUs, for as much work as
/// `lengths` are.
fn of_host(test: &Test, host: u32, lengths: &[u64]) -> Vec<AuditSample> {
    let mut rounds: BTreeMap<(u32, usize), Vec<&AuditSample>> = BTreeMap::new();
    for sample in &test.samples {
        let key = (sample.round, sample.length);
        rounds.entry(key).or_default().push(sample);
    }
    let of_round = |((round, length), samples): ((u32, usize), Vec<&AuditSample>)| {
        let work = |lengths: &[u64]| lengths.get(length).map(|length| *length as f64);
        let more = work(lengths)? / work(&test.lengths).filter(|own| *own > 0.0)?;
        let of = |value: fn(&AuditSample) -> u64| -> u64 {
            let values: Vec<f64> = samples.iter().map(|sample| value(sample) as f64).collect();
            (mean(&values) * more).round() as u64
        };
        let noise: Option<Vec<f64>> = samples.iter().map(|sample| sample.noise_pct).collect();
        Some(AuditSample {
            cpu: host,
            round,
            length,
            elapsed_ns: of(|sample| sample.elapsed_ns),
            user_ns: of(|sample| sample.user_ns),
            system_ns: of(|sample| sample.system_ns),
            noise_pct: noise.map(|all| mean(&all)),
            ..AuditSample::default()
        })
    };
    rounds.into_iter().filter_map(of_round).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Accounting;
    use crate::fixture::Maker;
    use crate::model::Nature;
    use crate::verdict::Rule;

    fn gather(of: impl Fn(u32) -> Maker, hosts: u32) -> Cluster {
        gather_audits((0..hosts).map(|host| of(host).cpus(4).make()))
    }

    fn gather_audits(audits: impl Iterator<Item = Audit>) -> Cluster {
        let mut gatherer = Gatherer::default();
        for (host, audit) in audits.enumerate() {
            gatherer.add(&format!("n{host}"), &audit).unwrap();
        }
        gatherer.finish(Vec::new())
    }

    /// Two nodes of four CPUs. In the test of memory those of the second take 20 % more, and
    /// CPU 1 `more` times what the others of the first take.
    fn two_nodes(seed: u32, more: f64) -> Audit {
        let maker = Maker::eight().odd(None).seed(u64::from(seed));
        let mut audit = maker.make();
        for cpu in &mut audit.cpus {
            cpu.node = Some(cpu.cpu / 4);
        }
        let test = &mut audit.tests[0];
        test.name = "memory".to_owned();
        for sample in &mut test.samples {
            let factor = match sample.cpu {
                1 => more,
                4.. => 1.2,
                _ => 1.0,
            };
            for ns in [
                &mut sample.elapsed_ns,
                &mut sample.user_ns,
                &mut sample.system_ns,
            ] {
                *ns = (*ns as f64 * factor) as u64;
            }
        }
        let cpus: Vec<u32> = (0..8).collect();
        let level = TestLevel {
            confidence: 0.99,
            comparisons: effects::comparisons(&[false], cpus.len()),
        };
        test.effects = effects::of_test(&test.samples, &cpus, test.lengths.len(), false, level);
        effects::correct(std::slice::from_mut(test), level.comparisons);
        let rule = Rule {
            level,
            tolerance_pct: 0.5,
            accounting: &Accounting::find("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y", false, None),
            contention_fails: true,
            beside_pct: &BTreeMap::new(),
        };
        verdict::judge(test, &audit.cpus, &rule);
        audit
    }

    #[test]
    fn a_slower_host_and_a_slower_cpu_are_named() {
        // n2 takes 5 % more everywhere, CPU 0 of n4 has an odd CPU.
        let found = gather(
            |host| {
                let maker = Maker::eight()
                    .seed(u64::from(host))
                    .odd((host == 4).then_some(0));
                maker.slower(if host == 2 { 1.05 } else { 1.0 })
            },
            6,
        );
        assert_eq!(found.verdict, AuditVerdict::Unequal);
        let unequal = found
            .differences
            .iter()
            .filter(|one| one.verdict == AuditVerdict::Unequal);
        let of_n2 = unequal.clone().filter(|one| one.host == "n2");
        assert!(
            of_n2
                .clone()
                .any(|one| one.quantity == Quantity::Elapsed && (one.pct - 5.0).abs() < 0.5)
        );
        let cpus: Vec<(&str, u32)> = found
            .cpus
            .iter()
            .map(|one| (one.host.as_str(), one.cpu))
            .collect();
        assert!(
            !cpus.is_empty() && cpus.iter().all(|one| *one == ("n4", 0)),
            "{cpus:?}"
        );
        insta::assert_snapshot!(report::terminal(&found));
        assert!(report::page(&found).contains("n2"));
        assert_eq!(
            report::csv(&found).unwrap().lines().count(),
            1 + found.differences.len()
        );
    }

    #[test]
    fn a_host_whose_audit_is_not_complete_is_not_known_to_be_equal() {
        let audits = |change: fn(&mut Audit), slower: f64| {
            gather_audits((0..6u32).map(|host| {
                let maker = Maker::eight().odd(None).cpus(4).seed(u64::from(host));
                let maker = maker.slower(if host == 2 { slower } else { 1.0 });
                let mut audit = maker.make();
                if host == 4 {
                    change(&mut audit);
                }
                audit
            }))
        };
        let before = audits(|_| {}, 1.0);
        assert!(before.incomplete.is_empty());
        let lost = |audit: &mut Audit| audit.incomplete = true;
        let failed = |audit: &mut Audit| audit.tests[0].failure = Some("no space".to_owned());
        for (change, said) in [
            (lost as fn(&mut Audit), "not all of its CPUs"),
            (failed, "failed: no space"),
        ] {
            let found = audits(change, 1.0);
            assert_eq!(found.verdict, before.verdict.max(AuditVerdict::Undecided));
            assert_eq!(found.incomplete.len(), 1);
            let (host, why) = &found.incomplete[0];
            assert!(host == "n4" && why.contains(said), "{why}");
            assert!(report::terminal(&found).contains(said));
            assert!(found.left_out.is_empty());
            // A slower host stays one.
            assert_eq!(audits(change, 1.05).verdict, AuditVerdict::Unequal);
        }
    }

    #[test]
    fn what_is_so_by_design_is_no_odd_cpu() {
        let audit = two_nodes(0, 1.0);
        let mut verdicts = audit.tests[0].verdicts.iter();
        assert!(verdicts.any(|one| one.nature == Some(Nature::Designed)));
        let found = gather_audits((0..4).map(|host| two_nodes(host, 1.0)));
        assert!(found.cpus.is_empty(), "{found:?}");
        assert_ne!(found.verdict, AuditVerdict::Unequal, "{found:?}");
        // Slower than its node, and faster than the other.
        let more = |host: u32| if host == 2 { 1.05 } else { 1.0 };
        let found = gather_audits((0..4).map(|host| two_nodes(host, more(host))));
        assert_eq!(found.verdict, AuditVerdict::Unequal);
        assert!(!found.cpus.is_empty());
        for one in &found.cpus {
            assert_eq!((one.host.as_str(), one.cpu), ("n2", 1), "{one:?}");
            assert!((one.pct - 5.0).abs() < 0.5, "{one:?}");
        }
    }

    #[test]
    fn what_is_no_alarm_of_its_audit_is_no_odd_cpu() {
        let gather = |change: fn(&mut Audit)| {
            gather_audits((0..6).map(|host| {
                let odd = (host == 4).then_some(0);
                let maker = Maker::eight().cpus(4).seed(host).odd(odd);
                let mut audit = maker.make();
                change(&mut audit);
                audit
            }))
        };
        let quantities = |found: &Cluster| -> Vec<Quantity> {
            unique(found.cpus.iter().map(|one| one.quantity))
        };
        let both = [Quantity::Elapsed, Quantity::Noise];
        assert_eq!(quantities(&gather(|_| {})), both);
        // Only elapsed time is of others there.
        let found = gather(|audit| audit.design.contention_fails = false);
        assert_eq!(quantities(&found), [Quantity::Noise]);
        // As if it had passed by.
        let found = gather(|audit| {
            for one in audit.tests.iter_mut().flat_map(|test| &mut test.verdicts) {
                one.verdict = AuditVerdict::Undecided;
            }
        });
        assert!(found.cpus.is_empty(), "{found:?}");
    }

    #[test]
    fn a_host_without_a_test_is_left_out_of_it_alone() {
        let lacks = |lacking: Option<u64>, slower: Option<u64>| {
            gather_audits((0..6).map(|host| {
                let factor = if slower == Some(host) { 1.05 } else { 1.0 };
                let maker = Maker::eight().cpus(4).odd(None).seed(host);
                let mut audit = maker.slower(factor).make();
                let is_there = lacking != Some(host);
                let tests = &mut audit.tests;
                tests.retain(|test| is_there || test.name != "compute");
                audit
            }))
        };
        let found = lacks(Some(5), Some(2));
        let why = "from the test compute, of which it has no figures";
        assert_eq!(found.left_out, [("n5".to_owned(), why.to_owned())]);
        assert!(report::terminal(&found).contains(&format!("left out: n5: {why}\n")));
        let compute = found.differences.iter().filter(|one| one.test == "compute");
        let hosts = unique(compute.clone().map(|one| one.host.as_str()));
        assert_eq!(hosts, ["n0", "n1", "n2", "n3", "n4"]);
        let mut times = compute.filter(|one| one.quantity == Quantity::Elapsed);
        let slower = |one: &HostDifference| one.verdict == AuditVerdict::Unequal;
        assert!(times.any(|one| one.host == "n2" && slower(one)));
        // Of the others all have all.
        let others = found.differences.iter().filter(|one| one.test == "syscall");
        assert_eq!(unique(others.map(|one| one.host.as_str())).len(), 6);
        // It may be slower there.
        assert_eq!(lacks(None, None).verdict, AuditVerdict::Equal);
        assert_eq!(lacks(Some(5), None).verdict, AuditVerdict::Undecided);
    }

    #[test]
    fn a_host_that_did_other_work_is_left_out_of_that_test_alone() {
        for (about, unit) in [(" of 8 MiB", ""), ("", " of 8 MiB")] {
            let found = gather_audits((0..6).map(|host| {
                let mut audit = Maker::eight().cpus(4).odd(None).seed(host).make();
                if host == 5 {
                    let test = &mut audit.tests[0];
                    test.about += about;
                    test.unit += unit;
                    for sample in &mut test.samples {
                        sample.elapsed_ns *= 2;
                        sample.user_ns *= 2;
                    }
                }
                audit
            }));
            let [(host, why)] = &found.left_out[..] else {
                panic!("{:?}", found.left_out);
            };
            assert_eq!(host, "n5");
            assert!(why.starts_with("from the test compute, which is other work there"));
            assert!(why.contains(" of 8 MiB\" and \""), "{why}");
            let compute = found.differences.iter().filter(|one| one.test == "compute");
            let hosts = unique(compute.map(|one| one.host.as_str()));
            assert_eq!(hosts, ["n0", "n1", "n2", "n3", "n4"]);
            let others = found.differences.iter().filter(|one| one.test == "syscall");
            assert_eq!(unique(others.map(|one| one.host.as_str())).len(), 6);
            assert_eq!(found.verdict, AuditVerdict::Undecided);
        }
    }

    #[test]
    fn hosts_without_a_common_round_are_no_equals() {
        let found = gather_audits((0..2).map(|host| {
            let mut audit = Maker::eight().cpus(4).odd(None).make();
            for sample in &mut audit.tests[0].samples {
                sample.round += 100 * host;
            }
            audit
        }));
        let why = "the hosts have no round of it in common";
        assert_eq!(found.left_out, [("compute".to_owned(), why.to_owned())]);
    }

    #[test]
    fn one_of_hundreds_is_found() {
        let found = gather(
            |host| {
                let maker = Maker::eight().odd(None).seed(u64::from(host));
                maker.slower(if host == 77 { 1.05 } else { 1.0 })
            },
            300,
        );
        let unequal = found
            .differences
            .iter()
            .filter(|one| one.verdict == AuditVerdict::Unequal);
        let times = unequal.filter(|one| one.quantity == Quantity::Elapsed);
        let found: Vec<(&str, f64)> = times
            .map(|one| (one.host.as_str(), one.pct.round()))
            .collect();
        assert_eq!(found, [("n77", 5.0); 3]);
    }

    #[test]
    fn equal_hosts_are_called_unequal_by_no_chance() {
        for seed in 0..20 {
            let found = gather(
                |host| Maker::eight().odd(None).seed(seed * 100 + u64::from(host)),
                8,
            );
            assert_ne!(found.verdict, AuditVerdict::Unequal, "seed {seed}");
        }
    }

    #[test]
    fn hosts_that_did_other_amounts_of_work_are_compared_by_the_same() {
        let audit = Maker::eight().odd(None).make();
        let mut twice = audit.clone();
        for test in &mut twice.tests {
            test.lengths.iter_mut().for_each(|length| *length *= 2);
            for sample in &mut test.samples {
                sample.elapsed_ns *= 2;
                sample.user_ns *= 2;
                sample.system_ns *= 2;
            }
        }
        let mut gatherer = Gatherer::default();
        gatherer.add("a", &audit).unwrap();
        gatherer.add("b", &twice).unwrap();
        assert!(
            gatherer
                .add("b", &twice)
                .unwrap_err()
                .contains("another audit of b")
        );
        let found = gatherer.finish(Vec::new());
        let times = found
            .differences
            .iter()
            .filter(|one| !one.quantity.is_share());
        assert!(times.clone().count() > 0);
        assert!(times.clone().all(|one| one.pct.abs() < 1e-3), "{found:?}");
    }
}
