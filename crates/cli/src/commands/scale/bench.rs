// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale bench`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use sandbag_inject::{Options, Plan, Sync as Kept};
use sandbag_jitter::Trace;
use sandbag_kernel::Root;
use sandbag_kernel::topology::Topology;
use sandbag_profile::NewFile;
use sandbag_report::quantity::time;
use sandbag_scale::bench::{
    Measured, Settings, Slowdown, Virtual, measure, per_rank, slowdown, virtual_ranks,
};
use sandbag_scale::predict::{self, Source, Starts, Sync};
use serde_json::json;

use super::table::pct;
use super::values;
use crate::commands::jitter;
use crate::exit;
use crate::messages::Messages;
use crate::output;
use crate::units::{self, Cpus};

/// Measure what jitter does to ranks that compute and wait for each other
///
/// Each rank is a process: it computes for a quantum, then waits for all others
/// at a barrier in shared memory, again and again. With --jitter each suffers a
/// portion of a trace between two steps of its work, so that no event is too
/// short; phases with and without it come in turn. The slowdown is told against
/// both references: the same run without injected jitter, and the quantum as it
/// was calibrated on the quiet CPU.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// How many ranks [default: as many as CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    ranks: Option<u32>,

    /// Work of each rank between two barriers
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::positive_duration)]
    quantum: Duration,

    /// For how long, all in all
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = units::positive_duration)]
    duration: Duration,

    /// Where ranks run, in turn: 0,2-3, or all, even, odd, core
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    cpus: Cpus,

    /// Virtual ranks: they only compute and never meet, one after another on
    /// these CPUs; the slowest of each phase is looked for afterwards
    #[arg(long = "virtual")]
    virtually: bool,

    /// Time of virtual ranks: of the wall, or of the CPU, which stands still
    /// while others have it, so that a busy machine is as good as a quiet one
    #[arg(long, value_enum, default_value_t = ClockArg::Wall, requires = "virtually")]
    clock: ClockArg,

    /// A trace, or a file of another tool that holds events, to suffer
    #[arg(long, value_name = "TRACE")]
    jitter: Option<PathBuf>,

    /// Which ranks are at the same position of it: none, once, phase, every:K
    #[arg(long, value_name = "SYNC", default_value = "none", value_parser = values::sync, requires = "jitter")]
    sync: Sync,

    /// Ranks of a node: they suffer together what was recorded together
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "jitter")]
    group: u32,

    /// Decides where in the trace each rank begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// With and without jitter in turn, so often
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// A file for all phases of all ranks: CSV, compressed (.csv.zst)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// A file for the figures as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    import: jitter::ImportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockArg {
    /// As for real ranks
    Wall,
    /// What the rank itself had of the CPU
    Cpu,
}

/// Runs the command.
pub fn main(args: &BenchArgs, messages: &Messages) -> Result<u8> {
    let topology = Topology::read(&Root::default())?;
    let cpus = args.cpus.online(&topology)?;
    let cpus: Vec<u32> = cpus.iter().collect();
    let trace = args
        .jitter
        .as_ref()
        .map(|path| read(path, args, messages))
        .transpose()?;
    let plan = trace.as_ref().map(|trace| plan(trace, args)).transpose()?;
    let settings = Settings {
        quantum_ns: units::nanos(args.quantum),
        ranks: args.ranks.unwrap_or(cpus.len() as u32),
        cpus,
        duration: args.duration,
        rounds: args.rounds,
        cpu_clock: args.clock == ClockArg::Cpu,
        plan,
    };
    match args.virtually {
        true => virtually(args, &settings, trace.as_ref(), messages),
        false => really(args, &settings, trace.as_ref(), messages),
    }
}

fn read(path: &Path, args: &BenchArgs, messages: &Messages) -> Result<Trace> {
    let recording = jitter::read(path, &args.import.options(), messages)?;
    let name = path.display().to_string();
    Ok(recording
        .into_trace()
        .map_err(|error| error.in_file(&name))?)
}

fn plan(trace: &Trace, args: &BenchArgs) -> Result<Plan> {
    let sync = match args.sync {
        Sync::None => Kept::None,
        Sync::Once => Kept::Once,
        Sync::Every(every) => Kept::Phases(u32::try_from(every).unwrap_or(u32::MAX)),
    };
    let options = Options {
        seed: args.seed,
        sync,
        group: args.group,
        repeat: true,
        ..Options::default()
    };
    Ok(Plan::of(trace, None, &options)?)
}

