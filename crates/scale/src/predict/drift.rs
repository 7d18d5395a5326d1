// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that were synchronised and drift apart.
//!
//! Synchronised ranks are at the same position of their traces, so all meet an event in the
//! same phase, and it costs its length once. As their clocks drift apart by `d`, they meet it
//! within a time of `d`, and several phases wait for it. The cost of a phase follows from the
//! stretch of the trace over which the ranks are spread, so phases are simulated: each begins
//! where the one before ended, and the noise of its slowest rank is drawn.
//!
//! Up to [`FEW`] ranks have a place in the spread each, and the phase is replayed. Of more, the
//! slowest is drawn from the pieces of the stretch: in a piece that holds the share `f` of the
//! spread, the greatest of `n` ranks lies within its highest `1 - u^(1/n)`, if that is less
//! than `f`. So the time that a phase needs depends on the number of pieces, not of ranks.

use sandbag_jitter::{Span, common};
use sandbag_stats::{normal_cdf, range};
use serde::{Deserialize, Serialize};

use super::threads::map_each;
use super::windows::NoisePiece;
use crate::chance::Chance;

/// Up to this number, ranks have a place each.
pub const FEW: u64 = 64;
/// Phases of a row, at most and at least; each row begins at a random position.
const ROW: (u64, u64) = (1024, 20);
/// Rows of a short run, and of those that fit a short trace: only rows that differ show chance.
const ROWS: u64 = 20;
/// Positions that are tried as the begin of a row, at most: noise may take nearly all time.
const MOST_TRIES: u32 = 1000;
/// Pieces that are visited, at most, for one number of ranks: fewer phases are simulated where
/// there would be more.
const MOST_LOOKS: f64 = 2e8;
/// Standard deviations of a normal drift to each side; less than one of 10^8 ranks lies beyond.
const REACH: f64 = 6.0;

/// Distribution of the ranks over the drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Uniform over the drift.
    Uniform,
    /// Normal; the drift is the standard deviation.
    Normal,
}

/// The drift of ranks, which grows from 0 in proportion to time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// At the end of a run of all phases without synchronisation, ns.
    pub end_ns: u64,
    pub spread: Spread,
}

impl Drift {
    /// Ranks that stay together.
    pub(super) const NONE: Self = Self {
        end_ns: 0,
        spread: Spread::Uniform,
    };

    /// Distance from the first rank to the last for a drift of `measure_ns`, ns.
    fn reach_ns(&self, measure_ns: f64) -> f64 {
        match self.spread {
            Spread::Uniform => measure_ns,
            Spread::Normal => measure_ns * 2.0 * REACH,
        }
    }

    /// The longest stretch over which ranks are spread.
    pub fn longest_ns(&self) -> u64 {
        self.reach_ns(self.end_ns as f64) as u64
    }

    /// The drift after `passed` of the `phases` of a run.
    pub fn advance(self, passed: u64, phases: u64) -> Self {
        let share = passed.min(phases) as f64 / phases.max(1) as f64;
        Self {
            end_ns: (self.end_ns as f64 * share).ceil() as u64,
            ..self
        }
    }

    /// Share of the ranks below a position of the reach, 0 to 1.
    fn below(&self, at: f64) -> f64 {
        match self.spread {
            Spread::Uniform => at,
            Spread::Normal => normal_cdf((at - 0.5) * 2.0 * REACH),
        }
    }

    /// A random place in the reach, 0 to 1.
    fn place(&self, chance: &mut Chance) -> f64 {
        match self.spread {
            Spread::Uniform => chance.uniform(),
            Spread::Normal => {
                let radius = (-2.0 * chance.uniform().ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * chance.uniform()).cos();
                (0.5 + normal / (2.0 * REACH)).clamp(0.0, 1.0)
            }
        }
    }
}

/// Measured places of the ranks of each unit within the drift: from the first of all (0) to the
/// last (1), ascending. Ranks on CPUs of two speeds form two groups.
pub type Places = Vec<Vec<f64>>;

/// The phases to simulate.
#[derive(Debug, Clone, Copy)]
pub struct DriftRun<'a> {
    /// Work of a phase and its barrier, ns.
    pub phase_ns: u64,
    /// Phases of the run.
    pub phases: u64,
    /// Phases between two synchronisations.
    pub every: u64,
    pub drift: Drift,
    /// Measured places of each unit; none: by the drift's spread.
    pub places: &'a [Vec<f64>],
    /// Each synchronisation sets all to a random position, which may lie inside an event; else
    /// each phase begins where the one before ended.
    pub anywhere: bool,
    pub seed: u64,
    pub threads: usize,
}

