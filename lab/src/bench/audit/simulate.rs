// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated audits of equal CPUs and of a slow one: how often is an equal CPU called
//! unequal, and how often is a slow one found? Pure.
//!
//! All runs follow each other on one clock. The speed of the whole machine drifts by a
//! quarter; each run is off by some tenths of a percent, one in twenty by more and to the
//! slow side; each CPU is disturbed for seconds now and then, which makes elapsed times
//! longer by a tenth and CPU times by little; user and system time are sampled by ticks.

use std::collections::BTreeMap;
use std::thread;

use clap::Args;
use sandbag_audit::accounting::Accounting;
use sandbag_audit::effects::{self, TestLevel};
use sandbag_audit::model::{AuditSample, AuditVerdict, Evidence, Nature, Quantity, Test};
use sandbag_audit::plan::{self, StopRule};
use sandbag_audit::verdict::{self, Rule};
use sandbag_stats::Chance;
use statrs::distribution::{Beta, ContinuousCDF as _};

/// A machine and how it is audited.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    pub cpus: u32,
    /// Tests beside the one of noise.
    pub tests: u32,
    /// Fewest and most rounds; the precision decides between.
    pub rounds: (u32, u32),
    /// The options of the same names.
    pub precision_pct: f64,
    pub tolerance_pct: f64,
    pub confidence: f64,
    /// Standard deviation of a run, percent.
    pub run_pct: f64,
    /// Mean time between disturbances of a CPU, s.
    pub quiet_s: f64,
    /// Mean length of one, s.
    pub burst_s: f64,
    /// How much longer runs then are, percent.
    pub burst_pct: f64,
    /// CPU 1 is slower: elapsed time alone, and CPU time (and elapsed with it),
    /// percent.
    pub slower_pct: (f64, f64),
    /// Share of CPU 1 that another program has, percent, and its slices, ms.
    pub load: (f64, f64),
}

impl Default for World {
    /// Two CPUs of a virtual machine, audited as by default but for the most
    /// rounds.
    fn default() -> Self {
        Self {
            cpus: 2,
            tests: 6,
            rounds: (12, 48),
            precision_pct: 0.3,
            tolerance_pct: 0.5,
            confidence: 0.99,
            run_pct: 0.5,
            quiet_s: 30.0,
            burst_s: 2.0,
            burst_pct: 10.0,
            slower_pct: (0.0, 0.0),
            load: (0.0, 3.0),
        }
    }
}

