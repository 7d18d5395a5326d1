// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes of the program booked.
//!
//! Foreign processes write to this memory while it is read: every value is taken
//! as it is, and no computation with it can fail.

use serde::{Deserialize, Serialize};

use crate::inside::layout::{OWNER_GONE, Plain as _, PlanShared, PlanSlot};
use crate::replay::histogram::Histogram;
use crate::replay::outcome::{EventCounts, RankOutcome};

/// Why a process, or a thread, suffers nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SufferEnd {
    /// Not booked: it lives, was killed, or became another program.
    NotSaid,
    Exit,
    /// Its portion is used up.
    Exhausted,
    /// The program handles the signal itself.
    Conflict,
    /// The program restricted its system calls.
    Seccomp,
    /// sandbag ended the replay, or is gone.
    Stopped,
    /// The kernel refused to arm the timer.
    Timer,
    /// No event of its portion is longer than the overhead of an injection.
    TooShort,
    /// Not a value of `enum plan_ended`.
    Unknown,
}

impl SufferEnd {
    /// By the numbers of `enum plan_ended`, with the names of run.json.
    const ALL: [(Self, &str); 9] = [
        (Self::NotSaid, "not-said"),
        (Self::Exit, "exit"),
        (Self::Exhausted, "used-up"),
        (Self::Conflict, "signal-in-use"),
        (Self::Seccomp, "seccomp"),
        (Self::Stopped, "stopped"),
        (Self::Timer, "timer-refused"),
        (Self::TooShort, "too-short"),
        (Self::Unknown, "unknown"),
    ];

    /// The name in run.json.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Before its portion, the replay or the process was over.
    pub fn is_early(self) -> bool {
        matches!(self, Self::Conflict | Self::Seccomp | Self::Timer)
    }
}

/// A process, or a thread, that suffered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Process id, as the process sees it.
    pub pid: u32,
    pub tid: u32,
    pub rank: Option<u32>,
    /// Number of its portion in the plan.
    pub portion: u32,
    /// Name of the process.
    pub name: String,
    /// The signal of its timer; 0 if it polled.
    pub signal: u32,
    pub ended: SufferEnd,
    /// The process may still exist.
    pub held: bool,
    /// CPU time of its process that no other slot has, as far as it was booked.
    pub cpu_ns: u64,
    /// CPU time that it took at most at its end and did not book, ns: it was killed, or lives.
    pub silent_cpu_ns: u64,
    pub suffered: RankOutcome,
}

/// Number of processes or threads that never began, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// All slots were in use.
    pub no_slot: u64,
    /// Left out by `--only`.
    pub not_meant: u64,
    /// The program uses all signals of the range.
    pub no_signal: u64,
    /// The kernel refused a timer.
    pub no_timer: u64,
    /// It has a seccomp filter that sandbag does not have.
    pub seccomp: u64,
    /// More threads than the library has room for.
    pub no_room: u64,
}

impl Refusals {
    /// Of those that were meant to have jitter.
    pub fn of_meant(&self) -> u64 {
        [self.no_signal, self.no_timer, self.seccomp, self.no_room]
            .into_iter()
            .fold(self.no_slot, u64::saturating_add)
    }
}

/// All that was booked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InsideOutcome {
    pub slots: Vec<Slot>,
    /// Number of processes and threads whose slot was used again.
    pub recycled: u32,
    /// Of those, whose jitter ended early.
    pub recycled_early: u32,
    /// What those suffered.
    pub gone: RankOutcome,
    /// CPU time of those.
    pub gone_cpu_ns: u64,
    /// CPU time that those may have taken without booking it.
    pub gone_silent_cpu_ns: u64,
    pub refused: Refusals,
}

impl InsideOutcome {
    /// The sum of all.
    pub fn total(&self) -> RankOutcome {
        let mut total = self.gone.clone();
        for slot in &self.slots {
            total.add(&slot.suffered);
        }
        total
    }

    /// CPU time of processes that had jitter; `None` where one had used its portion up and did
    /// not say how much it took until its end.
    pub fn cpu_ns(&self) -> Option<u64> {
        let is_unknown = |slot: &Slot| {
            slot.held && matches!(slot.ended, SufferEnd::Exhausted | SufferEnd::TooShort)
        };
        if self.slots.iter().any(is_unknown) {
            return None;
        }
        let slots = self.slots.iter().map(|slot| slot.cpu_ns);
        Some(slots.fold(self.gone_cpu_ns, u64::saturating_add))
    }

    /// CPU time that processes with jitter took at most and did not book: those that a signal
    /// killed, or that live.
    pub fn silent_cpu_ns(&self) -> u64 {
        let slots = self.slots.iter().map(|slot| slot.silent_cpu_ns);
        slots.fold(self.gone_silent_cpu_ns, u64::saturating_add)
    }
}

fn suffered(slot: &PlanSlot) -> RankOutcome {
    let [
        injected,
        asked_ns,
        suffered_ns,
        below_floor,
        merged,
        behind,
        cut,
        missed,
        invalid,
        _,
        waits,
        phases,
        _,
        away,
        ..,
    ] = slot.counters;
    RankOutcome {
        counts: EventCounts {
            injected: injected.saturating_sub(merged),
            merged,
            below_floor,
            missed,
            behind,
            away,
            cut,
            invalid,
            waits,
            phases,
            ..EventCounts::default()
        },
        start: Histogram::of_library(&slot.start),
        length: Histogram::of_library(&slot.length),
        asked_ns,
        suffered_ns,
        ..RankOutcome::default()
    }
}

