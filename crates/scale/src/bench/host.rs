// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the noise of the host itself adds to the prediction: a replay of the trace with the
//! work that ranks measured without jitter, against one with the calibrated quantum. Pure.
//!
//! A rank that is late already, because its CPU is slower or the host delayed it, hides the
//! noise of the others. Longer work meets more noise.

use sandbag_jitter::replay::ReplayPlan;
use sandbag_stats::error_of_mean;
use serde::Serialize;

use super::draw::{Draw, Way};
use super::meets::{WorkStart, is_full, met_ns};
use super::progress::Virtual;
use super::times::{BenchTimes, powers_and_all};
use crate::chance::Chance;

/// Expectation for ranks that meet, by a replay of the phases without jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnHost {
    /// Percent over the time of those phases.
    pub pct: f64,
    /// Percent over the calibrated quantum, for a host without noise. Ranks that are not
    /// synchronised begin outside events ([`Starts::Running`](crate::predict::Starts)), where
    /// the prediction is for ranks that wait: only the difference of `pct` and this counts.
    pub alone_pct: f64,
}

impl OnHost {
    /// What the host adds to a prediction, points.
    pub fn adds_points(&self) -> f64 {
        self.pct - self.alone_pct
    }
}

/// Expectation for the first virtual ranks, with and without the noise of the host, and the
/// uncertainty of its comparison with the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WithHost {
    pub ranks: u32,
    /// Percent over the calibrated quantum, noise of the host included.
    pub pct: f64,
    /// Percent over the calibrated quantum, for a host without noise.
    pub alone_pct: f64,
    /// Half-width of the 95 % confidence interval of (measured - what the host adds -
    /// predicted), points, from the differences phase by phase; `None` of fewer than two.
    pub apart_points: Option<f64>,
    /// Half-width of the 95 % confidence interval of `alone_pct` over all positions, points.
    pub alone_points: Option<f64>,
    /// Measured less a replay at the positions where the ranks were, points, and the
    /// half-width of its 95 % confidence interval: it has no chance of positions in it.
    pub beside_points: Option<(f64, f64)>,
}

/// Works of ranks that meet that are replayed, about.
const WORKS: u64 = 1 << 22;
/// Works of virtual ranks that are replayed, at most.
const MOST_WORKS: u64 = 1 << 24;
/// Replays of phases of virtual ranks, at least.
const PHASES: u64 = 1000;

/// Whether a phase is one of the sample that is replayed: one in `step`, at random, because a
/// host may do things regularly.
fn is_sampled(seed: u64, phase: u64, step: u64) -> bool {
    Chance::new(!seed, phase).below(step) == 0
}

impl BenchTimes {
    /// Replays phases without jitter, with noise at random positions. `None` without such
    /// phases, and where noise leaves hardly any time.
    pub fn on_host(&self, plan: &ReplayPlan, seed: u64) -> Option<OnHost> {
        let ranks = self.ranks.max(1) as usize;
        let works: usize = self.segments_of(false).map(|s| s.qt_ns.len()).sum();
        if is_full(plan) || works == 0 {
            return None;
        }
        let works = works as u64;
        let step = works.div_ceil(WORKS).max(1);
        let draws = (WORKS * step / works).clamp(1, 64);
        let works = self
            .segments_of(false)
            .flat_map(|s| s.qt_ns.chunks_exact(ranks));
        let whole = self.slowest_ns(false, &[self.ranks]).remove(0);
        let (mut took_ns, mut more_ns, mut alone_ns, mut count) = (0.0, 0.0, 0.0, 0.0);
        for (number, (qt_ns, whole_ns)) in (0u64..).zip(works.zip(whole)) {
            if !is_sampled(seed, number, step) {
                continue;
            }
            let slowest_ns = qt_ns.iter().max().map_or(0, |ns| u64::from(*ns));
            for draw in 0..draws {
                let mut draw = Draw::new(seed, number * draws + draw);
                for (rank, qt_ns) in (0..).zip(qt_ns) {
                    let work_ns = (u64::from(*qt_ns), self.calibrated_ns);
                    draw.add(plan, rank, WorkStart::At, work_ns);
                }
                more_ns += (draw.with_host_ns - slowest_ns) as f64;
                alone_ns += (draw.alone_ns - self.calibrated_ns) as f64;
            }
            took_ns += whole_ns as f64;
            count += draws as f64;
        }
        let quantum_ns = self.calibrated_ns.max(1) as f64;
        (took_ns > 0.0).then(|| OnHost {
            pct: more_ns / draws as f64 / took_ns * 100.0,
            alone_pct: alone_ns / count / quantum_ns * 100.0,
        })
    }
}