/// Arguments of `sandbag-lab audit-worlds`.
#[derive(Debug, Args)]
pub struct WorldsArgs {
    /// Audits of each world
    #[arg(long, default_value_t = 200)]
    audits: u64,
    /// Only the worlds whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Name and world: the default but for one thing.
fn worlds() -> [(&'static str, World); 10] {
    let world = |change: fn(&mut World)| {
        let mut world = World::default();
        change(&mut world);
        world
    };
    let quick = |w: &mut World| {
        (w.rounds, w.tolerance_pct, w.precision_pct) = ((6, 12), 2.0, 1.0);
    };
    [
        ("2 CPUs", World::default()),
        ("4 CPUs", world(|w| (w.cpus, w.rounds) = (4, (12, 24)))),
        ("no disturbances", world(|w| w.quiet_s = 1e9)),
        (
            "bursts of 10 s",
            world(|w| (w.burst_s, w.quiet_s) = (10.0, 60.0)),
        ),
        ("12 rounds", world(|w| w.rounds = (12, 12))),
        ("quick: 6 rounds, tolerance 2 %", world(quick)),
        ("6 rounds, tolerance 0.5 %", world(|w| w.rounds = (6, 6))),
        ("1 % more CPU time", world(|w| w.slower_pct = (0.0, 1.0))),
        (
            "1 % more elapsed time",
            world(|w| w.slower_pct = (1.0, 0.0)),
        ),
        (
            "a load of 1 % in slices of 3 ms",
            world(|w| w.load = (1.0, 3.0)),
        ),
    ]
}

/// Prints for each world how many audits call a CPU unequal.
pub fn print_worlds(args: &WorldsArgs) {
    let wanted = |(name, _): &(&str, World)| name.contains(&args.only);
    for (name, world) in worlds().into_iter().filter(wanted) {
        let (any, one) = alarms(&world, args.audits, 0);
        println!(
            "{name}: {any} of {} audits call a CPU unequal (upper 95 % bound {:.2} %), {one} of \
             them CPU 1 alone",
            args.audits,
            upper_bound(any, args.audits, 0.95) * 100.0
        );
    }
}

/// Length of a test's longest run, ns.
const LONGEST_NS: f64 = 160e6;
/// From one run to the next, ns.
const PAUSE_NS: f64 = 15e6;
/// Ticks in a second.
const HZ: f64 = 250.0;
/// Of runs that are far off, the share, and their mean, percent.
const TAIL: (f64, f64) = (0.05, 3.0);
/// CPU times are longer by this part of what elapsed times are.
const CACHE: f64 = 0.05;
/// Shares of system time of the tests.
const SYSTEM: [f64; 6] = [0.001, 0.001, 0.5, 0.7, 0.8, 0.3];

/// One simulated audit: what its tests found. The same for the same seed.
pub fn audit(world: &World, seed: u64) -> Vec<Test> {
    let kinds: Vec<bool> = (0..=world.tests).map(|test| test == world.tests).collect();
    let level = TestLevel {
        confidence: world.confidence,
        comparisons: effects::comparisons(&kinds, world.cpus as usize),
    };
    let mut machine = Machine::new(world, seed);
    let mut tests = machine.tests(&kinds, level);
    let accounting = Accounting {
        sampled: true,
        interrupts_apart: false,
        hz: HZ,
        words: String::new(),
    };
    let rule = Rule {
        level,
        tolerance_pct: world.tolerance_pct,
        accounting: &accounting,
        contention_fails: true,
        beside_pct: &BTreeMap::new(),
    };
    effects::correct(&mut tests, level.comparisons);
    for test in &mut tests {
        verdict::judge(test, &[], &rule);
    }
    tests
}

/// The CPUs that an audit calls unequal in one of these quantities (none: any).
pub fn unequal(tests: &[Test], quantity: Option<Quantity>) -> Vec<u32> {
    let all = tests.iter().flat_map(|test| &test.verdicts);
    let mut cpus: Vec<u32> = all
        .filter(|v| v.verdict == AuditVerdict::Unequal && v.nature != Some(Nature::Designed))
        .filter(|v| quantity.is_none_or(|quantity| quantity == v.quantity))
        .map(|v| v.cpu)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// How many of these audits call some CPU unequal, and how many CPU 1 alone.
pub fn alarms(world: &World, audits: u64, seed: u64) -> (u64, u64) {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let count = |from: u64| {
        let seeds = (from..audits).step_by(threads as usize);
        let found = seeds.map(|number| unequal(&audit(world, seed + number), None));
        found.fold((0, 0), |(any, one), cpus| {
            let alarm = u64::from(!cpus.is_empty());
            (any + alarm, one + u64::from(cpus == [1]))
        })
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|from| scope.spawn(move || count(from)))
            .collect();
        let all = all.into_iter().filter_map(|one| one.join().ok());
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    })
}

/// The upper end of a one-sided interval of a share of which `found` were seen
/// among `all` (Clopper and Pearson 1934).
pub fn upper_bound(found: u64, all: u64, confidence: f64) -> f64 {
    if found >= all {
        return 1.0;
    }
    let (found, all) = (found as f64, all as f64);
    Beta::new(found + 1.0, all - found).map_or(1.0, |beta| beta.inverse_cdf(confidence))
}

struct Machine<'a> {
    world: &'a World,
    seed: u64,
    chance: Chance,
    now_ns: f64,
    /// The whole machine's slowness, as a logarithm.
    drift: f64,
    /// By CPU: disturbed, and until when.
    bursts: Vec<(bool, f64)>,
}

