// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the supervisor measured to run.json.

mod facts;
mod foreign;
mod node;

use crate::board::BOUNDARY_NS;
use crate::burn::Duty;
use crate::method::Method;
use crate::report::run::{
    CommandResult, CpuResult, MethodUsed, NodeUse, Run, SupervisorCost, WatchedUse,
};
use crate::supervisor::{LoadStart, Migrations, RunEnd, RunOutcome};
use sandbag_run::directory::FORMAT;
use sandbag_stats::verdict::{NOISY_FOREIGN_PCT, NOISY_STEAL_PCT, WINDOW_SHARE};
use sandbag_stats::window::share_pct;
use sandbag_stats::{Tolerance, Verdict, VerdictCounter};
use sandbag_ui::text::beside_limit;

use super::observer::Collector;
use foreign::Foreign;
use node::{left_warning, node_verdict};

pub use facts::Facts;
pub use foreign::ForeignSums;

pub fn method_used(method: &Method) -> MethodUsed {
    MethodUsed {
        name: method.name.to_owned(),
        period_ms: match method.duty {
            // Among its parameters.
            Duty::Burst => 0.0,
            duty => duty.period_ns() as f64 / 1e6,
        },
        parameters: method
            .parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    }
}

pub fn record(
    facts: Facts,
    outcome: &RunOutcome,
    collector: &Collector<'_>,
    mut warnings: Vec<String>,
) -> Run {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let never = outcome.load_start == LoadStart::Never;
    let measured = collector.sums().iter().any(|sums| sums.wall_ns > 0);
    let foreign = Foreign::of(&facts, outcome, collector);
    let part = partial_run(&facts, outcome).filter(|_| !never);
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
            let hiding = collector.hidden_steals();
            let verdict = match verdict {
                Verdict::Kept if hiding > 0 => Verdict::Undecided,
                other => other,
            };
            let reason = reason(verdict, collector.verdict(), hiding, facts.tolerance);
            let reason = match &part {
                Some((span, _)) => format!("{span} only: {reason}"),
                None => reason,
            };
            node_verdict(&facts, outcome, &foreign, verdict, reason)
        }
    };
    warnings.extend(part.map(|(_, warning)| warning));
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
            asked_pct: sums.asked / sums.asked_over.max(1.0),
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
            left_pct: end.beside_ns.map(|beside_ns| {
                let delivered_ns = sums.wall_ns.saturating_sub(sums.steal_ns);
                let taken_ns = sums.burner_ns + beside_ns;
                share_pct(delivered_ns.saturating_sub(taken_ns), delivered_ns)
            }),
        })
        .collect();
    cpus.sort_by_key(|cpu| cpu.cpu);
    let lost: u64 = outcome.cpus.iter().map(|cpu| cpu.lost_ns).sum();
    // What would be shown as 0.000 s.
    if lost >= 500_000 {
        warnings.push(format!(
            "{:.3} s of load were given up because a CPU was not to be had for longer than \
             the load's debt is kept",
            seconds(lost)
        ));
    }
    if outcome.end == RunEnd::CommandOver
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
        began_at: outcome.began_at.map(|at| at.to_string()),
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
            pct_per_cpu: {
                let cost = outcome.cost;
                let until_ns = cost.load_end_cpu_ns.unwrap_or(cost.cpu_ns);
                let held = until_ns.saturating_sub(cost.start_cpu_ns);
                share_pct(held, outcome.loaded_ns) / cpus.len().max(1) as f64
            },
            wakeups: outcome.cost.wakeups,
            writes: outcome.cost.writes,
            resident_kib: outcome.cost.resident_kib,
            burner_private_kib: outcome.cost.burner_private_kib,
            worst_switch_delay_ms: outcome.cost.worst_late_ns as f64 / 1e6,
        },
        command: outcome.command.map(|ended| {
            let beside_ns = outcome.cpus.iter().filter_map(|cpu| cpu.beside_ns).sum();
            let available_s = available_s(collector, beside_ns);
            let used: Option<u64> = collector.sums().iter().map(|sums| sums.command_ns).sum();
            CommandResult {
                arguments: facts.command,
                exit_code: ended.how.exit_code,
                signal: ended.how.signal,
                asked_to_end: ended.asked_to_end,
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
                max_rss_kib: Some(ended.how.max_rss_kib),
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
        watched: collector.watched().map(|watched| WatchedUse {
            available_s: available_s(collector, 0),
            ..watched
        }),
        seed: None,
        parts: Vec::new(),
        commands: Vec::new(),
    }
}

/// The part of the profile that a run covers which ended before it, and a
/// warning.
fn partial_run(facts: &Facts, outcome: &RunOutcome) -> Option<(String, String)> {
    // Not for the moment in which a command's end is noticed.
    let length_ns = facts
        .length_ns
        .filter(|length_ns| outcome.run_ns + BOUNDARY_NS < *length_ns)?;
    let why = match outcome.end {
        RunEnd::CommandOver => "the command ended",
        RunEnd::TargetOver => "the program ended",
        RunEnd::TimedOut => "the time limit came",
        RunEnd::Stopped | RunEnd::Interrupted | RunEnd::ProfileOver => "the run was stopped",
    };
    let (run_s, length_s) = (outcome.run_ns as f64 / 1e9, length_ns as f64 / 1e9);
    let span = format!("the first {run_s:.1} of {length_s:.1} s");
    let early_s = length_s - run_s;
    let warning =
        format!("{why} {early_s:.1} s before the profile: the verdict is about {span} only");
    Some((span, warning))
}

/// CPU time available to the command: delivered and not burnt, by this run or by its
/// other parts.
fn available_s(collector: &Collector<'_>, beside_ns: u64) -> Option<f64> {
    let ns: u64 = collector
        .sums()
        .iter()
        .map(|sums| {
            sums.wall_ns
                .saturating_sub(sums.steal_ns)
                .saturating_sub(sums.burner_ns)
        })
        .sum();
    let ns = ns.saturating_sub(beside_ns);
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// `hiding`: windows of which it is not known when time was stolen.
fn reason(verdict: Verdict, counter: &VerdictCounter, hiding: u64, tolerance: Tolerance) -> String {
    let hidden = format!(
        "in {hiding} windows the host withheld time at an unknown moment, because sandbag's \
         supervisor did not run either"
    );
    let Some(stats) = counter.accuracy().stats() else {
        return match counter.holes() {
            0 if hiding > 0 => hidden,
            0 if counter.noisy_share() > 0.0 => "the host withheld all of the time".to_owned(),
            0 => "no load was asked for long enough to be measured".to_owned(),
            _ => "the load was absent in every window".to_owned(),
        };
    };
    let within = counter.accuracy().share_within(tolerance.window_points);
    let least_pct = WINDOW_SHARE * 100.0;
    let figures = format!(
        "mean absolute error {} points (limit {}), {} % of the windows within {} \
         (at least {least_pct:.0} %)",
        beside_limit(stats.mean_abs_points, tolerance.mean_points, 2),
        tolerance.mean_points,
        beside_limit(within * 100.0, least_pct, 1),
        tolerance.window_points,
    );
    let lost = counter.lost_cpu(tolerance);
    let window_points = tolerance.window_points;
    let figures = match lost {
        Some(lost) if lost.is_diluted => format!(
            "too much of the load that was asked of CPU {} lay in windows that were off by more \
             than {window_points} points or withheld by the host; {figures}",
            lost.cpu
        ),
        Some(lost) => format!(
            "too many windows of CPU {} were off by more than {window_points} points, {:.1} in \
             the mean; {figures}",
            lost.cpu, lost.mean_abs_points
        ),
        None => figures,
    };
    let (noisy_share, of) = match lost {
        Some(lost) if lost.is_diluted => (lost.noisy_share, "its load"),
        Some(lost) => (lost.noisy_share, "its windows"),
        None => (counter.noisy_share(), "the windows"),
    };
    match verdict {
        Verdict::Undecided if hiding > 0 => format!("{figures}; but {hidden}"),
        Verdict::Undecided => format!(
            "{figures}; but {:.0} % of {of} had more than {NOISY_STEAL_PCT} % steal or \
             {NOISY_FOREIGN_PCT} % unplanned foreign load",
            noisy_share * 100.0
        ),
        Verdict::Missed if counter.holes() > 0 => format!(
            "the load was absent in {} windows; {figures}",
            counter.holes()
        ),
        Verdict::Missed | Verdict::Kept => figures,
    }
}

#[cfg(test)]
mod tests;
