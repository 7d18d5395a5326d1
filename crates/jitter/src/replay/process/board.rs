// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that an injector shares with whoever started it: what it is to
//! do, and what became of it. All of it is atomic, and none of it is waited
//! on.
//!
//! The first time through its events each has a record; of later times (a
//! portion that repeats) they are counted by the size of their errors.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use sandbag_linux::shared::{SharedMemory, memory_file};

use super::InjectorNoise;
use crate::replay::column::PlannedEvent;
use crate::replay::histogram::{BUCKETS, bucket};

const MAGIC: u64 = u64::from_le_bytes(*b"sandbagi");
/// Fields of [`InjectorNoise`].
const FIGURES: usize = 10;

/// How far an injector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectorState {
    /// It has not said anything.
    Starting,
    /// It measured itself and waits.
    Ready,
    /// It suffers its events.
    Running,
    /// Its portion is used up.
    Ended,
    /// Its CPU was taken from it (hot-unplug).
    Displaced,
    /// It could not: an errno.
    Failed(i32),
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum EventFate {
    /// Its time has not come.
    NotReached = 0,
    /// Suffered, with nothing in its way.
    Injected = 1,
    /// Suffered, late: the one before was still being suffered.
    Behind = 2,
    /// Suffered, far later than the wake-ups that were measured, or due while
    /// the injector did not run.
    Away = 3,
    /// Left out.
    OverLimit = 4,
    /// Far too late.
    Missed = 5,
    /// Suffered for a part of its length.
    Shortened = 6,
}

impl EventFate {
    const ALL: [Self; 7] = [
        Self::NotReached,
        Self::Injected,
        Self::Behind,
        Self::Away,
        Self::OverLimit,
        Self::Missed,
        Self::Shortened,
    ];

    fn of(value: u64) -> Self {
        let place = usize::try_from(value).unwrap_or(0);
        Self::ALL.get(place).copied().unwrap_or(Self::NotReached)
    }
}

/// What became of one event.
#[derive(Debug, Clone, Copy)]
pub struct EventRecord {
    /// When it began, ns since the beginning.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// From when on the CPU was taken, as far as the injector knows.
    pub from_ns: u64,
    pub what: EventFate,
}

/// Errors of later times through, by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Sizes {
    /// Start errors of those with nothing in their way.
    Start = 0,
    /// Start errors of the late ones.
    Late = 1,
    /// Length errors.
    Length = 2,
}

#[repr(C)]
struct BoardHead {
    magic: AtomicU64,
    capacity: AtomicU64,
    state: AtomicU32,
    errno: AtomicU32,
    measured: [AtomicU64; FIGURES],
    /// When due times begin, CLOCK_MONOTONIC ns.
    begin_ns: AtomicU64,
    /// Length of the portion, ns.
    length_ns: AtomicU64,
    /// All of it was put off by this meanwhile, ns.
    put_off_ns: AtomicU64,
    /// The injector did not run for this long while an event was due, ns.
    stood_ns: AtomicU64,
    repeat: AtomicU64,
    overhead_ns: AtomicU64,
    lead_ns: AtomicU64,
    early_ns: AtomicU64,
    /// Events of a time through.
    events: AtomicU64,
    /// Of all later times, by [`EventFate`].
    later: [AtomicU64; EventFate::ALL.len()],
    sizes: [[AtomicU64; BUCKETS]; 3],
    /// How long those that were suffered then were to be, and were, ns.
    taken_ns: [AtomicU64; 2],
}

#[repr(C)]
struct RawEvent {
    due_ns: AtomicU64,
    length_ns: AtomicU64,
}

#[repr(C)]
struct RawRecord {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    from_ns: AtomicU64,
    what: AtomicU64,
}

/// Bytes of an event and its record.
pub const EVENT_BYTES: u64 = (size_of::<RawEvent>() + size_of::<RawRecord>()) as u64;

/// What an injector is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orders {
    /// When due times begin, CLOCK_MONOTONIC ns.
    pub begin_ns: u64,
    /// Length of the portion, ns.
    pub length_ns: u64,
    /// Again and again.
    pub repeat: bool,
    /// What is lost beyond an event's length, ns; taken off it. 0: nothing is.
    pub overhead_ns: u64,
    /// The part of it that lies before the injector reads its clock, ns.
    pub lead_ns: u64,
    /// Deadlines are set so much before events are due, ns; below 0: after.
    pub early_ns: i64,
    /// Events of a time through.
    pub events: usize,
}

/// The mapped memory.
#[derive(Debug)]
pub struct Board {
    memory: SharedMemory,
    capacity: usize,
    file: OwnedFd,
}

fn bytes_for(capacity: usize) -> Option<usize> {
    let event = usize::try_from(EVENT_BYTES).ok()?;
    capacity
        .checked_mul(event)?
        .checked_add(size_of::<BoardHead>())
}

