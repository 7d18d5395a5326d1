// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter verify`: how well a trace is reproduced here.

mod inside;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use crate::JitterTrace;
use crate::collect::{Threshold, counter};
use crate::inside::overhead::Overhead;
use crate::replay::matching::Tolerance;
use crate::replay::outcome::{EventCounts, Quantiles};
use crate::replay::process::InjectorNoise;
use crate::replay::process::ask::{Ask, Want};
use crate::replay::process::verify::{
    HostNoise, NoiseCheck, ReplayTrace, by_asking, by_processes, host,
};
use crate::replay::verdict_row::{Evidence, VerdictRow, judge};
use crate::replay::{PlannedEvent, ReplayPlan};
use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;
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
    method: String,
    judged: VerdictRow,
    /// What the injectors say themselves.
    counts: EventCounts,
    /// What injecting by a process costs, by CPU.
    measured: Vec<(u32, InjectorNoise)>,
    /// What injecting inside a program costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<Overhead>,
    /// Start errors of those with nothing in their way, by its own clock.
    own: Vec<InjectorReport>,
}

/// A replay, before it is judged.
struct UnjudgedReplay {
    name: String,
    factor: f64,
    replayed: ReplayTrace,
    inside: Option<Overhead>,
}

/// What an injector, or a program that asks, says of its events on a CPU that
/// nothing was in the way of.
#[derive(Debug, Serialize)]
struct InjectorReport {
    cpu: u32,
    start_error: Option<Quantiles>,
    length_error: Option<Quantiles>,
    /// Within [`EXACT_NS`] of their due time, percent.
    exact_pct: Option<f64>,
}

/// What a program that asks should be exact to, ns.
const EXACT_NS: u64 = 200;

/// Runs the command.
pub fn main(args: &VerifyArgs, messages: &Messages) -> Result<u8> {
    let root = Root::default();
    args.plan.refuse_phases()?;
    if let Some(below) = args.real_time.filter(|below| *below >= args.plan.priority) {
        return Err(sandbag_ui::BadInput(format!(
            "--real-time {below} must be below the injectors' priority: --priority {}",
            below + 1
        ))
        .into());
    }
    let topology = Topology::read(&root)?;
    let cpus = args.plan.online(&root, &topology)?;
    let trace = args.plan.trace(&args.trace, messages)?;
    // The collector would refuse it, after everything else.
    counter::check(&root).map_err(crate::Error::from)?;
    let most_bytes = args.plan.most_bytes(&root)?;
    let asked = VerifyRequest {
        args,
        look: NoiseCheck {
            threshold: threshold(&trace),
            real_time: args.real_time,
        },
        trace: &trace,
        cpus: &cpus,
        most_bytes,
    };
    // All plans, before anything is run.
    let plain = asked.plan(false, 1.0)?;
    let guarded = asked.plan(true, 1.0)?;
    let factored = args
        .scale_factor
        .map(|k| Ok::<_, sandbag_ui::Failure>((k, asked.plan(true, k)?)));
    let factored = factored.transpose()?;
    let tolerance = Tolerance {
        late_ns: nanos(args.late),
        length_ns: nanos(args.longer),
        length_share: args.longer_pct / 100.0,
        ..Tolerance::default()
    };
    messages.say("the host alone, before ...");
    let before = host(&cpus, args.duration, asked.look)?;
    let mut replays: Vec<UnjudgedReplay> = Vec::new();
    if args.plan.method != MethodArg::Polled {
        let mut rows = vec![("no safeguards".to_owned(), 1.0, &plain, false)];
        rows.push(("safeguards".to_owned(), 1.0, &guarded, true));
        if let Some((k, plan)) = &factored {
            rows.push((format!("factor {k}"), *k, plan, true));
        }
        for (name, factor, plan, safeguards) in &rows {
            messages.say(&format!("by processes, {name} ..."));
            replays.push(UnjudgedReplay {
                name: name.clone(),
                factor: *factor,
                replayed: asked.by_processes(plan, *safeguards, *factor)?,
                inside: None,
            });
        }
        let how = inside::InsideRun {
            cpus: &cpus,
            most: args.duration,
            threshold_ns: before.threshold_ns,
            real_time: args.real_time,
        };
        let overhead = inside::measure(how)?;
        for (name, factor, plan, safeguards) in &rows {
            messages.say(&format!("inside, {name} ..."));
            let how = inside::InsideRun {
                most: args.duration.mul_f64(*factor),
                ..how
            };
            let guards = safeguards.then_some(overhead);
            replays.push(UnjudgedReplay {
                name: format!("inside, {name}"),
                factor: *factor,
                replayed: inside::replay(plan, how, guards)?,
                inside: Some(overhead),
            });
        }
    }
    messages.say("polled ...");
    let polled = by_asking(
        &cpus,
        &guarded,
        args.duration,
        before.threshold_ns,
        args.real_time,
    )?;
    replays.push(UnjudgedReplay {
        name: "polled".to_owned(),
        factor: 1.0,
        replayed: polled,
        inside: None,
    });
    messages.say("the host alone, after ...");
    let after = host(&cpus, args.duration, asked.look)?;
    let rows: Vec<VerifyRow> = replays
        .into_iter()
        .map(|made| row(made, [&before, &after], tolerance))
        .collect();
    let text = || {
        Ok(table::text(
            &rows,
            tolerance,
            [&before, &after],
            output::width(),
        ))
    };
    args.json.put_or(&rows, text, args.overwrite.existing())?;
    Ok(exit::KEPT)
}

