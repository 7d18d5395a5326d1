// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes of the program booked.
//!
//! It is read from memory that they write to, while they write to it, and they
//! may be anybody's: every value is taken as it is, and nothing is computed
//! with it that could fail.

use crate::inside::plan::layout::{BUCKETS, COUNTERS, OWNER_GONE, REFUSED, SHARED, SLOT};
use crate::inside::plan::layout::{shared, slot as at};
use crate::replay::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// What a process, or a thread, suffered; or many together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injections {
    /// Events.
    pub injected: u64,
    /// Their lengths together, ns.
    pub asked_ns: u64,
    /// What they took, ns.
    pub taken_ns: u64,
    /// Not injected: not longer than an injection costs.
    pub short: u64,
    /// Of the injected: the gap before it was too short for a timer.
    pub merged: u64,
    /// Of the injected: due while the one before was served.
    pub behind: u64,
    /// Of the injected: only what was left of it.
    pub cut: u64,
    /// Not injected: over before the thread ran again.
    pub passed: u64,
    /// Not injected: the plan is wrong there.
    pub invalid: u64,
    /// Interrupted waits that were taken up again.
    pub waits: u64,
    /// Phases that began at a common position.
    pub phases: u64,
    /// How much too late events began.
    pub start: Histogram<3>,
    /// How much too long they were.
    pub length: Histogram<3>,
}

/// Why a process, or a thread, suffers nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SufferEnd {
    /// It did not say: it lives, was killed, or became another program.
    NotSaid,
    /// It ended.
    Exit,
    /// Its portion is used up.
    Exhausted,
    /// It handles the signal itself.
    Conflict,
    /// It forbade system calls.
    Seccomp,
    /// We said so, or were gone.
    Stopped,
    /// The kernel refused to arm the timer.
    Timer,
    /// What is there means nothing.
    Unknown(u32),
}

impl SufferEnd {
    /// As run.json has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSaid => "not-said",
            Self::Exit => "exit",
            Self::Exhausted => "used-up",
            Self::Conflict => "signal-in-use",
            Self::Seccomp => "seccomp",
            Self::Stopped => "stopped",
            Self::Timer => "timer-refused",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Who booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Process id, as the process sees it.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its rank, if it has one.
    pub rank: Option<u32>,
    /// Which portion it replayed.
    pub portion: u32,
    /// Name of the process.
    pub name: String,
    /// The signal that was used; 0 where it polled.
    pub signal: u32,
    /// Why it suffers nothing more.
    pub ended: SufferEnd,
    /// It may still be there.
    pub held: bool,
    /// What it suffered.
    pub suffered: Injections,
}

/// Who never began, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// All slots were held.
    pub no_slot: u64,
    /// Not meant by `--only`.
    pub not_meant: u64,
    /// All signals that would do are used by the program.
    pub no_signal: u64,
    /// The kernel refused a timer.
    pub no_timer: u64,
    /// It runs under a seccomp filter that we do not have.
    pub seccomp: u64,
    /// More threads than the library has room for.
    pub no_room: u64,
}

/// All that was booked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InsideOutcome {
    /// Those whose slot is still theirs.
    pub slots: Vec<Slot>,
    /// How many others there were; their slots were used again.
    pub recycled: u32,
    /// What those suffered.
    pub gone: Injections,
    pub refused: Refusals,
}

impl InsideOutcome {
    /// All together.
    #[must_use]
    pub fn total(&self) -> Injections {
        let mut total = self.gone.clone();
        for slot in &self.slots {
            total.add(&slot.suffered);
        }
        total
    }
}

impl Injections {
    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        for (mine, more) in [
            (&mut self.injected, other.injected),
            (&mut self.asked_ns, other.asked_ns),
            (&mut self.taken_ns, other.taken_ns),
            (&mut self.short, other.short),
            (&mut self.merged, other.merged),
            (&mut self.behind, other.behind),
            (&mut self.cut, other.cut),
            (&mut self.passed, other.passed),
            (&mut self.invalid, other.invalid),
            (&mut self.waits, other.waits),
            (&mut self.phases, other.phases),
        ] {
            *mine = mine.saturating_add(more);
        }
        self.start.merge(&other.start);
        self.length.merge(&other.length);
    }
}

/// Little pieces of a page.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

fn injections(slot: &Bytes<'_>) -> Injections {
    const _: () = assert!(COUNTERS >= 13);
    let count = |number: usize| slot.u64(at::COUNTERS + 8 * number);
    let histogram = |at: usize| {
        let counts = (0..BUCKETS).map(|bucket| u64::from(slot.u32(at + 4 * bucket)));
        Histogram::of_counts(counts.collect())
    };
    Injections {
        injected: count(0),
        asked_ns: count(1),
        taken_ns: count(2),
        short: count(3),
        merged: count(4),
        behind: count(5),
        cut: count(6),
        passed: count(7),
        invalid: count(8),
        waits: count(10),
        phases: count(11),
        start: histogram(at::START),
        length: histogram(at::LENGTH),
    }
}

fn slot(bytes: &[u8], owner: u32) -> Slot {
    let slot = Bytes(bytes);
    let name = &bytes[at::NAME..at::NAME + 16];
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(16);
    Slot {
        pid: slot.u32(at::PID),
        tid: slot.u32(at::TID),
        rank: u32::try_from(slot.u32(at::RANK).cast_signed()).ok(),
        portion: slot.u32(at::PORTION),
        ended: match slot.u32(at::ENDED) {
            0 => SufferEnd::NotSaid,
            1 => SufferEnd::Exit,
            2 => SufferEnd::Exhausted,
            3 => SufferEnd::Conflict,
            4 => SufferEnd::Seccomp,
            5 => SufferEnd::Stopped,
            6 => SufferEnd::Timer,
            other => SufferEnd::Unknown(other),
        },
        signal: slot.u32(at::SIGNAL),
        name: String::from_utf8_lossy(&name[..length]).into_owned(),
        held: owner & OWNER_GONE == 0,
        suffered: injections(&slot),
    }
}

/// From the part of a plan file that is written to; of whatever is missing all
/// is 0.
#[must_use]
pub fn read(bytes: &[u8]) -> InsideOutcome {
    let page = Bytes(bytes);
    let refused = |number: usize| {
        if number < REFUSED {
            page.u64(shared::REFUSED + 8 * number)
        } else {
            0
        }
    };
    let gone = bytes.get(shared::GONE..shared::GONE + SLOT);
    let slots = bytes.get(SHARED..).unwrap_or_default().chunks_exact(SLOT);
    InsideOutcome {
        slots: slots
            .enumerate()
            .map(|(number, bytes)| (page.u32(shared::OWNERS + 4 * number), bytes))
            .filter(|(owner, _)| *owner != 0)
            .map(|(owner, bytes)| slot(bytes, owner))
            .collect(),
        recycled: page.u32(shared::RECYCLED),
        gone: injections(&Bytes(gone.unwrap_or_default())),
        refused: Refusals {
            no_slot: refused(0),
            not_meant: refused(1),
            no_signal: refused(2),
            no_timer: refused(3),
            seccomp: refused(4),
            no_room: refused(5),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn anything_can_be_read(
            bytes in prop::collection::vec(any::<u8>(), 0..SLOT),
            pages in 0usize..6,
        ) {
            let mut all = bytes.repeat(pages * 4096 / bytes.len().max(1) + 1);
            all.truncate(pages * 4096);
            let outcome = read(&all);
            let _ = outcome.total();
        }
    }
}
