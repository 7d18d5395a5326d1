// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter record`.

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::causes::AttributionMethod;
use crate::collect::{self, Attribute, CollectOptions, Threshold};
use crate::{Fault, LoopClock, TraceHeader};
use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use sandbag_input::{Existing, open_new};
use sandbag_linux::stop_signals::StopSignals;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, machine};
use sandbag_run::online::check_usable;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::quantity::time;

use super::attribute::{self, AttributeMethod, Memory};
use super::memory;
use super::part_file::PartFile;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, Overwrite, give_to_caller, stdout};
use sandbag_ui::units::{self, Cpus};

/// Default duration.
const LENGTH: Duration = Duration::from_secs(10);
/// Default memory, MiB.
const USUAL_MIB: u64 = 256;
/// As long as it takes.
const ENDLESS: Duration = Duration::from_secs(365 * 86_400);

/// Record on each CPU every stretch of time in which a program did not run
///
/// On every CPU at once a loop reads the clock; where two readings lie further
/// apart than they should, something else had the CPU: an interrupt, the
/// kernel, another program, the hypervisor. It needs no root, except to say of
/// each event which of these it was. The loops take their CPUs wholly.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// How long [default: 10s; with --events as long as that takes]
    #[arg(short, long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Duration>,

    /// End when every CPU has this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,

    /// Which CPUs: 0,2-3, or all, even, odd, core (one per core)
    #[arg(short, long, value_name = "LIST", default_value = "all", value_parser = units::cpus)]
    cpus: Cpus,

    /// The file to write, or - for standard output
    /// [default: sandbag-jitter-<time>.sbj]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    /// What is an event: readings further apart than this [default: ten times
    /// the least difference, as in the paper]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    threshold: Option<Duration>,

    /// Loop for so long before, for caches and frequency
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::duration)]
    preheat: Duration,

    /// Write what was found every so often; nothing is known of the time that
    /// this takes [default: 1m]
    #[arg(long, value_name = "TIME", conflicts_with = "real_time", value_parser = units::step)]
    round: Option<Duration>,

    /// How to find out what caused the events
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    attribute: AttributeMethod,

    /// Memory for the events of a round, of all CPUs, in MiB; half of it is
    /// the kernel's where it writes causes down [default: 256, or half of what
    /// is free]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    max_memory: Option<u64>,

    /// Be a real-time task (SCHED_FIFO) of this priority, to see only what is
    /// above it; looks for 800 ms of every second, for the kernel leaves
    /// real-time tasks no more than 950
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    real_time: Option<u8>,
}

