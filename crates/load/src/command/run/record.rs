// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the supervisor measured to run.json.

use crate::board::BOUNDARY_NS;
use crate::method::Method;
use crate::report::run::{CommandResult, CpuResult, MethodUsed, NodeUse, Run, SupervisorCost};
use crate::supervisor::{End, ForeignProcess, LoadStart, Migrations, Outcome};
use sandbag_linux::procstat::tick_ns;
use sandbag_run::{directory::FORMAT, machine::Machine};
use sandbag_stats::verdict::{NOISY_FOREIGN_PCT, NOISY_STEAL_PCT, WINDOW_SHARE};
use sandbag_stats::window::share_pct;
use sandbag_stats::{Tolerance, Verdict, VerdictCounter};

use super::observer::{Collector, CpuSums};

/// What was known before the run.
pub struct Facts {
    /// The machine.
    pub machine: Machine,
    /// The method.
    pub method: MethodUsed,
    /// Name of the profile.
    pub profile: String,
    /// RFC 3339.
    pub started_at: String,
    /// Loaded CPUs, in the order of the plan.
    pub cpus: Vec<u32>,
    /// The command, empty if there is none.
    pub command: Vec<String>,
    /// What counts as kept.
    pub tolerance: Tolerance,
    /// Name of the virtual node, if it is one.
    pub node: Option<String>,
    /// Length of the profile, if it has an end.
    pub length_ns: Option<u64>,
    /// The method takes its load as CPU time.
    pub burns: bool,
}

