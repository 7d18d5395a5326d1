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
    /// Mean distance from the first rank to the last, ns.
    pub fn mean_reach_ns(&self) -> f64 {
        let at_end = self.drift.longest_ns() as f64 / 2.0;
        at_end * self.every.min(self.phases) as f64 / self.phases as f64
    }

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
            run.mean_reach_ns() * pieces as f64 / self.known_ns().max(1) as f64
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
                    // The begin of the only stretch follows no unknown time.
                    let several = self.valid.len() > 1;
                    let left_ns = several.then(|| chance.below(run.phase_ns));
                    self.after(stretch, reach as u64, left_ns)
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
    fn after(&self, stretch: usize, reach_ns: u64, left_ns: Option<u64>) -> Option<(usize, u64)> {
        let all = self.valid.iter().enumerate().cycle();
        let mut next = all.skip(stretch + 1).take(self.valid.len());
        next.find_map(|(stretch, span)| {
            let from_ns = match left_ns {
                Some(left_ns) => self.enter(span, left_ns),
                None => span.from_ns,
            };
            (span.until_ns.saturating_sub(from_ns) > reach_ns + 1).then_some((stretch, from_ns))
        })
    }

    /// Where the first phase of a stretch begins: ranks that ran before it are in a phase when it
    /// begins, with `left_ns` of its work left. A phase that began with the stretch would be one
    /// too many, and one that began inside an event would meet what the phase before met.
    fn enter(&self, span: &Span, mut left_ns: u64) -> u64 {
        let mut t_ns = span.from_ns;
        let over = |pieces: &Vec<NoisePiece>| pieces.partition_point(|p| p.until_ns <= t_ns);
        let mut at: Vec<usize> = self.pieces.iter().map(over).collect();
        while t_ns < span.until_ns {
            let (mut inside_ns, mut free_ns) = (t_ns, span.until_ns);
            for (pieces, at) in self.pieces.iter().zip(&mut at) {
                while pieces.get(*at).is_some_and(|piece| piece.until_ns <= t_ns) {
                    *at += 1;
                }
                match pieces.get(*at) {
                    Some(piece) if piece.inside_ns.is_some() => {
                        inside_ns = inside_ns.max(piece.until_ns);
                    }
                    Some(piece) => free_ns = free_ns.min(piece.until_ns),
                    None => {}
                }
            }
            if inside_ns > t_ns {
                t_ns = inside_ns;
            } else if left_ns == 0 {
                break;
            } else {
                let step_ns = left_ns.min(free_ns - t_ns);
                t_ns += step_ns;
                left_ns -= step_ns;
            }
        }
        t_ns
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
mod tests;
