// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an audit found: the file that it writes (JSON), and what its tables,
//! charts and comparisons are made of. No arithmetic here.
//!
//! Units: times are nanoseconds (`_ns`), differences percent of the middle CPU
//! (`_pct`), confidences and probabilities fractions of 1.

use serde::{Deserialize, Serialize};

use crate::options::TestRequest;

/// The format's version, in each file.
pub const VERSION: u32 = 1;

/// The failure of a test that was asked to stop.
pub const STOPPED: &str = "cut short: asked to stop";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// [`VERSION`] of the sandbag that wrote it.
    pub version: u32,
    pub sandbag: String,
    /// When it began: RFC 3339, UTC.
    pub begun: String,
    pub took_ns: u64,
    /// Facts about the machine by name, as `sandbag_linux::machine::describe`.
    pub machine: Vec<(String, String)>,
    /// The CPUs that were asked for and can be used.
    pub cpus: Vec<Cpu>,
    /// Those that were left out, and why (offline, not in our cpuset, isolated).
    pub left_out: Vec<LeftOut>,
    pub design: Design,
    /// What each test found, in the order of the design.
    pub tests: Vec<Test>,
    /// Why CPUs differ, likeliest first.
    pub suspects: Vec<Suspect>,
    /// Of all tests: the worst (unequal, then undecided, then equal).
    pub verdict: AuditVerdict,
    /// CPUs that were asked for were not tested, or not to the end: undecided at best.
    #[serde(default)]
    pub incomplete: bool,
    /// What the reader must know: a signal that ended it early, steal, ...
    pub remarks: Vec<String>,
}

/// A CPU, and what is known of it before anything runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub cpu: u32,
    /// Package, core, and NUMA node where known.
    pub package: Option<u32>,
    pub core: Option<u32>,
    pub node: Option<u32>,
    /// Other CPUs of the same core.
    pub siblings: Vec<u32>,
    /// `cpu_capacity`, or the kind of a hybrid core: CPUs of other kinds are not equal by design.
    pub kind: Option<String>,
    /// Configuration that makes it another CPU than the rest, in words:
    /// `isolcpus`, `nohz_full`, `rcu_nocbs`, `irqaffinity`, `the isolated cpuset
    /// partition /x`, `the exclusive cpuset /x`.
    pub settings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub cpu: u32,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Of the order of the CPUs; the same seed, the same order.
    pub seed: u64,
    /// By which verdicts are given, after correction for many comparisons: .99.
    pub confidence: f64,
    /// Differences up to this do not count: a CPU is equal when its interval lies within.
    pub tolerance_pct: f64,
    /// Half width of the intervals that was asked for.
    pub precision_pct: f64,
    /// The fewest rounds of each length, and the most.
    pub rounds: (u32, u32),
    /// The longest that a test was to take.
    pub limit_ns: u64,
    /// How the kernel divides CPU time into user and system time: `sampled at the tick
    /// of 250 Hz`, `exact`.
    pub accounting: String,
    /// Whether a CPU that others disturb makes an audit unequal; else only one that
    /// charges more itself.
    #[serde(default = "yes")]
    pub contention_fails: bool,
}

fn yes() -> bool {
    true
}

/// Ascending, each once.
pub(crate) fn unique<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.collect::<std::collections::BTreeSet<T>>()
        .into_iter()
        .collect()
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// By the monotonic clock.
    #[default]
    Elapsed,
    User,
    System,
    /// User and system time: exact also where their division is sampled.
    Cpu,
    /// Share of the elapsed time in which the run did not have its CPU: another
    /// program, a real-time task, the hypervisor had it (or a command slept).
    Waiting,
    /// Share of time in which nothing of ours ran, of the noise test only.
    Noise,
}

