// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual ranks: they compute and never meet, one after another on the CPUs
//! there are.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use sandbag_inject::Plan;
use sandbag_inject::clock::Clock as _;

use super::clock::AnyClock;
use super::rank::{LATEST_NS, piled_ns};
use super::ranks::calibrated;
use super::shared::{Shared, fork_each, pin};
use super::work::Lcg;
use super::{Settings, too_many};
use crate::Result;

/// What virtual ranks measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Virtual {
    /// Ranks.
    pub ranks: u32,
    /// Phases of each.
    pub phases: u32,
    /// Iterations of the work.
    pub iterations: u64,
    /// How long they took at least when they were calibrated, ns.
    pub calibrated_ns: u64,
    /// With jitter: rank by rank, phase by phase, ns. Empty without a plan.
    pub jitter_ns: Vec<u32>,
    /// Without, right before.
    pub quiet_ns: Vec<u32>,
    /// What had piled up of the events of each rank when it ended, ns.
    pub piled_ns: Vec<u32>,
    /// How long all of it took, ns.
    pub took_ns: u64,
    /// What jitter was planned to take, percent of a rank's time; phases are as
    /// many as then fit.
    pub planned_pct: f64,
}

/// Phases of a rank, at least: fewer would be no mean.
const FEWEST: u64 = 4;
/// Words, at most.
const MOST_WORDS: u64 = 1 << 28;
/// What an event takes beside its length: to be booked, and to begin late, ns.
const EVENT_NS: f64 = 150.0;
/// No plan leaves less of the time to the work.
const LEAST_LEFT: f64 = 0.02;

/// Share of the time that a plan leaves to the work, 0 to 1.
fn left(plan: &Plan) -> f64 {
    let columns = plan.columns() as u64;
    let left = (0..columns).map(|rank| {
        let column = plan.column(rank);
        let taken = column.noise_ns() as f64 + EVENT_NS * column.events.len() as f64;
        1.0 - taken / column.known_ns.max(1) as f64
    });
    let mean = left.sum::<f64>() / columns.max(1) as f64;
    mean.clamp(LEAST_LEFT, 1.0)
}

/// Phases of each rank that fit into the time, with the jitter in it; not fewer
/// than a few.
fn fitting(settings: &Settings, workers: u64, left: Option<f64>) -> u64 {
    let quantum_ns = settings.quantum_ns.max(1) as f64;
    // One without jitter, and one with.
    let both_ns = quantum_ns + left.map_or(0.0, |left| quantum_ns / left);
    let time_ns = settings.duration.as_nanos() as f64 * workers as f64;
    let phases = time_ns / (f64::from(settings.ranks) * both_ns);
    (phases as u64).max(FEWEST)
}

/// Each rank computes some phases without jitter, then as many with its own
/// portion of the plan.
///
/// # Errors
/// As of [`super::measure`].
pub fn virtual_ranks(settings: &Settings) -> Result<Virtual> {
    settings.check()?;
    let workers = (settings.cpus.len() as u64).min(u64::from(settings.ranks));
    let kinds = 1 + u64::from(settings.plan.is_some());
    let left = settings.plan.as_ref().map(left);
    let phases = fitting(settings, workers, left);
    let words = (kinds * phases + 1) * u64::from(settings.ranks);
    if words > MOST_WORDS {
        return Err(too_many(phases));
    }
    let shared = Shared::new(words as usize)?;
    let clock = match settings.cpu_clock {
        true => AnyClock::Cpu,
        false => AnyClock::best(),
    };
    let (iterations, calibrated_ns) = calibrated(settings, &clock)?;
    let (phases, ranks) = (phases as usize, settings.ranks as usize);
    let lates = kinds as usize * phases * ranks;
    let begin = Instant::now();
    fork_each(workers as u32, &|worker| {
        pin(settings.cpus[worker as usize % settings.cpus.len()]);
        let words = shared.words();
        let mut lcg = Lcg::default();
        // Caches and frequency.
        lcg.work(iterations, &clock, None);
        for rank in (worker as usize..ranks).step_by(workers as usize) {
            for kind in 0..kinds as usize {
                let plan = settings.plan.as_ref().filter(|_| kind == 1);
                let mut polled = plan.map(|plan| {
                    let polled = plan.rank(rank as u64).polled(0, clock.now_ns());
                    polled.latest_after(LATEST_NS)
                });
                if let Some(polled) = &mut polled {
                    polled.begin(clock.now_ns());
                }
                for phase in 0..phases {
                    if let Some(polled) = &mut polled {
                        polled.begin_phase(clock.now_ns());
                    }
                    let begin = clock.now_ns();
                    lcg.work(iterations, &clock, polled.as_mut());
                    let took = clock.now_ns().saturating_sub(begin);
                    let at = (kind * ranks + rank) * phases + phase;
                    words[at].store(u32::try_from(took).unwrap_or(u32::MAX), Relaxed);
                }
                if let Some(polled) = &polled {
                    let late = u32::try_from(piled_ns(polled, clock.now_ns()));
                    words[lates + rank].store(late.unwrap_or(u32::MAX), Relaxed);
                }
            }
        }
        std::sync::atomic::fence(Release);
    })?;
    std::sync::atomic::fence(Acquire);
    let took_ns = begin.elapsed().as_nanos() as u64;
    let between = |from: usize, count: usize| -> Vec<u32> {
        let words = &shared.words()[from..from + count];
        words.iter().map(|word| word.load(Relaxed)).collect()
    };
    let of = |kind: usize| between(kind * ranks * phases, ranks * phases);
    Ok(Virtual {
        ranks: settings.ranks,
        phases: phases as u32,
        iterations,
        calibrated_ns,
        jitter_ns: if kinds == 2 { of(1) } else { Vec::new() },
        quiet_ns: of(0),
        piled_ns: between(lates, ranks),
        took_ns,
        planned_pct: left.map_or(0.0, |left| (1.0 - left) * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbag_inject::Options;
    use sandbag_jitter::{CpuTrace, Event, Span};

    use super::*;

    #[test]
    fn what_jitter_adds_is_in_the_number_of_phases() {
        // Half of the time is noise.
        let events = (0..100).map(|i| Event {
            start_ns: i * 1_000_000,
            length_ns: 500_000,
        });
        let trace = CpuTrace {
            cpu: 0,
            known: vec![Span {
                from_ns: 0,
                until_ns: 100_000_000,
            }],
            events: events.collect(),
        };
        let plan = Plan::new(&[&trace], &Options::default()).unwrap();
        assert!((left(&plan) - 0.5).abs() < 1e-3);
        let settings = Settings {
            quantum_ns: 1_000_000,
            ranks: 10,
            cpus: vec![0, 1],
            duration: Duration::from_secs(30),
            rounds: 1,
            cpu_clock: false,
            plan: None,
        };
        // 60 s of two workers; 3 ms for each pair of phases of a rank.
        assert_eq!(fitting(&settings, 2, Some(0.5)), 2000);
        assert_eq!(fitting(&settings, 2, None), 6000);
        let many = Settings {
            ranks: 1_000_000,
            ..settings
        };
        assert_eq!(fitting(&many, 2, None), FEWEST);
    }
}
