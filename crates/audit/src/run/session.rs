// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lasts for a whole audit: the process that works, the counters, what was
//! seen so far.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbag_linux::machine::kernel_config;
use sandbag_linux::{CpuList, Root};

use super::lost::LostCpu;
use super::machine;
use crate::accounting::Accounting;
use crate::competing::CompetingTasks;
use crate::effects::{self, TestLevel, median};
use crate::error::{Error, Halt, Result};
use crate::evidence::{self, CounterReader, Stretch};
use crate::facts::{Facts, has_nohz_full};
use crate::model::{LeftOut, Test};
use crate::noise;
use crate::options::{AuditOptions, AuditProgress};
use crate::suspects::{Holder, NoiseSource, Observations, OfCpu};
use crate::tasks::TaskWatch;
use crate::work::{Answer, Spec, WorkFault, WorkOrder};
use crate::worker::{WorkProcess, WorkerEnd};

/// No answer of the process that works takes longer, but for what is asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// One look with the kernel's trace events.
const TRACED: Duration = Duration::from_secs(2);
/// Looking at all tasks around each run may take this part of its time.
const LOOKING: u32 = 25;
/// Looks by which that is found out.
const LOOKS: u32 = 5;

pub struct AuditSession<'a> {
    pub(super) root: &'a Root,
    pub(super) options: &'a AuditOptions,
    pub(super) progress: &'a mut dyn FnMut(AuditProgress),
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) level: TestLevel,
    pub(super) begin_ns: u64,
    /// The CPUs that are still tested.
    pub(super) cpus: Vec<u32>,
    pub(super) reader: CounterReader,
    pub(super) watch: TaskWatch,
    /// All tasks are looked at around each run, not around each round.
    pub(super) each_run: bool,
    pub(super) others: CompetingTasks,
    worker: Option<WorkProcess>,
    of: BTreeMap<u32, OfCpu>,
    frequencies: BTreeMap<u32, Vec<f64>>,
    blamed: Vec<NoiseSource>,
    holders: Vec<Holder>,
    has_nohz_full: bool,
    /// The CPUs that were lost on the way.
    pub(super) left_out: Vec<LeftOut>,
    /// What tests found on those before.
    pub(super) before_loss: Vec<LostCpu>,
    pub(super) remarks: Vec<String>,
    was_stopped: bool,
}

impl<'a> AuditSession<'a> {
    /// Starts the process that works, and looks around.
    pub fn new(
        root: &'a Root,
        options: &'a AuditOptions,
        facts: &Facts,
        level: TestLevel,
        begin_ns: u64,
        progress: &'a mut dyn FnMut(AuditProgress),
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self> {
        let worker = WorkProcess::start()?;
        let mut watch = TaskWatch::new(root, vec![std::process::id(), worker.pid()]);
        // The first look finds nothing in the caches; any may be disturbed.
        let cost = (0..LOOKS).map(|_| watch.begin()).min().unwrap_or(0);
        let cost = Duration::from_nanos(cost);
        let mut session = Self {
            root,
            options,
            progress,
            stop,
            level,
            begin_ns,
            cpus: facts.cpus.iter().map(|cpu| cpu.cpu).collect(),
            reader: CounterReader::open(root)?,
            watch,
            each_run: cost * LOOKING < options.longest_run,
            others: CompetingTasks::new(siblings(facts)),
            worker: Some(worker),
            of: BTreeMap::new(),
            frequencies: BTreeMap::new(),
            blamed: Vec::new(),
            holders: machine::holders(),
            has_nohz_full: has_nohz_full(&facts.cpus),
            left_out: Vec::new(),
            before_loss: Vec::new(),
            remarks: Vec::new(),
            was_stopped: false,
        };
        if session.cpus.len() == 1 {
            session.remark(
                "one CPU only: there is nothing to compare it with, its figures stand alone"
                    .to_owned(),
            );
        }
        if !session.each_run {
            session.remark(format!(
                "there are so many tasks that a look at them takes {} ms: other tasks were looked \
                 at around each round, not around each run",
                cost.as_millis()
            ));
        }
        Ok(session)
    }

    /// Says something now and in the report.
    pub fn remark(&mut self, text: String) {
        (self.progress)(AuditProgress::Remark(text.clone()));
        self.remarks.push(text);
    }

    pub fn is_stopped(&mut self) -> bool {
        self.was_stopped |= (self.stop)();
        self.was_stopped
    }

    /// A test was asked to stop.
    pub(super) fn note_stopped(&mut self) {
        self.was_stopped = true;
    }

    /// Goes on without the CPUs on which nothing of ours gets to run.
    pub(super) fn lose_starved(&mut self) {
        for cpu in self.cpus.clone() {
            let order = WorkOrder::Accounting { cpu };
            if let Err(Halt::Displaced { cpu, why }) = self.ask_on(cpu, &order, PATIENCE) {
                self.lose(cpu, why);
            }
        }
    }

    /// How the kernel divides CPU time into user and system time.
    pub fn accounting(&mut self) -> Result<Accounting> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let seen = match self.ask(&WorkOrder::Accounting { cpu }, PATIENCE) {
            Ok(Answer::Accounting { runs, zeros }) => Some((runs, zeros)),
            Err(Halt::Failed(why)) => return Err(Error::Worker(why)),
            _ => None,
        };
        let config = kernel_config(self.root);
        Ok(Accounting::find(&config, self.has_nohz_full, seen))
    }

