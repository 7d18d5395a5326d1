// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that are processes and meet after each phase.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sandbag_linux::clock::Clock;

use super::barrier::{self, MemoryBarrier};
use super::clock::AnyClock;
use super::rank::{PhaseTimes, Rank};
use super::settings::{Settings, too_many};
use super::shared::{Shared, fork_each, pin};
use super::times::{BenchTimes, Segment};
use super::work::{calibrate, too_short};
use crate::Result;

/// Words of results, at most: 1 GiB.
const MOST_WORDS: u64 = 1 << 28;

/// Place of the results of a segment in the shared words.
#[derive(Clone, Copy)]
struct Room {
    first: usize,
    phases: usize,
    ranks: usize,
}

impl Room {
    fn words(&self) -> usize {
        1 + (RECORD + 2 * self.phases) * self.ranks
    }

    fn course(&self, rank: usize) -> usize {
        self.first + 1 + RECORD * rank
    }

    fn qt(&self, phase: usize, rank: usize) -> usize {
        self.first + 1 + RECORD * self.ranks + 2 * (phase * self.ranks + rank)
    }
}

/// Words of a [`SegmentTimes`](super::SegmentTimes) or an [`Offset`](super::Offset): three
/// numbers of 64 bits.
const RECORD: usize = 6;

/// Runs all segments: without jitter and with it in turn.
pub fn measure(settings: &Settings) -> Result<BenchTimes> {
    settings.check()?;
    let (segments, length) = (settings.segments(), settings.length());
    let words = ((RECORD as u64 + 2 * length.phases as u64) * u64::from(settings.ranks))
        .saturating_mul(segments.len() as u64);
    if words > MOST_WORDS {
        return Err(too_many(length.phases as u64));
    }
    let ranks = settings.ranks as usize;
    let offsets = barrier::words(ranks);
    let mut first = offsets + 2 * RECORD * ranks;
    let rooms: Vec<Room> = segments
        .iter()
        .map(|_| {
            let room = Room {
                first,
                phases: length.phases,
                ranks,
            };
            first += room.words();
            room
        })
        .collect();
    let shared = Shared::new(first)?;
    let clock = AnyClock::best();
    let oversubscribed = settings.is_oversubscribed();
    let (iterations, calibrated_ns) = calibrate_first(settings, &clock)?;
    fork_each(settings.ranks, &|rank| {
        pin(settings.cpus[rank as usize % settings.cpus.len()]);
        let barrier = MemoryBarrier::new(&shared, rank, settings.ranks, oversubscribed);
        let mut one = Rank::new(barrier, clock, iterations, settings.plan.as_ref());
        let words = shared.words();
        // If ranks wait for CPUs, the round trip would be such a wait.
        let compare = |one: &mut Rank<'_, MemoryBarrier<'_>>, at: usize| {
            let all = if oversubscribed {
                Vec::new()
            } else {
                one.clocks()
            };
            for (number, offset) in all.iter().enumerate() {
                shared.put_record(offsets + (at * ranks + number) * RECORD, *offset);
            }
        };
        compare(&mut one, 0);
        for (number, (jitter, room)) in segments.iter().zip(&rooms).enumerate() {
            let mut phase = 0;
            let course = one.segment(
                number as u64,
                *jitter,
                length,
                &mut |PhaseTimes { qt_ns, bt_ns }| {
                    let at = room.qt(phase, rank as usize);
                    words[at].store(qt_ns, Relaxed);
                    words[at + 1].store(bt_ns, Relaxed);
                    phase += 1;
                    if rank == 0 {
                        words[room.first].store(phase as u32, Release);
                    }
                },
            );
            shared.put_record(room.course(rank as usize), course);
        }
        compare(&mut one, 1);
    })?;
    let words = shared.words();
    let segments = segments.iter().zip(&rooms).map(|(jitter, room)| {
        let phases = words[room.first].load(Acquire) as usize;
        let all = || (0..phases).flat_map(|phase| (0..room.ranks).map(move |rank| (phase, rank)));
        let of = |add: usize| {
            let at = |(phase, rank)| words[room.qt(phase, rank) + add].load(Relaxed);
            all().map(at).collect()
        };
        Segment {
            jitter: *jitter,
            qt_ns: of(0),
            bt_ns: of(1),
            courses: (0..ranks)
                .map(|rank| shared.take_record(room.course(rank)))
                .collect(),
        }
    });
    let clocks = [0, 1].map(|time| {
        let compared = if oversubscribed { 0 } else { ranks };
        let offset = |number: usize| shared.take_record(offsets + (time * ranks + number) * RECORD);
        (0..compared).map(offset).collect()
    });
    Ok(BenchTimes {
        ranks: settings.ranks,
        oversubscribed,
        iterations,
        calibrated_ns,
        segments: segments.collect(),
        clocks,
    })
}

/// Calibrates on the first of the CPUs, in a process of its own, so that this one stays
/// unpinned.
pub(super) fn calibrate_first(settings: &Settings, clock: &impl Clock) -> Result<(u64, u64)> {
    let shared = Shared::new(4)?;
    fork_each(1, &|_| {
        pin(settings.cpus[0]);
        let (iterations, took) = calibrate(settings.quantum_ns, clock).unwrap_or((0, 0));
        shared.put(0, iterations);
        shared.put(2, took);
    })?;
    match (shared.take(0), shared.take(2)) {
        (0, _) => Err(too_short(settings.quantum_ns)),
        found => Ok(found),
    }
}
