// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan file: written once before the program starts, mapped by each of
//! its processes, and written to by them only where they book.
//!
//! # Problem
//! A process that has just been started must know within microseconds what it
//! is to suffer, without a library to parse anything; a program may start
//! thousands of them, and none may be harmed by what the file holds.
//!
//! # Approach
//! Flat arrays at offsets that a checksummed header names. What was recorded of
//! a CPU is there once, however many processes replay stretches of it. Each
//! process claims a slot of its own by one atomic exchange and is the only one
//! to write to it. The space is allocated beforehand: a disk that is full must
//! not become a SIGBUS in somebody else's program.

mod filter;
pub mod layout;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sandbag_linux::Root;
use sandbag_linux::process::Process;

use crate::inside::error::{Error, Result};
use crate::inside::outcome::{self, InsideOutcome};
use crate::replay::PlanColumn;
pub use filter::{ParseOnlyError, ProgramFilter};
use layout::{ALIGN, HEADER, PlanHeader, SHARED, SLOT, SLOTS, flag};

/// A stretch of a column, around its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// Which column.
    pub column: usize,
    /// Where on its axis the stretch begins, ns.
    pub offset_ns: u64,
    /// How long it is, ns; at most the axis.
    pub length_ns: u64,
}

/// When due times count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanStart {
    /// One moment for all: that of [`PlanFile::begin`].
    #[default]
    Together,
    /// Each process, or thread, from its own start.
    EachStart,
}

/// Who suffers, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct InsideOptions {
    /// Of the common positions of phases.
    pub seed: u64,
    pub begin: PlanStart,
    /// Each thread, not only the initial one of each process.
    pub per_thread: bool,
    /// A portion begins again when it is used up.
    pub repeat: bool,
    /// No timers: only programs that call `sandbag_jitter_poll` suffer.
    pub polled: bool,
    /// A forked child suffers a portion of its own.
    pub forks: bool,
    /// Who is meant.
    pub only: ProgramFilter,
    /// Common random position at every so many phases.
    pub phase_every: Option<u64>,
    /// The first so many portions are for ranks, the others for everybody else.
    pub ranked: u32,
    /// What an injection costs beside what it spins, ns.
    pub overhead_ns: u64,
    /// Of that, from the end of the spinning back into the program, ns.
    pub exit_ns: u64,
    /// A program is interrupted so much before a timer is due (a hypervisor's
    /// doing): timers are set later by that, ns.
    pub lead_ns: u64,
    /// A start that is not later than this is the timer's doing, which had
    /// interrupted the program before: its event ends when its length has passed
    /// since it was due. 0: each lasts from when it began, ns.
    pub on_time_ns: u64,
    /// What follows closer is suffered together with the event before it, ns.
    pub least_gap_ns: u64,
    /// An event that is served later is passed over, or cut to what is left of
    /// it: the program was stopped, or without a CPU, ns.
    pub late_ns: u64,
    /// Processes, with `per_thread` threads, that book at the same time.
    pub slots: u32,
    /// Nothing more is injected when this process is gone.
    pub supervisor: Option<u32>,
}

/// Longer than a time slice of the fair scheduler, shorter than being stopped.
const LATE_NS: u64 = 10_000_000;

impl Default for InsideOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            begin: PlanStart::Together,
            per_thread: false,
            repeat: false,
            polled: false,
            forks: true,
            only: ProgramFilter::default(),
            phase_every: None,
            ranked: 0,
            overhead_ns: 0,
            exit_ns: 0,
            lead_ns: 0,
            on_time_ns: 0,
            least_gap_ns: 0,
            late_ns: LATE_NS,
            slots: SLOTS,
            supervisor: None,
        }
    }
}

/// The longest event that the library takes, ns.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The longest axis, ns: sums of it stay in range.
const AXIS_NS: u64 = 1 << 60;

/// A plan that is on disk.
#[derive(Debug)]
pub struct PlanFile {
    path: PathBuf,
    file: File,
    header: Box<PlanHeader>,
}

