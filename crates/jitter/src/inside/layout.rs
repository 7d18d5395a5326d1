// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a plan file, as c/plan.h has them: tests/inside_layout.rs compares
//! the two.

use std::mem::size_of;

use crate::replay::PlannedEvent;

/// How the file begins.
pub const MAGIC: [u8; 8] = *b"SBINSIDE";
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER: usize = 4096;
/// The shared part begins at a multiple of this, to be mapped on its own.
pub const ALIGN: u64 = 65536;
/// Most slots.
pub const SLOTS: u32 = 1024;
/// Bytes of the list of names, and of the set of ranks.
pub const ONLY: usize = 1024;
/// Buckets of a histogram.
pub const BUCKETS: usize = 320;
/// Counters of a slot.
pub const COUNTERS: usize = 16;
/// Counters of processes that never began.
pub const REFUSED: usize = 16;
/// Set in the owner of a slot that is no longer used.
pub const OWNER_GONE: u32 = 0x8000_0000;

/// Flags of the header.
pub mod flag {
    /// Each thread, not only the initial one.
    pub const PER_THREAD: u32 = 1;
    /// A portion begins again when it has ended.
    pub const LOOP: u32 = 2;
    /// No timers: programs poll.
    pub const POLLED: u32 = 4;
    /// Forked children suffer nothing.
    pub const NO_FORK: u32 = 8;
    /// Due times count from the start of each process.
    pub const FROM_START: u32 = 16;
    /// Only processes with a rank.
    pub const ONLY_RANKS: u32 = 32;
}

/// A part of the file.
///
/// # Safety
/// `repr(C)`, of integers and arrays of them without padding: any bytes are a value.
pub unsafe trait Plain: Sized {
    /// From the first bytes; missing ones are 0.
    fn of_bytes(bytes: &[u8]) -> Self {
        // SAFETY: any bytes are a value, zeros as well; no more than its size is
        // copied, between memory of different owners.
        unsafe {
            let mut value: Self = std::mem::zeroed();
            let length = bytes.len().min(size_of::<Self>());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast(), length);
            value
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: no padding, so that all bytes are initialised.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

// SAFETY: as required.
unsafe impl Plain for PlanHeader {}
// SAFETY: as required.
unsafe impl Plain for PlanPortion {}
// SAFETY: as required.
unsafe impl Plain for PlannedEvent {}
// SAFETY: as required.
unsafe impl Plain for PlanSlot {}
// SAFETY: as required.
unsafe impl Plain for PlanShared {}

/// The header; see c/plan.h for its fields.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct PlanHeader {
    pub magic: [u8; 8],
    pub version: u32,
    pub header_size: u32,
    pub size: u64,
    pub begin_ns: u64,
    pub seed: u64,
    pub overhead_ns: u64,
    pub least_gap_ns: u64,
    pub late_ns: u64,
    pub longest_ns: u64,
    pub flags: u32,
    pub supervisor: u32,
    pub portions: u32,
    pub ranked: u32,
    pub slots: u32,
    pub signal: u32,
    pub phase_every: u64,
    pub portions_at: u64,
    pub events_at: u64,
    pub events: u64,
    pub shared_at: u64,
    pub filters: u64,
    pub exit_ns: u64,
    pub lead_ns: u64,
    pub on_time_ns: u64,
    pub away_ns: u64,
    pub columns: u32,
    pub group: u32,
    pub cpus: u64,
    pub pid_namespace: [u8; 32],
    pub only_names: [u8; ONLY],
    pub only_ranks: [u8; ONLY],
    pub reserved: [u8; HEADER - 224 - 2 * ONLY - 8],
    pub check: u64,
}

impl PlanHeader {
    /// Sets the checksum (FNV-1a, 64 bits).
    pub fn seal(&mut self) {
        let bytes = self.bytes()[..HEADER - 8].iter();
        self.check = bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }
}

#[repr(C)]
#[derive(Debug, Clone)]
pub struct PlanPortion {
    pub first: u64,
    pub count: u64,
    pub axis_ns: u64,
    pub offset_ns: u64,
    pub length_ns: u64,
}

/// What a process, or a thread, books.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct PlanSlot {
    pub pid: u32,
    pub tid: u32,
    pub rank: i32,
    pub portion: u32,
    pub ended: u32,
    pub signal: u32,
    pub name: [u8; 16],
    pub base_ns: u64,
    pub cpu_ns: u64,
    pub counters: [u64; COUNTERS],
    pub booked_ns: u64,
    pub due_ns: u64,
    pub process_ns: u64,
    pub threads: u64,
    pub reserved1: [u8; 1024 - 88 - 8 * COUNTERS],
    pub start: [u32; BUCKETS],
    pub length: [u32; BUCKETS],
    pub reserved2: [u8; 4096 - 1024 - 8 * BUCKETS],
}

/// What lies before the slots.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct PlanShared {
    pub stop: u32,
    pub sequence: u32,
    pub recycled: u32,
    pub early: u32,
    pub refused: [u64; REFUSED],
    pub stopped_ns: u64,
    pub paused_ns: u64,
    pub pause_ns: u64,
    pub reserved1: [u8; 4096 - 40 - 8 * REFUSED],
    pub owners: [u32; SLOTS as usize],
    pub gone: PlanSlot,
}
