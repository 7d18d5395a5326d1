// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which begins occur, and the greatest noise of all ranks.
//!
//! A rank alone begins each piece of work when the one before ended: never inside an event. A
//! rank that waits for others may be released inside an event that began while it waited, and
//! meets the rest of it; the time before is absorbed by the wait. In a stationary run the
//! frequency of a begin at depth `s` of an event, relative to one outside events, is the
//! probability of a wait longer than `s`. The wait is the noise of the slowest of the others
//! less the rank's own, plus the time of the barrier. Its distribution follows from the noise,
//! and the noise from it: a few iterations of both converge.
//!
//! All ranks waited for the same one. After a long event many of them are released inside events,
//! and after a phase without one none is: the greatest noise of a phase depends on that of the
//! phase before. So its distribution is that of a Markov chain from phase to phase, over classes of
//! the greatest noise. Where no event is longer than a phase the chain changes little.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::cells::{ANY, BANDS, Cells, RUNNING, band_ns};
use super::noise::Noise;

/// When the work of a phase begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
    /// When the last rank arrives, perhaps inside an event of a waiting rank
    #[default]
    Waiting,
    /// When the rank's own work before it ended: ranks that never wait
    Running,
    /// At any time with equal probability, inside events too
    Any,
}

/// The begins of ranks with the same distribution of noise, and their number.
pub type RankGroup<'a> = (&'a Cells, u64);

/// The noise of ranks that wait for each other.
#[derive(Debug)]
pub struct Greatest {
    /// Noise of one rank of each kind.
    pub one: Vec<Noise>,
    /// Share of the begins in each band that occurs, for each kind.
    pub accepted: Vec<[f64; BANDS]>,
    /// Noise of the rank with the most.
    pub all: Noise,
}

/// Classes of the greatest noise per decade of it.
const CLASSES_PER_DECADE: f64 = 8.0;
/// Shorter noise is in one class, as it is in the first band of depths.
const SHORTEST_NS: f64 = 100.0;
/// Depths of a band for which the wait is looked up.
const DEPTHS: usize = 8;
const ROUNDS: usize = 12;
/// The iterations end when the mean changes by less than this share.
const SETTLED: f64 = 1e-6;
/// Of the chain.
const MOST_STEPS: usize = 1000;
/// Rarer noise of a rank is left out of its wait.
const RARE: f64 = 1e-8;

