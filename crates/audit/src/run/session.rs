// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lasts for a whole audit: the process that works, the counters, what was
//! seen so far.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbag_kernel::Root;
use sandbag_lab::machine::kernel_config;

use super::machine;
use super::rounds::{Halt, Round};
use crate::accounting::Accounting;
use crate::effects::{self, Level, median};
use crate::error::{Error, Result};
use crate::evidence::{self, Reader, Stretch};
use crate::facts::{Facts, has_nohz_full};
use crate::model::{LeftOut, Sample, Test, Verdict};
use crate::options::{Options, Progress};
use crate::plan;
use crate::suspects::{Blamed, Holder, OfCpu, Seen};
use crate::tasks::{Others, Watch};
use crate::work::{Answer, Figures, Order, Spec, unit};
use crate::worker::{Ended, Worker};
use crate::{command, noise};

/// A test with all that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// By which the report calls it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Of sandbag's own.
    Work(Spec),
    /// The collector of jitter.
    Noise,
    /// For the shell.
    Command(String),
}

/// A run of a test takes at least so long while its speed is found out.
const CALIBRATED: Duration = Duration::from_millis(20);
/// The CPU is warmed so long before each run.
const WARM_NS: f64 = 5e6;
/// No answer of the process that works takes longer, but for what is asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// To take up a test: to touch all memory.
const PREPARING: Duration = Duration::from_secs(600);
/// A command may take so many times a test's time.
const COMMAND_LIMITS: u32 = 10;
/// But always so long.
const COMMAND: Duration = Duration::from_secs(600);
/// The longest run of a test whose number of calls was asked for.
const LONGEST: Duration = Duration::from_secs(2);
/// One look with the kernel's trace events.
const TRACED: Duration = Duration::from_secs(2);
/// Looking at all tasks around each run may take this part of its time.
const LOOKING: u32 = 25;

/// An audit under way.
pub struct Session<'a> {
    pub(super) root: &'a Root,
    pub(super) options: &'a Options,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) level: Level,
    pub(super) begin_ns: u64,
    /// The CPUs that are still tested.
    pub(super) cpus: Vec<u32>,
    pub(super) reader: Reader,
    pub(super) watch: Watch,
    /// All tasks are looked at around each run, not around each round.
    pub(super) each_run: bool,
    pub(super) others: Others,
    worker: Option<Worker>,
    of: BTreeMap<u32, OfCpu>,
    frequencies: BTreeMap<u32, Vec<f64>>,
    blamed: Vec<Blamed>,
    holders: Vec<Holder>,
    has_nohz_full: bool,
    left_out: Vec<LeftOut>,
    remarks: Vec<String>,
    was_stopped: bool,
}

/// What is left to say at the end.
pub struct End {
    /// CPUs that were lost on the way.
    pub left_out: Vec<LeftOut>,
    /// What the reader must know.
    pub remarks: Vec<String>,
}