impl PlanFile {
    /// Writes it to a new file that only we, or the user that we give it to,
    /// can open. Nobody takes it for a plan before [`begin`](Self::begin).
    ///
    /// # Errors
    /// A portion or event out of range; the file is there, or no room for it.
    pub fn create(
        path: &Path,
        columns: &[PlanColumn],
        portions: &[Portion],
        options: &InsideOptions,
    ) -> Result<Self> {
        check(columns, portions, options)?;
        let header = Box::new(header(columns, portions, options));
        let failed = Error::file(path);
        let written = || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            let length = i64::try_from(header.size).map_err(|_| nix::errno::Errno::EFBIG)?;
            nix::fcntl::posix_fallocate(&file, 0, length)?;
            write(&file, &header, columns, portions)?;
            Ok(file)
        };
        match written() {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                file,
                header,
            }),
            Err(cause) => Err(failed(cause)),
        }
    }

    /// From now on it is a plan; due times count from `begin_ns` of
    /// `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, begin_ns: u64) -> Result<()> {
        self.header.begin_ns = begin_ns;
        self.header.seal();
        self.file
            .write_all_at(self.header.bytes(), 0)
            .map_err(Error::file(&self.path))
    }

    /// Nothing more is injected.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(&self) -> Result<()> {
        self.file
            .write_all_at(&1u32.to_ne_bytes(), self.header.shared_at)
            .map_err(Error::file(&self.path))
    }

    /// What came of it so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn outcome(&self) -> Result<InsideOutcome> {
        let length = SHARED + self.header.slots as usize * SLOT;
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, self.header.shared_at)
            .map_err(Error::file(&self.path))?;
        Ok(outcome::read(&bytes))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Bytes of the file of such a plan.
