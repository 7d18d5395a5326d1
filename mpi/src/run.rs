// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark itself.

use std::fs;
use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Root as _};
use sandbag_jitter::replay::ReplayPlan;
use sandbag_jitter::{JitterTrace, import};
use sandbag_scale::bench::{AnyClock, BenchTimes, Rank, Segment, SegmentTimes, calibrate};
use sandbag_scale::file::{BenchOptions, Files, ResultFile};

use crate::barrier::MpiBarrier;
use crate::place;

/// Measure what jitter does to ranks that compute and wait for each other
///
/// The same as `sandbag scale bench`, with MPI processes for ranks: each computes for a quantum,
/// then waits for all others in MPI_Ibarrier, again and again. Rank 0 reads the trace,
/// calibrates the work and writes the files. Convert the trace of another tool first if its
/// units are ambiguous (`sandbag jitter convert`).
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Leave ranks on all CPUs that the launcher gave them
    #[arg(long)]
    no_pin: bool,

    #[command(flatten)]
    options: BenchOptions,
}

/// Times of all ranks, which rank 0 keeps, at most: 4 GiB.
const MOST_BYTES: u64 = 4 << 30;

/// The result was measured, but could not be written.
#[derive(Debug)]
pub struct Unwritten;

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the result could not be written")
    }
}

/// Measures, and prints the result on rank 0. Collective: all ranks call it. An error occurs on
/// all ranks, and is [`Unwritten`] after the measurement.
pub fn bench(args: &BenchArgs, world: &SimpleCommunicator) -> Result<()> {
    let asked = &args.options;
    let first = world.rank() == 0;
    // Before anything is measured: a name that cannot be written fails at once.
    let files = first
        .then(|| Files::create(asked).map_err(plain))
        .transpose();
    if any(world, files.is_err()) {
        files?;
        bail!("rank 0 cannot write its files");
    }
    let files = files?;
    let trace = read(args, world)?;
    let plan = trace
        .as_ref()
        .map(|trace| asked.plan(trace).map_err(plain))
        .transpose()?;
    let settings = asked.settings(world.size().unsigned_abs(), plan);
    settings.check_memory(MOST_BYTES)?;
    let place = place::find(world, !args.no_pin);
    let places = place::names(world, &place);
    let oversubscribed = any(world, place.oversubscribed);
    let clock = AnyClock::best();
    // All ranks calibrate at the same time, as they will work; the first one's result counts.
    let mut found = calibrate(settings.quantum_ns, &clock).map_or([0, 0], |(n, ns)| [n, ns]);
    world.process_at_rank(0).broadcast_into(&mut found[..]);
    let [iterations, calibrated_ns] = found;
    if iterations == 0 {
        bail!("the quantum is too short to be made of the work: take some microseconds or more");
    }
    let barrier = MpiBarrier::new(world, oversubscribed);
    let mut rank = Rank::new(barrier, clock, iterations, settings.plan.as_ref());
    // The round trip would be a wait for CPU time.
    let compared = |rank: &mut Rank<'_, MpiBarrier<'_>>| {
        if oversubscribed {
            Vec::new()
        } else {
            rank.clocks()
        }
    };
    let before = compared(&mut rank);
    let mut segments = Vec::new();
    for (number, jitter) in settings.segments().into_iter().enumerate() {
        let (mut qt_ns, mut bt_ns) = (Vec::new(), Vec::new());
        let course = rank.segment(number as u64, jitter, settings.length(), &mut |phase| {
            qt_ns.push(phase.qt_ns);
            bt_ns.push(phase.bt_ns);
        });
        segments.push(Segment {
            jitter,
            qt_ns: gathered(world, &qt_ns),
            bt_ns: gathered(world, &bt_ns),
            courses: courses(world, course),
        });
    }
    let after = compared(&mut rank);
    let Some(files) = files else {
        return Ok(());
    };
    let measured = BenchTimes {
        ranks: settings.ranks,
        oversubscribed,
        iterations,
        calibrated_ns,
        segments,
        clocks: [before, after],
    };
    let replayed = trace.as_ref().zip(settings.plan.as_ref());
    write(args, files, &measured, replayed, places).context(Unwritten)
}

/// The text of an error of sandbag.
fn plain(error: sandbag_ui::Failure) -> anyhow::Error {
    anyhow::Error::msg(format!("{error:#}"))
}