impl<'a> Machine<'a> {
    fn new(world: &'a World, seed: u64) -> Self {
        let mut chance = Chance::new(seed, "machine");
        let first = |chance: &mut Chance| (false, chance.exponential(world.quiet_s * 1e9));
        Self {
            world,
            seed,
            bursts: (0..world.cpus).map(|_| first(&mut chance)).collect(),
            chance,
            now_ns: 0.0,
            drift: 0.0,
        }
    }

    /// All tests, which take turns.
    fn tests(&mut self, kinds: &[bool], level: TestLevel) -> Vec<Test> {
        let enough = StopRule {
            rounds: self.world.rounds,
            limit: std::time::Duration::MAX,
            precision_pct: self.world.precision_pct,
        };
        let cpus: Vec<u32> = (0..self.world.cpus).collect();
        let mut tests: Vec<Test> = (0..kinds.len()).map(test).collect();
        let mut open: Vec<usize> = (0..kinds.len()).collect();
        for round in 0.. {
            for at in plan::order(self.seed, round, &open) {
                self.round(&mut tests[at], round, at, kinds[at]);
            }
            let done = round + 1;
            open.retain(|at| {
                let samples = &tests[*at].samples;
                let half = enough
                    .looks(done)
                    .then(|| effects::half_width_pct(samples, &cpus, kinds[*at], level))
                    .flatten();
                !enough.is_reached(done, std::time::Duration::ZERO, half)
            });
            if open.is_empty() {
                break;
            }
        }
        for (test, noise) in tests.iter_mut().zip(kinds) {
            let lengths = test.lengths.len();
            test.effects = effects::of_test(&test.samples, &cpus, lengths, *noise, level);
        }
        tests
    }

    fn round(&mut self, test: &mut Test, round: u32, number: usize, noise: bool) {
        let cpus: Vec<u32> = (0..self.world.cpus).collect();
        let system = SYSTEM[number % SYSTEM.len()];
        for block in plan::round(self.seed, &test.name, round, test.lengths.len(), &cpus) {
            for cpu in block.cpus {
                let length_ns = test.lengths[block.length] as f64 * 1e6;
                let figures = if noise {
                    self.noise(cpu)
                } else {
                    self.run(cpu, length_ns, system)
                };
                test.samples.push(AuditSample {
                    cpu,
                    round,
                    length: block.length,
                    ..figures
                });
            }
        }
    }

    fn is_disturbed(&mut self, cpu: u32) -> bool {
        let burst = &mut self.bursts[cpu as usize];
        while burst.1 < self.now_ns {
            burst.0 = !burst.0;
            let mean_s = if burst.0 {
                self.world.burst_s
            } else {
                self.world.quiet_s
            };
            burst.1 += self.chance.exponential(mean_s * 1e9);
        }
        burst.0
    }

    fn run(&mut self, cpu: u32, length_ns: f64, system: f64) -> AuditSample {
        // A walk that comes back: a quarter within minutes.
        self.drift = self.drift * 0.998 + 0.008 * self.chance.normal();
        let mut more_pct = self.world.run_pct * self.chance.normal();
        if self.chance.uniform() < TAIL.0 {
            more_pct += self.chance.exponential(TAIL.1);
        }
        let mut waits_pct = self.chance.exponential(0.1);
        if self.is_disturbed(cpu) {
            waits_pct += self.chance.exponential(self.world.burst_pct);
        }
        if cpu == 1 {
            waits_pct += self.load_pct(length_ns);
        }
        let slower = match cpu {
            1 => self.world.slower_pct,
            _ => (0.0, 0.0),
        };
        let cpu_ns = length_ns
            * self.drift.exp()
            * (1.0 + slower.1 / 100.0)
            * (more_pct / 100.0).exp()
            * (1.0 + CACHE * waits_pct / 100.0);
        let elapsed_ns = cpu_ns * (1.0 + waits_pct / 100.0) * (1.0 + slower.0 / 100.0);
        let ticks = (cpu_ns / 1e9 * HZ + self.chance.uniform()).floor();
        let hits = (0..ticks as u64)
            .filter(|_| self.chance.uniform() < system)
            .count();
        let system_ns = cpu_ns * hits as f64 / ticks.max(1.0);
        self.now_ns += elapsed_ns + PAUSE_NS;
        AuditSample {
            elapsed_ns: elapsed_ns as u64,
            user_ns: (cpu_ns - system_ns) as u64,
            system_ns: system_ns as u64,
            ..empty(cpu)
        }
    }

