// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale predict`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use sandbag_jitter::trace_file::{ImportArgs, open_trace};
use sandbag_jitter::{JitterTrace, LoopClock};
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite, print};
use sandbag_ui::quantity::{period, time};
use sandbag_ui::units;
use sandbag_ui::{BadInput, exit};

use super::output::{self, OutputTarget};
use super::table;
use super::values::{self, DriftArg, Ranks, TraceShares};
use super::view::{Classes, Curve, ScaleView};
use crate::predict::{
    BarrierModel, EventClass, LogGp, PredictOptions, Starts, Sync, TraceSource, costs, predict,
    warning_of_period,
};

/// Predict the slowdown of a program on many nodes from a trace of one node
///
/// All ranks compute for a quantum, then wait for the last, again and again. Each meets the
/// noise of the trace from a position of its own; the slowest decides. The slowdown is the mean
/// of all phases, in percent of a phase without noise. docs/explanation/scale.md explains the
/// method and its assumptions.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Traces of `sandbag jitter record`, or files of other tools that hold events; - for standard
    /// input. Each has a prediction of its own, unless --mix
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Work of each rank between two barriers, on a quiet CPU
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::positive_duration, allow_hyphen_values = true)]
    quantum: Duration,

    /// Numbers of ranks: 16,32 or 1..1e6 (powers of two and the ends)
    #[arg(long, value_name = "N", default_value = "1..1e6", value_parser = values::ranks, allow_hyphen_values = true)]
    ranks: Ranks,

    /// When ranks are set to a common position of the trace: none, once (at the begin, then they
    /// drift apart), phase (at each), every:K (phases); several with commas
    #[arg(
        long,
        value_name = "SYNC",
        default_value = "none",
        value_delimiter = ','
    )]
    sync: Vec<Sync>,

    /// Drift of synchronised ranks at the end of the run: distance from the first to the last, or
    /// with ,normal the standard deviation. Or the JSON of `scale bench`, whose drift grows in
    /// proportion to time
    #[arg(
        long,
        value_name = "TIME[,SHAPE]|FILE.json",
        value_parser = values::drift,
        allow_hyphen_values = true
    )]
    drift: Option<DriftArg>,

    /// Phases of a run
    #[arg(long, value_name = "N", default_value = "1e5", value_parser = crate::predict::phases, allow_hyphen_values = true)]
    phases: u64,

    /// Algorithm of the barrier
    #[arg(long, value_enum, default_value_t = BarrierArg::Ideal)]
    barrier: BarrierArg,

    /// Cost of the barrier's messages: latency, overhead, gap, gap per byte; such as
    /// 5us,1us,0.5us,0.1ns
    #[arg(long, value_name = "L,o,g,G", value_parser = values::loggp, allow_hyphen_values = true)]
    loggp: Option<LogGp>,

    /// Bytes of such a message
    #[arg(long, value_name = "N", default_value_t = 1, requires = "loggp", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    bytes: u32,

    /// Ranks of a node, on as many CPUs that were recorded together: noise that they have in
    /// common stays in common
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    group: u32,

    /// Mix the traces as kinds of nodes of one machine, with these shares, such as 3:1
    #[arg(long, value_name = "SHARES", value_parser = values::shares)]
    mix: Option<TraceShares>,

    /// When the work of a phase begins
    #[arg(long, value_enum, default_value_t)]
    starts: Starts,

    /// Fit a generalised Pareto tail, for ranks beyond what the trace has seen
    #[arg(long)]
    tail: bool,

    /// Leave out the costs of classes of events
    #[arg(long)]
    no_classes: bool,

    /// Seed of all random numbers
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    seed: u64,

    /// Number of threads, which does not change the figures [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,

    /// File to write: .html, .json or .csv; - for JSON on standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Format to write [default: by the ending of the file]
    #[arg(long, value_enum)]
    to: Option<OutputTarget>,

    #[command(flatten)]
    json: JsonArgs,

    /// A page with a chart; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    import: ImportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BarrierArg {
    /// All ranks go on when the last arrives
    Ideal,
    /// Each rank sends to one twice as far in each round; needs --loggp
    Dissemination,
    /// Up a binomial tree and down; needs --loggp
    Binomial,
}

