// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that an injector shares with the process that started it: orders, and
//! their outcome. Neither side waits on it.
//!
//! The events of the first repetition of the portion are kept one by one; all are
//! counted, by the size of their errors.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use sandbag_linux::shared::{SharedMemory, memory_file};

use super::InjectorNoise;
use crate::replay::column::PlannedEvent;
use crate::replay::histogram::{BUCKETS, Histogram, bucket};
use crate::replay::outcome::{Cause, EventCounts, Injection, RankOutcome};

const MAGIC: u64 = u64::from_le_bytes(*b"sandbagi");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectorState {
    Starting,
    /// It measured its overhead and waits.
    Ready,
    Running,
    /// Its portion is used up.
    Ended,
    /// Its CPU went offline.
    Displaced,
    /// With an errno.
    Failed(i32),
}

impl InjectorState {
    /// By their numbers; from there on an errno.
    const ALL: [Self; 5] = [
        Self::Starting,
        Self::Ready,
        Self::Running,
        Self::Ended,
        Self::Displaced,
    ];
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFate {
    Injected,
    /// Injected late: the one before was still being injected.
    Behind,
    /// Injected far later than the wake-ups that were measured, or due while the
    /// injector did not run.
    Away,
    OverLimit,
    Missed,
    /// Injected for a part of its length.
    Shortened,
}

impl EventFate {
    const COUNT: usize = Self::Shortened as usize + 1;

    fn cause(self) -> Option<Cause> {
        match self {
            Self::Injected => Some(Cause::Nothing),
            Self::Behind => Some(Cause::Behind),
            Self::Away => Some(Cause::Away),
            Self::OverLimit | Self::Missed | Self::Shortened => None,
        }
    }
}

/// Sizes of errors.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    Start,
    /// Start errors with a cause.
    Late,
    Length,
}

/// Plain data that one process writes before it says so (a state, the gate) and the
/// other reads afterwards. Any bytes are a value of `T`.
#[derive(Debug)]
#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: written and read in that order, and by volatile accesses.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    fn get(&self) -> T {
        // SAFETY: valid and aligned, as a reference is.
        unsafe { self.0.get().read_volatile() }
    }

    fn set(&self, value: T) {
        // SAFETY: as above; the memory is mapped for writing.
        unsafe { self.0.get().write_volatile(value) };
    }
}

#[repr(C)]
struct BoardHead {
    magic: AtomicU64,
    capacity: AtomicU64,
    state: AtomicU32,
    measured: Shared<InjectorNoise>,
    orders: Shared<Orders>,
    /// Due times are put off by this, ns.
    put_off_ns: AtomicU64,
    /// The injector did not run for this long while an event was due, ns.
    stood_ns: AtomicU64,
    /// Events by [`EventFate`].
    counts: [AtomicU64; EventFate::COUNT],
    sizes: [[AtomicU64; BUCKETS]; 3],
    /// Requested and measured length of the injected events, ns.
    taken_ns: [AtomicU64; 2],
    /// Number of events that are kept.
    kept: AtomicU64,
}

/// Bytes of an event and its outcome.
pub const EVENT_BYTES: u64 = (size_of::<PlannedEvent>() + size_of::<Injection>()) as u64;

/// What an injector is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Orders {
    /// When due times begin, CLOCK_MONOTONIC ns.
    pub begin_ns: u64,
    /// Length of the portion, ns.
    pub length_ns: u64,
    /// Overhead of an injection, subtracted from the length, ns. 0: none is.
    pub overhead_ns: u64,
    /// Part of the overhead before the injector reads its clock, ns.
    pub lead_ns: u64,
    /// Deadlines are this long before due times, ns; below 0: after.
    pub early_ns: i64,
    /// Events of the portion.
    pub events: usize,
}

/// The mapped memory.
#[derive(Debug)]
pub struct Board {
    memory: SharedMemory,
    capacity: usize,
    file: OwnedFd,
}