impl DriftRun<'_> {
    fn places_of(&self, unit: usize) -> Option<&[f64]> {
        let of_unit = self.places.get(unit).map(Vec::as_slice);
        of_unit.filter(|places| !places.is_empty())
    }

    /// Share of a unit's ranks between two positions of the reach.
    fn share(&self, unit: usize, from: f64, until: f64) -> f64 {
        let below = |at: f64| match self.places_of(unit) {
            // The last place belongs to the last piece.
            Some(places) => {
                let count = places.partition_point(|place| *place < at || at >= 1.0);
                count as f64 / places.len() as f64
            }
            None => self.drift.below(at),
        };
        (below(until) - below(from)).max(0.0)
    }

    /// A random place of a unit's rank in the reach.
    fn place(&self, unit: usize, chance: &mut Chance) -> f64 {
        match self.places_of(unit) {
            Some(places) => places[chance.below(places.len() as u64) as usize],
            None => self.drift.place(chance),
        }
    }

    /// Places of few ranks, which take the units in turn. A uniform drift is the distance from
    /// the first rank to the last, which few places that are drawn would not reach.
    fn draw_places(&self, ranks: u64, units: usize, chance: &mut Chance) -> Vec<f64> {
        let places = (0..ranks).map(|rank| self.place(rank as usize % units, chance));
        let mut places: Vec<f64> = places.collect();
        if self.drift.spread == Spread::Uniform
            && self.places.is_empty()
            && let Some((first, last)) = range(&places)
            && first < last
        {
            for place in &mut places {
                *place = (*place - first) / (last - first);
            }
        }
        places
    }
}

/// Units (CPUs, or nodes of several) that are replayed from a common position.
#[derive(Debug)]
pub struct Units {
    pieces: Vec<Vec<NoisePiece>>,
    /// Positions at which each unit has a piece.
    valid: Vec<Span>,
}

impl Units {
    /// From the pieces of each unit, ascending.
    pub fn new(pieces: Vec<Vec<NoisePiece>>) -> Self {
        let valid = pieces.iter().map(|unit| stretches(unit));
        let valid = valid.reduce(|a, b| common(&a, &b)).unwrap_or_default();
        Self { pieces, valid }
    }

    /// The longest stretch in which ranks can be spread.
    pub fn longest_ns(&self) -> u64 {
        self.valid.iter().map(Span::length_ns).max().unwrap_or(0)
    }

    /// Length of all stretches together.
    pub fn known_ns(&self) -> u64 {
        self.valid.iter().map(Span::length_ns).sum()
    }

    /// One in this number of rows is simulated: more than 1 only where a dense trace or a long
    /// drift would take too long.
    fn one_in(&self, ranks: u64, run: &DriftRun<'_>) -> u64 {
        let span = if ranks <= FEW {
            ranks as f64 * 8.0
        } else {
            let pieces: usize = self.pieces.iter().map(Vec::len).sum();
            let mean_drift = run.drift.longest_ns() as f64 / 2.0;
            mean_drift * run.every.min(run.phases) as f64 / run.phases as f64 * pieces as f64
                / self.known_ns().max(1) as f64
                + self.pieces.len() as f64
        };
        let looks = span * run.phases as f64;
        (looks / MOST_LOOKS).max(1.0).ceil() as u64
    }

    /// The noise of the slowest of `ranks` in each phase, ns; by rows of phases.
    pub fn slowest(&self, ranks: u64, run: &DriftRun<'_>) -> Vec<Vec<f64>> {
        // Without drift all ranks of a unit are equal.
        let ranks = match run.drift.end_ns {
            0 => ranks.min(self.pieces.len() as u64),
            _ => ranks,
        };
        let fit = run.phases.min(self.known_ns() / run.phase_ns);
        let row_phases = (fit / ROWS).clamp(ROW.1, ROW.0);
        let rows = run.phases.div_ceil(row_phases);
        let done = middles(rows, self.one_in(ranks, run));
        map_each(run.threads, done.len(), |i| {
            let row = done[i];
            let phases = row * row_phases..((row + 1) * row_phases).min(run.phases);
            self.row(ranks, run, row, phases)
        })
    }

