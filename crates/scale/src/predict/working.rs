// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From traces to points.

use sandbag_jitter::{CpuTrace, Trace};

use super::Sync;
use super::barrier::{Barrier, Tree};
use super::bootstrap::{Blocks, Draws, Figure, Ratio, interval, of_rows};
use super::cells::{ANY, BANDS, Cells, FINE, Grid, RUNNING};
use super::classes::{Class, Cost};
use super::drift::{Drift, Run, Spread, Units};
use super::noise::Noise;
use super::options::{Options, Source};
use super::tail::{SHARE, Tail};
use super::threads::each;
use super::waiting::{Greatest, Kind, Starts, greatest};
use super::windows::{Piece, Together};
use super::{Estimate, PHASES_PCT, Point, Prediction};
use crate::{Error, Result};

/// One source, swept.
struct Swept {
    /// Begins of the work, of all units alike.
    work: Cells,
    /// Begins of what who has the news does in a round of the barrier, and who
    /// is told.
    slots: Option<[Cells; 2]>,
    /// For intervals.
    draws: Option<Draws>,
    /// For how long begins are known, of all units, ns.
    begins_ns: f64,
}

/// The CPUs of each unit: a node's, or one.
fn units(trace: &Trace, group: u32) -> Vec<Vec<&CpuTrace>> {
    let known: Vec<&CpuTrace> = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).collect();
    let whole = known.chunks_exact(group as usize);
    whole.map(<[&CpuTrace]>::to_vec).collect()
}

fn end_ns(trace: &Trace) -> u64 {
    let known = trace.cpus.iter().flat_map(|cpu| &cpu.known);
    known.map(|span| span.until_ns).max().unwrap_or(0)
}

/// Sweeps one unit: its begins, each unit weighing the same.
fn sweep(unit: &[&CpuTrace], work_ns: u64, blocks: Option<&mut Blocks>) -> (Cells, f64) {
    let pieces = Together::new(unit, work_ns);
    let cells = match blocks {
        None => Cells::gather(Grid::new(FINE), pieces),
        Some(blocks) => {
            let seen = pieces.inspect(|piece| blocks.add(piece));
            Cells::gather(Grid::new(FINE), seen)
        }
    };
    let (outside, inside) = cells.weights();
    (cells, outside + inside)
}

fn together(parts: Vec<(Cells, f64)>) -> (Cells, f64) {
    let begins_ns = parts.iter().map(|(_, weight)| weight).sum();
    let mut parts = parts.into_iter().filter(|(_, weight)| *weight > 0.0);
    let Some((first, weight)) = parts.next() else {
        return (Cells::new(Grid::new(FINE)), 0.0);
    };
    let Some(second) = parts.next() else {
        return (first, begins_ns);
    };
    let mut all = Cells::new(Grid::new(FINE));
    all.add_scaled(&first, 1e9 / weight);
    for (cells, weight) in std::iter::once(second).chain(parts) {
        all.add_scaled(&cells, 1e9 / weight);
    }
    (all, begins_ns)
}

impl Swept {
    fn new(trace: &Trace, options: &Options) -> Result<Self> {
        let units = units(trace, options.group);
        let wanted = options.intervals && options.sync == Sync::None;
        let mut blocks = wanted
            .then(|| Blocks::new(end_ns(trace), options.quantum_ns))
            .flatten();
        let parts: Vec<(Cells, f64)> = match &mut blocks {
            // Blocks are shared, so one unit after another.
            Some(blocks) => units
                .iter()
                .map(|unit| sweep(unit, options.quantum_ns, Some(blocks)))
                .collect(),
            None => each(options.threads, units.len(), |i| {
                sweep(&units[i], options.quantum_ns, None)
            }),
        };
        let (work, begins_ns) = together(parts);
        if begins_ns <= 0.0 {
            let longest = trace.cpus.iter().flat_map(|cpu| &cpu.known);
            return Err(Error::TooShort {
                what: "a quantum, on all CPUs of a node together,",
                needed_ns: options.quantum_ns,
                longest_ns: longest.map(|span| span.length_ns()).max().unwrap_or(0),
            });
        }
        let slots = options.barrier.slots_ns().map(|slots| {
            slots.map(|slot_ns| {
                let parts = each(options.threads, units.len(), |i| {
                    sweep(&units[i], slot_ns.max(1), None)
                });
                together(parts).0
            })
        });
        Ok(Self {
            work,
            slots,
            draws: blocks.map(|blocks| blocks.draw(options.seed)),
            begins_ns,
        })
    }
}