impl Board {
    /// With room for `capacity` events, in anonymous shared memory.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn create(capacity: usize) -> io::Result<Self> {
        let events = usize::try_from(EVENT_BYTES).unwrap_or(usize::MAX);
        let bytes = events.checked_mul(capacity);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(size_of::<BoardHead>()));
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let board = Self::map(memory_file(c"sandbag-inject", bytes)?, bytes, capacity)?;
        board.head().capacity.store(capacity as u64, Relaxed);
        board.head().magic.store(MAGIC, Release);
        Ok(board)
    }

    /// Maps one that another process made.
    ///
    /// # Errors
    /// `InvalidData` if it is none.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let room = bytes.checked_sub(size_of::<BoardHead>());
        let room = room.ok_or(io::ErrorKind::InvalidData)?;
        let board = Self::map(file.into(), bytes, room / EVENT_BYTES as usize)?;
        let head = board.head();
        let fits = head.capacity.load(Relaxed) == board.capacity as u64;
        if head.magic.load(Acquire) == MAGIC && fits {
            Ok(board)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn map(file: OwnedFd, bytes: usize, capacity: usize) -> io::Result<Self> {
        // Its pages are present before the first event is due.
        Ok(Self {
            memory: SharedMemory::of_file(&file, bytes, true, true)?,
            capacity,
            file,
        })
    }

    /// Descriptor for an injector.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn head(&self) -> &BoardHead {
        // SAFETY: the mapping begins with a head and is page-aligned; any bytes are
        // a head.
        unsafe { self.memory.start().cast::<BoardHead>().as_ref() }
    }

    /// An array of `capacity` elements behind the head and `before` bytes.
    fn array<T>(&self, before: usize) -> &[T] {
        // SAFETY: only for the events (`before` is 0) and the kept ones behind them,
        // which the mapping holds; all sizes are multiples of 8. Any bytes are a
        // planned event; kept ones are read after they were written.
        unsafe {
            let at = self.memory.start().add(size_of::<BoardHead>() + before);
            std::slice::from_raw_parts(at.cast::<T>().as_ptr(), self.capacity)
        }
    }

    fn events(&self) -> &[Shared<PlannedEvent>] {
        self.array(0)
    }

    fn kept(&self) -> &[Shared<Injection>] {
        self.array(self.capacity * size_of::<PlannedEvent>())
    }

    /// Injector: it did not run for this long while an event was due.
    pub fn add_stood(&self, ns: u64) {
        self.head().stood_ns.fetch_add(ns, Relaxed);
    }

    /// How long the injector did not run while an event was due, ns.
    pub fn stood_ns(&self) -> u64 {
        self.head().stood_ns.load(Relaxed)
    }

    pub fn state(&self) -> InjectorState {
        let number = self.head().state.load(Acquire);
        let known = InjectorState::ALL.get(number as usize).copied();
        known.unwrap_or(InjectorState::Failed(
            number.cast_signed() - InjectorState::ALL.len() as i32,
        ))
    }

    /// Injector: its state.
    pub fn set_state(&self, state: InjectorState) {
        let number = match state {
            InjectorState::Failed(errno) => errno as usize + InjectorState::ALL.len(),
            state => InjectorState::ALL
                .iter()
                .position(|one| *one == state)
                .unwrap_or(0),
        };
        self.head().state.store(number as u32, Release);
    }

    /// Injector: what it measured; before it is [`InjectorState::Ready`].
    pub fn set_measured(&self, measured: InjectorNoise) {
        self.head().measured.set(measured);
    }

    /// What the injector measured.
    pub fn measured(&self) -> InjectorNoise {
        self.head().measured.get()
    }

    /// Sets orders and events, no more than there is room for; before the gate is
    /// opened.
    pub fn order(&self, orders: Orders, events: &[PlannedEvent]) {
        for (place, event) in self.events().iter().zip(events) {
            place.set(*event);
        }
        self.head().orders.set(Orders {
            events: events.len().min(self.capacity),
            ..orders
        });
    }

    pub fn orders(&self) -> Orders {
        let orders = self.head().orders.get();
        Orders {
            events: orders.events.min(self.capacity),
            ..orders
        }
    }

    /// Puts off all events to come: the run was paused for this long.
    pub fn put_off(&self, ns: u64) {
        self.head().put_off_ns.fetch_add(ns, Release);
    }

    /// By how much all was put off so far, ns.
    pub fn put_off_ns(&self) -> u64 {
        self.head().put_off_ns.load(Acquire)
    }

    /// An event.
    pub fn event(&self, place: usize) -> PlannedEvent {
        self.events()[place].get()
    }

    /// Injector: what became of an event, with its errors in ns; `keep` in the first
    /// repetition. Only the injector writes, so that plain additions do.
    pub fn note(
        &self,
        what: EventFate,
        event: PlannedEvent,
        [start_error_ns, length_error_ns]: [i64; 2],
        keep: bool,
    ) {
        let head = self.head();
        let add = |place: &AtomicU64, more: u64| place.store(place.load(Relaxed) + more, Relaxed);
        add(&head.counts[what as usize], 1);
        let Some(cause) = what.cause() else {
            return;
        };
        let PlannedEvent { due_ns, length_ns } = event;
        let start = match cause {
            Cause::Nothing => Sizes::Start,
            Cause::Behind | Cause::Away => Sizes::Late,
        };
        for (which, error_ns) in [(start, start_error_ns), (Sizes::Length, length_error_ns)] {
            let size = bucket(error_ns.unsigned_abs());
            add(&head.sizes[which as usize][size], 1);
        }
        let [asked, suffered] = &head.taken_ns;
        add(asked, length_ns);
        add(suffered, length_ns.saturating_add_signed(length_error_ns));
        let kept = head.kept.load(Relaxed);
        if let Some(place) = self.kept().get(kept as usize).filter(|_| keep) {
            place.set(Injection {
                due_ns,
                length_ns,
                start_error_ns,
                length_error_ns,
                cause,
            });
            head.kept.store(kept + 1, Release);
        }
    }

    /// The outcome so far, without the events that were not tried.
    pub fn outcome(&self) -> RankOutcome {
        let head = self.head();
        let load = |count: &AtomicU64| count.load(Relaxed);
        let sizes = |which: Sizes| {
            let counts = head.sizes[which as usize].iter();
            Histogram::of_counts(counts.map(load).collect())
        };
        let count = |what: EventFate| load(&head.counts[what as usize]);
        let (behind, away) = (count(EventFate::Behind), count(EventFate::Away));
        let kept = self.kept().iter().take(head.kept.load(Acquire) as usize);
        RankOutcome {
            counts: EventCounts {
                injected: count(EventFate::Injected) + behind + away,
                behind,
                away,
                over_limit: count(EventFate::OverLimit),
                shortened: count(EventFate::Shortened),
                missed: count(EventFate::Missed),
                ..EventCounts::default()
            },
            kept: kept.map(Shared::get).collect(),
            room: 0,
            start: sizes(Sizes::Start),
            start_late: sizes(Sizes::Late),
            length: sizes(Sizes::Length),
            asked_ns: load(&head.taken_ns[0]),
            suffered_ns: load(&head.taken_ns[1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same() {
        let ours = Board::create(3).unwrap();
        let theirs = Board::open(ours.file.try_clone().unwrap()).unwrap();
        let events = [7, 9].map(|due_ns| PlannedEvent::new(due_ns, due_ns * 2));
        let orders = Orders {
            begin_ns: 5,
            early_ns: -4,
            events: 2,
            ..Orders::default()
        };
        ours.order(orders, &events);
        assert_eq!((theirs.orders(), theirs.event(1)), (orders, events[1]));
        theirs.note(EventFate::Behind, events[1], [3, 4], true);
        theirs.note(EventFate::Injected, events[0], [-1, 0], false);
        theirs.note(EventFate::Missed, events[0], [0, 0], true);
        let outcome = ours.outcome();
        let counts = outcome.counts;
        assert_eq!((counts.injected, counts.behind, counts.missed), (2, 1, 1));
        assert_eq!((outcome.asked_ns, outcome.suffered_ns), (32, 36));
        assert_eq!(
            (
                outcome.length.quantile(100.0).unwrap(),
                outcome.length.count()
            ),
            (4, 2)
        );
        let kept = Injection {
            due_ns: 9,
            length_ns: 18,
            start_error_ns: 3,
            length_error_ns: 4,
            cause: Cause::Behind,
        };
        assert_eq!(outcome.kept, [kept]);
        let measured = InjectorNoise {
            began_late_ns: -7,
            seen: 9,
            ..InjectorNoise::default()
        };
        theirs.set_measured(measured);
        assert_eq!(ours.measured(), measured);
        let failed = [0, 13].map(InjectorState::Failed);
        for state in InjectorState::ALL.into_iter().chain(failed) {
            theirs.set_state(state);
            assert_eq!(ours.state(), state);
        }
    }

    #[test]
    fn a_file_that_is_no_board_is_refused() {
        assert!(Board::open(memory_file(c"x", 1 << 20).unwrap()).is_err());
        assert!(Board::create(usize::MAX).is_err());
    }
}
