// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter verify`: how well a trace is reproduced on this machine.

mod table;

use std::path::PathBuf;
use std::time::Duration;

use crate::collect::Threshold;
use crate::inside::library::LibraryDir;
use crate::inside::overhead::{self, Overhead};
use crate::replay::PlannedEvent;
use crate::replay::outcome::{EventCounts, Quantiles};
use crate::replay::process::InjectorNoise;
use crate::replay::process::{Ask, Want};
use crate::verify::matching::Tolerance;
use crate::verify::verdict_row::{Evidence, VerdictRow, judge};
use crate::verify::{
    self, HostNoise, NoiseCheck, ReplayTrace, VerifyRun, by_polling, by_processes, host, inside,
};
use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::counter;
use sandbag_linux::stop_signals::StopSignals;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::{Context as _, Result};
use serde::Serialize;

use super::plan_args::{MethodArg, PlanArgs, PlanExtras, factor};
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use sandbag_ui::units::{self, nanos};

/// Say how well a trace is reproduced here: replay it and record again
///
/// The host alone is recorded first and last. Between, the trace is replayed
/// and recorded at the same time, on the same CPUs: without the paper's
/// safeguards, with them, with a scale factor if one is given; by processes
/// beside, inside the process that records, and by a program that asks. What
/// the host does by itself is taken off. The CPUs are taken wholly meanwhile.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A trace, or what another tool recorded event by event; - for standard
    /// input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    #[command(flatten)]
    plan: PlanArgs,

    /// Length of each recording, at most as long as the share of the trace;
    /// times the factor with a factor
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = units::positive_duration)]
    duration: Duration,

    /// Also a row with this scale factor, its results divided by it
    #[arg(long, value_name = "K", value_parser = factor)]
    scale_factor: Option<f64>,

    /// An event is reproduced if it begins no later than this...
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = units::duration)]
    late: Duration,

    /// ...and is no longer or shorter than this...
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = units::duration)]
    longer: Duration,

    /// ...or than this part of its length, percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = units::load)]
    longer_pct: f64,

    /// Record as a real-time task of this priority, which must be below that
    /// of the injectors (--priority): on a machine that others use, too.
    /// It looks for 0.8 s of every second; the program that asks runs for as
    /// long, once
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=98))]
    real_time: Option<u8>,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct VerifyRow {
    name: String,
    factor: f64,
    length_s: f64,
    method: &'static str,
    judged: VerdictRow,
    /// As the injectors counted.
    counts: EventCounts,
    /// Overhead of injector processes, by CPU.
    measured: Vec<(u32, InjectorNoise)>,
    /// Overhead inside a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<Overhead>,
    own: Vec<InjectorReport>,
}

/// Events of a CPU without a delay but the injector's own, by its own clock.
#[derive(Debug, Serialize)]
struct InjectorReport {
    cpu: u32,
    start_error: Option<Quantiles>,
    length_error: Option<Quantiles>,
    /// Percent within [`EXACT_NS`] of their due time.
    exact_pct: Option<f64>,
}

/// A replay: its name, its factor, and what was measured inside a program.
type ReplayRow = (String, f64, ReplayTrace, Option<Overhead>);

/// Required accuracy of a program that polls, ns.
const EXACT_NS: u64 = 200;