/// Describes a method as it is used.
#[must_use]
pub fn method_used(method: &dyn Method) -> MethodUsed {
    MethodUsed {
        name: method.name().to_owned(),
        period_ms: method.duty().period_ns() as f64 / 1e6,
        parameters: method
            .parameters()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

/// The record of a run.
#[must_use]
pub fn record(
    facts: Facts,
    outcome: &Outcome,
    collector: &Collector<'_>,
    mut warnings: Vec<String>,
) -> Run {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let never = outcome.load_start == LoadStart::Never;
    let measured = collector.sums().iter().any(|sums| sums.wall_ns > 0);
    let foreign = Foreign::of(&facts, outcome, collector);
    let part = if never {
        None
    } else {
        Part::of(&facts, outcome)
    };
    let (verdict, reason) = match (never, measured) {
        // Nothing was asked, so nothing was kept.
        (true, _) => (
            Verdict::Undecided,
            "the load never began: nothing was asked".to_owned(),
        ),
        (false, false) => (
            Verdict::Undecided,
            "the run was over before anything could be measured".to_owned(),
        ),
        (false, true) => {
            let verdict = collector.verdict().verdict(facts.tolerance);
            let reason = reason(verdict, collector.verdict(), facts.tolerance);
            let reason = match &part {
                Some(part) => format!("{} only: {reason}", part.covered()),
                None => reason,
            };
            node_verdict(&facts, outcome, &foreign, verdict, reason)
        }
    };
    warnings.extend(part.map(|part| part.warning()));
    warnings.extend(foreign.warning(facts.node.is_some()));
    warnings.extend(left_warning(outcome));
    let mut cpus: Vec<CpuResult> = facts
        .cpus
        .iter()
        .zip(collector.sums())
        .zip(&outcome.cpus)
        .zip(&foreign.cpus)
        .map(|(((cpu, sums), end), foreign)| CpuResult {
            cpu: *cpu,
            asked_pct: match sums.wall_ns {
                0 => 0.0,
                wall => sums.asked / wall as f64,
            },
            got_pct: share_pct(sums.burner_ns, sums.wall_ns.saturating_sub(sums.steal_ns)),
            error_1s: sums.whole.stats(),
            error_100ms: sums.short.stats(),
            steal_pct: share_pct(sums.steal_ns, sums.wall_ns),
            holes: sums.holes,
            headroom_pct: end.least_headroom.map(|share| share * 100.0),
            weight_changes: end.weight_changes,
            burner_s: seconds(sums.burner_ns),
            command_s: end.command_ns.or(sums.command_ns).map(seconds),
            busy_s: sums.busy_ns.map(seconds),
            foreign_pct: foreign.pct(),
        })
        .collect();
    cpus.sort_by_key(|cpu| cpu.cpu);
    let lost: u64 = outcome.cpus.iter().map(|cpu| cpu.lost_ns).sum();
    if lost > 0 {
        warnings.push(format!(
            "{:.3} s of load were given up because a CPU was not to be had for longer than \
             the load's debt is kept",
            seconds(lost)
        ));
    }
    if outcome.end == End::CommandOver
        && !never
        && collector.sums().iter().all(|sums| sums.wall_ns == 0)
    {
        warnings.push("the command ended before a single window was over".to_owned());
    }
    let wall_s = outcome
        .command
        .map_or(seconds(outcome.run_ns), |c| seconds(c.wall_ns));
    Run {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: facts.started_at,
        arguments: sandbag_run::program::arguments(),
        machine: facts.machine,
        method: facts.method,
        profile: facts.profile,
        length_s: seconds(outcome.run_ns),
        load_began_s: match outcome.load_start {
            LoadStart::After(ns) => Some(seconds(ns)),
            LoadStart::WithCommand | LoadStart::Never => None,
        },
        paused_s: seconds(outcome.paused_ns),
        error_1s: collector.verdict().accuracy().stats(),
        error_100ms: collector.short().stats(),
        error_distribution: collector.verdict().accuracy().distribution().collect(),
        noisy_share: collector.verdict().noisy_share(),
        tolerance: facts.tolerance,
        verdict,
        reason,
        warnings,
        supervisor: SupervisorCost {
            cpu_s: seconds(outcome.cost.cpu_ns),
            pct_per_cpu: match outcome.run_ns {
                0 => 0.0,
                run => {
                    let held = outcome.cost.cpu_ns - outcome.cost.start_cpu_ns;
                    share_pct(held, run) / cpus.len().max(1) as f64
                }
            },
            wakeups: outcome.cost.wakeups,
            writes: outcome.cost.writes,
            resident_kib: outcome.cost.resident_kib,
            burner_private_kib: outcome.cost.burner_private_kib,
            worst_switch_delay_ms: outcome.cost.worst_late_ns as f64 / 1e6,
        },
        command: outcome.command.map(|ended| {
            let available_s = available_s(collector);
            let used: Option<u64> = collector.sums().iter().map(|sums| sums.command_ns).sum();
            CommandResult {
                arguments: facts.command,
                exit_code: ended.how.exit_code,
                signal: ended.how.signal,
                wall_s,
                user_s: ended.how.user_s,
                system_s: ended.how.system_s,
                available_s,
                used_s: used.map(seconds),
                efficiency: used
                    .zip(available_s)
                    .filter(|(_, available)| *available > 0.0)
                    .map(|(used, available)| seconds(used) / available),
                switches: ended.how.switches,
                migrations: ended.migrations.map(|moved| match moved {
                    Migrations::All(count) | Migrations::FirstThread(count) => count,
                }),
                migrations_of: ended.migrations.map(|moved| {
                    match moved {
                        Migrations::All(_) => "all threads",
                        Migrations::FirstThread(_) => "first thread",
                    }
                    .to_owned()
                }),
            }
        }),
        cpus,
        node: facts
            .node
            .zip(outcome.node.as_ref())
            .map(|(name, node)| NodeUse {
                name,
                entered: node.entered as u64,
                used_s: node.used_ns.map(seconds),
                throttled_times: node.throttled.map(|(times, _)| times),
                throttled_s: node.throttled.map(|(_, ns)| seconds(ns)),
                waited_s: node.waited_ns.map(seconds),
                speed_changes: node.changes,
            }),
        seed: None,
    }
}

/// Foreign load of one CPU over the run.
#[derive(Debug, Clone, Copy)]
struct OnCpu {
    cpu: u32,
    /// `None` where it was not looked for or the kernel does not say.
    foreign_ns: Option<u64>,
    delivered_ns: u64,
}

impl OnCpu {
    fn pct(self) -> Option<f64> {
        let foreign_ns = self.foreign_ns?;
        Some(share_pct(foreign_ns, self.delivered_ns))
    }

    /// Whether it is more than may be. The counters of idle time and steal
    /// have a tick each that is not known.
    fn is_too_much(self) -> bool {
        let known_ns = self.foreign_ns.unwrap_or(0).saturating_sub(2 * tick_ns());
        share_pct(known_ns, self.delivered_ns) > NOISY_FOREIGN_PCT
    }
}

/// Foreign load of the run.
struct Foreign<'a> {
    cpus: Vec<OnCpu>,
    processes: &'a [ForeignProcess],
}

/// So many processes are named.
const MOST_NAMED: usize = 5;

impl<'a> Foreign<'a> {
    fn of(facts: &Facts, outcome: &'a Outcome, collector: &Collector<'_>) -> Self {
        // A node that nobody entered is there to slow others.
        let empty = outcome.node.as_ref().is_some_and(|node| node.entered == 0);
        let of = |(cpu, sums): (&u32, &CpuSums)| {
            let burned_ns = if facts.burns { sums.burner_ns } else { 0 };
            let busy = sums.busy_ns.zip(sums.command_ns).filter(|_| !empty);
            OnCpu {
                cpu: *cpu,
                foreign_ns: busy.map(|(busy, own)| busy.saturating_sub(own + burned_ns)),
                delivered_ns: sums.wall_ns.saturating_sub(sums.steal_ns),
            }
        };
        Self {
            cpus: facts.cpus.iter().zip(collector.sums()).map(of).collect(),
            processes: &outcome.foreign,
        }
    }

    /// `52.3 % of CPU 0, 4.0 % of CPU 1`, of those with too much.
    fn too_much(&self) -> Option<String> {
        let too_much = self.cpus.iter().filter(|on| on.is_too_much());
        let words: Vec<String> = too_much
            .map(|on| format!("{:.1} % of CPU {}", on.pct().unwrap_or(0.0), on.cpu))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn warning(&self, is_node: bool) -> Option<String> {
        let named: Vec<String> = self
            .processes
            .iter()
            .take(MOST_NAMED)
            .map(|p| {
                format!(
                    "{} (process {}) {:.2} s",
                    p.name,
                    p.pid,
                    p.used_ns as f64 / 1e9
                )
            })
            .collect();
        let names = if named.is_empty() {
            "short-lived processes, interrupts, or processes that sandbag cannot see".to_owned()
        } else {
            format!("most CPU time was used by {}", named.join(", "))
        };
        let than = if is_node {
            "the node's programs"
        } else {
            "the command"
        };
        Some(format!(
            "foreign load (limit {NOISY_FOREIGN_PCT} %) took {} from {than}: {names}",
            self.too_much()?
        ))
    }
}

/// The verdict of a node is about what its programs got, and not only about
/// what was taken from them.
fn node_verdict(
    facts: &Facts,
    outcome: &Outcome,
    foreign: &Foreign<'_>,
    verdict: Verdict,
    reason: String,
) -> (Verdict, String) {
    if facts.node.is_none() {
        return (verdict, reason);
    }
    if let Some(left) = left_words(outcome) {
        return (Verdict::Missed, format!("{left}; {reason}"));
    }
    match (verdict, foreign.too_much()) {
        (Verdict::Kept | Verdict::Undecided, Some(too_much)) => (
            Verdict::Undecided,
            format!("foreign load took {too_much} from the node's programs; {reason}"),
        ),
        _ => (verdict, reason),
    }
}

/// CPU time of a command outside its node that is no matter of rounding,
/// seconds and share.
const OUTSIDE_S: f64 = 0.1;
const OUTSIDE_SHARE: f64 = 0.02;

/// Who of a node's programs ran outside its groups.
fn left_words(outcome: &Outcome) -> Option<String> {
    let node = outcome.node.as_ref()?;
    let names: Vec<String> = node
        .left
        .iter()
        .take(MOST_NAMED)
        .map(|(pid, name)| format!("{name} (process {pid})"))
        .collect();
    if !names.is_empty() {
        let more = match node.left.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        return Some(format!("{}{more} left the node's groups", names.join(", ")));
    }
    // Of one that ended before it was seen.
    let how = outcome.command?.how;
    let whole_s = how.user_s + how.system_s;
    let outside_s = whole_s - node.used_ns? as f64 / 1e9;
    (outside_s > OUTSIDE_S.max(OUTSIDE_SHARE * whole_s))
        .then(|| format!("the command used {outside_s:.2} s of CPU time outside the node's groups"))
}

fn left_warning(outcome: &Outcome) -> Option<String> {
    let left = left_words(outcome)?;
    Some(format!(
        "{left}: what runs outside does not have the node's speed (only a program with the right \
         to write to the group tree can leave; run it as a user without that right)"
    ))
}

/// A run that ended before its profile did.
struct Part {
    why: &'static str,
    run_s: f64,
    length_s: f64,
}

impl Part {
    fn of(facts: &Facts, outcome: &Outcome) -> Option<Self> {
        let length_ns = facts.length_ns?;
        // Not for what a command takes to be waited for.
        (outcome.run_ns + BOUNDARY_NS < length_ns).then(|| Self {
            why: match outcome.end {
                End::CommandOver => "the command ended",
                End::TimedOut => "the time limit came",
                End::Stopped | End::Interrupted | End::ProfileOver => "the run was stopped",
            },
            run_s: outcome.run_ns as f64 / 1e9,
            length_s: length_ns as f64 / 1e9,
        })
    }

    fn covered(&self) -> String {
        format!("the first {:.1} of {:.1} s", self.run_s, self.length_s)
    }

    fn warning(&self) -> String {
        format!(
            "{} {:.1} s before the profile: the verdict is about {} only",
            self.why,
            self.length_s - self.run_s,
            self.covered()
        )
    }
}

/// CPU time that was there for the command on the loaded CPUs: what was
/// delivered and not burnt.
fn available_s(collector: &Collector<'_>) -> Option<f64> {
    let ns: u64 = collector
        .sums()
        .iter()
        .map(|sums| {
            sums.wall_ns
                .saturating_sub(sums.steal_ns)
                .saturating_sub(sums.burner_ns)
        })
        .sum();
    (ns > 0).then_some(ns as f64 / 1e9)
}

fn reason(verdict: Verdict, counter: &VerdictCounter, tolerance: Tolerance) -> String {
    let Some(stats) = counter.accuracy().stats() else {
        return match counter.holes() {
            0 => "no load was asked for long enough to be measured".to_owned(),
            _ => "the load was absent in every window".to_owned(),
        };
    };
    let figures = format!(
        "mean absolute error {:.2} points (limit {}), {:.1} % of the windows within {} \
         (at least {:.0} %)",
        stats.mean_abs_points,
        tolerance.mean_points,
        counter.accuracy().share_within(tolerance.window_points) * 100.0,
        tolerance.window_points,
        WINDOW_SHARE * 100.0
    );
    match verdict {
        Verdict::Undecided => format!(
            "{figures}; but {:.0} % of the windows had more than {NOISY_STEAL_PCT} % steal or \
             {NOISY_FOREIGN_PCT} % unplanned foreign load",
            counter.noisy_share() * 100.0
        ),
        Verdict::Missed if counter.holes() > 0 => format!(
            "the load was absent in {} windows; {figures}",
            counter.holes()
        ),
        Verdict::Missed | Verdict::Kept => figures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::{CommandOutcome, Cost, CpuOutcome, NodeOutcome, Windows as _};
    use sandbag_run::command::Ended;
    use sandbag_stats::Window;
    use sandbag_ui::messages::Messages;

    const S: u64 = 1_000_000_000;

    fn facts(node: bool) -> Facts {
        Facts {
            machine: Machine::default(),
            method: MethodUsed::default(),
            profile: String::new(),
            started_at: String::new(),
            cpus: vec![0],
            command: Vec::new(),
            tolerance: Tolerance::default(),
            node: node.then(|| "small".to_owned()),
            length_ns: None,
            burns: true,
        }
    }

    /// A run of 5 s whose program used 2 s, `used_s` of it by its own clock.
    fn outcome(node: bool, used_s: f64) -> Outcome {
        Outcome {
            run_ns: 5 * S,
            paused_ns: 0,
            end: End::CommandOver,
            load_start: LoadStart::WithCommand,
            cpus: vec![CpuOutcome {
                cpu: 0,
                burner_ns: 5 * S / 2,
                lost_ns: 0,
                least_headroom: None,
                weight_changes: 0,
                command_ns: Some(2 * S),
            }],
            command: Some(CommandOutcome {
                wall_ns: 5 * S,
                how: Ended {
                    exit_code: Some(0),
                    signal: None,
                    user_s: used_s,
                    system_s: 0.0,
                    switches: (0, 0),
                },
                migrations: None,
            }),
            node: node.then(|| NodeOutcome {
                entered: 1,
                used_ns: Some(2 * S),
                ..NodeOutcome::default()
            }),
            foreign: vec![ForeignProcess {
                pid: 77,
                name: "spinner".to_owned(),
                used_ns: S,
            }],
            cost: Cost::default(),
        }
    }

    /// The record of windows in which the load of 50 % was held exactly and
    /// the CPU was busy for `busy_ms` of 1 s, 400 ms of them by the program.
    fn record_of(facts: Facts, outcome: &Outcome, busy_ms: u64) -> Run {
        let messages = Messages::new(true, 0);
        let mut collector = Collector::new(&[0], true, None, None, false, &messages);
        for second in 0..5 {
            collector.whole(&Window {
                cpu: 0,
                start_ns: second * S,
                length_ns: S,
                asked_pct: 50.0,
                burner_ns: S / 2,
                steal_ns: 0,
                busy_ns: Some(busy_ms * 1_000_000),
                command_ns: Some(2 * S / 5),
                hole: false,
            });
        }
        record(facts, outcome, &collector, Vec::new())
    }

    #[test]
    fn a_node_beside_foreign_load_is_undecided_and_the_load_is_named() {
        let quiet = record_of(facts(true), &outcome(true, 2.0), 915);
        assert_eq!(
            (quiet.verdict, quiet.warnings.len()),
            (Verdict::Kept, 0),
            "{:?}",
            quiet.warnings
        );
        let run = record_of(facts(true), &outcome(true, 2.0), 950);
        assert_eq!(run.verdict, Verdict::Undecided);
        assert!(run.reason.contains("5.0 % of CPU 0"), "{}", run.reason);
        assert!(
            run.warnings[0].contains("spinner (process 77) 1.00 s"),
            "{:?}",
            run.warnings
        );
        assert!((run.cpus[0].foreign_pct.unwrap() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_beside_foreign_load_is_kept_and_warns() {
        let run = record_of(facts(false), &outcome(false, 2.0), 1000);
        assert_eq!(run.verdict, Verdict::Kept);
        assert!(run.warnings[0].contains("10.0 % of CPU 0 from the command"));
    }

    #[test]
    fn what_is_beside_a_node_that_nobody_entered_is_not_foreign() {
        let mut outcome = outcome(true, 2.0);
        outcome.node = Some(NodeOutcome::default());
        outcome.command = None;
        let run = record_of(facts(true), &outcome, 1000);
        assert_eq!((run.verdict, run.warnings.len()), (Verdict::Kept, 0));
        assert_eq!(run.cpus[0].foreign_pct, None);
    }

    #[test]
    fn what_a_method_without_burners_takes_is_no_cpu_time() {
        let throttled = Facts {
            burns: false,
            ..facts(true)
        };
        let run = record_of(throttled, &outcome(true, 2.0), 600);
        assert!((run.cpus[0].foreign_pct.unwrap() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_node_whose_program_left_its_groups_is_missed() {
        let mut seen = outcome(true, 2.0);
        seen.node.as_mut().unwrap().left = vec![(12, "sh".to_owned())];
        let run = record_of(facts(true), &seen, 900);
        assert_eq!(run.verdict, Verdict::Missed);
        assert!(
            run.reason.starts_with("sh (process 12) left"),
            "{}",
            run.reason
        );
        assert!(run.warnings[0].starts_with("sh (process 12) left"));
        // One that ended before it was seen: 3 s, of which the node has 2.
        let run = record_of(facts(true), &outcome(true, 3.0), 900);
        assert_eq!(run.verdict, Verdict::Missed);
        assert!(
            run.reason.contains("1.00 s of CPU time outside"),
            "{}",
            run.reason
        );
    }

    #[test]
    fn a_run_that_ends_before_its_profile_says_what_its_verdict_is_about() {
        let planned = |length_ns| Facts {
            length_ns,
            ..facts(false)
        };
        let run = record_of(planned(Some(6 * S)), &outcome(false, 2.0), 900);
        assert_eq!(run.verdict, Verdict::Kept);
        assert!(
            run.reason.starts_with("the first 5.0 of 6.0 s only: "),
            "{}",
            run.reason
        );
        assert_eq!(
            run.warnings,
            [
                "the command ended 1.0 s before the profile: the verdict is about the first 5.0 \
                 of 6.0 s only"
            ]
        );
        for length_ns in [None, Some(5 * S), Some(5 * S + BOUNDARY_NS)] {
            let run = record_of(planned(length_ns), &outcome(false, 2.0), 900);
            assert!(run.warnings.is_empty(), "{:?}", run.warnings);
        }
    }

    #[test]
    fn efficiency_is_of_the_loaded_time_alone() {
        // 3.2 s in its whole life, 2 of them under the load.
        let run = record_of(facts(false), &outcome(false, 3.2), 900);
        let command = run.command.unwrap();
        assert_eq!(command.used_s, Some(2.0));
        assert_eq!(command.available_s, Some(2.5));
        assert!((command.efficiency.unwrap() - 0.8).abs() < 1e-9);
    }
}