/// Ranks that are processes.
fn really(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&Trace>,
    messages: &Messages,
) -> Result<u8> {
    let measured = measure(settings)?;
    if measured.oversubscribed {
        messages.warning(&format!(
            "{} ranks on {} CPUs: they wait for CPUs as well as for each other, and what is \
             measured is mostly that. Take --virtual for more ranks than CPUs",
            settings.ranks,
            settings.cpus.len()
        ));
    }
    let Some(found) = slowdown(&measured) else {
        return Err(anyhow::anyhow!("no phase ended in the time there was"));
    };
    if let Some(path) = &args.output {
        records(path, &phases_of(&measured))?;
    }
    let jitter = settings.plan.is_some();
    let ours = [found];
    let predicted =
        trace.and_then(|trace| predicted(trace, args, settings, &ours, Starts::Waiting));
    let ranks = per_rank(&measured, jitter);
    let figures = json!({
        "format": 1,
        "ranks": measured.ranks,
        "oversubscribed": measured.oversubscribed,
        "quantum_ns": settings.quantum_ns,
        "calibrated_ns": measured.calibrated_ns,
        "iterations": measured.iterations,
        "seed": args.seed,
        "sync": values::sync_name(args.sync),
        "slowdown": found,
        "predicted": predicted,
        "per_rank": ranks,
    });
    let mut text = format!(
        "{} ranks on {} CPUs{}; quantum {} (calibrated: {} in {} iterations)\n\n{}\n",
        measured.ranks,
        settings.cpus.len(),
        if measured.oversubscribed {
            ", OVERSUBSCRIBED"
        } else {
            ""
        },
        time(settings.quantum_ns as f64),
        time(measured.calibrated_ns as f64),
        measured.iterations,
        slowdowns(&ours, predicted.as_deref(), None)
    );
    let mut table = new_table(&[
        "rank",
        "CPU",
        "work, mean",
        "longest",
        "wait, mean",
        "last %",
    ]);
    for rank in &ranks {
        let cpu = settings.cpus[rank.rank as usize % settings.cpus.len()];
        table.add_row([
            rank.rank.to_string(),
            cpu.to_string(),
            time(rank.qt_ns),
            time(f64::from(rank.longest_ns)),
            time(rank.bt_ns),
            format!("{:.1}", rank.last_pct),
        ]);
    }
    let kind = if jitter {
        "with jitter"
    } else {
        "without jitter"
    };
    let _ = writeln!(text, "\nEach rank, {kind}\n{}", right(table));
    told(args, &text, &figures)
}

/// Virtual ranks.
fn virtually(
    args: &BenchArgs,
    settings: &Settings,
    trace: Option<&Trace>,
    messages: &Messages,
) -> Result<u8> {
    let measured = virtual_ranks(settings)?;
    if measured.phases < 20 {
        messages.warning(&format!(
            "{} phases of each rank: a longer run (-d) gives a better mean",
            measured.phases
        ));
    }
    if let Some(path) = &args.output {
        records(path, &phases_of_virtual(&measured))?;
    }
    let found = measured.slowdowns();
    let drift_ns = measured.drift_ns();
    let predicted =
        trace.and_then(|trace| predicted(trace, args, settings, &found, Starts::Running));
    let with_host = trace.and_then(|trace| {
        let options = predict::Options {
            quantum_ns: settings.quantum_ns,
            starts: Starts::Running,
            ..predict::Options::default()
        };
        // Of ranks that have something in common it would not hold.
        let alone = args.sync == Sync::None && args.group == 1;
        let source = Source { trace, share: 1 };
        let noise = alone.then(|| predict::one_rank(source, &options).ok())??;
        let all = measured.with_host(&noise, args.seed).into_iter();
        Some(all.map(|(_, pct)| pct).collect::<Vec<f64>>())
    });
    let figures = json!({
        "format": 1,
        "virtual": true,
        "cpu_clock": settings.cpu_clock,
        "ranks": measured.ranks,
        "phases": measured.phases,
        "quantum_ns": settings.quantum_ns,
        "calibrated_ns": measured.calibrated_ns,
        "iterations": measured.iterations,
        "seed": args.seed,
        "sync": values::sync_name(args.sync),
        "drift_ns": {"first_to_last": drift_ns.0, "standard_deviation": drift_ns.1},
        "slowdowns": found,
        "predicted": predicted,
        "predicted_over_quantum_pct": with_host,
    });
    let text = format!(
        "{} virtual ranks on {} CPUs, {} phases each; quantum {} (calibrated: {} in {} \
         iterations)\n\n{}\n\nAt the end they are {} apart from the first to the last, standard \
         deviation {} (--drift).\n",
        measured.ranks,
        settings.cpus.len(),
        measured.phases,
        time(settings.quantum_ns as f64),
        time(measured.calibrated_ns as f64),
        measured.iterations,
        slowdowns(&found, predicted.as_deref(), with_host.as_deref()),
        time(drift_ns.0),
        time(drift_ns.1),
    );
    told(args, &text, &figures)
}