    /// Looks once with the kernel's trace events, which name what takes time.
    pub(super) fn look_for_causes(&mut self) {
        let cpus = self.cpus.iter().copied().collect();
        match noise::look(self.root, &cpus, TRACED, true) {
            Ok(looked) => self.blamed = looked.blamed,
            Err(halt) => self.remark(format!(
                "the kernel's trace events could not be had, so interrupts are known by their \
                 counts only: {halt}"
            )),
        }
    }

    /// Adds what happened during a run to what is known of the CPU.
    pub(super) fn note(&mut self, cpu: u32, stretch: &Stretch) {
        let known = self.of.entry(cpu).or_default();
        evidence::add(&mut known.evidence, &stretch.evidence);
        known.lasted_ns += stretch.lasted_ns;
        let khz = stretch.evidence.frequency_khz;
        let all = self.frequencies.entry(cpu).or_default();
        all.extend(khz.map(|khz| khz as f64));
    }

    pub(super) fn lose(&mut self, cpu: u32, why: String) {
        self.remark(format!("CPU {cpu} was lost on the way: {why}"));
        self.cpus.retain(|other| *other != cpu);
        self.left_out.push(LeftOut {
            cpu,
            why: format!("lost on the way: {why}"),
        });
    }

    pub(super) fn is_online(&self, cpu: u32) -> bool {
        let online = self.root.read("/sys/devices/system/cpu/online");
        let online = online.ok().and_then(|text| text.parse::<CpuList>().ok());
        online.is_none_or(|online| online.contains(cpu))
    }

    /// Since the audit began, ns.
    pub(super) fn since_begin(&self) -> u64 {
        sandbag_linux::clock::monotonic().saturating_sub(self.begin_ns)
    }

    /// The process that works, if there is one: tests that another one took up
    /// are gone.
    pub(super) fn worker(&self) -> Option<u32> {
        self.worker.as_ref().map(WorkProcess::pid)
    }