/// Nodes of each source, of so many in all: by the largest remainder.
fn apportion(nodes: u64, shares: &[u64]) -> Vec<u64> {
    let total: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let product = |share: u64| u128::from(nodes) * u128::from(share);
    let mut counts: Vec<u64> = shares
        .iter()
        .map(|share| (product(*share) / total) as u64)
        .collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(product(shares[*i]) % total));
    let left = nodes - counts.iter().sum::<u64>();
    for i in order.into_iter().take(left as usize) {
        counts[i] += 1;
    }
    counts
}

/// Everything that is swept once, for all numbers of ranks.
pub(super) struct Working<'a> {
    options: &'a Options,
    shares: Vec<u64>,
    swept: Vec<Swept>,
    units: Option<Units>,
    tail: Option<Tail>,
    warnings: Vec<String>,
}

impl<'a> Working<'a> {
    pub(super) fn new(sources: &[Source<'_>], options: &'a Options) -> Result<Self> {
        let mut warnings = Vec::new();
        for source in sources {
            warn(source.trace, options, &mut warnings);
        }
        let swept = sources
            .iter()
            .map(|source| Swept::new(source.trace, options))
            .collect::<Result<Vec<_>>>()?;
        let tail = match swept.as_slice() {
            [one] if options.tail && options.sync == Sync::None => {
                let found = Tail::fit(&one.work.noise(&ANY), SHARE);
                if found.is_none() {
                    warnings.push(
                        "no tail could be fitted: the greatest hundredth of the noise has too \
                         few different values"
                            .to_owned(),
                    );
                }
                found
            }
            _ => {
                if options.tail {
                    warnings.push("a tail is fitted to one trace, not synchronised".to_owned());
                }
                None
            }
        };
        let units = match options.sync {
            Sync::None => None,
            _ => Some(positions(sources[0].trace, options)?),
        };
        Ok(Self {
            shares: sources.iter().map(|source| source.share).collect(),
            options,
            swept,
            units,
            tail,
            warnings,
        })
    }

    pub(super) fn prediction(mut self) -> Result<Prediction> {
        let ranks = &self.options.ranks;
        let points = match &self.units {
            // A point is threads' work in itself.
            Some(units) => ranks.iter().map(|n| self.synchronised(units, *n)).collect(),
            None => each(self.options.threads, ranks.len(), |i| self.apart(ranks[i])),
        };
        Ok(Prediction {
            quantum_ns: self.options.quantum_ns,
            points,
            tail: self.tail,
            classes: Vec::new(),
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    /// Of the first source.
    pub(super) fn one_rank(&self) -> Noise {
        let kind = Kind {
            cells: &self.swept[0].work,
            count: 1,
        };
        greatest(&[kind], 0.0, self.options.starts).all
    }

    /// What a phase takes without noise, ns.
    fn quiet_ns(&self, ranks: u64) -> f64 {
        self.options.quantum_ns as f64 + self.options.barrier.quiet_ns(ranks)
    }

    fn nodes(&self, ranks: u64) -> u64 {
        ranks.div_ceil(u64::from(self.options.group))
    }

    /// Each node at a position of its own.
    fn apart(&self, ranks: u64) -> Point {
        let nodes = self.nodes(ranks);
        let counts = apportion(nodes, &self.shares);
        let present: Vec<(&Swept, u64)> = self
            .swept
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .collect();
        let kinds: Vec<Kind<'_>> = present
            .iter()
            .map(|(swept, count)| Kind {
                cells: &swept.work,
                count: *count,
            })
            .collect();
        let gap_ns = self.options.barrier.quiet_ns(ranks);
        let found = greatest(&kinds, gap_ns, self.options.starts);
        let all = match self.options.barrier {
            Barrier::Ideal => found.all.clone(),
            _ => self.through_barrier(&found, &present, ranks),
        };
        let saturated = present.iter().any(|(swept, count)| {
            let (most_ns, _) = swept.work.noise(&ANY).greatest();
            let window_ns = self.options.quantum_ns as f64 + most_ns;
            *count as f64 * window_ns >= swept.begins_ns
        });
        let draws: Option<Vec<(&Draws, f64, f64)>> = present
            .iter()
            .zip(&found.accepted)
            .map(|((swept, count), accepted)| {
                let inside = mean_accepted(&swept.work, accepted);
                swept.draws.as_ref().map(|d| (d, *count as f64, inside))
            })
            .collect();
        let ratio = |figure| {
            let draws = draws.as_ref()?;
            interval(draws, figure)
        };
        let tail = self.tail.zip(found.one.first()).and_then(|(_, one)| {
            let tail = Tail::fit(one, SHARE)?;
            let noise_ns = tail.greatest_of(one, nodes as f64);
            Some(self.estimate(ranks, noise_ns, ratio(Figure::Tail(SHARE))))
        });
        Point {
            saturated,
            tail,
            ..self.point(ranks, &all, ratio(Figure::Greatest))
        }
    }

    fn through_barrier(&self, found: &Greatest, present: &[(&Swept, u64)], ranks: u64) -> Noise {
        let nodes = self.nodes(ranks);
        let part = |count: u64| count as f64 / nodes as f64;
        let slots: Vec<(&[Cells; 2], f64, &[f64; BANDS])> = present
            .iter()
            .zip(&found.accepted)
            .filter_map(|((swept, count), accepted)| {
                Some((swept.slots.as_ref()?, part(*count), accepted))
            })
            .collect();
        // Of mixed nodes the one that is delayed may be any: geometric means
        // of distributions, as their products will be taken.
        let mixed = |of: &dyn Fn(&[Cells; 2], &[f64; BANDS]) -> Noise| {
            let noises: Vec<(Noise, f64)> = slots
                .iter()
                .map(|(slots, part, accepted)| (of(slots, accepted), *part))
                .collect();
            let parts: Vec<(&Noise, f64)> = noises.iter().map(|(n, part)| (n, *part)).collect();
            Noise::greatest_of_all(&parts)
        };
        let has = mixed(&|[has, _], _| has.noise(&RUNNING));
        let told = mixed(&|[_, told], accepted| told.noise(accepted));
        let works: Vec<(Noise, f64)> = present
            .iter()
            .map(|(swept, count)| (swept.work.noise(&RUNNING), part(*count)))
            .collect();
        let works: Vec<(&Noise, f64)> = works.iter().map(|(noise, part)| (noise, *part)).collect();
        let work = Noise::greatest_of_all(&works);
        let tree = Tree::new(&has, &told, self.options.barrier.slack_ns());
        let last = tree.last(&work, nodes);
        match self.options.barrier {
            // What the way up adds: each of its messages, on average one in two
            // rounds, meets somebody who waits.
            Barrier::Binomial(_) => {
                let up = f64::from(super::rounds(ranks)) / 2.0 * told.mean();
                let (values, above) = (last.values(), last.above());
                let values = values.iter().map(|value| value + up).collect();
                Noise::of_above(values, above.to_vec())
            }
            _ => last,
        }
    }

    fn estimate(&self, ranks: u64, noise_ns: f64, ratio: Option<Ratio>) -> Estimate {
        let slowdown_pct = noise_ns / self.quiet_ns(ranks) * 100.0;
        Estimate {
            slowdown_pct,
            interval_pct: ratio.map(|r| (slowdown_pct * r.low, slowdown_pct * r.high)),
        }
    }

    fn point(&self, ranks: u64, noise: &Noise, ratio: Option<Ratio>) -> Point {
        let quiet_ns = self.quiet_ns(ranks);
        let noise_ns = noise.mean();
        Point {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(|part| noise.quantile(part / 100.0) / quiet_ns * 100.0),
            noise_ns,
            barrier_ns: self.options.barrier.quiet_ns(ranks),
            saturated: false,
            tail: None,
        }
    }

    /// Positions in common.
    fn synchronised(&self, units: &Units, ranks: u64) -> Point {
        let options = self.options;
        let nodes = self.nodes(ranks);
        let gap_ns = options.barrier.quiet_ns(ranks);
        let none = Drift {
            end_ns: 0,
            spread: Spread::Uniform,
        };
        let (every, drift) = match options.sync {
            Sync::Phases(1) => (1, none),
            Sync::Phases(every) => (u64::from(every), options.drift.unwrap_or(none)),
            Sync::Once | Sync::None => (options.phases, options.drift.unwrap_or(none)),
        };
        let run = Run {
            phase_ns: options.quantum_ns.saturating_add(gap_ns as u64),
            phases: options.phases,
            every,
            drift,
            anywhere: options.starts == Starts::Any,
            seed: options.seed,
            threads: options.threads,
        };
        let rows = units.slowest(nodes, &run);
        let ratio = options
            .intervals
            .then(|| of_rows(&rows, options.seed))
            .flatten();
        // Who is synchronised meets noise in the barrier as in the work: in
        // proportion to the time.
        let longer = self.quiet_ns(ranks) / options.quantum_ns as f64;
        let all = rows.into_iter().flatten();
        let mut all: Vec<f64> = all.map(|noise| noise * longer).collect();
        all.sort_unstable_by(f64::total_cmp);
        let count = all.len().max(1) as f64;
        let noise_ns = all.iter().sum::<f64>() / count;
        let quiet_ns = self.quiet_ns(ranks);
        let at = |part: f64| {
            let index = ((part / 100.0 * count).ceil() as usize).max(1) - 1;
            all.get(index.min(all.len().saturating_sub(1))).copied()
        };
        Point {
            ranks,
            mean: self.estimate(ranks, noise_ns, ratio),
            phases_pct: PHASES_PCT.map(|part| at(part).unwrap_or(0.0) / quiet_ns * 100.0),
            noise_ns,
            barrier_ns: gap_ns,
            saturated: false,
            tail: None,
        }
    }
}

/// Of all begins inside events the share that occurs.
fn mean_accepted(cells: &Cells, accepted: &[f64; BANDS]) -> f64 {
    let weights = cells.band_weights();
    let inside: f64 = weights.iter().skip(1).sum();
    let occurs: f64 = weights
        .iter()
        .zip(accepted)
        .skip(1)
        .map(|(w, a)| w * a)
        .sum();
    if inside > 0.0 { occurs / inside } else { 0.0 }
}

/// The pieces of all units.
fn positions(trace: &Trace, options: &Options) -> Result<Units> {
    let units = units(trace, options.group);
    let work_ns = options.quantum_ns;
    let pieces: Vec<Vec<Piece>> = each(options.threads, units.len(), |i| {
        Together::new(&units[i], work_ns).collect()
    });
    let units = Units::new(pieces);
    let drift = match options.sync {
        Sync::Phases(1) | Sync::None => None,
        _ => options.drift,
    };
    let needed_ns = drift
        .map_or(0, |drift| drift.longest_ns())
        .saturating_add(1);
    match units.longest_ns() > needed_ns {
        true => Ok(units),
        false => Err(Error::TooShort {
            what: "a quantum and the drift, on all CPUs together,",
            needed_ns: needed_ns.saturating_add(work_ns),
            longest_ns: units.longest_ns().saturating_add(work_ns),
        }),
    }
}

fn warn(trace: &Trace, options: &Options, warnings: &mut Vec<String>) {
    let known = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).count();
    let empty = trace.cpus.len() - known;
    if empty > 0 {
        warnings.push(format!(
            "{empty} CPUs on which nothing was looked for are left out"
        ));
    }
    let over = known % options.group.max(1) as usize;
    if over > 0 {
        warnings.push(format!(
            "{over} of {known} CPUs are left out: they do not fill a node of {}",
            options.group
        ));
    }
    if options
        .ranks
        .iter()
        .any(|n| n % u64::from(options.group) != 0)
    {
        warnings.push(format!(
            "nodes of {} ranks are whole: a number of ranks in between counts as the next",
            options.group
        ));
    }
    let dropped: u64 = trace
        .notes
        .iter()
        .flat_map(|notes| &notes.cpus)
        .map(|cpu| cpu.dropped)
        .sum();
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} events were dropped when the trace was recorded: the prediction is too low"
        ));
    }
}