/// What is seen of a replay is held against the trace, in which there is nothing
/// shorter than what its recorder took for an event.
fn threshold(trace: &JitterTrace) -> Threshold {
    Threshold::AtLeast(trace.detectable_ns().unwrap_or(0.0))
}

struct VerifyRequest<'a> {
    args: &'a VerifyArgs,
    look: NoiseCheck,
    trace: &'a JitterTrace,
    cpus: &'a [u32],
    most_bytes: u64,
}

impl VerifyRequest<'_> {
    fn plan(&self, random: bool, factor: f64) -> Result<ReplayPlan> {
        let more = PlanExtras {
            random,
            factor,
            repeat: false,
        };
        self.args.plan.plan(self.trace, self.cpus.len(), more)
    }

    fn by_processes(
        &self,
        plan: &ReplayPlan,
        safeguards: bool,
        factor: f64,
    ) -> Result<ReplayTrace> {
        let asks = Ask::each(self.cpus, plan);
        let want = Want {
            class: self.args.plan.class_request()?,
            overhead: safeguards,
            interval: safeguards,
            most_bytes: self.most_bytes,
        };
        by_processes(&asks, want, self.args.duration.mul_f64(factor), self.look)
    }
}

fn row(made: UnjudgedReplay, host: [&HostNoise; 2], tolerance: Tolerance) -> VerifyRow {
    let UnjudgedReplay {
        name,
        factor,
        replayed,
        inside,
    } = made;
    let of_host = |host: &HostNoise, cpu: u32| -> Vec<PlannedEvent> {
        let found = host.cpus.iter().find(|(one, _)| *one == cpu);
        found.map_or_else(Vec::new, |(_, seen)| seen.clone())
    };
    let hosts: Vec<[Vec<PlannedEvent>; 2]> = replayed
        .cpus
        .iter()
        .map(|one| host.map(|host| of_host(host, one.cpu)))
        .collect();
    let evidence: Vec<Evidence<'_>> = replayed
        .cpus
        .iter()
        .zip(&hosts)
        .map(|(one, [before, after])| Evidence {
            asked: &one.asked,
            seen: &one.seen,
            host: [before, after],
        })
        .collect();
    let host_ns = host[0].known_ns + host[1].known_ns;
    let times = replayed.known_ns as f64 / host_ns.max(1) as f64;
    let mut counts = EventCounts::default();
    for one in &replayed.cpus {
        counts.add(&one.outcome.counts);
    }
    let own = replayed.cpus.iter().map(|one| InjectorReport {
        cpu: one.cpu,
        start_error: one.outcome.start_errors(),
        length_error: one.outcome.length_errors(),
        exact_pct: one
            .outcome
            .share_within(EXACT_NS)
            .map(|share| share * 100.0),
    });
    let (method, measured) = match (&replayed.team, inside) {
        (None, None) => ("polled".to_owned(), Vec::new()),
        (None, Some(_)) => ("timer".to_owned(), Vec::new()),
        (Some((class, all)), _) => (
            class.name().to_owned(),
            all.iter().map(|one| (one.cpu, one.measured)).collect(),
        ),
    };
    VerifyRow {
        name,
        factor,
        length_s: replayed.length_ns as f64 / 1e9,
        method,
        judged: judge(&evidence, tolerance, factor, times),
        counts,
        measured,
        inside,
        own: own.collect(),
    }
}
