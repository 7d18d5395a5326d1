// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay` beside a program, or alone: by a process on each CPU.

use std::fmt::Write as _;

use crate::JitterTrace;
use crate::replay::hold::{HoldEnd, HoldOutcome};
use crate::replay::limit::{self, MOST_NS};
use crate::replay::process::{Ask, CpuOutcome, Health, InjectorClass, InjectorNoise, Team, Want};
use crate::replay::{PlannedEvent, ReplayPlan};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};
use sandbag_run::layout::{Layout, LayoutKind};
use sandbag_run::program::words;
use sandbag_ui::BadInput;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::quantity::time;
use sandbag_ui::text::command_line;
use sandbag_ui::units::nanos;

use super::super::plan_args::{PlanArgs, PlanExtras};
use super::record::{BesideMethod, BesideRecord, CpuRecord, LeftOutRecord, MethodRecord, seconds};
use super::verdict::Due;
use super::{ReplayArgs, ReplayMethod, ReplayOutcome, Safeguard, table};

pub struct BesideReplay<'a> {
    args: &'a ReplayArgs,
    trace: JitterTrace,
    plan_args: PlanArgs,
    plan: ReplayPlan,
    cpus: Vec<u32>,
    asks: Vec<Ask>,
    want: Want,
}

impl<'a> BesideReplay<'a> {
    /// Checks the options; changes nothing.
    pub fn new(args: &'a ReplayArgs, messages: &Messages) -> Result<Self> {
        args.plan.refuse_phases()?;
        if args.has_command() && args.scale_factor != 1.0 {
            return Err(BadInput(
                "--scale-factor stretches the jitter, and CMD's own work, which it would have to \
                 be held against, cannot be stretched: only without CMD, or in `sandbag scale \
                 bench`"
                    .to_owned(),
            )
            .into());
        }
        let root = Root::default();
        let (class, or_fair) = args.plan.class_request()?;
        let want = Want {
            class,
            or_fair,
            overhead: args.guards(Safeguard::Overhead),
            interval: args.guards(Safeguard::Interval),
            most_bytes: args.plan.most_bytes(&root)?,
        };
        let topology = Topology::read(&root)?;
        let usable = usable(class, &root, &topology);
        let cpus = args.plan.online(&root, &topology, &usable)?;
        let trace = args.plan.trace(&args.trace, messages)?;
        let more = PlanExtras {
            random: args.guards(Safeguard::Share),
            factor: args.scale_factor,
            repeat: args.repeat,
        };
        let plan_args = args.plan.of_same_numbers(&trace, &cpus);
        let plan = plan_args.plan(&trace, cpus.len(), more)?;
        Ok(Self {
            asks: Ask::each(&cpus, &plan),
            args,
            trace,
            plan_args,
            plan,
            cpus,
            want,
        })
    }

    fn record(&self, (place, one): (usize, &CpuOutcome)) -> CpuRecord {
        let portion = &self.asks[place].portion;
        CpuRecord {
            cpu: one.cpu,
            trace_cpu: self.plan_args.trace_cpu(&self.trace, place),
            offset_s: seconds(portion.offset_ns()),
            length_s: seconds(portion.length_ns()),
            ran_s: seconds(one.ran_ns),
            measured: one.measured,
            counts: one.outcome.counts,
            left_out_by_limit: LeftOutRecord {
                events: one.left_out.events,
                shortened: one.left_out.shortened,
                s: seconds(one.left_out.ns),
            },
            start_error: one.outcome.all_start_errors(),
            start_error_undisturbed: one.outcome.start_errors(),
            length_error: one.outcome.length_errors(),
            injected_asked_s: seconds(one.outcome.asked_ns),
            injected_got_s: seconds(one.outcome.suffered_ns),
            health: one.health.clone(),
            stood_s: seconds(one.stood_ns),
        }
    }
}

