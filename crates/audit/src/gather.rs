// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Audits of many hosts as one: which host, and which CPU of which host, is slower.
//!
//! Hosts are compared as the CPUs of one machine are ([`effects`]): what a host took in a round
//! is the mean over its CPUs, and rounds of the same number and length are a block. Nothing
//! that happens on one host disturbs another, so blocks take no common noise away, and equal
//! hosts could have changed places in a block only if their speeds do not drift from round to
//! round. Drift widens intervals as it does for CPUs, and a host has to be slower in every quarter
//! of the time ([`verdict::LASTS`]); with few rounds both are not enough for a drift that lasts
//! for several. CPUs keep the effects of their own audit, and only those can be odd of which
//! that audit makes an alarm: it knows what is so by design and what passes by. The correction
//! is that for all comparisons of all hosts. A host whose own audit is undecided or unequal is not
//! known to be equal, so all together are undecided at best: by chance one audit in a hundred is
//! unequal at 99 %, and to repeat that costs less than a slower CPU that was called equal.

pub mod report;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::difference_of_work;
use crate::effects::{self, TestLevel, deciding};
use crate::model::{Audit, AuditSample, AuditVerdict, CpuVerdict, Effect, Quantity, Test, unique};
use crate::ranks::holm;
use crate::report::words;
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
    /// Hosts of several CPUs, none of them in `cpus`, whose own audit is undecided or unequal, and
    /// what it says.
    pub own_audits: Vec<(String, String)>,
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
    /// Hosts whose own audit is undecided or unequal, and what it says.
    own_audits: Vec<(String, String)>,
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
        // What is incomplete is undecided, and named for that.
        let is_named = self
            .incomplete
            .last()
            .is_some_and(|(named, _)| named == host);
        let is_open = match audit.verdict {
            AuditVerdict::Equal | AuditVerdict::NotResolvable => false,
            AuditVerdict::Undecided => !is_named,
            AuditVerdict::Unequal => true,
        };
        // One CPU has nothing to be compared with.
        if is_open && audit.cpus.len() > 1 {
            let verdict = words::verdict(audit.verdict);
            let said = format!("{verdict}: {}", words::summary(audit));
            self.own_audits.push((host.to_owned(), said));
        }
        self.confidence = self.confidence.max(audit.design.confidence);
        self.tolerance_pct = self.tolerance_pct.max(audit.design.tolerance_pct);
        let lost: Vec<u32> = audit.left_out.iter().map(|out| out.cpu).collect();
        for test in audit.tests.iter().filter(|test| !test.samples.is_empty()) {
            // A CPU that has a part of the rounds only would change the mean on the way.
            let without = (!lost.is_empty()).then(|| test.without(&lost));
            let left = without.as_ref().unwrap_or(test);
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
                let samples = of_host(left, number, &merged.test.lengths);
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
            let judged = |test| {
                verdict::judged_effects(test, &audit.cpus, level, audit.design.tolerance_pct)
            };
            let effects = judged(left);
            // Of a CPU that was lost its own audit knows more than the blocks that all have.
            let mut of_lost = if lost.is_empty() {
                Vec::new()
            } else {
                judged(test)
            };
            of_lost.retain(|effect| lost.contains(&effect.cpu));
            let all = mirrored(&effects).chain(&of_lost);
            self.cpus.extend(all.map(|effect| {
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
        for (name, MergedTest { mut test, unlike }) in self.tests {
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
            // Of rounds that only some have nothing is compared, nor do they count as its time.
            effects::keep_whole(&mut test.samples, &present);
            let effects = compare(&test.samples, &present, lengths, noise, level);
            if effects.is_empty() && present.len() > 1 {
                let why = "the hosts have no round of it in common".to_owned();
                left_out.push((name, why));
            }
            tests.push(Test { effects, ..test });
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
                verdict: judge(effect, test, alpha, self.tolerance_pct),
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
        let mut own_audits = self.own_audits;
        own_audits.retain(|(host, _)| cpus.iter().all(|one| one.host != *host));
        // Who was not compared is not known to be equal, nor is one that its own audit doubts.
        if !(left_out.is_empty() && self.incomplete.is_empty() && own_audits.is_empty()) {
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
            own_audits,
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

fn judge(effect: &Effect, test: &Test, alpha: f64, tolerance_pct: f64) -> AuditVerdict {
    let beyond = effect.p_together <= alpha && effect.pct > tolerance_pct;
    if beyond && verdict::lasts(effect, test) {
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
mod tests;