/// The slowest of the first ranks in a phase, ns.
#[derive(Clone, Copy)]
struct ReplayedPhase {
    measured: f64,
    /// Mean of the replays at random positions with the noise of the host.
    with_host: f64,
    /// Mean of those without it.
    alone: f64,
    /// Replay where the ranks were, with the noise of the host.
    there: f64,
}

fn figures(ranks: u32, calibrated_ns: u64, all: &[ReplayedPhase]) -> WithHost {
    let calibrated = calibrated_ns.max(1) as f64;
    let mean = |of: fn(&ReplayedPhase) -> f64| {
        all.iter().map(of).sum::<f64>() / all.len().max(1) as f64 / calibrated
    };
    let half = |of: fn(&ReplayedPhase) -> f64| {
        error_of_mean(all.iter().map(of)).map(|ns| ns / calibrated * 100.0)
    };
    let beside = |one: &ReplayedPhase| one.measured - one.there;
    WithHost {
        ranks,
        pct: (mean(|one| one.with_host) - 1.0) * 100.0,
        alone_pct: (mean(|one| one.alone) - 1.0) * 100.0,
        apart_points: half(|one| one.measured - (one.with_host - one.alone)),
        alone_points: half(|one| one.alone),
        beside_points: half(beside).map(|error| (mean(beside) * 100.0, error)),
    }
}

impl Virtual {
    /// Replays phases with the work that each rank measured for the same phase without
    /// jitter, right before: the speed of the host changes from phase to phase. Positions
    /// are random; synchronised ranks have a common one and their measured distance from it.
    /// `None` where noise leaves hardly any time.
    pub fn with_host(&self, plan: &ReplayPlan, seed: u64) -> Option<Vec<WithHost>> {
        let ranks = self.times.ranks;
        let (quiet, jitter) = match &self.times.segments[..] {
            [quiet, jitter] if !is_full(plan) => (quiet, jitter),
            _ => return None,
        };
        let phases = u64::from(self.phases.max(1));
        let step = (phases * u64::from(ranks)).div_ceil(MOST_WORKS).max(1);
        let replayed = phases.div_ceil(step);
        let most = MOST_WORKS / (replayed * u64::from(ranks));
        let draws = PHASES.div_ceil(replayed).min(most).max(1);
        let mut ways: Vec<Way> = (0..u64::from(ranks))
            .map(|rank| Way::new(plan.rank(rank)))
            .collect();
        let counts = powers_and_all(ranks);
        let mut found = vec![Vec::new(); counts.len()];
        let works = quiet.qt_ns.chunks_exact(ranks as usize);
        let measured = jitter.qt_ns.chunks_exact(ranks as usize);
        for (phase, (works, measured)) in (0..).zip(works.zip(measured)) {
            for way in &mut ways {
                way.begin(phase);
            }
            if is_sampled(seed, phase, step) {
                let draws = (0..draws).map(|draw| Draw::new(seed, draw * phases + phase));
                let all = self.replay(plan, &ways, (works, measured), draws.collect());
                for (found, one) in found.iter_mut().zip(all) {
                    found.push(one);
                }
            }
            for (way, ns) in ways.iter_mut().zip(measured) {
                way.pass(u64::from(*ns));
            }
        }
        let each = counts.iter().zip(&found).filter(|(_, all)| !all.is_empty());
        let each = each.map(|(ranks, all)| figures(*ranks, self.times.calibrated_ns, all));
        Some(each.collect()).filter(|all: &Vec<_>| !all.is_empty())
    }