impl ReplayMethod for BesideReplay<'_> {
    type Replay = Team;

    fn trace(&self) -> &JitterTrace {
        &self.trace
    }

    fn dry_run(&self) -> Result<String> {
        let Self {
            args,
            trace,
            plan,
            asks,
            ..
        } = self;
        let mut out = String::new();
        for (place, ask) in asks.iter().enumerate() {
            let portion = &ask.portion;
            let all: Vec<PlannedEvent> = portion.once().events().collect();
            let events = all.len();
            let noise_ns: u64 = all.iter().map(|event| event.length_ns).sum();
            let (_, left_out) = limit::cut(&all, 0);
            writeln!(
                out,
                "CPU {}: CPU {} of the trace from {} of its known time on, for {}{}: {events} events, \
             {} in all",
                ask.cpu,
                self.plan_args.trace_cpu(trace, place),
                time(portion.offset_ns() as f64),
                time(portion.length_ns() as f64),
                if portion.repeats() {
                    ", again and again"
                } else {
                    ""
                },
                time(noise_ns as f64),
            )?;
            if left_out.any() {
                writeln!(
                    out,
                    "  of which at least {} events would be left out and {} shortened, by {} in all: \
                 more than {} ms of a second are never taken",
                    left_out.events,
                    left_out.shortened,
                    time(left_out.ns as f64),
                    MOST_NS / 1_000_000
                )?;
            }
        }
        let options = plan.options();
        writeln!(
            out,
            "seed {}, groups of {}, --sync {}, --method {}",
            options.seed,
            options.group,
            options.sync,
            args.plan.method.name()
        )?;
        if args.has_command() {
            writeln!(out, "beside: {}", command_line(&words(&args.command)))?;
        }
        Ok(out)
    }

    fn start(&mut self, warnings: &mut Vec<String>, messages: &Messages) -> Result<Team> {
        let team = Team::start(&self.asks, self.want)?;
        report_overhead(&team, warnings, messages);
        Ok(team)
    }

    fn run_entry(&self, team: &Team) -> (String, &'static str, &[u32]) {
        let what = format!("jitter of {}", self.args.trace.display());
        (what, team.class().name(), &self.cpus)
    }

    fn outcome(&self, team: Team, held: HoldOutcome) -> Result<ReplayOutcome> {
        let method = BesideMethod {
            asked: self.args.plan.method.name(),
            used: team.class().name().to_owned(),
            priority: match team.class() {
                InjectorClass::Fifo { priority } => Some(priority),
                InjectorClass::Fair => None,
            },
            why: team.why_not_better().map(str::to_owned),
        };
        let outcome = team.finish();
        Ok(ReplayOutcome {
            own: MethodRecord::Beside(BesideRecord {
                method,
                scale_factor: self.args.scale_factor,
                cpus: outcome
                    .iter()
                    .enumerate()
                    .map(|one| self.record(one))
                    .collect(),
            }),
            due: Due::of_cpus(&outcome),
            warnings: warnings(&outcome, held, self.args),
            achieved: outcome,
        })
    }
}

/// The CPUs that injectors can have: real-time ones are moved to the root of a v2 tree, whose
/// cpuset may have more.
fn usable(class: InjectorClass, root: &Root, topology: &Topology) -> CpuList {
    let moved = match class {
        InjectorClass::Fifo { .. } => Layout::find(root, None).ok(),
        InjectorClass::Fair => None,
    };
    let moved = moved.filter(|layout| layout.kind() == LayoutKind::V2);
    moved.map_or_else(|| topology.usable.clone(), |layout| layout.usable(topology))
}