/// Of a replay that ended at `stopped_ns`, on a machine with `cpus` CPUs.
fn read_slot(owner: u32, bytes: &[u8], stopped_ns: u64, cpus: u64) -> Slot {
    let slot = PlanSlot::of_bytes(bytes);
    let name = slot.name.split(|byte| *byte == 0).next();
    let ended = SufferEnd::ALL.get(slot.ended as usize);
    let ended = ended.map_or(SufferEnd::Unknown, |(end, _)| *end);
    let held = owner & OWNER_GONE == 0;
    // Had it been there when its next event was due, it would have booked, or noted another:
    // it had ended, or had become a program without jitter.
    let silent_ns = slot.due_ns.min(stopped_ns).saturating_sub(slot.booked_ns);
    // Each thread has one CPU at most.
    let silent_cpu_ns = silent_ns.saturating_mul(slot.threads.saturating_add(1).min(cpus));
    let suffered = suffered(&slot);
    // A shell's child that becomes a program without jitter at once had none of these.
    let counts = &suffered.counts;
    let had_any = [slot.cpu_ns, counts.injected, counts.merged, counts.missed]
        .iter()
        .any(|count| *count > 0);
    let is_silent = held && ended == SufferEnd::NotSaid && had_any;
    Slot {
        pid: slot.pid,
        tid: slot.tid,
        rank: u32::try_from(slot.rank).ok(),
        portion: slot.portion,
        name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
        signal: slot.signal,
        ended,
        held,
        cpu_ns: slot.cpu_ns,
        silent_cpu_ns: if is_silent { silent_cpu_ns } else { 0 },
        suffered,
    }
}

/// From the shared part of a plan file, for a machine with `cpus` CPUs; missing bytes are 0.
pub fn read(bytes: &[u8], cpus: u64) -> InsideOutcome {
    let shared = PlanShared::of_bytes(bytes);
    let slots = bytes.get(size_of::<PlanShared>()..).unwrap_or_default();
    let slots = slots.chunks_exact(size_of::<PlanSlot>());
    let owned = shared.owners.iter().zip(slots);
    let [
        no_slot,
        not_meant,
        no_signal,
        no_timer,
        seccomp,
        no_room,
        ..,
    ] = shared.refused;
    InsideOutcome {
        slots: owned
            .filter(|(owner, _)| **owner != 0)
            .map(|(owner, bytes)| read_slot(*owner, bytes, shared.stopped_ns, cpus))
            .collect(),
        recycled: shared.recycled,
        recycled_early: shared.early,
        gone: suffered(&shared.gone),
        gone_cpu_ns: shared.gone.cpu_ns,
        gone_silent_cpu_ns: shared.gone.booked_ns,
        refused: Refusals {
            no_slot,
            not_meant,
            no_signal,
            no_timer,
            seccomp,
            no_room,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read(
            bytes in prop::collection::vec(any::<u8>(), 1..4096),
            length in 0usize..6 * 4096,
            cpus: u64,
        ) {
            let all: Vec<u8> = bytes.iter().copied().cycle().take(length).collect();
            let outcome = read(&all, cpus);
            let _ = (outcome.total(), outcome.cpu_ns(), outcome.silent_cpu_ns());
        }
    }

    /// A second between its last booking and the next event.
    #[rstest]
    #[case::killed(|_: &mut PlanSlot| (), 1)]
    #[case::with_threads(|slot: &mut PlanSlot| slot.threads = 2, 3)]
    #[case::with_more_threads_than_cpus(|slot: &mut PlanSlot| slot.threads = 1000, 4)]
    #[case::had_an_event(|slot: &mut PlanSlot| (slot.cpu_ns, slot.counters[0]) = (0, 1), 1)]
    #[case::missed_an_event(|slot: &mut PlanSlot| (slot.cpu_ns, slot.counters[7]) = (0, 1), 1)]
    #[case::of_a_program_without_jitter(|slot: &mut PlanSlot| slot.cpu_ns = 0, 0)]
    #[case::ended(|slot: &mut PlanSlot| slot.ended = SufferEnd::Exit as u32, 0)]
    fn silence_is_of_processes_that_had_jitter(
        #[case] change: fn(&mut PlanSlot),
        #[case] seconds: u64,
    ) {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut shared = PlanShared::of_bytes(&[]);
        (shared.owners[0], shared.stopped_ns) = (7, 9 * SECOND_NS);
        let mut slot = PlanSlot::of_bytes(&[]);
        (slot.booked_ns, slot.due_ns, slot.cpu_ns) = (5 * SECOND_NS, 6 * SECOND_NS, 1);
        change(&mut slot);
        let outcome = read(&[shared.bytes(), slot.bytes()].concat(), 4);
        assert_eq!(outcome.silent_cpu_ns(), seconds * SECOND_NS);
    }
}
