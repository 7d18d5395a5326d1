// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up audits for tests: the same for the same seed, their figures plain
//! arithmetic and no statistics. One CPU charges 3 % more system time, and the
//! evidence says why.

use sandbag_stats::chance::{GOLDEN, finish};

use crate::effects::median;
use crate::model::{
    Audit, AuditSample, AuditVerdict, Cpu, CpuVerdict, Design, Effect, Evidence, LengthEffect,
    Nature, Quantity, Suspect, Test, VERSION,
};

#[derive(Debug, Clone)]
pub struct Maker {
    cpus: u32,
    odd: Option<u32>,
    seed: u64,
    rounds: u32,
    slower: f64,
    scatter: f64,
}

/// Eight CPUs, of which CPU 0 serves the interrupts of a disk.
pub fn eight() -> Audit {
    Maker::eight().make()
}

/// SplitMix64 (Steele et al. 2014).
struct Uniform(u64);

impl Uniform {
    /// About normal: mean 0, standard deviation 1.
    fn normal(&mut self) -> f64 {
        let uniform = |_| {
            self.0 = self.0.wrapping_add(GOLDEN);
            (finish(self.0) >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(uniform).sum::<f64>() - 6.0
    }
}

/// A test as it is made: its name, unit, shortest length, ns for a unit, share
/// of system time, and what it does.
struct FixtureTest {
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    shortest: u64,
    unit_ns: f64,
    system: f64,
}

const KINDS: [FixtureTest; 4] = [
    FixtureTest {
        name: "compute",
        about: "adds vectors of 32 KiB",
        unit: "passes",
        shortest: 20_000,
        unit_ns: 2_500.0,
        system: 0.0005,
    },
    FixtureTest {
        name: "syscall",
        about: "asks for the parent's number, 2 000 000 times at most",
        unit: "calls",
        shortest: 500_000,
        unit_ns: 100.0,
        system: 0.8,
    },
    FixtureTest {
        name: "io:/tmp",
        about: "writes and reads 8 bytes of a file",
        unit: "calls",
        shortest: 100_000,
        unit_ns: 600.0,
        system: 0.9,
    },
    FixtureTest {
        name: "noise",
        about: "looks at the clock and nothing else",
        unit: "ms",
        shortest: 50,
        unit_ns: 1e6,
        system: 0.0,
    },
];

/// Of all lengths, in units of the shortest.
const LENGTHS: [u64; 3] = [1, 2, 4];
const ROUNDS: u32 = 10;
const CONFIDENCE: f64 = 0.99;
const TOLERANCE_PCT: f64 = 0.5;
/// More system time on the odd CPU.
const MORE: f64 = 1.03;

impl Maker {
    /// [`eight`], before it is made.
    pub fn eight() -> Self {
        Self {
            cpus: 8,
            odd: Some(0),
            seed: 1,
            rounds: ROUNDS,
            slower: 1.0,
            scatter: 0.001,
        }
    }

    pub fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    pub fn odd(self, odd: Option<u32>) -> Self {
        Self { odd, ..self }
    }

    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    pub fn rounds(self, rounds: u32) -> Self {
        Self { rounds, ..self }
    }

    /// Multiplies elapsed times.
    pub fn slower(self, slower: f64) -> Self {
        Self { slower, ..self }
    }

    /// Figures scatter by this share.
    pub fn scatter(self, scatter: f64) -> Self {
        Self { scatter, ..self }
    }

    pub fn make(&self) -> Audit {
        let mut chance = Uniform(self.seed);
        let mut at_ns = 0;
        let tests = KINDS
            .iter()
            .map(|kind| self.test(kind, &mut chance, &mut at_ns));
        let tests: Vec<Test> = tests.collect();
        let verdict = worst(tests.iter().map(|test| test.verdict));
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Audit {
            version: VERSION,
            sandbag: "0.1.0".to_owned(),
            begun: "2026-11-22T04:00:00Z".to_owned(),
            took_ns: at_ns + 1_000_000_000,
            machine: vec![
                fact("CPU", "Made-up CPU at 3 GHz"),
                fact("CPUs online", &format!("0-{}", self.cpus - 1)),
                fact("memory", "16384000 kB"),
                fact("kernel", "6.1.0-made-up"),
                fact("HZ", "250"),
                fact(
                    "load average at the start",
                    &format!("0.{} 0.05 0.01 1/99 1", self.seed),
                ),
            ],
            cpus: (0..self.cpus).map(cpu).collect(),
            left_out: Vec::new(),
            incomplete: false,
            design: Design {
                seed: self.seed,
                confidence: CONFIDENCE,
                tolerance_pct: TOLERANCE_PCT,
                precision_pct: 0.5,
                rounds: (3, 40),
                limit_ns: 120_000_000_000,
                accounting: "exact".to_owned(),
                contention_fails: true,
            },
            suspects: match self.odd {
                Some(odd) if verdict == AuditVerdict::Unequal => suspects(odd),
                _ => Vec::new(),
            },
            tests,
            verdict,
            remarks: Vec::new(),
        }
    }

    fn test(&self, kind: &FixtureTest, chance: &mut Uniform, at_ns: &mut u64) -> Test {
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for length in 0..LENGTHS.len() {
                for step in 0..self.cpus {
                    // Not in the order of numbers.
                    let cpu = (step * 5 + round) % self.cpus;
                    let sample = self.sample(kind, chance, (cpu, round, length), *at_ns);
                    *at_ns += sample.elapsed_ns + 1_000_000;
                    samples.push(sample);
                }
            }
        }
        let mut test = Test {
            about: kind.about.to_owned(),
            lengths: LENGTHS.map(|length| length * kind.shortest).to_vec(),
            unit: kind.unit.to_owned(),
            samples,
            ..Test::empty(kind.name)
        };
        self.judge(&mut test, kind);
        test
    }

    fn sample(
        &self,
        kind: &FixtureTest,
        chance: &mut Uniform,
        (cpu, round, length): (u32, u32, usize),
        at_ns: u64,
    ) -> AuditSample {
        let is_odd = self.odd == Some(cpu);
        let is_noise = kind.name == "noise";
        let time = (LENGTHS[length] * kind.shortest) as f64 * kind.unit_ns;
        let mut scattered = |value: f64| value * (self.scatter * chance.normal()).exp();
        let more = if is_odd && !is_noise { MORE } else { 1.0 };
        let system = scattered(time * kind.system * more);
        let user = scattered(time * (1.0 - kind.system));
        let noise = is_noise.then(|| scattered(if is_odd { 3.1 } else { 0.11 }));
        let elapsed = (user + system) * 1.001 * if is_noise { 1.0 } else { self.slower };
        let interrupts = if is_odd { (elapsed / 1e5) as u64 } else { 0 };
        let mut evidence = Evidence {
            involuntary: u64::from(is_odd),
            irq_ns: interrupts * 2_000,
            frequency_khz: Some(3_000_000),
            ..Evidence::default()
        };
        if is_odd {
            evidence.interrupts = vec![("36: virtio1-req.0".to_owned(), interrupts)];
        }
        AuditSample {
            cpu,
            round,
            length,
            at_ns,
            elapsed_ns: elapsed as u64,
            user_ns: user as u64,
            system_ns: system as u64,
            noise_pct: noise,
            evidence,
        }
    }

    fn judge(&self, test: &mut Test, kind: &FixtureTest) {
        let quantities: &[Quantity] = match kind.name {
            "noise" => &[Quantity::Noise],
            _ => &[Quantity::Elapsed, Quantity::User, Quantity::System],
        };
        let comparisons = 10.0 * f64::from(self.cpus);
        for quantity in quantities {
            let is_noise = *quantity == Quantity::Noise;
            for cpu in 0..self.cpus {
                let mut all = 0.0;
                // 2.58 standard errors of a median, of 3 lengths.
                let half = if is_noise {
                    0.11 * self.scatter * 323.0
                } else {
                    self.scatter * 323.0
                } / f64::from(self.rounds).sqrt();
                for length in 0..LENGTHS.len() {
                    let here = middle_of(test, *quantity, Some(cpu), length);
                    let of_all = middle_of(test, *quantity, None, length);
                    let pct = if is_noise {
                        here - of_all
                    } else {
                        (here / of_all - 1.0) * 100.0
                    };
                    all += pct / 3.0;
                    test.by_length.push(LengthEffect {
                        quantity: *quantity,
                        cpu,
                        length,
                        pct,
                        interval_pct: (pct - half, pct + half),
                    });
                }
                let alone = half / 3.0_f64.sqrt();
                let together = alone * 1.5;
                let p = (-(all / alone * 2.58).powi(2) / 2.0)
                    .exp()
                    .clamp(1e-12, 1.0);
                let p_together = (p * comparisons).min(1.0);
                test.effects.push(Effect {
                    quantity: *quantity,
                    cpu,
                    pct: all,
                    interval_pct: (all - alone, all + alone),
                    together_pct: (all - together, all + together),
                    p,
                    p_together,
                    runs: self.rounds * 3,
                    middle: middle_of(test, *quantity, Some(cpu), LENGTHS.len() - 1),
                    detectable_pct: Some(together * 1.5),
                });
                test.verdicts
                    .push(verdict(kind, *quantity, cpu, (all, together, p_together)));
            }
        }
        test.verdict = worst(test.verdicts.iter().map(|one| one.verdict));
    }
}

fn worst(verdicts: impl Iterator<Item = AuditVerdict>) -> AuditVerdict {
    let decided = verdicts.filter(|verdict| *verdict != AuditVerdict::NotResolvable);
    decided.max().unwrap_or(AuditVerdict::Equal)
}

fn cpu(cpu: u32) -> Cpu {
    Cpu {
        cpu,
        package: Some(0),
        core: Some(cpu),
        node: Some(0),
        ..Cpu::default()
    }
}

/// Of a CPU and all, or all CPUs.
fn middle_of(test: &Test, quantity: Quantity, cpu: Option<u32>, length: usize) -> f64 {
    let here = test.samples.iter().filter(|sample| sample.length == length);
    let here = here.filter(|sample| cpu.is_none_or(|cpu| cpu == sample.cpu));
    median(here.filter_map(|sample| sample.figure(quantity))).unwrap_or(0.0)
}

fn verdict(
    kind: &FixtureTest,
    quantity: Quantity,
    cpu: u32,
    (pct, together, p): (f64, f64, f64),
) -> CpuVerdict {
    let within = pct.abs() + together <= TOLERANCE_PCT;
    let unresolved = kind.name == "compute" && quantity == Quantity::System;
    let beyond = p <= 1.0 - CONFIDENCE && pct.abs() > TOLERANCE_PCT;
    let unit = match quantity {
        Quantity::Noise => "points",
        _ => "%",
    };
    let (verdict, because) = match (unresolved, within, beyond) {
        (true, ..) => (
            AuditVerdict::NotResolvable,
            "a run has 0.1 ms of system time, too little to compare".to_owned(),
        ),
        (_, true, _) => (
            AuditVerdict::Equal,
            format!("{pct:+.2} {unit}, within {TOLERANCE_PCT} surely"),
        ),
        (_, _, true) => (
            AuditVerdict::Unequal,
            format!("{pct:+.2} {unit}, by chance with probability {p:.0e}"),
        ),
        _ => (
            AuditVerdict::Undecided,
            format!("{pct:+.2} {unit}, known to {together:.2} only: more rounds would tell"),
        ),
    };
    CpuVerdict {
        cpu,
        quantity,
        verdict,
        nature: (verdict == AuditVerdict::Unequal).then_some(match quantity {
            Quantity::Elapsed => Nature::Contention,
            _ => Nature::Inequality,
        }),
        because,
    }
}

fn suspects(odd: u32) -> Vec<Suspect> {
    let suspect = |kind: &str, who: &str, evidence: &str, pct: f64, remedy: &str| Suspect {
        cpu: odd,
        kind: kind.to_owned(),
        who: who.to_owned(),
        evidence: evidence.to_owned(),
        explains_pct: Some(pct),
        remedy: remedy.to_owned(),
        tests: ["syscall", "io:/tmp", "noise"].map(str::to_owned).to_vec(),
    };
    vec![
        suspect(
            "interrupts",
            "interrupt 36 (virtio1-req.0)",
            "9 871 interrupts a second here, none elsewhere; 2.0 % of the time in interrupts",
            2.0,
            "spread it: echo 1-7 > /proc/irq/36/smp_affinity_list",
        ),
        suspect(
            "kthread",
            "kworker/0:1H",
            "0.3 % of this CPU's time",
            0.3,
            "follows from the interrupts of the disk; it goes with them",
        ),
    ]
}

/// This test program again, with one test alone; `None` in that process.
#[cfg(test)]
pub(crate) fn alone(test: &str) -> Option<std::process::Command> {
    const ALONE: &str = "SANDBAG_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test]).env(ALONE, "1");
    Some(program)
}

/// A root with these files.
#[cfg(test)]
pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, sandbag_linux::Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = sandbag_linux::Root::at(dir.path());
    for (path, text) in files {
        add_file(&root, path, text);
    }
    (dir, root)
}

/// Adds a file to a tree, or changes it.
#[cfg(test)]
pub(crate) fn add_file(root: &sandbag_linux::Root, path: &str, text: &str) {
    let path = root.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