    fn row(
        &self,
        ranks: u64,
        run: &DriftRun<'_>,
        row: u64,
        phases: std::ops::Range<u64>,
    ) -> Vec<f64> {
        // Each number of ranks has its own stream, so that their errors are independent.
        let mut chance = Chance::new(run.seed, ranks << 32 | row);
        let places: Vec<f64> = if ranks <= FEW {
            run.draw_places(ranks, self.pieces.len(), &mut chance)
        } else {
            Vec::new()
        };
        let reach_of = |phase: u64| {
            let passed = (phase % run.every) as f64 / run.phases as f64;
            run.drift.reach_ns(run.drift.end_ns as f64 * passed)
        };
        let wait = |cursor: &mut Cursor<'_>, t_ns: u64, reach: f64, chance: &mut Chance| {
            cursor.reach(t_ns);
            if ranks <= FEW {
                cursor.replay_wait(t_ns, reach, &places)
            } else {
                cursor.draw_wait(t_ns, reach, ranks as f64, run, chance)
            }
        };
        let mut all = Vec::new();
        let reach = reach_of(phases.start);
        let (mut stretch, mut t_ns) = (0, 0);
        for _ in 0..MOST_TRIES {
            let Some(at) = self.anywhere(reach as u64, &mut chance) else {
                return all;
            };
            (stretch, t_ns) = at;
            // A stretch of time has as many fewer phases as they are longer there.
            let noise = wait(&mut Cursor::new(self), t_ns, reach, &mut chance);
            let quiet = run.phase_ns as f64;
            if chance.uniform() * (quiet + noise) <= quiet {
                break;
            }
        }
        let mut cursor = Cursor::new(self);
        for phase in phases {
            let reach = reach_of(phase);
            let again = run.anywhere && phase % run.every == 0;
            if again || t_ns.saturating_add(reach as u64) >= self.valid[stretch].until_ns {
                let at = if again {
                    self.anywhere(reach as u64, &mut chance)
                } else {
                    self.after(stretch, reach as u64)
                };
                let Some(at) = at else { break };
                (stretch, t_ns) = at;
                cursor = Cursor::new(self);
            }
            let noise = wait(&mut cursor, t_ns, reach, &mut chance);
            all.push(noise);
            t_ns = t_ns
                .saturating_add(run.phase_ns)
                .saturating_add(noise as u64);
        }
        all
    }

    /// A random position from which ranks can reach over `reach_ns`, and its stretch.
    fn anywhere(&self, reach_ns: u64, chance: &mut Chance) -> Option<(usize, u64)> {
        let room = |span: &Span| span.length_ns().saturating_sub(reach_ns + 1);
        let mut at = chance.below(self.valid.iter().map(room).sum());
        for (stretch, span) in self.valid.iter().enumerate() {
            if at < room(span) {
                return Some((stretch, span.from_ns + at));
            }
            at -= room(span);
        }
        None
    }

    /// The begin of the next stretch over which ranks can reach, and its number; after the last
    /// comes the first. A random position instead would let the ends of stretches count for more.
    fn after(&self, stretch: usize, reach_ns: u64) -> Option<(usize, u64)> {
        let all = self.valid.iter().enumerate().cycle();
        let mut next = all.skip(stretch + 1).take(self.valid.len());
        next.find(|(_, span)| span.length_ns() > reach_ns + 1)
            .map(|(stretch, span)| (stretch, span.from_ns))
    }
}

/// The place in each unit's pieces.
struct Cursor<'a> {
    units: &'a Units,
    /// The first piece that is not over.
    first: Vec<usize>,
    fresh: bool,
}

impl<'a> Cursor<'a> {
    fn new(units: &'a Units) -> Self {
        Self {
            units,
            first: vec![0; units.pieces.len()],
            fresh: true,
        }
    }

    fn reach(&mut self, t_ns: u64) {
        for (first, pieces) in self.first.iter_mut().zip(&self.units.pieces) {
            if self.fresh {
                *first = pieces.partition_point(|piece| piece.until_ns <= t_ns);
            }
            while pieces.get(*first).is_some_and(|p| p.until_ns <= t_ns) {
                *first += 1;
            }
        }
        self.fresh = false;
    }