/// Prints the class and what was measured.
fn report_overhead(team: &Team, warnings: &mut Vec<String>, messages: &Messages) {
    messages.say(&format!("injected by: {}", team.class()));
    if let Some(why) = team.why_not_better() {
        warnings.push(format!(
            "{why}: events are injected by ordinary tasks, less exactly"
        ));
    }
    for (cpu, measured) in team.measured() {
        let InjectorNoise { wakes, seen, .. } = measured;
        messages.say(&format!("CPU {cpu}: {}", table::noise_text(measured)));
        if measured.overhead_ns == 0 {
            warnings.push(format!(
                "CPU {cpu}: what injecting costs could not be seen: it is not taken off"
            ));
        } else if seen * 10 < wakes {
            warnings.push(format!(
                "CPU {cpu}: others wait for this CPU, so that what injecting costs was seen {seen} \
                 times only (of {wakes})"
            ));
        }
    }
}

fn warnings(outcome: &[CpuOutcome], held: HoldOutcome, args: &ReplayArgs) -> Vec<String> {
    let mut warnings = Vec::new();
    for one in outcome {
        let CpuOutcome { cpu, left_out, .. } = one;
        let counts = one.outcome.counts;
        let lost = format!(
            "{} events that were due later were not injected",
            counts.not_reached
        );
        match &one.health {
            Health::Well if one.stood_ns > 0 => warnings.push(format!(
                "the injector of CPU {cpu} did not run for {} (it was stopped, or had no CPU): \
                 the events of that time were not injected when they were due ({} late, {} \
                 missed, {} not reached)",
                time(one.stood_ns as f64),
                counts.away,
                counts.missed,
                counts.not_reached
            )),
            Health::Well => {}
            Health::Displaced => warnings.push(format!(
                "CPU {cpu} went offline, or was taken from us by a cpuset: its jitter ended, {lost}"
            )),
            Health::Died(how) => {
                warnings.push(format!("the injector of CPU {cpu} ended ({how}): {lost}"));
            }
        }
        if left_out.any() {
            warnings.push(format!(
                "CPU {cpu}: the trace takes more than {} ms of some second; of a whole portion \
                 {} events are left out and {} shortened, {} in all, so that others can run",
                MOST_NS / 1_000_000,
                left_out.events,
                left_out.shortened,
                time(left_out.ns as f64)
            ));
        }
    }
    warnings.extend(without_warning(held));
    if let (HoldEnd::UsedUp, Some(duration), false) = (held.end, args.duration, args.has_command())
    {
        warnings.push(format!(
            "the share of the trace was used up after {}, before {} were over (--loop begins \
             again, --share replays more)",
            time(held.wall_ns as f64),
            time(nanos(duration) as f64)
        ));
    }
    warnings
}

/// A shorter time without jitter is not told, ns.
const WITHOUT_NS: u64 = 100_000_000;

/// Says that the command continued without jitter, and why.
pub fn without_warning(held: HoldOutcome) -> Option<String> {
    let length = time(held.without_ns as f64);
    let text = match (held.without_ns, held.used_up) {
        // A command as long as the jitter begins a moment later.
        (0..WITHOUT_NS, _) => return None,
        (_, true) => format!(
            "the share of the trace was used up: CMD ran its last {length} without jitter (--loop \
             begins again, --share replays more)"
        ),
        (_, false) => format!(
            "CMD ran its last {length} without jitter, after the time of -d (without -d the jitter \
             lasts as long as CMD)"
        ),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_goes_on_without_jitter_is_told_of() {
        let warned = |without_ns, used_up| {
            let held = HoldOutcome {
                end: HoldEnd::Duration,
                wall_ns: 3_000_000_000,
                without_ns,
                used_up,
                paused_ns: 0,
            };
            without_warning(held)
        };
        assert_eq!(warned(0, true), None);
        assert_eq!(warned(20_000_000, false), None);
        for (used_up, says) in [
            (true, "--loop begins again"),
            (false, "after the time of -d"),
        ] {
            let text = warned(2_000_000_000, used_up).unwrap();
            assert!(
                text.contains("its last 2.00 s without jitter") && text.contains(says),
                "{text}"
            );
        }
    }
}