pub fn main(args: &PredictArgs, messages: &Messages) -> Result<u8> {
    let places = places(args)?;
    let options = options(args)?;
    let drifts = |sync: &Sync| !matches!(sync, Sync::None | Sync::Phases(1));
    if args.drift.is_some() && !args.sync.iter().any(drifts) {
        messages.warning("--drift changes nothing without --sync once or every:K");
    }
    let traces = read(args, messages)?;
    let groups = groups(args, &traces, messages)?;
    let mut curves = Vec::new();
    let mut classes = Vec::new();
    for group in &groups {
        let sources: Vec<TraceSource<'_>> = group
            .iter()
            .map(|(of, share)| TraceSource {
                trace: &traces[*of].1,
                share: *share,
            })
            .collect();
        let names: Vec<String> = group.iter().map(|(of, _)| traces[*of].0.clone()).collect();
        let name = names.join(" + ");
        let event_classes = if args.no_classes {
            Vec::new()
        } else {
            event_classes(&options, &sources, messages)
        };
        let costs = if args.no_classes {
            Vec::new()
        } else {
            let ranks = table::some_ranks(&args.ranks.0);
            let options = PredictOptions {
                ranks,
                barrier: BarrierModel::Ideal,
                ..options.clone()
            };
            costs(&sources, &options, &event_classes)?
        };
        let mut said = BTreeSet::new();
        for sync in &args.sync {
            let options = PredictOptions {
                sync: *sync,
                ..options.clone()
            };
            let mut prediction = predict(&sources, &options)?;
            let periodic = sources.iter().find_map(|source| {
                warning_of_period(source.trace, &event_classes, &costs, &options)
            });
            prediction.warnings.extend(periodic);
            for warning in &prediction.warnings {
                if said.insert(warning.clone()) {
                    messages.warning(&format!("{name}: {warning}"));
                }
            }
            let sync_name = sync.to_string();
            curves.push(Curve {
                name: match groups.len() {
                    1 => format!("sync {sync_name}"),
                    _ => format!("{name}, sync {sync_name}"),
                },
                traces: names.clone(),
                sync: *sync,
                prediction,
            });
        }
        if !args.no_classes {
            classes.push(Classes { name, costs });
        }
    }
    let shown = ScaleView {
        curves: &curves,
        classes: &classes,
        class_ranks: &table::some_ranks(&args.ranks.0),
        options: &options,
    };
    if !places.iter().any(|(_, path)| is_stdout(path)) {
        print(table::text(&shown))?;
    }
    for (to, path) in places {
        output::write(&shown, to, path, args.overwrite.existing())?;
        if !is_stdout(path) {
            messages.say(&format!("wrote {}", path.display()));
        }
    }
    Ok(exit::KEPT)
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The output files of all options, with their formats.
fn places(args: &PredictArgs) -> Result<Vec<(OutputTarget, &Path)>> {
    let kind = output::kind(args.output.as_deref(), args.to)?;
    let by_option = [
        kind.zip(args.output.as_deref()),
        args.json.path().map(|path| (OutputTarget::Json, path)),
        args.html.as_deref().map(|path| (OutputTarget::Html, path)),
    ];
    let places: Vec<_> = by_option.into_iter().flatten().collect();
    for (n, (_, path)) in places.iter().enumerate() {
        args.overwrite.check(Some(path))?;
        if places[..n].iter().any(|(_, other)| other == path) {
            let text = format!("{} takes one form: give the other a file", path.display());
            return Err(BadInput(text).into());
        }
    }
    Ok(places)
}

/// The classes of events: by length, by period and by cause.
fn event_classes(
    options: &PredictOptions,
    sources: &[TraceSource<'_>],
    messages: &Messages,
) -> Vec<EventClass> {
    let mut all = EventClass::lengths();
    // A periodic class or a cause belongs to one trace.
    let [source] = sources else {
        messages.warning(
            "the classes of a mix are by length only: periods and causes belong to one trace",
        );
        return all;
    };
    let every = |period_ns: f64| format!("every {}", period(period_ns));
    all.extend(EventClass::periodic(source.trace, options.threads, every));
    all.extend(EventClass::causes(source.trace));
    all
}

fn options(args: &PredictArgs) -> Result<PredictOptions> {
    let barrier = match (args.barrier, args.loggp) {
        (BarrierArg::Ideal, None) => BarrierModel::Ideal,
        (BarrierArg::Ideal, Some(_)) => {
            let text = "--loggp is the cost of messages, and an ideal barrier has none: take \
                        --barrier dissemination or binomial";
            return Err(BadInput(text.to_owned()).into());
        }
        (_, None) => {
            let text = "this barrier needs the cost of its messages, as in --loggp \
                        5us,1us,0.5us,0.1ns";
            return Err(BadInput(text.to_owned()).into());
        }
        (kind, Some(mut cost)) => {
            cost.bytes = args.bytes;
            match kind {
                BarrierArg::Binomial => BarrierModel::Binomial(cost),
                _ => BarrierModel::Dissemination(cost),
            }
        }
    };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(PredictOptions {
        quantum_ns: units::nanos(args.quantum),
        ranks: args.ranks.0.clone(),
        group: args.group,
        barrier,
        starts: args.starts,
        drift: args
            .drift
            .as_ref()
            .map(|drift| drift.over(args.phases, units::nanos(args.quantum)))
            .transpose()?,
        phases: args.phases,
        seed: args.seed,
        threads: args.threads.map_or(all, usize::from),
        tail: args.tail,
        ..PredictOptions::default()
    })
}

fn read(args: &PredictArgs, messages: &Messages) -> Result<Vec<(String, JitterTrace)>> {
    // Causes are classes.
    let import = if args.no_classes {
        args.import.of_events()
    } else {
        args.import.options()
    };
    args.traces
        .iter()
        .map(|path| {
            let name = path.display().to_string();
            let trace = open_trace(path, &import, messages)?;
            if let Some(shortest_ns) = perhaps_undetectable(&trace, args.quantum) {
                messages.warning(&format!(
                    "{name} does not say which events its tool could detect, and its shortest is \
                     {}, longer than a quantum: shorter ones may be missing",
                    time(shortest_ns as f64)
                ));
            }
            Ok((name, trace))
        })
        .collect()
}

/// The shortest event of another tool's trace, ns, if the quantum is shorter and the trace does
/// not say which events could be detected.
fn perhaps_undetectable(trace: &JitterTrace, quantum: Duration) -> Option<u64> {
    let is_known = trace.header.clock != LoopClock::Imported || trace.detectable_ns().is_some();
    let events = trace.cpus.iter().flat_map(|cpu| &cpu.events);
    let shortest_ns = events.map(|event| event.length_ns).min()?;
    (!is_known && units::nanos(quantum) < shortest_ns).then_some(shortest_ns)
}

/// Traces that are predicted together, by index, with their shares.
fn groups(
    args: &PredictArgs,
    traces: &[(String, JitterTrace)],
    messages: &Messages,
) -> Result<Vec<Vec<(usize, u64)>>> {
    let clock = |trace: &JitterTrace| trace.header.clock;
    let differ = |two: &[(String, JitterTrace)]| clock(&two[0].1) != clock(&two[1].1);
    if traces.windows(2).any(differ) {
        let effect = match args.mix {
            Some(_) => "the mix is as coarse as the coarsest",
            None => "a difference of their curves may be that",
        };
        messages.warning(&format!(
            "the traces have different clocks: what one shows the other may be too coarse to see, \
             and {effect}"
        ));
    }
    let Some(TraceShares(shares)) = &args.mix else {
        return Ok((0..traces.len()).map(|of| vec![(of, 1)]).collect());
    };
    if shares.len() != traces.len() {
        return Err(BadInput(format!(
            "--mix names {} shares for {} traces",
            shares.len(),
            traces.len()
        ))
        .into());
    }
    Ok(vec![(0..).zip(shares.iter().copied()).collect()])
}