pub fn main(args: &RecordArgs, messages: &Messages) -> Result<u8> {
    let root = Root::default();
    let topology = Topology::read(&root)?;
    let cpus = args.cpus.online(&topology)?;
    check_usable(&topology.usable, &cpus)?;
    let max_memory = memory::memory_limit(&root, args.max_memory, USUAL_MIB)?;
    let output = args.output.clone();
    let output = output.unwrap_or_else(|| output::new_name("sandbag-jitter", ".sbj"));
    let to_stdout = output.as_os_str() == "-";
    let name = if to_stdout {
        "standard output".to_owned()
    } else {
        output.display().to_string()
    };
    output::refuse_ending(&output, &["sbj"])?;
    args.overwrite.check(Some(&output))?;
    let made = Cell::new(false);
    // The old recording is lost only to a whole one. This one may be read meanwhile.
    let part = RefCell::new(None);
    let begin_part = || match args.overwrite.existing() {
        Existing::Replace => PartFile::begin(&output),
        Existing::Refuse => Ok(None),
    };
    // Only when all loops are ready: a refused recording leaves no file.
    let open = || {
        let file: Box<dyn Write> = if to_stdout {
            Box::new(stdout())
        } else if let Some((new, file)) = begin_part().map_err(Fault::Io)? {
            part.replace(Some(new));
            Box::new(file)
        } else {
            let is_new = !output.exists();
            let file = open_new(&output, args.overwrite.existing()).map_err(Fault::Io)?;
            made.set(is_new);
            give_to_caller(&output);
            Box::new(file)
        };
        Ok(BufWriter::new(file))
    };
    let stop = Arc::new(AtomicBool::new(false));
    // A signal from here on ends it in order.
    let outcome = until_signal(&stop, || {
        let mut prepared = attribute::prepare(args.attribute, &root, &cpus, max_memory, messages)?;
        let options = options(args, cpus, max_memory, prepared.is_traced());
        let causes = prepared.attribute.take().unwrap_or(Attribute::None);
        let header = header(&root, &options);
        let outcome = collect::record_with(&options, &header, causes, open, &stop);
        drop(prepared);
        Ok::<_, sandbag_ui::Failure>(outcome)
    })??;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // An empty trace is of no use to anybody.
            let holds_nothing = |path: &Path| {
                let file = std::fs::File::open(path);
                file.is_ok_and(|file| crate::format::read(file).is_err())
            };
            let is_empty = matches!(*error.fault, Fault::NothingKnown | Fault::Absent);
            if made.get() && (is_empty || holds_nothing(&output)) {
                let _ = std::fs::remove_file(&output);
            }
            if let Some(part) = part.take() {
                if is_empty || holds_nothing(&part.path) {
                    let _ = std::fs::remove_file(&part.path);
                } else {
                    let part = part.path.display();
                    messages.warning(&format!(
                        "{name} is as it was; {part} has what was recorded"
                    ));
                }
            }
            // A reader that has seen enough, such as head.
            let reader_left = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
            if to_stdout && matches!(&*error.fault, Fault::Io(cause) if reader_left(cause)) {
                return Ok(exit::KEPT);
            }
            return if stop.load(Ordering::Relaxed) && matches!(*error.fault, Fault::NothingKnown) {
                Ok(exit::INTERRUPTED)
            } else {
                Err(error.in_file(&name).into())
            };
        }
    };
    if let Some(part) = part.take() {
        let kept = || {
            format!(
                "{name}, of which {} has the new recording",
                part.path.display()
            )
        };
        part.finish().with_context(kept)?;
    }
    for warning in &outcome.warnings {
        messages.warning(warning);
    }
    for (place, notes) in outcome.notes.cpus.iter().enumerate() {
        let (events, known_ns) = (outcome.events[place], outcome.known_ns[place]);
        messages.say(&format!(
            "CPU {}: {events} events in {}, {:.4} % of the time, the longest {}; detectable above \
             {}, a pass of the loop {} (a bare reading {}), an event {} more, the counter drifted \
             by {:.2} ppm",
            notes.cpu,
            time(known_ns as f64),
            outcome.noise_ns[place] as f64 * 100.0 / known_ns.max(1) as f64,
            time(outcome.longest_ns[place] as f64),
            time(notes.detectable_ns()),
            time(notes.loop_ns),
            time(notes.read_ns),
            time(notes.store_ns),
            notes.drift_ppm,
        ));
    }
    if let Some(about) = outcome
        .about
        .filter(|about| about.method == AttributionMethod::Tracefs)
    {
        messages.detail(&format!(
            "causes: {} entries of the kernel, {} lost, in buffers of {} KiB, by the clock {}",
            about.entries,
            about.lost,
            about.buffer_kib,
            about.clock.unwrap_or_default()
        ));
    }
    messages.say(&if to_stdout {
        format!("Written to {name}")
    } else {
        format!("Written: {name} (sandbag jitter show {name})")
    });
    Ok(exit::KEPT)
}

fn options(args: &RecordArgs, cpus: CpuList, max_memory: u64, is_traced: bool) -> CollectOptions {
    let memory = Memory::divide(max_memory, cpus.len(), is_traced);
    CollectOptions {
        duration: args.duration.unwrap_or(match args.events {
            None => LENGTH,
            Some(_) => ENDLESS,
        }),
        events: args.events,
        round: args.round,
        threshold: args.threshold.map_or(Threshold::TimesLeast, |time| {
            Threshold::Exactly(time.as_nanos() as f64)
        }),
        preheat: args.preheat,
        room: usize::try_from(memory.room).unwrap_or(usize::MAX),
        real_time: args.real_time,
        cpus,
    }
}

/// Runs `act` and sets `stop` on a signal. The waiting thread sleeps: it may be on a CPU
/// that is recorded.
fn until_signal<T>(stop: &AtomicBool, act: impl FnOnce() -> T) -> Result<T> {
    // A thread that does not block it takes it away from the collector, which looks for it.
    let resume = SigSet::from(Signal::SIGCONT);
    resume.thread_block().context("block a signal")?;
    let signals = StopSignals::block().context("wait for signals")?;
    let (over, end) = io::pipe().context("a pipe")?;
    std::thread::scope(|scope| {
        // Moved into the closure, so that a panic closes it, too.
        let end = end;
        let watch = || {
            let over = over;
            let Ok(descriptor) = signals.descriptor() else {
                return;
            };
            loop {
                let mut both = [
                    PollFd::new(descriptor.as_fd(), PollFlags::POLLIN),
                    PollFd::new(over.as_fd(), PollFlags::POLLIN),
                ];
                let woken = poll(&mut both, PollTimeout::NONE);
                if both[1].any().unwrap_or(true) {
                    return;
                }
                if woken.is_ok() && matches!(signals.take(), Ok(Some(_))) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, watch)
            .context("a thread that waits for signals")?;
        let outcome = act();
        drop(end);
        Ok(outcome)
    })
}

fn header(root: &Root, options: &CollectOptions) -> TraceHeader {
    let recorder = concat!("sandbag ", env!("CARGO_PKG_VERSION"));
    let began = SystemTime::now().duration_since(UNIX_EPOCH);
    TraceHeader {
        host: machine::host(root),
        kernel: machine::kernel(root),
        began_s: began.ok().map(|time| time.as_secs_f64()),
        real_time: options.real_time,
        ..TraceHeader::new(recorder, LoopClock::OWN, options.cpus.iter().collect())
    }
}
