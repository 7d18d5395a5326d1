// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a plan file, as c/plan.h has them; a test holds the two
//! against each other.

use std::mem::size_of;

/// How the file begins.
pub const MAGIC: [u8; 8] = *b"SBINSIDE";
/// The version that is written and read.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER: usize = 4096;
/// What may be mapped on its own begins at a multiple of this.
pub const ALIGN: u64 = 65536;
/// Most slots.
pub const SLOTS: u32 = 1024;
/// Bytes of the list of names, and of the set of ranks.
pub const ONLY: usize = 1024;
/// Buckets of a histogram.
pub const BUCKETS: usize = 320;
/// Counters of a slot.
pub const COUNTERS: usize = 16;
/// Counters of what never began.
pub const REFUSED: usize = 16;
/// Bytes of a slot.
pub const SLOT: usize = 4096;
/// Bytes before the first slot: counts, owners, the sum of the slots that were
/// used again.
pub const SHARED: usize = 3 * 4096;
/// The mark of an owner that is gone.
pub const OWNER_GONE: u32 = 0x8000_0000;

/// Flags of the header.
pub mod flag {
    /// Each thread, not only the initial one.
    pub const PER_THREAD: u32 = 1;
    /// A portion begins again when it has ended.
    pub const LOOP: u32 = 2;
    /// No timers.
    pub const POLLED: u32 = 4;
    /// Forked children suffer nothing.
    pub const NO_FORK: u32 = 8;
    /// Due times count from the start of each process.
    pub const FROM_START: u32 = 16;
    /// Only processes with a rank.
    pub const ONLY_RANKS: u32 = 32;
}

/// The header.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct PlanHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// [`HEADER`].
    pub header_size: u32,
    /// Of the whole file.
    pub size: u64,
    /// When due times count from, ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// Of what is chosen by chance while the program runs.
    pub seed: u64,
    /// Of an injection, beside what it spins.
    pub overhead_ns: u64,
    /// What comes sooner after an event is merged with it.
    pub least_gap_ns: u64,
    /// Who is later was not there.
    pub late_ns: u64,
    /// No event is longer.
    pub longest_ns: u64,
    /// See [`flag`].
    pub flags: u32,
    /// A process that must live; 0: none.
    pub supervisor: u32,
    /// How many.
    pub portions: u32,
    /// The first so many are for ranks.
    pub ranked: u32,
    /// How many.
    pub slots: u32,
    /// 0: the library chooses.
    pub signal: u32,
    /// 0: phases change nothing.
    pub phase_every: u64,
    /// Where the portions are.
    pub portions_at: u64,
    /// Where the events are.
    pub events_at: u64,
    /// How many.
    pub events: u64,
    /// Where the part begins that is written to.
    pub shared_at: u64,
    /// seccomp filters on sandbag itself.
    pub filters: u64,
    /// Of the overhead, the way back to the program.
    pub exit_ns: u64,
    /// The program is interrupted so much before the timer is due.
    pub lead_ns: u64,
    /// So late is the timer itself.
    pub on_time_ns: u64,
    /// What /proc/self/ns/pid says to sandbag.
    pub pid_namespace: [u8; 32],
    /// Names of programs, each ended by a line feed.
    pub only_names: [u8; ONLY],
    /// A bit per rank.
    pub only_ranks: [u8; ONLY],
    /// Zero.
    pub reserved: [u8; HEADER - 200 - 2 * ONLY - 8],
    /// FNV-1a of all before it.
    pub check: u64,
}

const _: () = assert!(size_of::<PlanHeader>() == HEADER);

impl PlanHeader {
    /// All zero.
    pub fn zero() -> Self {
        // SAFETY: integers and arrays of them.
        unsafe { std::mem::zeroed() }
    }

    /// As it is in the file.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `repr(C)` without padding: all fields lie at multiples of
        // their size and the sizes add up to the whole, which is asserted.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), HEADER) }
    }

    /// From the bytes of a file.
    #[cfg(test)]
    pub fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        // SAFETY: any bytes are a header; the source may lie anywhere.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
    }

    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.check = fnv(&self.bytes()[..HEADER - 8]);
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Bytes of a portion.
pub const PORTION: usize = 40;
/// Bytes of an event.
pub const EVENT: usize = 16;

/// Where things lie in a slot.
pub mod slot {
    use super::BUCKETS;

    /// Process id.
    pub const PID: usize = 0;
    /// Thread id.
    pub const TID: usize = 4;
    /// Rank; -1: none.
    pub const RANK: usize = 8;
    /// Portion.
    pub const PORTION: usize = 12;
    /// Why it suffers nothing more.
    pub const ENDED: usize = 16;
    /// The signal.
    pub const SIGNAL: usize = 20;
    /// Name of the process, 16 bytes.
    pub const NAME: usize = 24;
    /// Counters.
    pub const COUNTERS: usize = 56;
    /// Start errors.
    pub const START: usize = 1024;
    /// Length errors.
    pub const LENGTH: usize = START + 4 * BUCKETS;
}

/// Where things lie before the slots.
pub mod shared {
    /// Nothing more is to be injected.
    pub const STOP: usize = 0;
    /// How many slots were used again.
    pub const RECYCLED: usize = 8;
    /// Who never began, by reason.
    pub const REFUSED: usize = 16;
    /// Owners of the slots.
    pub const OWNERS: usize = 4096;
    /// The sum of the slots that were used again.
    pub const GONE: usize = 8192;
}
