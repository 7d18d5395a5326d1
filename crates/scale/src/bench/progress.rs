// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual ranks: they compute and never meet, one after another on the available CPUs.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use sandbag_jitter::replay::{PolledReplay, ReplayPlan};
use sandbag_linux::clock::Clock;

use super::clock::{AnyClock, PausableClock};
use super::figures::Slowdown;
use super::rank::{LATEST_NS, piled_ns};
use super::ranks::calibrate_first;
use super::settings::{Settings, too_many};
use super::shared::{Shared, fork_each, pin};
use super::times::{BenchTimes, LONGEST_NS, Segment, powers_and_all};
use super::work::Lcg;
use crate::Result;

/// The measured times of virtual ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Virtual {
    /// A segment without jitter and, with a plan, one with it, measured side by side.
    pub times: BenchTimes,
    /// Phases of each rank.
    pub phases: u32,
    /// Phases that were planned: more where the ranks took [`LATE`] times the time, as under
    /// noise of the host beside that of the plan.
    pub planned_phases: u32,
    /// Backlog of the events of each rank at its end, ns.
    pub piled_ns: Vec<u64>,
    /// Duration of the measurement, ns.
    pub took_ns: u64,
    /// Share of a rank's time that the plan gives to jitter, percent: the number of phases is
    /// planned with it.
    pub planned_pct: f64,
}

impl Virtual {
    /// Duration of the works of each phase, with jitter if there was any, ns.
    pub(super) fn phases_ns(&self) -> impl Iterator<Item = &[u32]> {
        let last = self.times.segments.last();
        let ranks = self.times.ranks.max(1) as usize;
        last.into_iter()
            .flat_map(move |s| s.qt_ns.chunks_exact(ranks))
    }

    /// The slowdown of the first 1, 2, 4 and so on of the ranks, and of all.
    pub fn slowdowns(&self) -> Vec<Slowdown> {
        self.times.slowdowns(&powers_and_all(self.times.ranks))
    }
}

/// Phases of a rank, at least: the mean of fewer is useless.
const FEWEST: u64 = 4;
/// After this many times the planned duration no phase begins once each rank has [`FEWEST`].
const LATE: u32 = 2;
/// Words, at most.
const MOST_WORDS: u64 = 1 << 28;
/// Least share of the time that a plan leaves to the work.
const LEAST_LEFT: f64 = 0.02;

/// Plan of a run of virtual ranks.
struct Schedule {
    workers: u64,
    /// Share of the time that the jitter plan leaves to the work, 0 to 1; `None` without one.
    left: Option<f64>,
    /// Phases of each rank that fit into the time together with their jitter; at least
    /// [`FEWEST`].
    phases: u64,
    /// Planned duration without the calibration: longer than requested where not even the fewest
    /// phases fit.
    time: Duration,
}

impl Schedule {
    fn new(settings: &Settings) -> Self {
        let workers = (settings.cpus.len() as u64).min(u64::from(settings.ranks));
        let left = settings.plan.as_ref().map(|plan| {
            let columns = plan.columns() as u64;
            // The durations of phases are added, not the shares: one CPU that is nearly all
            // noise makes most of them.
            let stretch = (0..columns).map(|rank| {
                let column = plan.column(rank);
                let left = 1.0 - column.noise_ns() as f64 / column.known_ns.max(1) as f64;
                1.0 / left.clamp(LEAST_LEFT, 1.0)
            });
            columns.max(1) as f64 / stretch.sum::<f64>().max(1.0)
        });
        // A phase of all ranks, without jitter and with it, and its repeats.
        let quantum_ns = settings.quantum_ns.max(1) as f64;
        let both_ns = quantum_ns + left.map_or(0.0, |left| quantum_ns / left);
        let both_ns = both_ns * f64::from(settings.repeats.max(1));
        let phase_ns = f64::from(settings.ranks) * both_ns / workers.max(1) as f64;
        let phases = (settings.duration.as_nanos() as f64 / phase_ns) as u64;
        let phases = phases.max(FEWEST);
        let time = Duration::try_from_secs_f64(phases as f64 * phase_ns / 1e9);
        Self {
            workers,
            left,
            phases,
            time: time.unwrap_or(Duration::MAX),
        }
    }
}

/// Planned duration of a run of virtual ranks without the calibration.
pub fn planned_time(settings: &Settings) -> Duration {
    Schedule::new(settings).time
}

/// State of a rank between two phases.
#[derive(Clone)]
struct RankProgress {
    lcg: Lcg,
    polled: PolledReplay,
    /// Its own time.
    now_ns: u64,
}

impl RankProgress {
    fn new(plan: Option<&ReplayPlan>, rank: u64) -> Self {
        let polled = plan.map_or_else(PolledReplay::without_events, |plan| {
            plan.rank(rank).polled(0, 0).latest_after(LATEST_NS)
        });
        Self {
            lcg: Lcg::default(),
            polled,
            now_ns: 0,
        }
    }

