// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that supervisor and burners share.
//!
//! Orders go down (from when on which level), boundaries come up (the CPU
//! clock at every multiple of 100 ms). Both are rings, written by one side and
//! read by the other, so that neither waits for the other and the supervisor may
//! sleep for as long as the rings last. `sandbag status` and `top` map it read-only. All
//! times are nanoseconds of CLOCK_MONOTONIC.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sandbag_linux::shared::{self, SharedMemory};

use crate::barrier::StartBarrier;
use crate::pacing::Orders;

pub use crate::pacing::LoadOrder;

/// Distance of the boundaries at which burners note their CPU clock. Every
/// reporting window is a whole number of them.
pub const BOUNDARY_NS: u64 = 100_000_000;
/// Orders that are kept: those of more than a second, for who looks at the run.
pub const ORDERS: usize = 128;
/// Boundaries that fit into the ring: 25 s for the supervisor to read them.
pub const BOUNDARIES: usize = 256;

const MAGIC: u64 = u64::from_le_bytes(*b"sandbag4");

#[repr(C)]
struct BoardHead {
    magic: AtomicU64,
    slots: AtomicU64,
    paused: AtomicU32,
    /// When the run begins, 0 while that is not known.
    begins_ns: AtomicU64,
    barrier: StartBarrier,
}

#[repr(C)]
struct RawOrder {
    from_ns: AtomicU64,
    level_bits: AtomicU64,
}

#[repr(C)]
struct RawBoundary {
    /// Number of the boundary (its time / BOUNDARY_NS), 0 while being written.
    number: AtomicU64,
    cpu_ns: AtomicU64,
    stolen_ns: AtomicU64,
    away: AtomicU32,
}

/// One burner's part of the board.
#[repr(C, align(64))]
pub struct Slot {
    published: AtomicU64,
    restart: AtomicU64,
    orders: [RawOrder; ORDERS],
    /// CPU number, for readers from outside.
    pub cpu: AtomicU32,
    /// 1 while the burner sleeps with nothing to do: its CPU clock stands.
    pub idle: AtomicU32,
    /// 1 if the burner waits for orders without being idle: publishing wakes it.
    pub listens: AtomicU32,
    /// Times that the burner was found on another CPU and moved back.
    pub moves: AtomicU32,
    /// Time for which it could not run on its CPU (offline, a cpuset), ns.
    pub away_ns: AtomicU64,
    /// 1 from the moment the burner rings for headroom until it is answered.
    pub alarm: AtomicU32,
    /// 1 while the burner has little weight: it calls at a smaller debt.
    pub light: AtomicU32,
    /// 1 once the burner has ended, for readers from outside: its orders are void.
    pub ended: AtomicU32,
    /// Wall time from each grid point until the period's load was reached.
    pub active_ns: AtomicU64,
    pub taken_ns: AtomicU64,
    /// Load that was given up because the debt grew past its bound.
    pub lost_ns: AtomicU64,
    /// Latest CPU clock, for readers from outside.
    pub cpu_ns: AtomicU64,
    boundaries: [RawBoundary; BOUNDARIES],
}

/// A burner's clocks at one boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    pub cpu_ns: u64,
    pub stolen_ns: u64,
    /// Since the boundary before, the burner was not on its CPU.
    pub away: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    Noted(Boundary),
    /// Nothing yet: since then the burner has not run, or is about to note it.
    NotYet,
    /// It was looked for too late: the ring is past it.
    Overwritten,
}

#[derive(Debug)]
pub struct Board {
    memory: SharedMemory,
    slots: usize,
    file: OwnedFd,
}

fn bytes_for(slots: usize) -> usize {
    slots_at() + slots * size_of::<Slot>()
}

fn slots_at() -> usize {
    size_of::<BoardHead>().next_multiple_of(align_of::<Slot>())
}

