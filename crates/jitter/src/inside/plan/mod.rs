// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan file: written once before the program starts, mapped by each of
//! its processes, and written to by them only where they book.
//!
//! # Problem
//! A new process must know within microseconds what it is to suffer, without a
//! library that parses anything; a program may start thousands of them, and the
//! contents of the file must harm none.
//!
//! # Approach
//! Flat arrays at offsets in a checksummed header. The events of a CPU are there
//! once, however many processes replay portions of them. Each process claims a slot
//! by one atomic exchange and is the only one to write to it. The space is
//! allocated beforehand: a full disk must not become a SIGBUS in the program.

mod filter;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root, clock};

use crate::inside::error::{Error, Result};
use crate::inside::layout::{
    ALIGN, HEADER, MAGIC, Plain as _, PlanHeader, PlanPortion, PlanShared, PlanSlot, SLOTS,
    VERSION, flag,
};
use crate::inside::outcome::{self, InsideOutcome};
use crate::replay::{PlanColumn, PlannedEvent};
pub use filter::ProgramFilter;

/// A stretch of a column; it continues at the column's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// Number of the column.
    pub column: usize,
    /// Its beginning on the column's axis, ns.
    pub offset_ns: u64,
    /// At most the length of the axis, ns.
    pub length_ns: u64,
}

impl Portion {
    /// All of a column of this length, ns.
    pub const fn whole(column: usize, length_ns: u64) -> Self {
        Self {
            column,
            offset_ns: 0,
            length_ns,
        }
    }
}

/// When due times count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanStart {
    /// The moment of [`PlanFile::begin`].
    #[default]
    Together,
    /// The start of each process, or thread.
    EachStart,
}

/// Which processes suffer, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InsideOptions {
    /// Seed of the common positions of phases.
    pub seed: u64,
    pub begin: PlanStart,
    /// Each thread, not only the initial one of each process.
    pub per_thread: bool,
    /// A portion begins again when it is used up.
    pub repeat: bool,
    /// No timers: only programs that call `sandbag_jitter_poll` suffer.
    pub polled: bool,
    /// Forked children suffer nothing, instead of portions of their own.
    pub no_forks: bool,
    pub only: ProgramFilter,
    /// Phases between two common random positions.
    pub phase_every: Option<u64>,
    /// Number of portions for ranks; the portions after them are for processes
    /// without a rank.
    pub ranked: u32,
    /// Ranks beyond [`ranked`](Self::ranked) have the columns of the first portions, of this
    /// number, in turn. 0: all portions in turn.
    pub columns: u32,
    /// Ranks that have a random position in common, drawn as [`ReplayPlan::rank`] does. 0:
    /// all have that of the portions.
    ///
    /// [`ReplayPlan::rank`]: crate::replay::ReplayPlan::rank
    pub group: u32,
    /// Overhead of an injection, ns.
    pub overhead_ns: u64,
    /// Part of the overhead after the event, ns.
    pub exit_ns: u64,
    /// A hypervisor interrupts the program this long before a timer is due: timers
    /// are set later by that, ns.
    pub lead_ns: u64,
    /// A start no later than this is due to the timer, which had interrupted the
    /// program before: the event ends when its length has passed since it was due.
    /// 0: each lasts from its start, ns.
    pub on_time_ns: u64,
    /// A later start is not due to the timer; 0: not known, ns.
    pub away_ns: u64,
    /// An event that follows closer is injected together with the one before, ns.
    pub least_gap_ns: u64,
    /// Processes (with `per_thread`, threads) that book at the same time, if not
    /// [`SLOTS`].
    pub slots: Option<u32>,
    /// Injection ends when this process is gone.
    pub supervisor: Option<u32>,
}

/// An event that is later is passed over, or cut to its rest: the program was stopped,
/// or had no CPU. Longer than a time slice of the fair scheduler, ns.
const LATE_NS: u64 = 10_000_000;
/// The longest event that the library takes, ns.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The longest axis, ns: sums of it stay in range.
const AXIS_NS: u64 = 1 << 60;
const SECOND_NS: u64 = 1_000_000_000;

/// A plan on disk.
#[derive(Debug)]
pub struct PlanFile {
    path: PathBuf,
    file: File,
    header: Box<PlanHeader>,
}