/// See [`super::costs`].
pub(super) fn costs(
    sources: &[Source<'_>],
    options: &Options,
    classes: &[Class],
) -> Result<Vec<Cost>> {
    let options = Options {
        sync: Sync::None,
        intervals: false,
        tail: false,
        ..options.clone()
    };
    let slowdowns = |sources: &[Source<'_>]| -> Result<Vec<f64>> {
        let found = Working::new(sources, &options)?.prediction()?;
        Ok(found.points.iter().map(|p| p.mean.slowdown_pct).collect())
    };
    let whole = slowdowns(sources)?;
    let all = sources.iter().flat_map(|source| &source.trace.cpus);
    let noise_ns: u64 = all.map(CpuTrace::noise_ns).sum();
    let mut costs = Vec::new();
    for class in classes {
        let mut gone_ns = 0;
        let without: Vec<Trace> = sources
            .iter()
            .map(|source| {
                let cpu = |cpu: &CpuTrace| match class.removed(cpu) {
                    Some((without, ns)) => {
                        gone_ns += ns;
                        without
                    }
                    None => cpu.clone(),
                };
                Trace {
                    cpus: source.trace.cpus.iter().map(cpu).collect(),
                    header: source.trace.header.clone(),
                    notes: source.trace.notes.clone(),
                    attribution: None,
                    warnings: Vec::new(),
                }
            })
            .collect();
        if gone_ns == 0 {
            continue;
        }
        let left: Vec<Source<'_>> = without
            .iter()
            .zip(sources)
            .map(|(trace, source)| Source { trace, ..*source })
            .collect();
        let left = slowdowns(&left)?;
        costs.push(Cost {
            class: class.name().to_owned(),
            noise_pct: gone_ns as f64 / noise_ns.max(1) as f64 * 100.0,
            saves_points: whole.iter().zip(left).map(|(a, b)| a - b).collect(),
        });
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_apportioned() {
        assert_eq!(apportion(10, &[1]), [10]);
        assert_eq!(apportion(10, &[9, 1]), [9, 1]);
        assert_eq!(apportion(1, &[9, 1]), [1, 0]);
        assert_eq!(apportion(3, &[1, 1]).iter().sum::<u64>(), 3);
    }
}