fn write(
    args: &BenchArgs,
    files: Files,
    measured: &BenchTimes,
    replayed: Option<(&JitterTrace, &ReplayPlan)>,
    places: Vec<String>,
) -> Result<()> {
    let asked = &args.options;
    if measured.oversubscribed {
        crate::say(format_args!(
            "there are more ranks than CPUs on some machine, or a CPU limit below what they \
             take: they wait for CPU time as well as for each other, and what is measured is \
             mostly that"
        ));
    }
    let mut hosts: Vec<&str> = places.iter().filter_map(|p| p.split(' ').next()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let on = match hosts.len() {
        1 => "1 machine by MPI".to_owned(),
        many => format!("{many} machines by MPI"),
    };
    let Some(result) = ResultFile::new(asked, measured, replayed, places.clone()) else {
        bail!("no phase ended in the time there was");
    };
    let mut figures = result.json();
    figures["mpi"] = library().into();
    let text = result.text(&on);
    files.write(&text, &figures, measured).map_err(plain)
}

/// Prints the library, and the place of each rank. Collective: all ranks call it.
pub fn info(world: &SimpleCommunicator) -> Result<()> {
    let place = place::find(world, true);
    let names = place::names(world, &place);
    if world.rank() == 0 {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", library())?;
        for (rank, name) in names.iter().enumerate() {
            writeln!(out, "rank {rank}: {name}")?;
        }
    }
    Ok(())
}

/// The MPI library, in one line.
pub fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    first.trim_matches(['\0', ' ', '\t']).to_owned()
}

/// The trace. Rank 0 reads it, because other machines need not have the file.
fn read(args: &BenchArgs, world: &SimpleCommunicator) -> Result<Option<JitterTrace>> {
    let Some(path) = &args.options.jitter else {
        return Ok(None);
    };
    let name = path.display().to_string();
    let bytes = match world.rank() {
        0 => fs::read(path).with_context(|| name.clone()),
        _ => Ok(Vec::new()),
    };
    // No file has this length: it means that there is none.
    let mut length = bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64);
    let root = world.process_at_rank(0);
    root.broadcast_into(&mut length);
    if length == u64::MAX {
        bytes?;
        bail!("rank 0 could not read {name}");
    }
    let mut bytes = bytes?;
    bytes.resize(usize::try_from(length)?, 0);
    // A count is an int in MPI.
    for part in bytes.chunks_mut(1 << 30) {
        root.broadcast_into(part);
    }
    let recording = import::read(&bytes[..], &name, &import::ImportOptions::default())?;
    if world.rank() == 0 {
        for warning in recording.warnings() {
            crate::say(format_args!("{name}: {warning}"));
        }
    }
    Ok(Some(
        recording
            .into_trace()
            .map_err(|error| error.in_file(&name))?,
    ))
}

/// Whether `mine` is true on any rank. Collective.
fn any(world: &SimpleCommunicator, mine: bool) -> bool {
    let mut all = 0u8;
    world.all_reduce_into(&u8::from(mine), &mut all, SystemOperation::max());
    all > 0
}

/// The values of all ranks, phase by phase, on rank 0; nothing elsewhere. All ranks have the
/// same number of phases.
fn gathered(world: &SimpleCommunicator, mine: &[u32]) -> Vec<u32> {
    let root = world.process_at_rank(0);
    if world.rank() != 0 {
        root.gather_into(mine);
        return Vec::new();
    }
    let ranks = world.size().unsigned_abs() as usize;
    let mut by_rank = vec![0u32; mine.len() * ranks];
    root.gather_into_root(mine, &mut by_rank[..]);
    let phases = 0..mine.len();
    phases
        .flat_map(|phase| (0..ranks).map(move |rank| rank * mine.len() + phase))
        .map(|at| by_rank[at])
        .collect()
}

/// The segment's times of each rank, on rank 0; nothing elsewhere.
fn courses(world: &SimpleCommunicator, mine: SegmentTimes) -> Vec<SegmentTimes> {
    let mine: [u64; 3] = mine.into();
    let root = world.process_at_rank(0);
    if world.rank() != 0 {
        root.gather_into(&mine[..]);
        return Vec::new();
    }
    let mut all = vec![0u64; mine.len() * world.size().unsigned_abs() as usize];
    root.gather_into_root(&mine[..], &mut all[..]);
    let (records, _) = all.as_chunks::<3>();
    records
        .iter()
        .map(|record| SegmentTimes::from(*record))
        .collect()
}