impl Quantity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::User => "user",
            Self::System => "system",
            Self::Cpu => "cpu time",
            Self::Waiting => "waiting",
            Self::Noise => "noise",
        }
    }

    pub fn unit(self) -> &'static str {
        if self.is_share() { "points" } else { "%" }
    }

    /// A share of time: its effects are points of it, not percent of a time.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Waiting | Self::Noise)
    }

    /// Whether an interval's end, percent or points, is where the search for it
    /// ended: with so little to go by, the interval has no end there.
    pub fn is_open(self, pct: f64) -> bool {
        if self.is_share() {
            pct.abs() > 99.9
        } else {
            // A factor of 10.
            !(-89.9..=899.0).contains(&pct)
        }
    }

    /// Whether a difference, percent, is where the search for it ended: one of the times is
    /// nothing, so they have no ratio. Of others it is the estimate, however large it is. A share
    /// has a difference also from nothing.
    pub(crate) fn is_end_of_search(self, pct: f64) -> bool {
        // A factor of 10, as near as the search comes.
        let shift = (pct / 100.0).ln_1p().abs();
        !self.is_share() && (shift - std::f64::consts::LN_10).abs() < 1e-8
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// `memory`, `syscall`, `io:/tmp`, `both`, `compute`, `noise`, or the name of a command.
    pub name: String,
    /// What it did, in a sentence with its sizes.
    pub about: String,
    /// Its three lengths, in the test's own units (calls, passes), shortest first.
    pub lengths: Vec<u64>,
    /// The unit of `lengths`: `calls`, `passes`.
    pub unit: String,
    /// Every run that counts, in the order of time.
    pub samples: Vec<AuditSample>,
    /// By quantity and CPU, all lengths together.
    pub effects: Vec<Effect>,
    /// The same at each length: constant costs shrink, proportional ones stay.
    pub by_length: Vec<LengthEffect>,
    pub verdicts: Vec<CpuVerdict>,
    pub verdict: AuditVerdict,
    /// Why it could not be done or was cut short; [`STOPPED`] counts as no failure.
    pub failure: Option<String>,
}

/// The unit of commands.
pub const RUNS: &str = "runs";

impl Test {
    /// A test of this name before its first run: nothing is known.
    pub fn empty(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    pub fn effect(&self, cpu: u32, quantity: Quantity) -> Option<&Effect> {
        let mut all = self.effects.iter();
        all.find(|effect| effect.cpu == cpu && effect.quantity == quantity)
    }

    /// What it found on the other CPUs.
    pub fn without(&self, cpus: &[u32]) -> Self {
        let mut test = self.clone();
        test.samples.retain(|one| !cpus.contains(&one.cpu));
        test.effects.retain(|one| !cpus.contains(&one.cpu));
        test.by_length.retain(|one| !cpus.contains(&one.cpu));
        test.verdicts.retain(|one| !cpus.contains(&one.cpu));
        test
    }

    /// Whether it ended early, and not because it was asked to.
    pub fn has_failed(&self) -> bool {
        self.failure.as_deref().is_some_and(|why| why != STOPPED)
    }

    /// Whether each of its runs was a command.
    pub fn is_command(&self) -> bool {
        self.unit == RUNS
    }

    /// Whether it is the one that measures noise, also if that is known of no round. No
    /// command may have its name.
    pub fn is_noise(&self) -> bool {
        self.name == TestRequest::Noise.name()
    }
}

/// One run of a test on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditSample {
    pub cpu: u32,
    /// Round, counted from 0: in one round each CPU runs each length once.
    pub round: u32,
    /// Which of the test's lengths, counted from 0.
    pub length: usize,
    /// When it began, after the audit's begin.
    pub at_ns: u64,
    pub elapsed_ns: u64,
    /// getrusage, ru_utime.
    pub user_ns: u64,
    /// ru_stime.
    pub system_ns: u64,
    /// Share of noise, percent, of the noise test.
    pub noise_pct: Option<f64>,
    /// What else happened on this CPU meanwhile.
    pub evidence: Evidence,
}

impl AuditSample {
    /// One of its figures: ns, or percent of the time; `None` where that was not
    /// measured.
    pub fn figure(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Elapsed => Some(self.elapsed_ns as f64),
            Quantity::User => Some(self.user_ns as f64),
            Quantity::System => Some(self.system_ns as f64),
            Quantity::Cpu => Some(self.user_ns as f64 + self.system_ns as f64),
            Quantity::Waiting if self.elapsed_ns == 0 => None,
            Quantity::Waiting => {
                let ran_ns = self.user_ns.saturating_add(self.system_ns);
                let waited_ns = self.elapsed_ns.saturating_sub(ran_ns);
                Some(waited_ns as f64 / self.elapsed_ns as f64 * 100.0)
            }
            Quantity::Noise => self.noise_pct,
        }
    }
}