    /// Replays one phase, for 1, 2, 4 and so on of its ranks.
    fn replay(
        &self,
        plan: &ReplayPlan,
        ways: &[Way],
        (works, measured): (&[u32], &[u32]),
        mut draws: Vec<Draw>,
    ) -> Vec<ReplayedPhase> {
        let (mut slowest_ns, mut there_ns) = (0, 0);
        let mut all = Vec::new();
        for (rank, (way, (work_ns, took_ns))) in
            (0..).zip(ways.iter().zip(works.iter().zip(measured)))
        {
            let work_ns = u64::from(*work_ns);
            for draw in &mut draws {
                let both = (work_ns, self.times.calibrated_ns);
                draw.add(plan, rank, |at_ns| way.from(at_ns), both);
            }
            let met_ns = met_ns(plan.column(u64::from(rank)), way.here(), work_ns);
            there_ns = there_ns.max(work_ns + met_ns);
            slowest_ns = slowest_ns.max(*took_ns);
            let ranks = rank + 1;
            if ranks.is_power_of_two() || ranks == self.times.ranks {
                let mean = |of: fn(&Draw) -> u64| {
                    let sum: f64 = draws.iter().map(|draw| of(draw) as f64).sum();
                    sum / draws.len() as f64
                };
                all.push(ReplayedPhase {
                    measured: f64::from(slowest_ns),
                    with_host: mean(|draw| draw.with_host_ns),
                    alone: mean(|draw| draw.alone_ns),
                    there: there_ns as f64,
                });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use sandbag_jitter::replay::Sync;

    use super::super::fixture::{bench_times, plan, virtual_times};
    use super::*;

    const SYNCS: [Sync; 4] = [Sync::None, Sync::Once, Sync::Phases(1), Sync::Phases(7)];

    /// Two ranks that take this long in each of 1000 phases without jitter.
    fn meeting(qt_ns: [u32; 2]) -> BenchTimes {
        let bt_ns = [
            qt_ns[1].saturating_sub(qt_ns[0]),
            qt_ns[0].saturating_sub(qt_ns[1]),
        ];
        let quiet = (false, qt_ns.repeat(1000), bt_ns.repeat(1000));
        bench_times(400, [quiet, (true, vec![9999; 2], vec![0; 2])])
    }

    #[test]
    fn a_host_that_treats_ranks_equally_adds_nothing() {
        for sync in SYNCS {
            let found = meeting([400; 2]).on_host(&plan(sync), 1).unwrap();
            // Of two ranks: 50 ns in two of three phases, more or less.
            assert!((6.0..11.5).contains(&found.pct), "{sync:?} {found:?}");
            assert!(found.adds_points().abs() < 1e-9, "{sync:?} {found:?}");
        }
    }

    #[test]
    fn a_late_rank_hides_the_noise_of_the_others() {
        // The second is later by more than an event: only its own noise counts.
        let found = meeting([400, 500]).on_host(&plan(Sync::None), 1).unwrap();
        // One in each 950 ns of work: 50 of 950 of its time.
        assert!((found.pct - 100.0 * 50.0 / 950.0).abs() < 0.3, "{found:?}");
        assert!(found.adds_points() < -1.0, "{found:?}");
    }

    #[test]
    fn without_phases_there_is_no_expectation() {
        let mut none = meeting([400; 2]);
        none.segments.remove(0);
        assert_eq!(none.on_host(&plan(Sync::None), 1), None);
    }

    /// 200 phases of 64 virtual ranks that have this work, 950 ns or 400, and take longer.
    fn many(work_ns: u32, took_ns: u32) -> Virtual {
        virtual_times(
            64,
            u64::from(work_ns),
            vec![work_ns; 64 * 200],
            vec![took_ns; 64 * 200],
        )
    }

    #[test]
    fn virtual_ranks_meet_the_noise_of_their_position() {
        for sync in SYNCS {
            let all = many(950, 1000).with_host(&plan(sync), 1).unwrap();
            assert_eq!(all.len(), 7);
            for one in all {
                // Each work meets one event, more or less.
                let pct = 100.0 * 50.0 / 950.0;
                assert!((one.pct - pct).abs() < 0.7, "{sync:?} {one:?}");
                assert_eq!(one.pct, one.alone_pct);
                assert!(one.apart_points.unwrap() < 0.5, "{one:?}");
            }
        }
    }

    #[test]
    fn ranks_at_one_position_meet_the_same() {
        // Work of 400 meets an event in four of nine positions; two ranks on the same CPU
        // both do, or none, if they are together.
        let short = many(400, 425);
        let pct = |sync| {
            let all = short.with_host(&plan(sync), 1).unwrap();
            all.last().unwrap().alone_pct
        };
        // Both CPUs: at 0.4 + 0.4 of the positions.
        assert!((pct(Sync::Phases(1)) - 0.8 * 12.5).abs() < 1.5);
        assert!(pct(Sync::None) > 12.4);
    }

    #[test]
    fn the_host_is_that_of_the_same_phase_and_longer_work_meets_more() {
        // Phases of two speeds, each the same for all ranks.
        let mut two = many(950, 1000);
        for phase in two.times.segments[0].qt_ns.chunks_exact_mut(64).step_by(2) {
            phase.fill(1900);
        }
        let all = two.with_host(&plan(Sync::None), 1).unwrap();
        // 950 and 50, 1900 and 100.
        assert!((all[0].pct - (1500.0 / 950.0 - 1.0) * 100.0).abs() < 2.0);
        assert!((all[6].pct - all[0].pct).abs() < 4.0, "{all:?}");
        assert!(all[0].alone_pct < 6.0);
        // In every second phase about 500 less than was measured.
        assert!(all[0].apart_points.unwrap() > 5.0);
    }

    /// What ranks measure that take no time to ask, and have this work.
    fn measured(plan: &ReplayPlan, (ranks, phases): (u32, usize), work_ns: u32) -> Virtual {
        let size = ranks as usize * phases;
        let mut jitter_ns = vec![0; size];
        for rank in 0..ranks {
            let mut polled = plan.rank(u64::from(rank)).polled(0, 0);
            let mut now_ns = 0;
            for phase in 0..phases {
                polled.begin_phase(now_ns);
                let begin_ns = now_ns;
                for _ in 0..work_ns {
                    while let Some(until_ns) = polled.poll(now_ns) {
                        now_ns = until_ns;
                    }
                    now_ns += 1;
                }
                jitter_ns[phase * ranks as usize + rank as usize] = (now_ns - begin_ns) as u32;
            }
        }
        virtual_times(ranks, u64::from(work_ns), vec![work_ns; size], jitter_ns)
    }

    #[test]
    fn a_replay_where_ranks_were_is_what_they_measured() {
        for sync in SYNCS {
            let plan = plan(sync);
            let all = measured(&plan, (16, 60), 700).with_host(&plan, 1).unwrap();
            for one in &all {
                let (more, error) = one.beside_points.unwrap();
                assert!(more.abs() < 0.02 && error < 0.05, "{sync:?} {one:?}");
            }
            // Elsewhere they meet another number of events.
            let apart = all.iter().map(|one| one.apart_points.unwrap());
            assert!(apart.sum::<f64>() > 0.1, "{sync:?} {all:?}");
        }
    }
}