    fn replay_wait(&self, t_ns: u64, reach: f64, places: &[f64]) -> f64 {
        let units = self.units.pieces.len();
        let mut most = 0;
        for (rank, place) in places.iter().enumerate() {
            let unit = rank % units;
            let pieces = &self.units.pieces[unit][self.first[unit]..];
            let at = t_ns + (place * reach) as u64;
            let index = first_after(pieces, at);
            if let Some(piece) = pieces.get(index) {
                most = most.max(piece.noise_at(at.max(piece.from_ns)));
            }
        }
        most as f64
    }

    fn draw_wait(
        &self,
        t_ns: u64,
        reach: f64,
        ranks: f64,
        run: &DriftRun<'_>,
        chance: &mut Chance,
    ) -> f64 {
        // Fewer ranks than units leave the last ones out, as where each rank is followed.
        let used = (ranks as usize).clamp(1, self.units.pieces.len());
        let each_unit = ranks / used as f64;
        let mut most = 0.0f64;
        let units = self.units.pieces.iter().zip(&self.first).take(used);
        for (unit, (pieces, first)) in units.enumerate() {
            for piece in &pieces[*first..] {
                let from = piece.from_ns.saturating_sub(t_ns) as f64;
                if from > reach {
                    break;
                }
                let high = piece.noise_at(piece.from_ns.max(t_ns)) as f64;
                if high <= most {
                    continue;
                }
                if reach < 1.0 {
                    most = high;
                    break;
                }
                let until = ((piece.until_ns - t_ns) as f64).min(reach);
                let share = run.share(unit, from / reach, until / reach);
                let highest = -(chance.uniform().ln() / each_unit).exp_m1();
                if highest < share {
                    let noise = match piece.inside_ns {
                        None => high,
                        Some(_) => high - highest / share * (until - from),
                    };
                    most = most.max(noise);
                }
            }
        }
        most
    }
}

/// One in `part` of the rows: the middle of each group, because drift grows.
fn middles(rows: u64, part: u64) -> Vec<u64> {
    let count = rows.div_ceil(part);
    let middle = |group: u64| (2 * group + 1) * rows / (2 * count);
    (0..count).map(middle).collect()
}

/// The first piece that is not over at a time. It is near the begin: steps double until it is
/// passed, then bisection finds it.
fn first_after(pieces: &[NoisePiece], t_ns: u64) -> usize {
    let mut step = 1;
    while pieces.get(step).is_some_and(|piece| piece.until_ns <= t_ns) {
        step *= 2;
    }
    let (from, until) = (step / 2, (step + 1).min(pieces.len()));
    from + pieces[from..until].partition_point(|piece| piece.until_ns <= t_ns)
}