/// What happened on a CPU during a run; the same in sum over runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub voluntary: u64,
    /// Involuntary ones: something else ran.
    pub involuntary: u64,
    /// Time that the test waited for the CPU (schedstat's run delay).
    pub waited_ns: u64,
    /// Of the CPU, /proc/stat: the hypervisor ran others.
    pub steal_ns: u64,
    pub irq_ns: u64,
    pub softirq_ns: u64,
    /// Interrupts by label of /proc/interrupts, and about what they are; those that came.
    pub interrupts: Vec<(String, u64)>,
    /// Soft interrupts by label of /proc/softirqs; those that came.
    pub softirqs: Vec<(String, u64)>,
    /// kHz right after the run, on its CPU, where the kernel says it; not of commands
    /// and noise.
    pub frequency_khz: Option<u64>,
    /// Throttle events of the core and package, where counted.
    pub throttled: Option<u64>,
    /// CPU time of other tasks whose last CPU was this one: name, nanoseconds; the greatest few.
    pub tasks: Vec<(String, u64)>,
}

/// By how much a CPU differs from the middle of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub quantity: Quantity,
    pub cpu: u32,
    /// The estimate, percent (points for noise); above 0: slower.
    pub pct: f64,
    /// Interval for this CPU alone, at the design's confidence.
    pub interval_pct: (f64, f64),
    /// Interval that holds for all comparisons of the audit at once.
    pub together_pct: (f64, f64),
    /// Probability of such a difference between equal CPUs, alone.
    pub p: f64,
    /// The same, corrected for all comparisons of the audit.
    pub p_together: f64,
    /// Runs behind it.
    pub runs: u32,
    /// The middle of this CPU's figures at the greatest length, ns (percent for noise).
    pub middle: f64,
    /// Differences beyond this would have been seen with 90 % probability; `None`
    /// where the runs bound it nowhere.
    pub detectable_pct: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LengthEffect {
    pub quantity: Quantity,
    pub cpu: u32,
    /// Which of the test's lengths, counted from 0.
    pub length: usize,
    pub pct: f64,
    /// Alone, at the design's confidence.
    pub interval_pct: (f64, f64),
}

/// Verdict on a CPU, a test, an audit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    /// Within the tolerance, surely.
    Equal,
    /// This kernel's accounting cannot tell such differences.
    NotResolvable,
    /// Neither.
    #[default]
    Undecided,
    /// Beyond chance.
    Unequal,
}

/// What kind of difference it is, for an unequal CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// The CPU itself charges more: user or system time differ.
    Inequality,
    /// Only elapsed time differs: something else ran there.
    Contention,
    /// Explained by how the machine is built: SMT, hybrid cores, NUMA. No alarm.
    Designed,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuVerdict {
    pub cpu: u32,
    pub quantity: Quantity,
    pub verdict: AuditVerdict,
    pub nature: Option<Nature>,
    /// Why so, in a sentence with its figures.
    pub because: String,
}

/// What probably makes a CPU differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    pub cpu: u32,
    /// Its kind, one word for scripts: `load`, `realtime`, `timer`, `interrupts`, `softirq`,
    /// `task`, `kthread`, `steal`, `frequency`, `throttling`, `slow_node`, `cpuset`, `smt`, `hybrid`, `numa`.
    pub kind: String,
    /// Who, in words: `interrupt 36 (virtio1-req.0)`, `sandbag load, run 12 (burner 4711)`.
    pub who: String,
    pub evidence: String,
    /// How much of the difference it would explain, percent of a CPU, where that can be said.
    pub explains_pct: Option<f64>,
    pub remedy: String,
    /// Tests in whose figures the difference was seen.
    pub tests: Vec<String>,
}