    /// Gives an order that is for no CPU.
    pub(super) fn ask(
        &mut self,
        order: &WorkOrder,
        patience: Duration,
    ) -> std::result::Result<Answer, Halt> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        self.ask_on(cpu, order, patience)
    }

    pub(super) fn ask_on(
        &mut self,
        cpu: u32,
        order: &WorkOrder,
        patience: Duration,
    ) -> std::result::Result<Answer, Halt> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            // The last one died in another test.
            None => {
                let worker = WorkProcess::start().map_err(|e| Halt::Failed(e.to_string()))?;
                self.watch.exclude(worker.pid());
                worker
            }
        };
        let answer = worker.ask(order, patience, self.stop);
        if answer.is_ok() {
            self.worker = Some(worker);
        }
        match answer {
            Ok(Answer::Failed(WorkFault::Displaced(why))) => Err(Halt::Displaced { cpu, why }),
            Ok(Answer::Failed(WorkFault::Work(why))) => Err(Halt::Failed(why)),
            Ok(answer) => Ok(answer),
            Err(WorkerEnd::Stopped) => Err(Halt::Stopped),
            Err(WorkerEnd::Silent) if on_a_cpu(order) => Err(Halt::Displaced {
                cpu,
                why: format!(
                    "nothing of ours got to run there for {} s: look for real-time tasks on it",
                    patience.as_secs()
                ),
            }),
            Err(WorkerEnd::Silent) => Err(Halt::Failed(format!(
                "the process that runs the tests did not answer for {} s",
                patience.as_secs()
            ))),
            Err(WorkerEnd::Died(why)) => Err(Halt::Failed(format!(
                "the process that ran the test died ({why}){}",
                match order {
                    WorkOrder::Prepare {
                        spec: Spec::Memory { .. } | Spec::Both { .. },
                        ..
                    } => ": perhaps for want of memory, ask for less",
                    _ => "",
                }
            ))),
        }
    }

    /// What suspects are found in.
    pub fn observations(&mut self, facts: &Facts) -> Observations {
        for (cpu, known) in &mut self.of {
            let all = self.frequencies.get(cpu).into_iter().flatten();
            known.frequency_khz = median(all.copied());
        }
        let mut holders = std::mem::take(&mut self.holders);
        let mut later = machine::holders();
        later.retain(|one| holders.iter().all(|known| known.pid != one.pid));
        holders.append(&mut later);
        Observations {
            cpus: facts.cpus.clone(),
            of: self.of.clone(),
            others: self.others.clone(),
            blamed: self.blamed.clone(),
            holders,
            affinity: machine::affinity(self.root),
        }
    }

    /// Remarks on what made the figures less precise.
    pub fn remark_precision(&mut self, tests: &[Test]) {
        let lasted: u64 = self.of.values().map(|of| of.lasted_ns).sum();
        let stolen: u64 = self.of.values().map(|of| of.evidence.steal_ns).sum();
        let pct = stolen as f64 / lasted.max(1) as f64 * 100.0;
        if pct >= STEAL_PCT {
            self.remark(format!(
                "the hypervisor took {pct:.1} % of the time: elapsed times are wider for it"
            ));
        }
        let is_wide = |test: &&Test| {
            let noise = test.is_noise();
            let half = effects::half_width_pct(&test.samples, &self.cpus, noise, self.level);
            half.is_some_and(|half| half > self.options.precision_pct)
        };
        let whole = tests
            .iter()
            .filter(|test| test.failure.is_none() && !test.effects.is_empty());
        let wide: Vec<&str> = whole
            .filter(is_wide)
            .map(|test| test.name.as_str())
            .collect();
        if !wide.is_empty() {
            self.remark(format!(
                "the precision of {} % was not reached in the time of a test: {}",
                self.options.precision_pct,
                wide.join(", ")
            ));
        }
    }
}

fn on_a_cpu(order: &WorkOrder) -> bool {
    matches!(order, WorkOrder::Run { .. } | WorkOrder::Accounting { .. })
}

fn siblings(facts: &Facts) -> BTreeMap<u32, Vec<u32>> {
    let cpus = facts.cpus.iter();
    cpus.map(|cpu| (cpu.cpu, cpu.siblings.clone())).collect()
}

/// Least share of stolen time that is reported.
const STEAL_PCT: f64 = 0.5;