impl<'a> Session<'a> {
    /// Starts the process that works, and looks around.
    ///
    /// # Errors
    /// It cannot be started, or there is no `/proc/stat`.
    pub fn new(
        root: &'a Root,
        options: &'a Options,
        facts: &Facts,
        level: Level,
        begin_ns: u64,
        progress: &'a mut dyn FnMut(Progress),
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self> {
        let worker = Worker::start()?;
        let mut watch = Watch::new(root, vec![std::process::id(), worker.pid()]);
        let cost = Duration::from_nanos(watch.begin());
        let mut session = Self {
            root,
            options,
            progress,
            stop,
            level,
            begin_ns,
            cpus: facts.cpus.iter().map(|cpu| cpu.cpu).collect(),
            reader: Reader::open(root)?,
            watch,
            each_run: cost * LOOKING < options.longest_run,
            others: Others::default(),
            worker: Some(worker),
            of: BTreeMap::new(),
            frequencies: BTreeMap::new(),
            blamed: Vec::new(),
            holders: machine::holders(),
            has_nohz_full: has_nohz_full(&facts.cpus),
            left_out: Vec::new(),
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
        (self.progress)(Progress::Remark(text.clone()));
        self.remarks.push(text);
    }

    /// Whether it was asked to stop.
    pub fn stopped(&mut self) -> bool {
        self.was_stopped |= (self.stop)();
        self.was_stopped
    }

    /// How user and system time are told apart here.
    ///
    /// # Errors
    /// The process that works is gone already.
    pub fn accounting(&mut self) -> Result<Accounting> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let seen = match self.ask(&Order::Accounting { cpu }, PATIENCE) {
            Ok(Answer::Accounting { runs, zeros }) => Some((runs, zeros)),
            Err(Halt::Failed(why)) => return Err(Error::Worker(why)),
            _ => None,
        };
        let release = self
            .root
            .read("/proc/sys/kernel/osrelease")
            .unwrap_or_default();
        let config = kernel_config(self.root, release.trim());
        Ok(Accounting::find(&config, self.has_nohz_full, seen))
    }

    /// One test, all of it but the verdict.
    pub fn test(&mut self, planned: &Planned) -> Test {
        let mut test = Test {
            name: planned.name.clone(),
            about: String::new(),
            lengths: Vec::new(),
            unit: String::new(),
            samples: Vec::new(),
            effects: Vec::new(),
            by_length: Vec::new(),
            verdicts: Vec::new(),
            verdict: Verdict::Undecided,
            failure: None,
        };
        let outcome = match &planned.kind {
            Kind::Work(spec) => self.work(&mut test, spec),
            Kind::Noise => self.noise(&mut test),
            Kind::Command(command) => self.command(&mut test, command),
        };
        match outcome {
            Ok(()) => {}
            Err(Halt::Stopped) => {
                self.was_stopped = true;
                test.failure = Some("cut short: asked to stop".to_owned());
            }
            Err(Halt::Failed(why)) => test.failure = Some(why),
            Err(Halt::Displaced { cpu, why }) => test.failure = Some(format!("CPU {cpu}: {why}")),
        }
        let noise = planned.kind == Kind::Noise;
        let lengths = test.lengths.len();
        test.effects = effects::of_test(&test.samples, &self.cpus, lengths, noise, self.level);
        test.by_length = effects::by_length(&test.samples, &self.cpus, lengths, noise, self.level);
        test
    }

    fn work(&mut self, test: &mut Test, spec: &Spec) -> std::result::Result<(), Halt> {
        unit(spec).clone_into(&mut test.unit);
        match self.ask(&Order::Prepare(spec.clone()), PREPARING)? {
            Answer::Ready { about } => test.about = about,
            other => return Err(Halt::Failed(format!("it answers {other:?}"))),
        }
        let unit_ns = self.unit_ns()?;
        let longest = self.options.longest_run;
        test.lengths = plan::lengths(unit_ns, longest);
        if *spec == Spec::Syscall {
            let asked = plan::in_all(self.options.calls, self.options.rounds.0);
            let most = plan::lengths(unit_ns, LONGEST);
            test.lengths = asked.min(most);
        }
        let warm = ((WARM_NS / unit_ns) as u64).clamp(1, test.lengths[0]);
        let outcome = self.rounds(test, |this, cpu, units| {
            let order = Order::Run { cpu, units, warm };
            match this.ask_on(cpu, &order, PATIENCE)? {
                Answer::Done(figures) => Ok(figures),
                other => Err(Halt::Failed(format!("it answers {other:?}"))),
            }
        });
        if !matches!(outcome, Err(Halt::Stopped)) {
            // Its memory is free for the next one.
            let _ = self.ask(&Order::Leave, PATIENCE);
        }
        outcome
    }

    /// How long a unit takes, ns.
    fn unit_ns(&mut self) -> std::result::Result<f64, Halt> {
        let mut units = 1u64;
        loop {
            let cpu = self.cpus.first().copied();
            let cpu = cpu.ok_or_else(|| Halt::Failed("no CPU is left".to_owned()))?;
            let order = Order::Run {
                cpu,
                units,
                warm: 0,
            };
            let figures = match self.ask_on(cpu, &order, PATIENCE) {
                Ok(Answer::Done(figures)) => figures,
                Ok(other) => return Err(Halt::Failed(format!("it answers {other:?}"))),
                Err(Halt::Displaced { cpu, why }) => {
                    self.lose(cpu, why);
                    continue;
                }
                Err(halt) => return Err(halt),
            };
            let elapsed = Duration::from_nanos(figures.elapsed_ns);
            if elapsed >= CALIBRATED || units >= 1 << 50 {
                return Ok(elapsed.as_nanos() as f64 / units as f64);
            }
            units *= 2;
        }
    }

    fn command(&mut self, test: &mut Test, text: &str) -> std::result::Result<(), Halt> {
        test.about = format!("`{text}`, by the shell, its output unread");
        test.lengths = vec![1];
        "runs".clone_into(&mut test.unit);
        let patience = (self.options.limit * COMMAND_LIMITS).max(COMMAND);
        self.rounds(test, |this, cpu, _| {
            command::run(text, cpu, patience, this.stop).map_err(|fault| match fault {
                command::Fault::Stopped => Halt::Stopped,
                command::Fault::Failed(why) => Halt::Failed(format!("on CPU {cpu} {why}")),
            })
        })
    }

    /// All CPUs look at once, so a round is not in any order.
    fn noise(&mut self, test: &mut Test) -> std::result::Result<(), Halt> {
        test.about = "share of time in which a loop that only looks at the clock did not get to, \
                      on all CPUs at once"
            .to_owned();
        "ms".clone_into(&mut test.unit);
        test.lengths = plan::lengths(1e6, self.options.longest_run);
        let outcome = self.noise_rounds(test);
        if outcome.is_ok() && self.options.trace {
            let cpus = self.cpus.iter().copied().collect();
            match noise::look(self.root, &cpus, TRACED, true) {
                Ok(looked) => self.blamed = looked.blamed,
                Err(why) => self.remark(format!(
                    "the kernel's trace events could not be had, so interrupts are known by their \
                     counts only: {why}"
                )),
            }
        }
        outcome
    }

    fn noise_rounds(&mut self, test: &mut Test) -> std::result::Result<(), Halt> {
        let mut round = Round::new(self, true);
        while round.next(self, test)? {
            let cpus = self.cpus.clone();
            let list = cpus.iter().copied().collect();
            let number = round.number();
            for block in plan::round(
                self.options.seed,
                &test.name,
                number,
                test.lengths.len(),
                &[],
            ) {
                if self.stopped() {
                    return Err(Halt::Stopped);
                }
                let length = Duration::from_millis(test.lengths[block.length]);
                let before: Vec<_> = cpus.iter().map(|cpu| self.reader.now(*cpu)).collect();
                let at_ns = self.since_begin();
                let looked = noise::look(self.root, &list, length, false).map_err(Halt::Failed)?;
                for (cpu, before) in cpus.iter().zip(&before) {
                    let figures = Figures::default();
                    let stretch = self.reader.since(*cpu, before, &figures);
                    let own = looked.cpus.iter().find(|(number, ..)| number == cpu);
                    let (_, known_ns, pct) = own.copied().unwrap_or_default();
                    self.note(*cpu, &stretch);
                    test.samples.push(Sample {
                        cpu: *cpu,
                        round: number,
                        length: block.length,
                        at_ns,
                        elapsed_ns: known_ns,
                        user_ns: 0,
                        system_ns: 0,
                        noise_pct: Some(pct),
                        evidence: stretch.evidence,
                    });
                }
            }
        }
        Ok(())
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

    /// Goes on without a CPU.
    pub(super) fn lose(&mut self, cpu: u32, why: String) {
        self.remark(format!("CPU {cpu} was lost on the way: {why}"));
        self.cpus.retain(|other| *other != cpu);
        self.left_out.push(LeftOut {
            cpu,
            why: format!("lost on the way: {why}"),
        });
    }

    /// Since the audit began, ns.
    pub(super) fn since_begin(&self) -> u64 {
        sandbag_kernel::clock::monotonic().saturating_sub(self.begin_ns)
    }

    fn ask(&mut self, order: &Order, patience: Duration) -> std::result::Result<Answer, Halt> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        self.ask_on(cpu, order, patience)
    }

    fn ask_on(
        &mut self,
        cpu: u32,
        order: &Order,
        patience: Duration,
    ) -> std::result::Result<Answer, Halt> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            // The last one died in another test.
            None => {
                let worker = Worker::start().map_err(|e| Halt::Failed(e.to_string()))?;
                self.watch.own(worker.pid());
                worker
            }
        };
        match worker.ask(order, patience, self.stop) {
            Ok(Answer::Failed {
                why,
                displaced: true,
            }) => {
                self.worker = Some(worker);
                Err(Halt::Displaced { cpu, why })
            }
            Ok(Answer::Failed { why, .. }) => {
                self.worker = Some(worker);
                Err(Halt::Failed(why))
            }
            Ok(answer) => {
                self.worker = Some(worker);
                Ok(answer)
            }
            Err(Ended::Stopped) => Err(Halt::Stopped),
            Err(Ended::Died(why)) => Err(Halt::Failed(format!(
                "the process that ran the test died ({why}){}",
                match order {
                    Order::Prepare(Spec::Memory { .. } | Spec::Both { .. }) =>
                        ": perhaps for want of memory, ask for less",
                    _ => "",
                }
            ))),
        }
    }

    /// What suspects are found in.
    pub fn seen(&mut self, facts: &Facts) -> Seen {
        for (cpu, all) in &self.frequencies {
            let middle = median(all.iter().copied());
            if let Some(known) = self.of.get_mut(cpu) {
                known.frequency_khz = middle;
            }
        }
        let mut holders = std::mem::take(&mut self.holders);
        for holder in machine::holders() {
            if !holders.iter().any(|known| known.pid == holder.pid) {
                holders.push(holder);
            }
        }
        Seen {
            cpus: facts.cpus.clone(),
            of: self.of.clone(),
            others: self.others.clone(),
            blamed: self.blamed.clone(),
            holders,
            affinity: machine::affinity(self.root),
        }
    }

    /// Ends it.
    pub fn end(mut self, tests: &[Test]) -> End {
        let lasted: u64 = self.of.values().map(|of| of.lasted_ns).sum();
        let stolen: u64 = self.of.values().map(|of| of.evidence.steal_ns).sum();
        let pct = stolen as f64 / lasted.max(1) as f64 * 100.0;
        if pct >= STEAL_PCT {
            self.remark(format!(
                "the hypervisor took {pct:.1} % of the time: elapsed times are wider for it"
            ));
        }
        let enough = |test: &&Test| test.failure.is_none() && !test.effects.is_empty();
        let wide: Vec<String> = tests
            .iter()
            .filter(enough)
            .filter(|test| {
                let noise = test.unit == "ms";
                let half = effects::half_width_pct(&test.samples, &self.cpus, noise, self.level);
                half.is_some_and(|half| half > self.options.precision_pct)
            })
            .map(|test| test.name.clone())
            .collect();
        if !wide.is_empty() {
            self.remark(format!(
                "the precision of {} % was not reached in the time of a test: {}",
                self.options.precision_pct,
                wide.join(", ")
            ));
        }
        End {
            left_out: self.left_out,
            remarks: self.remarks,
        }
    }
}

/// From this share of stolen time on it is told.
const STEAL_PCT: f64 = 0.5;