impl Board {
    /// A new board in anonymous shared memory; unused slots take no pages.
    pub fn create(slots: usize) -> io::Result<Self> {
        let file = shared::memory_file(c"sandbag", bytes_for(slots))?;
        let board = Self::map(file, slots, true)?;
        board.head().slots.store(slots as u64, Ordering::Relaxed);
        board.head().magic.store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Maps the board of another process; `InvalidData` where the file is none.
    pub fn open(file: OwnedFd, writable: bool) -> io::Result<Self> {
        let file = File::from(file);
        let length = file.metadata()?.len() as usize;
        let slots = length.saturating_sub(slots_at()) / size_of::<Slot>();
        if slots == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let board = Self::map(file.into(), slots, writable)?;
        if board.head().magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(board)
    }

    fn map(file: OwnedFd, slots: usize, writable: bool) -> io::Result<Self> {
        Ok(Self {
            memory: SharedMemory::of_file(&file, bytes_for(slots), writable, false)?,
            slots,
            file,
        })
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn len(&self) -> usize {
        self.slots
    }

    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    fn head(&self) -> &BoardHead {
        // SAFETY: the mapping starts with a Head, is page-aligned, and any
        // bit pattern is a valid Head.
        unsafe { self.memory.start().cast::<BoardHead>().as_ref() }
    }

    /// A burner's slot. Panics if `index` is not below [`Board::len`].
    pub fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.slots, "slot {index} of {}", self.slots);
        // SAFETY: in bounds by the assertion, aligned by `slots_at`, and any
        // bit pattern is a valid Slot.
        unsafe {
            self.memory
                .start()
                .add(slots_at())
                .cast::<Slot>()
                .add(index)
                .as_ref()
        }
    }

    /// All burners stop taking load from their next grid point on.
    pub fn set_paused(&self, paused: bool) {
        let word = &self.head().paused;
        word.store(u32::from(paused), Ordering::Release);
        shared::wake_all(word.as_ptr());
    }

    /// Burner: sleeps until the run goes on.
    pub fn wait_while_paused(&self) {
        while self.is_paused() {
            shared::wait_on(self.head().paused.as_ptr(), 1, None);
        }
    }

    /// Supervisor, before the run: a multiple of [`BOUNDARY_NS`].
    pub fn set_begin(&self, begins_ns: u64) {
        self.head().begins_ns.store(begins_ns, Ordering::Release);
    }

    /// Whether the run begins at this time.
    pub fn begins_at(&self, at_ns: u64) -> bool {
        at_ns != 0 && self.head().begins_ns.load(Ordering::Acquire) == at_ns
    }

    pub fn barrier(&self) -> &StartBarrier {
        &self.head().barrier
    }

    pub fn is_paused(&self) -> bool {
        self.head().paused.load(Ordering::Acquire) != 0
    }
}

impl Orders for Slot {
    fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    fn restart(&self) -> u64 {
        self.restart.load(Ordering::Acquire)
    }

    fn order(&self, n: u64) -> Option<LoadOrder> {
        let published = self.published();
        if n >= published || published - n > ORDERS as u64 {
            return None;
        }
        let raw = &self.orders[n as usize % ORDERS];
        Some(LoadOrder {
            from_ns: raw.from_ns.load(Ordering::Relaxed),
            level: f64::from_bits(raw.level_bits.load(Ordering::Relaxed)),
        })
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("cpu", &self.cpu)
            .field("published", &self.published)
            .field("idle", &self.idle)
            .field("cpu_ns", &self.cpu_ns)
            .finish_non_exhaustive()
    }
}

impl Slot {
    /// Supervisor: appends an order. Orders must be in the order of their
    /// times. The oldest is overwritten when the ring is full; the caller
    /// publishes no further ahead than [`ORDERS`] - 2.
    pub fn publish(&self, order: LoadOrder) {
        let n = self.published.load(Ordering::Relaxed);
        let before = n.checked_sub(1).and_then(|n| self.order(n));
        // Who has nothing to do hears at times only that this goes on, for what it has not
        // read yet to stay short.
        let is_news = order.level > 0.0
            || before.is_none_or(|before| before.level > 0.0)
            || n.is_multiple_of(ORDERS as u64 / 2);
        let raw = &self.orders[n as usize % ORDERS];
        raw.from_ns.store(order.from_ns, Ordering::Relaxed);
        raw.level_bits
            .store(order.level.to_bits(), Ordering::Relaxed);
        self.published.store(n + 1, Ordering::Release);
        self.wake(is_news);
    }

    /// Supervisor: everything published so far is void; what is published
    /// next counts from now on. The burner goes on with its last level until
    /// then.
    pub fn void_orders(&self) {
        let n = self.published.load(Ordering::Relaxed);
        self.restart.store(n, Ordering::Release);
    }

    fn wake(&self, idle_ones: bool) {
        // The order must be visible before we look for sleeping burners:
        // the burner does the two in the other order.
        std::sync::atomic::fence(Ordering::SeqCst);
        let is_set = |flag: &AtomicU32| flag.load(Ordering::Acquire) != 0;
        if is_set(&self.listens) || idle_ones && is_set(&self.idle) {
            shared::wake_all(self.futex());
        }
    }

