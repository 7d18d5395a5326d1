// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be expected of virtual ranks that meet noise on a host that has noise
//! of its own. Pure.

use sandbag_jitter::replay::{ReplayPlan, Sync};
use sandbag_stats::error_of_mean;
use serde::Serialize;

use super::meets::{WorkStart, is_full, met_ns};
use super::position::Position;
use super::progress::Virtual;
use super::transit::OnTheWay;
use crate::chance::Chance;

/// The slowest of virtual ranks, replayed beside the host's own and without it, and
/// how sure it is that what was measured is another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WithHost {
    pub ranks: u32,
    /// Percent more than the calibrated quantum, the host's own included.
    pub pct: f64,
    /// The same of a host that has nothing of its own: what the predictor says.
    pub alone_pct: f64,
    /// What was measured, less what the host adds (`pct` less `alone_pct`), lies within so
    /// many points of what is predicted in 95 % of such runs, as far as phases and positions
    /// differ by chance (from the differences, phase by phase); `None` of fewer than two.
    pub apart_points: Option<f64>,
    /// `alone_pct` lies within so many points of the mean over all positions (95 %, in the
    /// same way).
    pub alone_points: Option<f64>,
    /// What was measured is more by so many points than a replay of ranks that are
    /// where these were, and within so many of that (95 %, in the same way): no
    /// chance of positions is in it. `None` if they are not known: the trace was
    /// stretched, or a portion was used up.
    pub beside_points: Option<(f64, f64)>,
}

/// Phases that are replayed, at least.
const PHASES: u64 = 1000;
/// Works that are replayed, at most, where there are many ranks and phases: some of
/// the phases, by chance, stand for all then.
const MOST_WORKS: u64 = 1 << 24;

/// A replay of one phase.
struct Draw {
    position: Position,
    /// The slowest so far: with the host's own, and without.
    most_ns: (u64, u64),
}

impl Draw {
    fn new(seed: u64, number: u64) -> Self {
        Self {
            position: Position::new(seed, number),
            most_ns: (0, 0),
        }
    }
}

/// Of a number of ranks.
#[derive(Default)]
struct HostFigures {
    ranks: u32,
    /// Phase by phase, ns.
    phases: Vec<ReplayedPhase>,
}

/// The slowest of a phase, ns.
#[derive(Clone, Copy)]
struct ReplayedPhase {
    measured: f64,
    /// Replayed at positions by chance with the host's own, mean.
    with_host: f64,
    /// The same without.
    alone: f64,
    /// Replayed where ranks really were, with the host's own.
    there: Option<f64>,
}

impl HostFigures {
    fn figures(&self, calibrated_ns: u64) -> WithHost {
        let calibrated = calibrated_ns.max(1) as f64;
        let all = &self.phases;
        let mean = |of: fn(&ReplayedPhase) -> f64| {
            all.iter().map(of).sum::<f64>() / all.len().max(1) as f64 / calibrated
        };
        let half = |of: fn(&ReplayedPhase) -> f64| {
            error_of_mean(all.iter().map(of)).map(|ns| ns / calibrated * 100.0)
        };
        let beside = |one: &ReplayedPhase| one.measured - one.there.unwrap_or(0.0);
        let known = all.iter().all(|one| one.there.is_some());
        WithHost {
            ranks: self.ranks,
            pct: (mean(|one| one.with_host) - 1.0) * 100.0,
            alone_pct: (mean(|one| one.alone) - 1.0) * 100.0,
            apart_points: half(|one| one.measured - (one.with_host - one.alone)),
            alone_points: half(|one| one.alone),
            beside_points: half(beside)
                .filter(|_| known)
                .map(|error| (mean(beside) * 100.0, error)),
        }
    }
}

impl Virtual {
    /// What would be measured if ranks met noise and, beside it, what the host has of
    /// its own: the slowest of the first so many. The host's own is how long each
    /// rank took for that phase without jitter (right before: the host's speed
    /// changes from phase to phase). The noise is that of a position by chance, met
    /// by work of this length: who takes longer meets more. Ranks that were
    /// synchronised have one position, and are as far from it as they were. `None` where
    /// noise leaves hardly anything.
    #[must_use]
    pub fn with_host(&self, plan: &ReplayPlan, seed: u64) -> Option<Vec<WithHost>> {
        if is_full(plan) {
            return None;
        }
        let phases = u64::from(self.phases.max(1));
        let each = phases * u64::from(self.ranks.max(1));
        let step = each.div_ceil(MOST_WORKS).max(1);
        let replayed = phases.div_ceil(step);
        let most = MOST_WORKS / (replayed * u64::from(self.ranks.max(1)));
        let draws = PHASES.div_ceil(replayed).min(most).max(1);
        let portions = (0..u64::from(self.ranks)).map(|rank| plan.rank(rank));
        let mut ranks: Vec<OnTheWay> = portions.map(OnTheWay::new).collect();
        let mut found: Vec<HostFigures> = Vec::new();
        for phase in 0..phases {
            for rank in &mut ranks {
                rank.begin(phase);
            }
            // Not every so many, which might be those that ranks begin together.
            if Chance::new(!seed, phase).below(step) == 0 {
                let mut all: Vec<Draw> = (0..draws)
                    .map(|draw| Draw::new(seed, draw * phases + phase))
                    .collect();
                self.replay(plan, phase, &ranks, &mut all, &mut found);
            }
            for (number, rank) in (0..).zip(&mut ranks) {
                rank.pass(self.took_ns(&self.jitter_ns, number, phase));
            }
        }
        let all = found.iter().map(|one| one.figures(self.calibrated_ns));
        Some(all.collect()).filter(|all: &Vec<_>| !all.is_empty())
    }