/// What the predictor says of ranks whose work begins like this. `None` where it
/// needs what is not known.
fn predicted(
    trace: &Trace,
    args: &BenchArgs,
    settings: &Settings,
    found: &[Slowdown],
    starts: Starts,
) -> Option<Vec<predict::Point>> {
    let starts = match args.sync {
        Sync::None => starts,
        // Each phase begins at a position by chance.
        Sync::Every(1) => Starts::Any,
        _ => return None,
    };
    let options = predict::Options {
        quantum_ns: settings.quantum_ns,
        ranks: found.iter().map(|one| u64::from(one.ranks)).collect(),
        sync: args.sync,
        group: args.group,
        starts,
        seed: args.seed,
        ..predict::Options::default()
    };
    let source = Source { trace, share: 1 };
    let prediction = predict::predict(&[source], &options).ok()?;
    Some(prediction.points)
}

fn told(args: &BenchArgs, text: &str, figures: &serde_json::Value) -> Result<u8> {
    let json = serde_json::to_string_pretty(figures)? + "\n";
    if let Some(path) = &args.json {
        output::put(path, &json)?;
    }
    if args
        .json
        .as_ref()
        .is_none_or(|path| path.as_os_str() != "-")
    {
        output::print(text)?;
    }
    Ok(exit::KEPT)
}

/// `with_host`: predicted over the quantum, the host's noise included.
fn slowdowns(
    found: &[Slowdown],
    predicted: Option<&[predict::Point]>,
    with_host: Option<&[f64]>,
) -> String {
    let mut header = vec![
        "ranks",
        "phases",
        "slowest, jitter",
        "slowest, none",
        "over the run without %",
        "over the quantum %",
    ];
    header.extend(predicted.map(|_| "predicted %"));
    header.extend(with_host.map(|_| "with the host's own %"));
    let mut table = new_table(&header);
    for (i, one) in found.iter().enumerate() {
        let shown = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
        let phases = match one.phases {
            (0, quiet) => quiet.to_string(),
            (jitter, _) => jitter.to_string(),
        };
        let mut row = vec![
            one.ranks.to_string(),
            phases,
            shown(one.jitter_ns),
            time(one.quiet_ns),
            one.over_run_pct.map_or_else(|| "-".to_owned(), pct),
            pct(one.over_quantum_pct),
        ];
        if let Some(point) = predicted.and_then(|points| points.get(i)) {
            let interval = point.mean.interval_pct;
            let interval = interval.map_or_else(String::new, |(low, high)| {
                format!(" ({} to {})", pct(low), pct(high))
            });
            row.push(format!("{}{interval}", pct(point.mean.slowdown_pct)));
        }
        let with_host = with_host.and_then(|all| all.get(i));
        row.extend(with_host.map(|value| pct(*value)));
        table.add_row(row);
    }
    right(table).to_string()
}

/// Round, jitter or not, phase, rank, qt, bt.
type Record = (usize, bool, usize, usize, u32, u32);

fn phases_of(measured: &Measured) -> Vec<Record> {
    let ranks = measured.ranks as usize;
    let segments = measured.segments.iter().enumerate();
    let all = segments.flat_map(|(number, segment)| {
        let both = segment.qt_ns.iter().zip(&segment.bt_ns).enumerate();
        both.map(move |(at, (qt, bt))| (number, segment.jitter, at / ranks, at % ranks, *qt, *bt))
    });
    all.collect()
}

fn phases_of_virtual(measured: &Virtual) -> Vec<Record> {
    let phases = measured.phases as usize;
    let of = |jitter: bool, all: &[u32]| -> Vec<Record> {
        let each = all.iter().enumerate();
        each.map(|(at, qt)| {
            (
                usize::from(jitter),
                jitter,
                at % phases,
                at / phases,
                *qt,
                0,
            )
        })
        .collect()
    };
    let mut all = of(false, &measured.quiet_ns);
    all.extend(of(true, &measured.jitter_ns));
    all
}

fn records(path: &Path, all: &[Record]) -> Result<()> {
    let name = || path.display().to_string();
    let write = |file: &mut NewFile| -> io::Result<()> {
        let mut out = zstd::Encoder::new(io::BufWriter::new(file), 3)?;
        writeln!(out, "segment,jitter,phase,rank,qt_ns,bt_ns")?;
        for (segment, jitter, phase, rank, qt, bt) in all {
            writeln!(
                out,
                "{segment},{},{phase},{rank},{qt},{bt}",
                u8::from(*jitter)
            )?;
        }
        out.finish()?.flush()
    };
    let mut file = NewFile::create(path).with_context(name)?;
    let written = write(&mut file);
    written.and_then(|()| file.finish()).with_context(name)
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header.to_vec());
    table
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