#[must_use]
pub fn size(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> u64 {
    header(columns, portions, options).size
}

/// What came of a plan that somebody left; `None` if it is none.
pub(crate) fn read_outcome(path: &Path) -> Option<InsideOutcome> {
    // Whoever may write to the directory may have put anything there.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok()?;
    let length = meta.is_file().then_some(meta.len())?;
    let most = (SHARED + SLOTS as usize * SLOT) as u64;
    let mut field = [0; 8];
    file.read_exact_at(
        &mut field,
        std::mem::offset_of!(PlanHeader, shared_at) as u64,
    )
    .ok()?;
    let shared_at = u64::from_ne_bytes(field);
    let mut bytes = vec![0; length.checked_sub(shared_at)?.min(most) as usize];
    file.read_exact_at(&mut bytes, shared_at).ok()?;
    Some(outcome::read(&bytes))
}

fn check(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> Result<()> {
    let wrong = |what: String| Err(Error::Plan(what));
    if portions.is_empty() || u32::try_from(portions.len()).is_err() {
        return wrong(format!("{} portions", portions.len()));
    }
    if options.ranked as usize > portions.len() {
        return wrong(format!(
            "{} portions for ranks, and {} in all",
            options.ranked,
            portions.len()
        ));
    }
    if options.slots == 0 || options.slots > SLOTS {
        return wrong(format!("{} slots, expected 1 to {SLOTS}", options.slots));
    }
    for (number, column) in columns.iter().enumerate() {
        let last = column.events.iter().map(|e| e.due_ns).max().unwrap_or(0);
        if column.known_ns == 0 || column.known_ns >= AXIS_NS || last >= column.known_ns {
            return wrong(format!(
                "column {number} is {} ns long, with an event at {last} ns",
                column.known_ns
            ));
        }
        if !column.events.is_sorted_by_key(|event| event.due_ns) {
            return wrong(format!("the events of column {number} are not in order"));
        }
        if let Some(event) = column.events.iter().find(|e| e.length_ns > LONGEST_NS) {
            return wrong(format!("an event of {} ns", event.length_ns));
        }
    }
    for portion in portions {
        let fits = columns.get(portion.column).is_some_and(|column| {
            portion.offset_ns < column.known_ns
                && (1..=column.known_ns).contains(&portion.length_ns)
        });
        if !fits {
            return wrong(format!("{portion:?} is not within its column"));
        }
    }
    Ok(())
}

fn header(columns: &[PlanColumn], portions: &[Portion], options: &InsideOptions) -> PlanHeader {
    let events: u64 = columns.iter().map(|c| c.events.len() as u64).sum();
    let lengths = columns.iter().flat_map(|c| &c.events);
    let longest_ns = lengths.map(|event| event.length_ns).max().unwrap_or(0);
    let portions_at = HEADER as u64;
    let events_at = portions_at + (layout::PORTION * portions.len()) as u64;
    let shared_at = (events_at + layout::EVENT as u64 * events).next_multiple_of(ALIGN);
    let mut flags = 0;
    for (set, bit) in [
        (options.per_thread, flag::PER_THREAD),
        (options.repeat, flag::LOOP),
        (options.polled, flag::POLLED),
        (!options.forks, flag::NO_FORK),
        (options.begin == PlanStart::EachStart, flag::FROM_START),
        (options.only.any_rank, flag::ONLY_RANKS),
    ] {
        flags |= if set { bit } else { 0 };
    }
    let mut header = PlanHeader::zero();
    header.magic = layout::MAGIC;
    header.version = layout::VERSION;
    header.header_size = HEADER as u32;
    header.size = shared_at + (SHARED + options.slots as usize * SLOT) as u64;
    header.seed = options.seed;
    header.overhead_ns = options.overhead_ns.min(1_000_000_000);
    header.exit_ns = options.exit_ns.min(header.overhead_ns);
    header.lead_ns = options.lead_ns.min(1_000_000);
    header.on_time_ns = options.on_time_ns.min(1_000_000_000);
    header.least_gap_ns = options.least_gap_ns.min(1_000_000_000);
    header.late_ns = options.late_ns.min(LONGEST_NS);
    header.longest_ns = longest_ns;
    header.flags = flags;
    header.supervisor = options.supervisor.unwrap_or(0);
    header.portions = portions.len() as u32;
    header.ranked = options.ranked;
    header.slots = options.slots;
    header.phase_every = options.phase_every.unwrap_or(0);
    header.portions_at = portions_at;
    header.events_at = events_at;
    header.events = events;
    header.shared_at = shared_at;
    header.filters = filters();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.as_os_str().as_encoded_bytes();
    let length = namespace.len().min(header.pid_namespace.len() - 1);
    header.pid_namespace[..length].copy_from_slice(&namespace[..length]);
    header.only_names = options.only.names_field();
    header.only_ranks = options.only.ranks_field();
    header
}

/// seccomp filters on ourselves, which all programs inherit.
fn filters() -> u64 {
    let count = Process::current(&Root::default()).status("Seccomp_filters", "a number");
    count.ok().flatten().unwrap_or(0)
}

fn write(
    file: &File,
    header: &PlanHeader,
    columns: &[PlanColumn],
    portions: &[Portion],
) -> std::io::Result<()> {
    let mut first = Vec::with_capacity(columns.len());
    let mut events = 0u64;
    for column in columns {
        first.push(events);
        events += column.events.len() as u64;
    }
    let mut out = BufWriter::new(file);
    out.seek(SeekFrom::Start(header.portions_at))?;
    for portion in portions {
        let column = &columns[portion.column];
        for value in [
            first[portion.column],
            column.events.len() as u64,
            column.known_ns,
            portion.offset_ns,
            portion.length_ns,
        ] {
            out.write_all(&value.to_ne_bytes())?;
        }
    }
    for event in columns.iter().flat_map(|column| &column.events) {
        out.write_all(&event.due_ns.to_ne_bytes())?;
        out.write_all(&event.length_ns.to_ne_bytes())?;
    }
    out.flush()
}
