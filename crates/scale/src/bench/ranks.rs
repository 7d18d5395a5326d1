// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that are processes, and meet after each phase.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::barrier::{Together, WORDS};
use super::clock::AnyClock;
use super::measured::{Measured, Segment};
use super::rank::{Phase, Rank};
use super::shared::{Shared, fork_each, pin};
use super::work::{calibrate, too_short};
use super::{Settings, too_many};
use crate::Result;

/// Words of results, at most: 1 GiB.
const MOST_WORDS: u64 = 1 << 28;

/// Where the results of a segment are.
#[derive(Clone, Copy)]
struct Room {
    first: usize,
    phases: usize,
    ranks: usize,
}

impl Room {
    fn words(&self) -> usize {
        1 + 2 * self.phases * self.ranks
    }

    fn qt(&self, phase: usize, rank: usize) -> usize {
        self.first + 1 + 2 * (phase * self.ranks + rank)
    }
}

/// Runs all of it: without jitter, with it, and so on in turn.
///
/// # Errors
/// No process or memory could be had, an option is out of range.
pub fn measure(settings: &Settings) -> Result<Measured> {
    settings.check()?;
    let (segments, length) = (settings.segments(), settings.length());
    let words = (2 * length.phases as u64 * u64::from(settings.ranks))
        .saturating_mul(segments.len() as u64);
    if words > MOST_WORDS {
        return Err(too_many(length.phases as u64));
    }
    let mut first = WORDS;
    let rooms: Vec<Room> = segments
        .iter()
        .map(|_| {
            let room = Room {
                first,
                phases: length.phases,
                ranks: settings.ranks as usize,
            };
            first += room.words();
            room
        })
        .collect();
    let shared = Shared::new(first)?;
    let clock = AnyClock::best();
    let oversubscribed = settings.ranks as usize > settings.cpus.len();
    let (iterations, calibrated_ns) = calibrated(settings, &clock)?;
    fork_each(settings.ranks, &|rank| {
        pin(settings.cpus[rank as usize % settings.cpus.len()]);
        let barrier = Together::new(&shared, rank, settings.ranks, oversubscribed);
        let mut one = Rank::new(barrier, clock, iterations, settings.plan.as_ref());
        let words = shared.words();
        for (number, (jitter, room)) in segments.iter().zip(&rooms).enumerate() {
            let mut phase = 0;
            one.segment(
                number as u64,
                *jitter,
                length,
                &mut |Phase { qt_ns, bt_ns }| {
                    let at = room.qt(phase, rank as usize);
                    words[at].store(qt_ns, Relaxed);
                    words[at + 1].store(bt_ns, Relaxed);
                    phase += 1;
                    if rank == 0 {
                        words[room.first].store(phase as u32, Release);
                    }
                },
            );
        }
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
        }
    });
    Ok(Measured {
        ranks: settings.ranks,
        oversubscribed,
        iterations,
        calibrated_ns,
        segments: segments.collect(),
    })
}

/// On the first of the CPUs, in a process of its own, so that ours is not bound
/// to it.
pub(super) fn calibrated(settings: &Settings, clock: &AnyClock) -> Result<(u64, u64)> {
    let shared = Shared::new(4)?;
    fork_each(1, &|_| {
        pin(settings.cpus[0]);
        let (iterations, took) = calibrate(settings.quantum_ns, clock).unwrap_or((0, 0));
        let words = shared.words();
        for (word, value) in [iterations, iterations >> 32, took, took >> 32]
            .into_iter()
            .enumerate()
        {
            words[word].store(value as u32, Release);
        }
    })?;
    let word = |at: usize| u64::from(shared.words()[at].load(Acquire));
    match (word(0) | word(1) << 32, word(2) | word(3) << 32) {
        (0, _) => Err(too_short(settings.quantum_ns)),
        found => Ok(found),
    }
}
