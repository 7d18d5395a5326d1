// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test under way. All tests of an audit are under way at once and take turns,
//! a round each: what disturbs the machine for some seconds falls on a few
//! rounds of every test, not on all of one.

use std::time::{Duration, Instant};

use super::lost::LostCpu;
use super::session::{AuditSession, PATIENCE};
use crate::command;
use crate::effects;
use crate::error::Halt;
use crate::model::{RUNS, Test};
use crate::options::{AuditOptions, AuditProgress};
use crate::plan::{self, StopRule};

use crate::work::{Answer, Spec, WorkOrder, unit};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestPlan {
    pub name: String,
    pub kind: TestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestKind {
    Work(Spec),
    /// The collector of jitter.
    Noise,
    Command(String),
}

/// A run of a test takes at least so long while its speed is found out.
const CALIBRATED: Duration = Duration::from_millis(20);
/// The CPU is warmed so long before each run.
const WARM_NS: f64 = 5e6;
/// To take up a test: to touch all memory.
const PREPARING: Duration = Duration::from_secs(600);
/// A command may take this multiple of a test's time.
const COMMAND_LIMITS: u32 = 10;
/// But always so long.
const COMMAND: Duration = Duration::from_secs(600);
/// The longest run of a test whose number of calls was asked for.
const LONGEST: Duration = Duration::from_secs(2);

/// A test and how far it is.
pub struct Turn<'p> {
    planned: &'p TestPlan,
    /// By which the process that works knows it.
    number: usize,
    pub test: Test,
    enough: StopRule,
    /// The time of its own rounds.
    took: Duration,
    /// Rounds so far, and the half-width of its intervals then.
    pub(super) done: u32,
    pub(super) half_width_pct: Option<f64>,
    /// Units before each run.
    warm: u64,
    /// The process that has taken it up.
    taken_up: Option<u32>,
    /// It has enough, or cannot go on.
    pub(super) is_over: bool,
}

impl<'p> Turn<'p> {
    pub fn new(number: usize, planned: &'p TestPlan, options: &AuditOptions) -> Self {
        Self {
            planned,
            number,
            test: Test::empty(&planned.name),
            enough: StopRule::of(options),
            took: Duration::ZERO,
            done: 0,
            half_width_pct: None,
            warm: 0,
            taken_up: None,
            is_over: false,
        }
    }

    /// How far it is at least, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.is_over {
            return 1.0;
        }
        let of = |most: u32| f64::from(self.done) / f64::from(most.max(1));
        let time = self.took.as_secs_f64() / self.enough.limit.as_secs_f64().max(1e-3);
        of(self.enough.rounds.0)
            .min(time)
            .max(of(self.enough.rounds.1))
            .min(1.0)
    }

    fn is_noise(&self) -> bool {
        self.planned.kind == TestKind::Noise
    }

    fn end(&mut self, halt: Halt) {
        self.is_over = true;
        self.test.failure = Some(halt.to_string());
    }
}