impl PlanFile {
    /// Writes it to a new file that only its owner can open. It is no valid plan
    /// before [`begin`](Self::begin).
    ///
    /// # Errors
    /// A portion or event is out of range; the file exists, or the disk is full.
    pub fn create(
        path: &Path,
        columns: &[PlanColumn],
        portions: &[Portion],
        options: &InsideOptions,
    ) -> Result<Self> {
        check(columns, portions, options).map_err(Error::Plan)?;
        let header = Box::new(header(columns, portions, options));
        let written = || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            let length = i64::try_from(header.size).map_err(|_| nix::errno::Errno::EFBIG)?;
            nix::fcntl::posix_fallocate(&file, 0, length)?;
            write(&file, header.portions_at, columns, portions)?;
            Ok(file)
        };
        let file = written().map_err(Error::file(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
        })
    }

    /// Makes it a valid plan; due times count from `begin_ns` of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, begin_ns: u64) -> Result<()> {
        self.header.begin_ns = begin_ns;
        self.header.seal();
        let written = self.file.write_all_at(self.header.bytes(), 0);
        written.map_err(Error::file(&self.path))
    }

    /// Ends injection in all processes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(&self) -> Result<()> {
        // First, as those that see the end read it.
        let now_ns = clock::monotonic().to_ne_bytes();
        self.write_shared(offset_of!(PlanShared, stopped_ns), &now_ns)?;
        self.write_shared(offset_of!(PlanShared, stop), &1u32.to_ne_bytes())
    }

    /// The replay pauses from now on: nothing is injected until [`go_on`](Self::go_on).
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn pause(&self) -> Result<()> {
        let at = self.header.shared_at + offset_of!(PlanShared, paused_ns) as u64;
        let mut before = [0; 8];
        let read = self.file.read_exact_at(&mut before, at);
        read.map_err(Error::file(&self.path))?;
        // While `go_on` writes one of the two, time must be the same by either.
        let pause_ns = clock::monotonic().saturating_sub(u64::from_ne_bytes(before));
        self.write_shared(offset_of!(PlanShared, pause_ns), &pause_ns.to_ne_bytes())
    }

    /// The replay goes on; all that is to come is put off by all pauses so far, `paused_ns`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn go_on(&self, paused_ns: u64) -> Result<()> {
        // First, as those that see the end read it.
        self.write_shared(offset_of!(PlanShared, paused_ns), &paused_ns.to_ne_bytes())?;
        self.write_shared(offset_of!(PlanShared, pause_ns), &0u64.to_ne_bytes())
    }

    fn write_shared(&self, field: usize, bytes: &[u8]) -> Result<()> {
        let at = self.header.shared_at + field as u64;
        let written = self.file.write_all_at(bytes, at);
        written.map_err(Error::file(&self.path))
    }

    /// What was booked so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn outcome(&self) -> Result<InsideOutcome> {
        let mut bytes = vec![0; shared_bytes(self.header.slots)];
        let read = self.file.read_exact_at(&mut bytes, self.header.shared_at);
        read.map_err(Error::file(&self.path))?;
        Ok(outcome::read(&bytes, self.header.cpus))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn shared_bytes(slots: u32) -> usize {
    size_of::<PlanShared>() + slots as usize * size_of::<PlanSlot>()
}