    /// What another program has of a run of this length: whole slices.
    fn load_pct(&mut self, length_ns: f64) -> f64 {
        let (pct, slice_ms) = self.world.load;
        let slice_ns = slice_ms * 1e6;
        let slices = length_ns * pct / 100.0 / slice_ns;
        let here = slices.floor() + f64::from(u8::from(self.chance.uniform() < slices.fract()));
        here * slice_ns / length_ns * 100.0
    }

    fn noise(&mut self, cpu: u32) -> AuditSample {
        let mut pct = 0.5 + 0.1 * self.chance.normal().abs() + self.chance.exponential(0.1);
        if self.is_disturbed(cpu) {
            pct += self.chance.exponential(self.world.burst_pct);
        }
        if cpu == 1 {
            pct += self.world.slower_pct.0 + self.world.slower_pct.1;
        }
        // All look at once.
        self.now_ns += LONGEST_NS / f64::from(self.world.cpus);
        AuditSample {
            noise_pct: Some(pct),
            ..empty(cpu)
        }
    }
}

fn test(number: usize) -> Test {
    let longest = std::time::Duration::from_nanos(LONGEST_NS as u64);
    Test {
        lengths: plan::lengths(1e6, longest),
        ..Test::empty(format!("test {number}"))
    }
}

fn empty(cpu: u32) -> AuditSample {
    AuditSample {
        cpu,
        round: 0,
        length: 0,
        at_ns: 0,
        elapsed_ns: 0,
        user_ns: 0,
        system_ns: 0,
        noise_pct: None,
        evidence: Evidence::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cpus_are_called_so() {
        let world = World {
            tests: 2,
            rounds: (12, 24),
            ..World::default()
        };
        let (found, _) = alarms(&world, 60, 1);
        assert!(found <= 2, "{found} of 60");
    }

    #[test]
    fn a_slow_cpu_is_found_and_no_other() {
        let world = World {
            cpus: 4,
            tests: 1,
            slower_pct: (0.0, 2.0),
            ..World::default()
        };
        let tests = audit(&world, 3);
        assert_eq!(unequal(&tests, Some(Quantity::Cpu)), [1]);
        let verdicts = &tests[0].verdicts;
        let own = verdicts
            .iter()
            .find(|v| v.cpu == 1 && v.quantity == Quantity::Elapsed);
        assert_eq!(own.unwrap().nature, Some(Nature::Inequality));
    }

    #[test]
    fn a_load_that_comes_seldom_is_found_by_the_time_without_the_cpu() {
        let world = World {
            tests: 1,
            rounds: (96, 96),
            quiet_s: 1e9,
            load: (2.0, 10.0),
            ..World::default()
        };
        let tests = audit(&world, 5);
        assert_eq!(unequal(&tests, Some(Quantity::Waiting)), [1]);
        // Most runs are not affected.
        assert_eq!(unequal(&tests, Some(Quantity::Elapsed)), [0; 0]);
    }

    #[test]
    fn the_bound_is_clopper_and_pearson_s() {
        // Nothing of n: 1 - 0.05^(1/n).
        let bound = upper_bound(0, 100, 0.95);
        assert!((bound - (1.0 - 0.05f64.powf(0.01))).abs() < 1e-6, "{bound}");
        // Their table: 10 of 100, one-sided 97.5 %.
        let bound = upper_bound(10, 100, 0.975);
        assert!((bound - 0.1762).abs() < 1e-3, "{bound}");
        assert_eq!(upper_bound(5, 5, 0.95), 1.0);
    }

    #[test]
    fn the_same_seed_is_the_same_audit() {
        let world = World {
            tests: 1,
            rounds: (3, 3),
            ..World::default()
        };
        assert_eq!(audit(&world, 9), audit(&world, 9));
        assert_ne!(audit(&world, 9), audit(&world, 10));
    }
}
