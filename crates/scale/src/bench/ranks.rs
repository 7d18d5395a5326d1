// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that are processes, and meet after each phase.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use sandbag_inject::clock::{Clock, Counter, Monotonic};
use sandbag_inject::{Plan, Polled, Sync};

use super::Settings;
use super::barrier::{Barrier, Together, WORDS};
use super::shared::{Shared, fork_each, pin};
use super::work::{Lcg, calibrate};
use crate::{Error, Result};

/// Phases in a row, all with jitter or all without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Jitter was injected.
    pub jitter: bool,
    /// How long the work took: phase by phase, rank by rank, ns.
    pub qt_ns: Vec<u32>,
    /// How long the rank then waited, ns.
    pub bt_ns: Vec<u32>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Ranks.
    pub ranks: u32,
    /// There were more ranks than CPUs: they waited for CPUs as well.
    pub oversubscribed: bool,
    /// Iterations of the work.
    pub iterations: u64,
    /// How long they took at least when they were calibrated, ns.
    pub calibrated_ns: u64,
    /// In the order in which they ran.
    pub segments: Vec<Segment>,
}

/// Looked at to calibrate the counter.
const LOOK: Duration = Duration::from_millis(100);
/// Words of results, at most: 1 GiB.
const MOST_WORDS: u64 = 1 << 28;

/// Either clock.
#[derive(Debug, Clone, Copy)]
pub(super) enum AnyClock {
    Counter(Counter),
    Monotonic(Monotonic),
    /// CPU time of the thread.
    Cpu,
}

impl AnyClock {
    /// The processor's counter where it is a clock.
    pub(super) fn best() -> Self {
        Counter::calibrated(LOOK).map_or(Self::Monotonic(Monotonic), Self::Counter)
    }
}

impl Clock for AnyClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Counter(counter) => counter.now_ns(),
            Self::Monotonic(clock) => clock.now_ns(),
            Self::Cpu => sandbag_kernel::clock::thread_cpu(),
        }
    }
}

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
    let wrong = |what, found: String, expected| {
        Err(Error::Option {
            what,
            found,
            expected,
        })
    };
    if settings.ranks == 0 || settings.cpus.is_empty() {
        return wrong(
            "the number of ranks",
            settings.ranks.to_string(),
            "1 or more",
        );
    }
    let kinds: &[bool] = match settings.plan {
        Some(_) => &[false, true],
        None => &[false],
    };
    let segments: Vec<bool> = (0..settings.rounds.max(1))
        .flat_map(|_| kinds.to_vec())
        .collect();
    let each_ms = settings.duration.as_millis() as u64 / segments.len() as u64;
    let each_ms = u32::try_from(each_ms.max(1)).unwrap_or(u32::MAX);
    let phases = u64::from(each_ms) * 1_000_000 / settings.quantum_ns.max(1) + 2;
    let words = (2 * phases * u64::from(settings.ranks)).saturating_mul(segments.len() as u64);
    if words > MOST_WORDS {
        return wrong(
            "the number of phases",
            format!("{phases} in each of {} segments", segments.len()),
            "fewer: a shorter run, or a longer quantum",
        );
    }
    let mut first = WORDS;
    let rooms: Vec<Room> = segments
        .iter()
        .map(|_| {
            let room = Room {
                first,
                phases: phases as usize,
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
        let plans = settings.plan.as_ref();
        let barrier = Together::new(&shared, rank, settings.ranks, oversubscribed);
        let mut runner = Runner {
            barrier,
            clock,
            lcg: Lcg::default(),
            iterations,
            resets: plans.is_some_and(|p| matches!(p.options().sync, Sync::Phases(_))),
        };
        for (number, (jitter, room)) in segments.iter().zip(&rooms).enumerate() {
            let plan = plans.filter(|_| *jitter);
            let polled = plan.map(|plan| portion(plan, rank, number as u64, clock.now_ns()));
            runner.segment(&shared, room, each_ms, polled);
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
        (0, _) => Err(Error::Option {
            what: "the quantum",
            found: format!("{} ns", settings.quantum_ns),
            expected: "at least ten iterations of the work, some hundreds of ns",
        }),
        found => Ok(found),
    }
}

/// The portion of a rank in a segment: other segments are other ranks of the
/// plan, so that not all of them replay the same.
fn portion(plan: &Plan, rank: u32, segment: u64, now_ns: u64) -> Polled {
    let columns = plan.columns() as u64;
    // As many as keep a rank on its column.
    let step = segment * 1_000_003 * columns;
    plan.rank(u64::from(rank) + step).polled(0, now_ns)
}

struct Runner<'a> {
    barrier: Together<'a>,
    clock: AnyClock,
    lcg: Lcg,
    iterations: u64,
    /// Phases set ranks to a common position.
    resets: bool,
}

impl Runner<'_> {
    fn segment(&mut self, shared: &Shared, room: &Room, each_ms: u32, mut polled: Option<Polled>) {
        let words = shared.words();
        let rank = self.barrier.rank() as usize;
        let clock = self.clock;
        self.barrier.wait(0, &mut || {});
        let begin = clock.now_ns();
        if let Some(polled) = &mut polled {
            polled.begin(begin);
        }
        for phase in 0..room.phases {
            if let Some(polled) = &mut polled {
                if self.resets {
                    // Who is set to another position has no event under way.
                    polled.suffer(&clock);
                }
                polled.begin_phase(clock.now_ns());
            }
            let t0 = clock.now_ns();
            self.lcg.work(self.iterations, &clock, polled.as_mut());
            let t1 = clock.now_ns();
            let passed_ms = t1.saturating_sub(begin) / 1_000_000;
            let told_ms = self.barrier.wait(passed_ms as u32, &mut || {
                if let Some(polled) = &mut polled {
                    // An event that comes due is suffered while waiting.
                    let _ = polled.poll(clock.now_ns());
                }
            });
            let t2 = clock.now_ns();
            let ns = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
            let at = room.qt(phase, rank);
            words[at].store(ns(t1.saturating_sub(t0)), Relaxed);
            words[at + 1].store(ns(t2.saturating_sub(t1)), Relaxed);
            if rank == 0 {
                words[room.first].store(phase as u32 + 1, Release);
            }
            // What is left of an event after the release is part of the next
            // phase's work, whose first question it is.
            if told_ms >= each_ms {
                break;
            }
        }
        if let Some(polled) = &mut polled {
            polled.suffer(&clock);
        }
    }
}