/// Bytes of the file of such a plan.
pub fn size(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> u64 {
    header(columns, portions, options).size
}

fn check(
    columns: &[PlanColumn],
    portions: &[Portion],
    options: &InsideOptions,
) -> Result<(), String> {
    let (count, ranked) = (portions.len(), options.ranked);
    let slots = options.slots.unwrap_or(SLOTS);
    if count == 0 || u32::try_from(count).is_err() {
        return Err(format!("{count} portions"));
    }
    if ranked as usize > count {
        return Err(format!("{ranked} portions for ranks, and {count} in all"));
    }
    if options.columns > ranked {
        return Err(format!(
            "{} columns, and {ranked} portions for ranks",
            options.columns
        ));
    }
    if !(1..=SLOTS).contains(&slots) {
        return Err(format!("{slots} slots, expected 1 to {SLOTS}"));
    }
    for (number, PlanColumn { known_ns, events }) in columns.iter().enumerate() {
        let last = events.iter().map(|event| event.due_ns).max().unwrap_or(0);
        if *known_ns >= AXIS_NS || last >= *known_ns {
            return Err(format!(
                "column {number} is {known_ns} ns long, with an event at {last} ns"
            ));
        }
        if !events.is_sorted_by_key(|event| event.due_ns) {
            return Err(format!("the events of column {number} are not in order"));
        }
        if let Some(event) = events.iter().find(|event| event.length_ns > LONGEST_NS) {
            return Err(format!("an event of {} ns", event.length_ns));
        }
    }
    let fits = |portion: &&Portion| {
        columns.get(portion.column).is_some_and(|column| {
            portion.offset_ns < column.known_ns
                && (1..=column.known_ns).contains(&portion.length_ns)
        })
    };
    match portions.iter().find(|portion| !fits(portion)) {
        Some(portion) => Err(format!("{portion:?} is not within its column")),
        None => Ok(()),
    }
}

fn header(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> PlanHeader {
    let events = columns.iter().flat_map(|column| &column.events);
    let longest_ns = events.clone().map(|event| event.length_ns).max();
    let count = events.count() as u64;
    let portions_at = HEADER as u64;
    let events_at = portions_at + (size_of::<PlanPortion>() * portions.len()) as u64;
    let events_end = events_at + size_of::<PlannedEvent>() as u64 * count;
    let shared_at = events_end.next_multiple_of(ALIGN);
    let flags = [
        (options.per_thread, flag::PER_THREAD),
        (options.repeat, flag::LOOP),
        (options.polled, flag::POLLED),
        (options.no_forks, flag::NO_FORK),
        (options.begin == PlanStart::EachStart, flag::FROM_START),
        (options.only.any_rank, flag::ONLY_RANKS),
    ];
    let slots = options.slots.unwrap_or(SLOTS);
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut pid_namespace = [0; 32];
    let known = namespace.as_os_str().as_encoded_bytes().iter().take(31);
    let places = pid_namespace.iter_mut().zip(known);
    places.for_each(|(place, byte)| *place = *byte);
    PlanHeader {
        magic: MAGIC,
        version: VERSION,
        header_size: HEADER as u32,
        size: shared_at + shared_bytes(slots) as u64,
        seed: options.seed,
        overhead_ns: options.overhead_ns.min(SECOND_NS),
        exit_ns: options.exit_ns.min(options.overhead_ns).min(SECOND_NS),
        lead_ns: options.lead_ns.min(1_000_000),
        on_time_ns: options.on_time_ns.min(SECOND_NS),
        away_ns: options.away_ns,
        columns: options.columns,
        group: options.group,
        cpus: online_cpus(),
        least_gap_ns: options.least_gap_ns.min(SECOND_NS),
        late_ns: LATE_NS,
        longest_ns: longest_ns.unwrap_or(0),
        flags: flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, bit)| bit)
            .sum(),
        supervisor: options.supervisor.unwrap_or(0),
        portions: portions.len() as u32,
        ranked: options.ranked,
        slots,
        phase_every: options.phase_every.unwrap_or(0),
        portions_at,
        events_at,
        events: count,
        shared_at,
        filters: seccomp_filters(),
        pid_namespace,
        only_names: options.only.names_field(),
        only_ranks: options.only.ranks_field(),
        ..PlanHeader::of_bytes(&[])
    }
}

/// Whatever sandbag itself may use.
fn online_cpus() -> u64 {
    let online = Root::default().read("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|list| list.trim().parse::<CpuList>().ok());
    online.map_or(u64::MAX, |cpus| cpus.len() as u64)
}

/// Number of seccomp filters on sandbag, which all programs inherit.
fn seccomp_filters() -> u64 {
    let count = Process::current(&Root::default()).status("Seccomp_filters", "a number");
    count.ok().flatten().unwrap_or(0)
}

fn write(
    file: &File,
    at: u64,
    columns: &[PlanColumn],
    portions: &[Portion],
) -> std::io::Result<()> {
    let mut events = 0u64;
    let first: Vec<u64> = columns
        .iter()
        .map(|column| {
            let first = events;
            events += column.events.len() as u64;
            first
        })
        .collect();
    let mut out = BufWriter::new(file);
    out.seek(SeekFrom::Start(at))?;
    for portion in portions {
        let column = &columns[portion.column];
        let portion = PlanPortion {
            first: first[portion.column],
            count: column.events.len() as u64,
            axis_ns: column.known_ns,
            offset_ns: portion.offset_ns,
            length_ns: portion.length_ns,
        };
        out.write_all(portion.bytes())?;
    }
    for event in columns.iter().flat_map(|column| &column.events) {
        out.write_all(event.bytes())?;
    }
    out.flush()
}