/// Runs the command.
pub fn main(args: &VerifyArgs, messages: &Messages) -> Result<u8> {
    let root = Root::default();
    args.json.check(args.overwrite)?;
    args.plan.refuse_phases()?;
    if let Some(below) = args.real_time.filter(|below| *below >= args.plan.priority) {
        return Err(sandbag_ui::BadInput(format!(
            "--real-time {below} must be below the injectors' priority: --priority {}",
            below + 1
        ))
        .into());
    }
    if args.scale_factor.is_some() && args.plan.method == MethodArg::Polled {
        let remedy = "a program that polls is not replayed with a factor: leave --scale-factor out, \
                      or name another --method";
        return Err(sandbag_ui::BadInput(remedy.to_owned()).into());
    }
    let topology = Topology::read(&root)?;
    let cpus = args.plan.online(&root, &topology, &topology.usable)?;
    let trace = args.plan.trace(&args.trace, messages)?;
    // The collector would refuse it later.
    counter::check(&root).map_err(crate::Error::from)?;
    let most_bytes = args.plan.most_bytes(&root)?;
    let plan_args = args.plan.of_same_numbers(&trace, &cpus);
    // All plans, before anything is run.
    let plan = |random: bool, factor: f64| {
        let more = PlanExtras {
            random,
            factor,
            repeat: false,
        };
        plan_args.plan(&trace, cpus.len(), more)
    };
    let guarded = plan(true, 1.0)?;
    let mut ways = vec![
        ("no safeguards".to_owned(), 1.0, plan(false, 1.0)?, false),
        ("safeguards".to_owned(), 1.0, guarded.clone(), true),
    ];
    if let Some(k) = args.scale_factor {
        ways.push((format!("factor {k}"), k, plan(true, k)?, true));
    }
    // The trace holds nothing shorter than its recorder took for an event.
    let look = NoiseCheck {
        threshold: Threshold::AtLeast(trace.detectable_ns().unwrap_or(0.0)),
        real_time: args.real_time,
        room: verify::room(most_bytes, cpus.len()),
    };
    messages.say("the host alone, before ...");
    let before = host(&cpus, args.duration, look)?;
    let run = |plan, factor| VerifyRun {
        cpus: &cpus,
        plan,
        most: args.duration.mul_f64(factor),
        threshold_ns: before.threshold_ns,
        real_time: args.real_time,
        room: look.room,
    };
    let mut replays: Vec<ReplayRow> = Vec::new();
    if args.plan.method != MethodArg::Polled {
        for (name, factor, plan, safeguards) in &ways {
            messages.say(&format!("by processes, {name} ..."));
            let (class, or_fair) = args.plan.class_request()?;
            let want = Want {
                class,
                or_fair,
                overhead: *safeguards,
                interval: *safeguards,
                most_bytes,
            };
            let most = args.duration.mul_f64(*factor);
            let replayed = by_processes(&Ask::each(&cpus, plan), want, most, look)?;
            replays.push((name.clone(), *factor, replayed, None));
        }
        // Directories of the library are not to stay; nothing else does.
        let signals = StopSignals::block().context("wait for signals")?;
        let all_inside = || {
            let place = LibraryDir::make(None, 0)?;
            let overhead = overhead::measure(&place, cpus.first().copied(), args.real_time)?;
            let mut rows = Vec::new();
            for (name, factor, plan, safeguards) in &ways {
                messages.say(&format!("inside, {name} ..."));
                let safeguards = safeguards.then_some(overhead);
                let replayed = inside(&run(plan, *factor), safeguards, &signals)?;
                rows.push((format!("inside, {name}"), *factor, replayed, Some(overhead)));
            }
            Ok::<Vec<ReplayRow>, sandbag_ui::Failure>(rows)
        };
        let rows = all_inside();
        if matches!(signals.take(), Ok(Some(_))) {
            return Ok(exit::INTERRUPTED);
        }
        replays.extend(rows?);
    }
    messages.say("polled ...");
    let polled = by_polling(&run(&guarded, 1.0))?;
    replays.push(("polled".to_owned(), 1.0, polled, None));
    messages.say("the host alone, after ...");
    let after = host(&cpus, args.duration, look)?;
    let tolerance = Tolerance {
        late_ns: nanos(args.late),
        length_ns: nanos(args.longer),
        length_share: args.longer_pct / 100.0,
        ..Tolerance::default()
    };
    let hosts = [&before, &after];
    let disturbed = |(_, _, replayed, _): &ReplayRow| replayed.disturbed_by(hosts);
    if let Some(warning) = replays.iter().find_map(disturbed) {
        messages.warning(&warning);
    }
    let rows: Vec<VerifyRow> = replays
        .into_iter()
        .map(|(name, factor, replayed, inside)| {
            for warning in replayed.warnings() {
                messages.warning(&format!("{name}: {warning}"));
            }
            let mut row = row(replayed, factor, hosts, tolerance);
            (row.name, row.inside) = (name, inside);
            row
        })
        .collect();
    let text = || Ok(table::text(&rows, tolerance, hosts, output::width()));
    args.json.put_or(&rows, text, args.overwrite.existing())?;
    Ok(exit::KEPT)
}

fn row(
    replayed: ReplayTrace,
    factor: f64,
    hosts: [&HostNoise; 2],
    tolerance: Tolerance,
) -> VerifyRow {
    let of_host = |host: &'_ HostNoise, cpu: u32| -> Vec<PlannedEvent> {
        let found = host.cpus.iter().find(|(one, _)| *one == cpu);
        found.map_or_else(Vec::new, |(_, seen)| seen.clone())
    };
    let rows = replayed.cpus.iter();
    let noise: Vec<[Vec<PlannedEvent>; 2]> = rows
        .clone()
        .map(|one| hosts.map(|host| of_host(host, one.cpu)))
        .collect();
    let evidence: Vec<Evidence<'_>> = rows
        .clone()
        .zip(&noise)
        .map(|(one, [before, after])| Evidence {
            asked: &one.asked,
            seen: &one.seen,
            host: [before, after],
        })
        .collect();
    let host_ns = hosts[0].known_ns + hosts[1].known_ns;
    let times = replayed.known_ns as f64 / host_ns.max(1) as f64;
    let mut counts = EventCounts::default();
    rows.clone().for_each(|one| counts.add(&one.outcome.counts));
    let own = rows.map(|one| InjectorReport {
        cpu: one.cpu,
        start_error: one.outcome.start_errors(),
        length_error: one.outcome.length_errors(),
        exact_pct: one
            .outcome
            .share_within(EXACT_NS)
            .map(|share| share * 100.0),
    });
    VerifyRow {
        name: String::new(),
        factor,
        length_s: replayed.length_ns as f64 / 1e9,
        method: replayed.method,
        judged: judge(&evidence, tolerance, factor, times),
        counts,
        own: own.collect(),
        measured: replayed.measured,
        inside: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: VerifyArgs,
    }

    #[test]
    fn a_result_that_cannot_be_written_is_refused_before_anything_is_measured() {
        let words = ["verify", "--json=/no/dir/v.json", "/no/trace.sbj"];
        let args = Line::parse_from(words).args;
        let error = main(&args, &Messages::new(true, 0)).unwrap_err();
        assert!(
            error.to_string().contains("no directory /no/dir"),
            "{error}"
        );
    }
}