/// The greatest noise of all ranks; `gap_ns` is the time from the last arrival to the release.
pub fn greatest(kinds: &[RankGroup<'_>], gap_ns: f64, starts: Starts) -> Greatest {
    let first = match starts {
        Starts::Waiting | Starts::Running => RUNNING,
        Starts::Any => ANY,
    };
    let mut found = with(kinds, vec![first; kinds.len()]);
    if starts != Starts::Waiting {
        return found;
    }
    for _ in 0..ROUNDS {
        let before = found.all.mean();
        let accepted = (0..kinds.len())
            .map(|kind| waits(kinds, &found.one, kind, gap_ns))
            .collect();
        found = with(kinds, accepted);
        if (found.all.mean() - before).abs() <= before * SETTLED {
            break;
        }
    }
    if ranks(kinds) > 1 {
        found.all = chained(kinds, &found, gap_ns);
    }
    found
}

fn ranks(kinds: &[RankGroup<'_>]) -> u64 {
    kinds.iter().map(|(_, count)| count).sum()
}

/// The greatest noise where that of the phase before decides who is released inside an event.
fn chained(kinds: &[RankGroup<'_>], found: &Greatest, gap_ns: f64) -> Noise {
    let class = |noise_ns: f64| {
        let decades = (noise_ns / SHORTEST_NS).max(1.0).log10();
        (decades * CLASSES_PER_DECADE) as usize
    };
    // Mean and probability of each class that occurs.
    let mut classes: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (noise_ns, mass) in found.all.masses().filter(|(_, mass)| *mass > 0.0) {
        let (sum, share) = classes.entry(class(noise_ns)).or_default();
        *sum += noise_ns * mass;
        *share += mass;
    }
    if classes.len() < 2 {
        return found.all.clone();
    }
    let after = classes.values().map(|(sum, share)| {
        let accepted = (0..kinds.len())
            .map(|kind| waits_after(kinds, &found.one[kind], sum / share, gap_ns))
            .collect();
        with(kinds, accepted).all
    });
    let after: Vec<Noise> = after.collect();
    let numbers: Vec<usize> = classes.keys().copied().collect();
    let moves = after.iter().map(|noise| {
        let mut row = vec![0.0; numbers.len()];
        for (noise_ns, mass) in noise.masses() {
            let at = numbers.partition_point(|number| *number <= class(noise_ns));
            row[at.saturating_sub(1)] += mass;
        }
        row
    });
    let moves: Vec<Vec<f64>> = moves.collect();
    let mut shares: Vec<f64> = classes.values().map(|(_, share)| *share).collect();
    for _ in 0..MOST_STEPS {
        let mut next = vec![0.0; shares.len()];
        for (share, row) in shares.iter().zip(&moves) {
            let to = next.iter_mut().zip(row);
            to.for_each(|(next, moved)| *next += share * moved);
        }
        let change: f64 = shares.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        shares = next;
        if change <= SETTLED {
            break;
        }
    }
    let parts: Vec<(&Noise, f64)> = after.iter().zip(shares).collect();
    Noise::mixed(&parts)
}

/// For each band the probability that a rank of this kind, with the noise `own`, waited for longer
/// than its depth in a phase of which the greatest noise was `greatest_ns`.
fn waits_after(
    kinds: &[RankGroup<'_>],
    own: &Noise,
    greatest_ns: f64,
    gap_ns: f64,
) -> [f64; BANDS] {
    // The slowest one does not wait.
    let others = 1.0 - 1.0 / ranks(kinds).max(1) as f64;
    let at_most = |noise_ns: f64| 1.0 - own.exceeds(noise_ns);
    let whole = at_most(greatest_ns);
    let longer_than = |depth: f64| match greatest_ns + gap_ns - depth {
        _ if depth < gap_ns => 1.0,
        rest if rest < 0.0 || whole <= 0.0 => 0.0,
        rest => others * at_most(rest) / whole,
    };
    let mut accepted = RUNNING;
    for (band, share) in accepted.iter_mut().enumerate().skip(1) {
        *share = match band_ns(band) {
            (from, until) if until.is_finite() => {
                let width = (until - from) / DEPTHS as f64;
                let depths = (0..DEPTHS).map(|i| from + width * (i as f64 + 0.5));
                depths.map(longer_than).sum::<f64>() / DEPTHS as f64
            }
            (from, _) => longer_than(from),
        };
    }
    accepted
}

fn with(kinds: &[RankGroup<'_>], accepted: Vec<[f64; BANDS]>) -> Greatest {
    let each = kinds.iter().zip(&accepted);
    let one: Vec<Noise> = each
        .map(|((cells, _), accepted)| cells.noise(accepted))
        .collect();
    let counts = kinds.iter().map(|(_, count)| *count as f64);
    let all = Noise::greatest_of_all(&one.iter().zip(counts).collect::<Vec<_>>());
    Greatest { one, accepted, all }
}

/// For each band the probability that a rank of this kind waits longer than its depth.
fn waits(kinds: &[RankGroup<'_>], one: &[Noise], kind: usize, gap_ns: f64) -> [f64; BANDS] {
    let counts = kinds.iter().enumerate();
    let counts = counts.map(|(i, (_, count))| (count - u64::from(i == kind)) as f64);
    let others = Noise::greatest_of_all(&one.iter().zip(counts).collect::<Vec<_>>());
    let own: Vec<(f64, f64)> = one[kind]
        .masses()
        .filter(|(_, mass)| *mass > RARE)
        .collect();
    let mut accepted = RUNNING;
    for (band, share) in accepted.iter_mut().enumerate().skip(1) {
        let (from, until) = band_ns(band);
        let depth = if until.is_finite() {
            (from + until) / 2.0
        } else {
            from
        };
        let beyond = depth - gap_ns;
        *share = if beyond < 0.0 {
            1.0
        } else {
            own.iter()
                .map(|(noise, mass)| mass * others.exceeds(noise + beyond))
                .sum()
        };
    }
    accepted
}

#[cfg(test)]
mod tests {
    use super::super::cells::FINE;
    use super::super::noise::Grid;
    use super::super::windows::Windows;
    use super::*;
    use crate::fixture::by_chance;

    #[test]
    fn a_rank_alone_never_begins_inside_an_event() {
        let cpu = by_chance(1, 1_000_000_000, 1.0, |chance| 50_000.0 * chance.uniform());
        let cells = Cells::gather(Grid::new(FINE), Windows::new(&cpu, 1_000_000));
        let mean = |count, starts| greatest(&[(&cells, count)], 0.0, starts).all.mean();
        assert_eq!(mean(1, Starts::Waiting), mean(1, Starts::Running));
        // Of many ranks nearly all wait long.
        let (waiting, any) = (mean(1 << 20, Starts::Waiting), mean(1 << 20, Starts::Any));
        assert!((waiting / any - 1.0).abs() < 0.01, "{waiting} {any}");
        // A millisecond of a CPU that loses 2.5 % of each.
        assert!((mean(1, Starts::Running) / 25_000.0 - 1.0).abs() < 0.05);
    }
}