/// Pieces that touch, as one.
fn stretches(pieces: &[NoisePiece]) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for piece in pieces {
        match all.last_mut() {
            Some(last) if last.until_ns == piece.from_ns => last.until_ns = piece.until_ns,
            _ => all.push(Span::new(piece.from_ns, piece.until_ns)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from_ns: u64, until_ns: u64, noise_ns: u64) -> NoisePiece {
        NoisePiece {
            from_ns,
            until_ns,
            noise_ns,
            inside_ns: None,
        }
    }

    #[test]
    fn the_first_piece_after_a_time_is_found() {
        let pieces = (0..100).map(|i| piece(i * 10, i * 10 + 10, 0));
        let pieces: Vec<NoisePiece> = pieces.collect();
        for t_ns in 0..1005 {
            let expected = pieces.partition_point(|piece| piece.until_ns <= t_ns);
            assert_eq!(first_after(&pieces, t_ns), expected, "{t_ns}");
        }
        assert_eq!(first_after(&[], 5), 0);
    }

    #[test]
    fn rows_are_left_out_evenly() {
        assert_eq!(middles(5, 1), [0, 1, 2, 3, 4]);
        assert_eq!(middles(10, 3), [1, 3, 6, 8]);
        assert_eq!(middles(98, 98), [49]);
        assert_eq!(middles(98, 1000), [49]);
    }

    #[test]
    fn the_shares_of_a_drift_add_up() {
        for spread in [Spread::Uniform, Spread::Normal] {
            let drift = Drift { end_ns: 1, spread };
            let parts = (0..10).map(|i| f64::from(i) / 10.0);
            let sum: f64 = parts
                .map(|at| drift.below(at + 0.1) - drift.below(at))
                .sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            let mut chance = Chance::new(1, 1);
            let places: Vec<f64> = (0..2000).map(|_| drift.place(&mut chance)).collect();
            let mean = places.iter().sum::<f64>() / 2000.0;
            assert!((mean - 0.5).abs() < 0.03, "{mean}");
            assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
        }
    }

    fn run(places: &[Vec<f64>]) -> DriftRun<'_> {
        DriftRun {
            phase_ns: 1,
            phases: 1,
            every: 1,
            drift: Drift {
                end_ns: 1,
                spread: Spread::Uniform,
            },
            places,
            anywhere: false,
            seed: 0,
            threads: 1,
        }
    }

    #[test]
    fn a_drift_is_the_distance_from_the_first_rank_to_the_last() {
        let mut chance = Chance::new(1, 1);
        for ranks in 2..=FEW {
            let places = run(&[]).draw_places(ranks, 3, &mut chance);
            assert_eq!(places.len() as u64, ranks);
            assert_eq!(range(&places), Some((0.0, 1.0)));
        }
        let alone = run(&[]).draw_places(1, 3, &mut chance);
        assert!(alone[0] > 0.0 && alone[0] < 1.0);
        let measured = [vec![0.2, 0.4]];
        let places = run(&measured).draw_places(9, 1, &mut chance);
        assert!(places.iter().all(|place| measured[0].contains(place)));
    }

    #[test]
    fn measured_places_are_those_of_the_ranks() {
        let places = [vec![0.0, 0.1, 0.1, 1.0], vec![0.7]];
        let run = run(&places);
        // Every place lies in one piece, the last one in the last.
        for (from, until, share) in [(0.0, 0.05, 0.25), (0.05, 0.5, 0.5), (0.5, 1.0, 0.25)] {
            assert!((run.share(0, from, until) - share).abs() < 1e-9);
        }
        assert!((run.share(0, 0.0, 1.1) - 1.0).abs() < 1e-9);
        assert_eq!(run.share(1, 0.0, 0.7), 0.0);
        let mut chance = Chance::new(1, 1);
        assert_eq!(run.place(1, &mut chance), 0.7);
        // A unit without measured places.
        assert!((run.share(2, 0.2, 0.4) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn only_the_cpus_of_the_ranks_make_them_wait() {
        let unit = |noise_ns| {
            vec![NoisePiece {
                from_ns: 0,
                until_ns: 1_000,
                noise_ns,
                inside_ns: None,
            }]
        };
        let units = Units::new(
            (0..80)
                .map(|at| unit(if at < 65 { 1 } else { 9 }))
                .collect(),
        );
        for (ranks, expected) in [(FEW, 1.0), (FEW + 1, 1.0), (FEW + 2, 9.0), (80, 9.0)] {
            for end_ns in [0, 100] {
                let run = DriftRun {
                    drift: Drift {
                        end_ns,
                        spread: Spread::Uniform,
                    },
                    ..run(&[])
                };
                let found: Vec<f64> = units.slowest(ranks, &run).concat();
                assert_eq!(found, [expected], "{ranks} ranks, a drift of {end_ns} ns");
            }
        }
    }

    #[test]
    fn all_parts_of_a_recording_count() {
        for (first, second) in [(0, 1000), (1000, 0)] {
            // Where noise doubles a phase there are half as many.
            let units = Units::new(vec![vec![
                piece(0, 500_000, first),
                piece(600_000, 1_100_000, second),
            ]]);
            let run = DriftRun {
                phase_ns: 1000,
                phases: 500_000,
                every: 500_000,
                ..run(&[])
            };
            let found = units.slowest(1, &run).concat();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            assert!((mean / 333.3 - 1.0).abs() < 0.03, "{first}: {mean}");
            let few = DriftRun { phases: 400, ..run };
            assert_eq!(units.slowest(1, &few).len(), 20);
        }
    }

    #[test]
    fn positions_are_where_all_are_known() {
        let piece = |from_ns, until_ns| piece(from_ns, until_ns, 0);
        let units = Units::new(vec![
            vec![piece(0, 50), piece(50, 100), piece(200, 300)],
            vec![piece(20, 250)],
        ]);
        let valid: Vec<(u64, u64)> = units
            .valid
            .iter()
            .map(|s| (s.from_ns, s.until_ns))
            .collect();
        assert_eq!(valid, [(20, 100), (200, 250)]);
        assert_eq!(units.longest_ns(), 80);
    }
}
