// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual ranks: they compute and never meet, one after another on the CPUs
//! there are.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sandbag_inject::clock::Clock as _;

use super::clock::AnyClock;
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
}

/// Phases of a rank, at least: fewer would be no mean.
const FEWEST: u64 = 4;
/// Words, at most.
const MOST_WORDS: u64 = 1 << 28;

/// Each rank computes some phases without jitter, then as many with its own
/// portion of the plan.
///
/// # Errors
/// As of [`super::measure`].
pub fn virtual_ranks(settings: &Settings) -> Result<Virtual> {
    settings.check()?;
    let workers = (settings.cpus.len() as u64).min(u64::from(settings.ranks));
    let kinds = 1 + u64::from(settings.plan.is_some());
    let all = settings.duration.as_nanos() as u64 / settings.quantum_ns.max(1) * workers;
    let phases = (all / (u64::from(settings.ranks) * kinds)).max(FEWEST);
    let words = kinds * phases * u64::from(settings.ranks);
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
    fork_each(workers as u32, &|worker| {
        pin(settings.cpus[worker as usize % settings.cpus.len()]);
        let words = shared.words();
        let mut lcg = Lcg::default();
        // Caches and frequency.
        lcg.work(iterations, &clock, None);
        for rank in (worker as usize..ranks).step_by(workers as usize) {
            for kind in 0..kinds as usize {
                let plan = settings.plan.as_ref().filter(|_| kind == 1);
                let mut polled = plan.map(|plan| plan.rank(rank as u64).polled(0, clock.now_ns()));
                if let Some(polled) = &mut polled {
                    polled.begin(clock.now_ns());
                }
                for phase in 0..phases {
                    if let Some(polled) = &mut polled {
                        // An event must not be under way.
                        polled.suffer(&clock);
                        polled.begin_phase(clock.now_ns());
                    }
                    let begin = clock.now_ns();
                    lcg.work(iterations, &clock, polled.as_mut());
                    let took = clock.now_ns().saturating_sub(begin);
                    let at = (kind * ranks + rank) * phases + phase;
                    words[at].store(u32::try_from(took).unwrap_or(u32::MAX), Relaxed);
                }
            }
        }
        std::sync::atomic::fence(Release);
    })?;
    std::sync::atomic::fence(Acquire);
    let of = |kind: usize| {
        let from = kind * ranks * phases;
        let words = &shared.words()[from..from + ranks * phases];
        words.iter().map(|word| word.load(Relaxed)).collect()
    };
    Ok(Virtual {
        ranks: settings.ranks,
        phases: phases as u32,
        iterations,
        calibrated_ns,
        jitter_ns: if kinds == 2 { of(1) } else { Vec::new() },
        quiet_ns: of(0),
    })
}