    /// The low half of the order count: it changes with every order, so
    /// waiting on it cannot miss one. (Both halves are there on big-endian
    /// machines too; only the address differs.)
    fn futex(&self) -> *const u32 {
        let half = usize::from(cfg!(target_endian = "big"));
        // SAFETY: stays within the eight bytes of `published`.
        unsafe { self.published.as_ptr().cast::<u32>().add(half) }
    }

    /// Burner: sleeps until an order beyond `seen` is published, or `until` (monotonic).
    pub fn wait_for_order(&self, seen: u64, until: Option<u64>) {
        shared::wait_on(self.futex(), seen as u32, until);
    }

    /// Burner: notes its clocks at boundary `number`.
    pub fn note_boundary(&self, number: u64, boundary: Boundary) {
        let raw = &self.boundaries[number as usize % BOUNDARIES];
        raw.number.store(0, Ordering::Release);
        raw.cpu_ns.store(boundary.cpu_ns, Ordering::Release);
        raw.stolen_ns.store(boundary.stolen_ns, Ordering::Release);
        raw.away.store(boundary.away.into(), Ordering::Release);
        raw.number.store(number, Ordering::Release);
    }

    pub fn note(&self, number: u64) -> Note {
        let raw = &self.boundaries[number as usize % BOUNDARIES];
        let before = raw.number.load(Ordering::Acquire);
        let boundary = Boundary {
            cpu_ns: raw.cpu_ns.load(Ordering::Acquire),
            stolen_ns: raw.stolen_ns.load(Ordering::Acquire),
            away: raw.away.load(Ordering::Acquire) != 0,
        };
        let after = raw.number.load(Ordering::Acquire);
        if before == number && after == number {
            Note::Noted(boundary)
        } else if before.max(after) > number {
            Note::Overwritten
        } else {
            Note::NotYet
        }
    }

    /// The newest boundary that is noted, with its number.
    pub fn newest_boundary(&self) -> Option<(u64, Boundary)> {
        let numbers = self.boundaries.iter();
        let newest = numbers.map(|raw| raw.number.load(Ordering::Acquire)).max();
        let number = newest.filter(|number| *number > 0)?;
        Some((number, self.boundary(number)?))
    }

    pub fn boundary(&self, number: u64) -> Option<Boundary> {
        match self.note(number) {
            Note::Noted(boundary) => Some(boundary),
            Note::NotYet | Note::Overwritten => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_go_down_in_order_and_old_ones_are_gone() {
        let board = Board::create(2).unwrap();
        let slot = board.slot(1);
        for n in 0..200u64 {
            slot.publish(LoadOrder {
                from_ns: n,
                level: 0.5,
            });
        }
        assert_eq!(slot.published(), 200);
        assert_eq!(slot.order(199).unwrap().from_ns, 199);
        assert_eq!(slot.order(200), None);
        assert_eq!(slot.order(3), None);
        assert_eq!(board.slot(0).published(), 0);
    }

    #[test]
    fn a_boundary_is_there_once_it_is_noted() {
        let board = Board::create(1).unwrap();
        let slot = board.slot(0);
        let noted = Boundary {
            cpu_ns: 7,
            stolen_ns: 1,
            away: true,
        };
        let ring = BOUNDARIES as u64;
        assert_eq!((slot.boundary(300), slot.newest_boundary()), (None, None));
        slot.note_boundary(300, noted);
        assert_eq!(slot.boundary(300), Some(noted));
        assert_eq!(slot.newest_boundary(), Some((300, noted)));
        assert_eq!(slot.note(300 + ring), Note::NotYet);
        assert_eq!(slot.note(300 - ring), Note::Overwritten);
    }

    #[test]
    fn another_process_sees_the_same_board() {
        let board = Board::create(3).unwrap();
        board.slot(2).cpu.store(9, Ordering::Relaxed);
        board.set_paused(true);
        let again = Board::open(board.file.try_clone().unwrap(), false).unwrap();
        assert_eq!(again.len(), 3);
        assert_eq!(again.slot(2).cpu.load(Ordering::Relaxed), 9);
        assert!(again.is_paused());
    }

    #[test]
    fn a_file_that_is_no_board_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(Board::open(file.into(), false).is_err());
    }
}