    /// Does the next phase: its duration, ns, and the state after it. All trials of a phase
    /// begin at the same time of the rank, with the same events ahead.
    fn trial<C: Clock>(&self, iterations: u64, clock: &mut PausableClock<C>) -> (u64, Self) {
        let mut next = self.clone();
        next.polled.begin_phase(next.now_ns);
        // Time between two phases does not count as time of the rank.
        clock.set(next.now_ns);
        next.lcg.work(iterations, clock, &mut next.polled);
        next.now_ns = clock.now_ns();
        (next.now_ns.saturating_sub(self.now_ns), next)
    }
}

/// Ranks of a worker that run side by side.
const SIDE_BY_SIDE: usize = 4096;

/// Runs the phases of several ranks side by side: all ranks do a phase `repeats` times before
/// the next one begins. The fastest trial of a rank counts, and the rank goes on from there:
/// noise of the host makes a phase slower, and seldom lasts through every trial. Stops before
/// the first phase that `is_over` for; returns how many were done.
fn side_by_side<C: Clock>(
    courses: &mut [RankProgress],
    (phases, repeats): (usize, u32),
    iterations: u64,
    clock: &mut PausableClock<C>,
    is_over: impl Fn(usize) -> bool,
    mut keep: impl FnMut(usize, usize, u64),
) -> usize {
    for phase in 0..phases {
        if is_over(phase) {
            return phase;
        }
        let mut fastest: Vec<Option<(u64, RankProgress)>> = vec![None; courses.len()];
        for _ in 0..repeats.max(1) {
            for (course, best) in courses.iter().zip(&mut fastest) {
                let trial = course.trial(iterations, clock);
                if best.as_ref().is_none_or(|best| trial.0 < best.0) {
                    *best = Some(trial);
                }
            }
        }
        let both = courses.iter_mut().zip(fastest).enumerate();
        for (place, (course, best)) in both {
            if let Some((took_ns, next)) = best {
                *course = next;
                keep(place, phase, took_ns);
            }
        }
    }
    phases
}