    /// One phase of all ranks, in each of the draws.
    fn replay(
        &self,
        plan: &ReplayPlan,
        phase: u64,
        all: &[OnTheWay],
        draws: &mut [Draw],
        found: &mut Vec<HostFigures>,
    ) {
        let sync = plan.options().sync;
        let (mut slowest_ns, mut at) = (0, 0);
        // Where they really were.
        let mut there_ns = Some(0);
        for (rank, on_the_way) in (0u32..).zip(all) {
            let column = plan.column(u64::from(rank));
            let group = u64::from(rank / plan.options().group.max(1));
            let own_ns = self.took_ns(&self.quiet_ns, rank, phase);
            slowest_ns = slowest_ns.max(self.took_ns(&self.jitter_ns, rank, phase));
            let took = |begin, work_ns| work_ns + met_ns(column, begin, work_ns);
            for draw in &mut *draws {
                let begin = match sync {
                    Sync::None => WorkStart::After(draw.position.of_group(group, column)),
                    Sync::Once | Sync::Phases(_) => on_the_way.from(draw.position.common(column)),
                };
                draw.most_ns.0 = draw.most_ns.0.max(took(begin, own_ns));
                draw.most_ns.1 = draw.most_ns.1.max(took(begin, self.calibrated_ns));
            }
            there_ns = there_ns
                .zip(on_the_way.arrival())
                .map(|(most_ns, begin)| most_ns.max(took(begin, own_ns)));
            let ranks = rank + 1;
            if ranks.is_power_of_two() || ranks == self.ranks {
                if found.len() == at {
                    found.push(HostFigures {
                        ranks,
                        ..HostFigures::default()
                    });
                }
                let mean = |of: fn(&Draw) -> u64| {
                    let sum: f64 = draws.iter().map(|draw| of(draw) as f64).sum();
                    sum / draws.len() as f64
                };
                found[at].phases.push(ReplayedPhase {
                    measured: slowest_ns as f64,
                    with_host: mean(|draw| draw.most_ns.0),
                    alone: mean(|draw| draw.most_ns.1),
                    there: there_ns.map(|ns| ns as f64),
                });
                at += 1;
            }
        }
    }

    /// How long a rank took for a phase, ns.
    fn took_ns(&self, all: &[u32], rank: u32, phase: u64) -> u64 {
        let place = rank as usize * self.phases as usize + phase as usize;
        all.get(place).map_or(0, |ns| u64::from(*ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{plan, three};
    use super::*;

    /// Many ranks that take 950 ns without jitter, 1000 with.
    fn many_ranks() -> Virtual {
        Virtual {
            ranks: 64,
            phases: 200,
            calibrated_ns: 950,
            jitter_ns: vec![1000; 64 * 200],
            quiet_ns: vec![950; 64 * 200],
            ..three()
        }
    }

    #[test]
    fn ranks_meet_what_their_position_holds() {
        for sync in [Sync::None, Sync::Once, Sync::Phases(1), Sync::Phases(7)] {
            let all = many_ranks().with_host(&plan(sync), 1).unwrap();
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
    fn who_is_together_meets_the_same() {
        // Work of 400 meets an event in four of nine positions; of two ranks on the
        // same CPU both do, or none, if they are together.
        let short = Virtual {
            calibrated_ns: 400,
            jitter_ns: vec![425; 64 * 200],
            quiet_ns: vec![400; 64 * 200],
            ..many_ranks()
        };
        let pct = |sync| {
            short
                .with_host(&plan(sync), 1)
                .unwrap()
                .last()
                .unwrap()
                .alone_pct
        };
        // Both CPUs: at 0.4 + 0.4 of the positions.
        assert!((pct(Sync::Phases(1)) - 0.8 * 12.5).abs() < 1.5);
        assert!(pct(Sync::None) > 12.4);
    }

    #[test]
    fn the_host_is_that_of_the_same_phase_and_longer_work_meets_more() {
        // Phases of two speeds, in each of which all ranks are alike.
        let two = |slow| Virtual {
            quiet_ns: (0..64 * 200)
                .map(|i| if i % 2 == 0 { 950 } else { slow })
                .collect(),
            ..many_ranks()
        };
        let all = two(1900).with_host(&plan(Sync::None), 1).unwrap();
        // 950 and 50, 1900 and 100.
        assert!((all[0].pct - (1500.0 / 950.0 - 1.0) * 100.0).abs() < 2.0);
        assert!((all[6].pct - all[0].pct).abs() < 4.0, "{all:?}");
        assert!(all[0].alone_pct < 6.0);
        // Always 500 or so less than what was measured in every second phase.
        assert!(all[0].apart_points.unwrap() > 5.0);
    }

    /// What ranks measure that take no time to ask, and work for so long.
    fn measured(plan: &ReplayPlan, (ranks, phases): (u32, u32), work_ns: u64) -> Virtual {
        let mut jitter_ns = Vec::new();
        for rank in 0..ranks {
            let mut polled = plan.rank(u64::from(rank)).polled(0, 0);
            let mut now_ns = 0;
            for _ in 0..phases {
                polled.begin_phase(now_ns);
                let begin_ns = now_ns;
                for _ in 0..work_ns {
                    while let Some(until_ns) = polled.poll(now_ns) {
                        now_ns = until_ns;
                    }
                    now_ns += 1;
                }
                jitter_ns.push((now_ns - begin_ns) as u32);
            }
        }
        Virtual {
            ranks,
            phases,
            calibrated_ns: work_ns,
            quiet_ns: vec![work_ns as u32; jitter_ns.len()],
            jitter_ns,
            ..three()
        }
    }

    #[test]
    fn a_replay_where_ranks_were_is_what_they_measured() {
        for sync in [Sync::None, Sync::Once, Sync::Phases(1), Sync::Phases(7)] {
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