impl Board {
    /// For at most so many events, in anonymous shared memory.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn create(capacity: usize) -> io::Result<Self> {
        let bytes = bytes_for(capacity).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = memory_file(c"sandbag-inject", bytes)?;
        let board = Self::map(file, capacity)?;
        board.head().capacity.store(capacity as u64, Relaxed);
        board.head().magic.store(MAGIC, Release);
        Ok(board)
    }

    /// That another process made.
    ///
    /// # Errors
    /// `InvalidData` if it is none.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let room = length.checked_sub(size_of::<BoardHead>());
        let room = room.ok_or(io::ErrorKind::InvalidData)?;
        let board = Self::map(file.into(), room / EVENT_BYTES as usize)?;
        let head = board.head();
        let fits = head.capacity.load(Relaxed) == board.capacity as u64;
        if head.magic.load(Acquire) == MAGIC && fits {
            Ok(board)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn map(file: OwnedFd, capacity: usize) -> io::Result<Self> {
        let bytes = bytes_for(capacity).ok_or(io::ErrorKind::OutOfMemory)?;
        // Its pages are there before the first event is due.
        Ok(Self {
            memory: SharedMemory::of_file(&file, bytes, true, true)?,
            capacity,
            file,
        })
    }

    /// To hand to an injector.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn head(&self) -> &BoardHead {
        // SAFETY: the mapping begins with a Head and is page-aligned; any
        // bytes are a valid Head.
        unsafe { self.memory.start().cast::<BoardHead>().as_ref() }
    }

    fn raw_events(&self) -> &[RawEvent] {
        // SAFETY: behind the head, whose size is a multiple of 8, the mapping
        // holds so many; any bytes are valid.
        unsafe {
            let at = self
                .memory
                .start()
                .add(size_of::<BoardHead>())
                .cast::<RawEvent>();
            std::slice::from_raw_parts(at.as_ptr(), self.capacity)
        }
    }

    fn raw_records(&self) -> &[RawRecord] {
        let before = size_of::<BoardHead>() + self.capacity * size_of::<RawEvent>();
        // SAFETY: behind the events, whose size is a multiple of 8, the
        // mapping holds so many; any bytes are valid.
        unsafe {
            let at = self.memory.start().add(before).cast::<RawRecord>();
            std::slice::from_raw_parts(at.as_ptr(), self.capacity)
        }
    }

    /// Injector: it did not run for this long while an event was due.
    pub fn add_stood(&self, ns: u64) {
        self.head().stood_ns.fetch_add(ns, Relaxed);
    }

    /// How long the injector did not run while an event was due, ns.
    pub fn stood_ns(&self) -> u64 {
        self.head().stood_ns.load(Relaxed)
    }

    /// How far the injector is.
    pub fn state(&self) -> InjectorState {
        let head = self.head();
        match head.state.load(Acquire) {
            1 => InjectorState::Ready,
            2 => InjectorState::Running,
            3 => InjectorState::Ended,
            4 => InjectorState::Displaced,
            5 => InjectorState::Failed(head.errno.load(Relaxed).cast_signed()),
            _ => InjectorState::Starting,
        }
    }

    /// Injector: says how far it is.
    pub fn set_state(&self, state: InjectorState) {
        let number = match state {
            InjectorState::Starting => 0,
            InjectorState::Ready => 1,
            InjectorState::Running => 2,
            InjectorState::Ended => 3,
            InjectorState::Displaced => 4,
            InjectorState::Failed(errno) => {
                self.head().errno.store(errno.cast_unsigned(), Relaxed);
                5
            }
        };
        self.head().state.store(number, Release);
    }

    /// Injector: what it measured.
    pub fn set_measured(&self, measured: InjectorNoise) {
        let InjectorNoise {
            overhead_ns,
            lead_ns,
            began_late_ns,
            least_interval_ns,
            wake_p50_ns,
            wake_p90_ns,
            wake_p99_ns,
            wake_most_ns,
            wakes,
            seen,
        } = measured;
        let all: [u64; FIGURES] = [
            overhead_ns,
            lead_ns,
            began_late_ns.cast_unsigned(),
            least_interval_ns,
            wake_p50_ns,
            wake_p90_ns,
            wake_p99_ns,
            wake_most_ns,
            wakes,
            seen,
        ];
        for (place, value) in self.head().measured.iter().zip(all) {
            place.store(value, Relaxed);
        }
    }

    /// What it measured.
    pub fn measured(&self) -> InjectorNoise {
        let [a, b, late, c, d, e, f, g, h, i] = &self.head().measured;
        let value = |place: &AtomicU64| place.load(Relaxed);
        InjectorNoise {
            overhead_ns: value(a),
            lead_ns: value(b),
            began_late_ns: value(late).cast_signed(),
            least_interval_ns: value(c),
            wake_p50_ns: value(d),
            wake_p90_ns: value(e),
            wake_p99_ns: value(f),
            wake_most_ns: value(g),
            wakes: value(h),
            seen: value(i),
        }
    }

    /// Writes down what is to be done; no more events than there is room for.
    pub fn order(&self, orders: Orders, events: &[PlannedEvent]) {
        for (place, event) in self.raw_events().iter().zip(events) {
            place.due_ns.store(event.due_ns, Relaxed);
            place.length_ns.store(event.length_ns, Relaxed);
        }
        let head = self.head();
        head.length_ns.store(orders.length_ns, Relaxed);
        head.repeat.store(u64::from(orders.repeat), Relaxed);
        head.overhead_ns.store(orders.overhead_ns, Relaxed);
        head.lead_ns.store(orders.lead_ns, Relaxed);
        let early = orders.early_ns.cast_unsigned();
        head.early_ns.store(early, Relaxed);
        let events = events.len().min(self.capacity);
        head.events.store(events as u64, Relaxed);
        head.begin_ns.store(orders.begin_ns, Release);
    }

    /// What is to be done.
    pub fn orders(&self) -> Orders {
        let head = self.head();
        let begin_ns = head.begin_ns.load(Acquire);
        let events = usize::try_from(head.events.load(Relaxed)).unwrap_or(0);
        Orders {
            begin_ns,
            length_ns: head.length_ns.load(Relaxed),
            repeat: head.repeat.load(Relaxed) != 0,
            overhead_ns: head.overhead_ns.load(Relaxed),
            lead_ns: head.lead_ns.load(Relaxed),
            early_ns: head.early_ns.load(Relaxed).cast_signed(),
            events: events.min(self.capacity),
        }
    }

    /// Puts off all that is to come: the run stood still for so long.
    pub fn put_off(&self, ns: u64) {
        self.head().put_off_ns.fetch_add(ns, Release);
    }

    /// By how much all was put off so far, ns.
    pub fn put_off_ns(&self) -> u64 {
        self.head().put_off_ns.load(Acquire)
    }

    /// An event; there is one.
    pub fn event(&self, place: usize) -> PlannedEvent {
        let raw = &self.raw_events()[place];
        PlannedEvent::new(raw.due_ns.load(Relaxed), raw.length_ns.load(Relaxed))
    }

    /// Injector: what became of an event the first time.
    pub fn note(&self, place: usize, record: EventRecord) {
        let raw = &self.raw_records()[place];
        raw.start_ns.store(record.start_ns, Relaxed);
        raw.end_ns.store(record.end_ns, Relaxed);
        raw.from_ns.store(record.from_ns, Relaxed);
        raw.what.store(record.what as u64, Release);
    }

    /// What became of an event the first time.
    pub fn record(&self, place: usize) -> EventRecord {
        let raw = &self.raw_records()[place];
        let what = EventFate::of(raw.what.load(Acquire));
        EventRecord {
            start_ns: raw.start_ns.load(Relaxed),
            end_ns: raw.end_ns.load(Relaxed),
            from_ns: raw.from_ns.load(Relaxed),
            what,
        }
    }

    /// Injector: what became of an event a later time.
    pub fn count(&self, what: EventFate) {
        self.head().later[what as usize].fetch_add(1, Relaxed);
    }

    /// Injector: that it was suffered a later time; how long it was to be and
    /// was, ns.
    pub fn count_suffered(
        &self,
        what: EventFate,
        late: (Sizes, u64),
        length_ns: u64,
        suffered_ns: u64,
    ) {
        self.count(what);
        let error_ns = suffered_ns.abs_diff(length_ns);
        for (which, value) in [late, (Sizes::Length, error_ns)] {
            self.head().sizes[which as usize][bucket(value)].fetch_add(1, Relaxed);
        }
        let [asked, suffered] = &self.head().taken_ns;
        asked.fetch_add(length_ns, Relaxed);
        suffered.fetch_add(suffered_ns, Relaxed);
    }

    /// How long all that were suffered later times were to be, and were, ns.
    pub fn taken_later_ns(&self) -> (u64, u64) {
        let [asked, suffered] = &self.head().taken_ns;
        (asked.load(Relaxed), suffered.load(Relaxed))
    }

    /// How many of later times became that.
    pub fn later(&self, what: EventFate) -> u64 {
        self.head().later[what as usize].load(Relaxed)
    }

    /// Their errors, by size.
    pub fn sizes(&self, which: Sizes) -> Vec<u64> {
        let counts = &self.head().sizes[which as usize];
        counts.iter().map(|count| count.load(Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests;