/// Runs virtual ranks: each phase without jitter and, side by side with it, with the rank's
/// own portion of the plan.
pub fn virtual_ranks(settings: &Settings) -> Result<Virtual> {
    settings.check()?;
    let kinds = 1 + u64::from(settings.plan.is_some());
    let Schedule {
        workers,
        left,
        phases,
        time,
    } = Schedule::new(settings);
    // Two words for the backlog of a rank, and one for the phases of a worker.
    let words = (kinds * phases + 2) * u64::from(settings.ranks) + workers;
    if words > MOST_WORDS {
        return Err(too_many(phases));
    }
    let shared = Shared::new(words as usize)?;
    let clock = PausableClock::new(if settings.cpu_clock {
        AnyClock::Cpu
    } else {
        AnyClock::best()
    });
    let (iterations, calibrated_ns) = calibrate_first(settings, &clock)?;
    let (phases, ranks) = (phases as usize, settings.ranks as usize);
    let lates = kinds as usize * phases * ranks;
    let done = lates + 2 * ranks;
    let begin = Instant::now();
    fork_each(workers as u32, &|worker| {
        pin(settings.cpus[worker as usize % settings.cpus.len()]);
        let words = shared.words();
        let mut clock = clock;
        // Caches and frequency.
        Lcg::default().work(iterations, &clock, &mut PolledReplay::without_events());
        let own: Vec<usize> = (worker as usize..ranks).step_by(workers as usize).collect();
        let mut fewest = phases;
        for some in own.chunks(SIDE_BY_SIDE) {
            let since = Instant::now();
            let most_s =
                time.saturating_mul(LATE).as_secs_f64() * some.len() as f64 / own.len() as f64;
            let is_over =
                |phase: usize| phase as u64 >= FEWEST && since.elapsed().as_secs_f64() > most_s;
            let kinds = 0..kinds as usize;
            let each = some
                .iter()
                .flat_map(|rank| kinds.clone().map(|kind| (*rank, kind)));
            let who: Vec<(usize, usize)> = each.collect();
            let begin = who.iter().map(|(rank, kind)| {
                let plan = settings.plan.as_ref().filter(|_| *kind == 1);
                RankProgress::new(plan, *rank as u64)
            });
            let mut courses: Vec<RankProgress> = begin.collect();
            let often = (phases, settings.repeats);
            let keep = |place: usize, phase: usize, took_ns: u64| {
                let (rank, kind) = who[place];
                let at = (kind * ranks + rank) * phases + phase;
                words[at].store(u32::try_from(took_ns).unwrap_or(LONGEST_NS), Relaxed);
            };
            let made = side_by_side(&mut courses, often, iterations, &mut clock, is_over, keep);
            fewest = fewest.min(made);
            for ((rank, _), course) in who.iter().zip(&courses) {
                // With jitter after without.
                shared.put(lates + 2 * rank, piled_ns(&course.polled, course.now_ns));
            }
        }
        words[done + worker as usize].store(fewest as u32, Relaxed);
        std::sync::atomic::fence(Release);
    })?;
    std::sync::atomic::fence(Acquire);
    let took_ns = begin.elapsed().as_nanos() as u64;
    let words = shared.words();
    let made = (0..workers as usize).map(|worker| words[done + worker].load(Relaxed) as usize);
    let made = made.min().unwrap_or(phases);
    // Workers write rank by rank, so that they do not share cache lines.
    let segment = |kind: usize| Segment {
        jitter: kind == 1,
        qt_ns: (0..made)
            .flat_map(|phase| (0..ranks).map(move |rank| (kind * ranks + rank) * phases + phase))
            .map(|at| words[at].load(Relaxed))
            .collect(),
        ..Segment::default()
    };
    Ok(Virtual {
        times: BenchTimes {
            ranks: settings.ranks,
            iterations,
            calibrated_ns,
            segments: (0..kinds as usize).map(segment).collect(),
            ..BenchTimes::default()
        },
        phases: made as u32,
        planned_phases: phases as u32,
        piled_ns: (0..ranks)
            .map(|rank| shared.take(lates + 2 * rank))
            .collect(),
        took_ns,
        planned_pct: left.map_or(0.0, |left| (1.0 - left) * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::replay::ReplayOptions;

    use super::*;
    use crate::fixture::cpu;

    #[test]
    fn jitter_counts_in_the_number_of_phases() {
        // Half of the time is noise.
        let events: Vec<_> = (0..100).map(|i| (i * 1_000_000, 500_000)).collect();
        let trace = cpu(&[(0, 100_000_000)], &events);
        let plan = ReplayPlan::new(&[&trace], &ReplayOptions::default()).unwrap();
        let schedule = |ranks, repeats, plan: Option<&ReplayPlan>| {
            let found = Schedule::new(&Settings {
                quantum_ns: 1_000_000,
                ranks,
                cpus: vec![0, 1],
                cpu_limit: None,
                duration: Duration::from_secs(30),
                rounds: 1,
                cpu_clock: false,
                repeats,
                plan: plan.cloned(),
            });
            (found.phases, found.time.as_secs())
        };
        // 60 s of two workers; 3 ms for each pair of phases of a rank.
        assert_eq!(schedule(10, 1, Some(&plan)), (2000, 30));
        assert_eq!(schedule(10, 1, None), (6000, 30));
        assert_eq!(schedule(10, 3, None), (2000, 30));
        // Four phases of a million ranks.
        assert_eq!(schedule(1_000_000, 1, None), (FEWEST, 2000));
        // Half of the ranks have no noise at all: 2.5 ms for a pair of phases.
        let quiet = cpu(&[(0, 100_000_000)], &[]);
        let plan = ReplayPlan::new(&[&trace, &quiet], &ReplayOptions::default()).unwrap();
        assert_eq!(schedule(10, 1, Some(&plan)), (2400, 30));
    }

    #[test]
    fn trials_of_a_phase_meet_the_same_events() {
        // One event of 300 us in each ms, all on the rank's own time.
        let events: Vec<_> = (0..50)
            .map(|i| (i * 1_000_000 + 200_000, 300_000))
            .collect();
        let trace = cpu(&[(0, 50_000_000)], &events);
        let options = ReplayOptions {
            share: 1.0,
            random: false,
            ..ReplayOptions::default()
        };
        let plan = ReplayPlan::new(&[&trace], &options).unwrap();
        // Each look at the clock takes a microsecond: five phases of 5000 iterations and
        // of the events between them, on any machine.
        let now_ns = std::cell::Cell::new(0);
        let mut clock = PausableClock::new(|| {
            now_ns.set(now_ns.get() + 1000);
            now_ns.get()
        });
        let mut courses = [
            RankProgress::new(Some(&plan), 0),
            RankProgress::new(None, 0),
        ];
        let mut kept = Vec::new();
        let keep = |place, phase, took_ns| kept.push((place, phase, took_ns));
        let is_over = |phase| phase == 5;
        let made = side_by_side(&mut courses, (9, 3), 5000, &mut clock, is_over, keep);
        assert_eq!(made, 5);
        let order: Vec<_> = kept
            .iter()
            .map(|(place, phase, _)| (*phase, *place))
            .collect();
        assert!(order.is_sorted() && order.len() == 10, "{order:?}");
        let of_first = kept.iter().filter(|kept| kept.0 == 0);
        let took_ns: u64 = of_first.map(|kept| kept.2).sum();
        let course = &mut courses[0];
        assert!(course.now_ns.abs_diff(took_ns) < 100_000, "{took_ns}");
        // Of three trials of each phase one counts: no event is suffered twice.
        let asked = course.polled.outcome().counts.asked;
        let passed = course.now_ns / 1_000_000;
        assert!(
            asked.abs_diff(passed) <= 1,
            "{asked} in {} ns",
            course.now_ns
        );
    }
}