impl AuditSession<'_> {
    /// Tells that a test has ended.
    pub fn tell_if_over(&mut self, turn: &Turn<'_>) {
        if turn.is_over {
            (self.progress)(AuditProgress::Over {
                name: turn.test.name.clone(),
                rounds: turn.done,
                half_width_pct: turn.half_width_pct,
                failure: turn.test.failure.clone(),
            });
        }
    }

    /// Gets a test ready and finds out how long its runs are to be.
    pub(super) fn take_up(&mut self, turn: &mut Turn<'_>) {
        if let Err(halt) = self.make_ready(turn) {
            self.handle_halt(turn, halt);
        }
    }

    /// One round of a test, and whether that was enough.
    pub(super) fn take_turn(&mut self, turn: &mut Turn<'_>) {
        if self.cpus.is_empty() {
            return self.handle_halt(turn, Halt::Failed("no CPU is left".to_owned()));
        }
        let begin = Instant::now();
        let planned = turn.planned;
        let outcome = match &planned.kind {
            TestKind::Work(spec) => self.work(turn, spec),
            TestKind::Noise => self.noise_round(&mut turn.test, turn.done),
            TestKind::Command(text) => self.command(turn, text),
        };
        turn.took += begin.elapsed();
        match outcome {
            Ok(()) => {}
            // Without that CPU there may be enough for the others.
            Err(Halt::Displaced { cpu, why }) => self.lose(cpu, why),
            Err(halt) => return self.handle_halt(turn, halt),
        }
        turn.done += 1;
        if turn.enough.looks(turn.done) {
            let (samples, noise) = (&turn.test.samples, turn.is_noise());
            turn.half_width_pct = effects::half_width_pct(samples, &self.cpus, noise, self.level);
        }
        let enough = turn.enough;
        // One alone has nothing to be compared with, however long it takes.
        let alone = self.cpus.len() == 1 && turn.done >= enough.rounds.0;
        if alone || enough.is_reached(turn.done, turn.took, turn.half_width_pct) {
            turn.is_over = true;
            self.let_go(turn);
        }
    }

    /// What it found, all of it but the verdict.
    pub(super) fn finish(&mut self, mut turn: Turn<'_>) -> Test {
        if !turn.is_over {
            turn.end(Halt::Stopped);
        }
        let noise = turn.is_noise();
        if noise && turn.test.failure.is_none() {
            self.look_for_causes();
        }
        let (mut test, cpus) = (turn.test, &self.cpus);
        let lost = self.left_out.iter().map(|out| out.cpu);
        let lost: Vec<LostCpu> = lost
            .filter_map(|cpu| LostCpu::of(&test, cpus, cpu, self.level))
            .collect();
        self.before_loss.extend(lost);
        // What has nothing to be compared with does not count.
        effects::keep_whole(&mut test.samples, cpus);
        let lengths = test.lengths.len();
        test.effects = effects::of_test(&test.samples, cpus, lengths, noise, self.level);
        test.by_length = effects::by_length(&test.samples, cpus, lengths, noise, self.level);
        test
    }

    fn handle_halt(&mut self, turn: &mut Turn<'_>, halt: Halt) {
        if halt == Halt::Stopped {
            self.note_stopped();
        } else {
            self.let_go(turn);
        }
        turn.end(halt);
    }

    /// What it holds is free for others.
    fn let_go(&mut self, turn: &mut Turn<'_>) {
        if turn.taken_up.is_some() && turn.taken_up == self.worker() {
            let test = turn.number;
            let _ = self.ask(&WorkOrder::Leave { test }, PATIENCE);
        }
        turn.taken_up = None;
    }

    fn make_ready(&mut self, turn: &mut Turn<'_>) -> Result<(), Halt> {
        let longest = self.options.longest_run;
        let planned = turn.planned;
        match &planned.kind {
            TestKind::Work(spec) => {
                unit(spec).clone_into(&mut turn.test.unit);
                let unit_ns = self.unit_ns(turn, spec)?;
                turn.test.lengths = plan::lengths(unit_ns, longest);
                if *spec == Spec::Syscall {
                    let asked = plan::in_all(self.options.calls, self.options.rounds.0);
                    let most = plan::lengths(unit_ns, LONGEST);
                    turn.test.lengths = asked.min(most);
                }
                turn.warm = ((WARM_NS / unit_ns) as u64).clamp(1, turn.test.lengths[0]);
            }
            TestKind::Noise => {
                // Its loops would wait for ever.
                self.lose_starved();
                turn.test.about = "share of time in which a loop that only looks at the clock \
                                   did not get to, on all CPUs at once"
                    .to_owned();
                "ms".clone_into(&mut turn.test.unit);
                turn.test.lengths = plan::lengths(1e6, longest);
            }
            TestKind::Command(text) => {
                turn.test.about = format!("`{text}`, by the shell, its output unread");
                turn.test.lengths = vec![1];
                RUNS.clone_into(&mut turn.test.unit);
            }
        }
        Ok(())
    }

    /// Has the process that works take it up, unless that one has already.
    fn prepare(&mut self, turn: &mut Turn<'_>, spec: &Spec) -> Result<(), Halt> {
        if turn.taken_up.is_some() && turn.taken_up == self.worker() {
            return Ok(());
        }
        let order = WorkOrder::Prepare {
            test: turn.number,
            spec: spec.clone(),
        };
        match self.ask(&order, PREPARING)? {
            Answer::Ready { about } => turn.test.about = about,
            other => return Err(Halt::Failed(format!("it answers {other:?}"))),
        }
        turn.taken_up = self.worker();
        Ok(())
    }

    fn work(&mut self, turn: &mut Turn<'_>, spec: &Spec) -> Result<(), Halt> {
        self.prepare(turn, spec)?;
        let (test, warm) = (turn.number, turn.warm);
        self.round(&mut turn.test, turn.done, |this, cpu, units| {
            let order = WorkOrder::Run {
                test,
                cpu,
                units,
                warm,
            };
            match this.ask_on(cpu, &order, PATIENCE)? {
                Answer::Done(figures) => Ok(figures),
                other => Err(Halt::Failed(format!("it answers {other:?}"))),
            }
        })
    }

    fn command(&mut self, turn: &mut Turn<'_>, text: &str) -> Result<(), Halt> {
        let patience = self
            .options
            .limit
            .saturating_mul(COMMAND_LIMITS)
            .max(COMMAND);
        self.round(&mut turn.test, turn.done, |this, cpu, _| {
            let user = this.options.user.as_ref();
            match command::run(text, user, cpu, patience, this.stop) {
                Err(Halt::Stopped) => Err(Halt::Stopped),
                // The kernel lets it go on elsewhere, or it could not begin.
                _ if !this.is_online(cpu) => Err(Halt::offline(cpu)),
                Err(halt) => Err(Halt::Failed(format!("on CPU {cpu} {halt}"))),
                Ok(figures) => Ok(figures),
            }
        })
    }

    fn unit_ns(&mut self, turn: &mut Turn<'_>, spec: &Spec) -> Result<f64, Halt> {
        let (test, mut units) = (turn.number, 1u64);
        loop {
            // Another process, if the last one died on a CPU.
            self.prepare(turn, spec)?;
            let cpu = self.cpus.first().copied();
            let cpu = cpu.ok_or_else(|| Halt::Failed("no CPU is left".to_owned()))?;
            let order = WorkOrder::Run {
                test,
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
}
