// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events are those of a line: all are laid on one period, where its own
//! stand close together on a background of others.

use sandbag_stats::median;

use super::power::Pass;
use super::refine::{Due, RefinedLine};
use crate::{CpuTrace, TraceEvent};

/// Fewer events that stand out are no component.
const LEAST_EVENTS: f64 = super::LEAST_PERIODS as f64;
/// A period that fewer of its times keep is a multiple of the frequency of a
/// slower component, of which a few long events stand out.
const LEAST_SHARE: f64 = 0.01;
/// Bins of a period: as fine as there are events enough to fill them. Few
/// events of a wide jitter fill no fine bin, and one of them that has some by
/// chance would be taken for all.
const BINS: [usize; 4] = [200, 100, 50, 25];
/// Coarser bins must find more events than finer ones by this many standard deviations of
/// the chance events...
const COARSER: f64 = 3.0;
/// ...and by this share: tails alone are no reason, for a wide stretch has
/// more of other events.
const COARSER_SHARE: f64 = 0.25;

/// Where within a period a component's events begin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fold {
    begin_ns: u64,
    coherent_ns: f64,
    /// In each coherent stretch.
    due: Vec<Due>,
    /// From there, turns.
    from: f64,
    /// To there; `from` to `from + 1`.
    until: f64,
}

impl Fold {
    /// Where an event begins, in turns from where the component's are due,
    /// -0.5 to 0.5.
    fn turns(&self, event: &TraceEvent) -> f64 {
        let t = event.start_ns.saturating_sub(self.begin_ns) as f64;
        let stretch = ((t / self.coherent_ns) as usize).min(self.due.len() - 1);
        let within = t - stretch as f64 * self.coherent_ns;
        let due = self.due[stretch];
        let turns = within / 1e9 * due.hz - due.phase;
        turns - turns.round()
    }

    /// Where the time since the begin of its stretch is, s, and where it is due.
    fn within(&self, event: &TraceEvent) -> (f64, f64) {
        let t = event.start_ns.saturating_sub(self.begin_ns) as f64;
        ((t % self.coherent_ns) / 1e9, self.turns(event))
    }

    /// With the frequency and the phase that a straight line through the
    /// events of the component has.
    fn correct(&self, cpu: &CpuTrace) -> Self {
        let middle = (self.from + self.until) / 2.0;
        let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for event in cpu.events.iter().filter(|event| self.holds(event)) {
            let (t, turns) = self.within(event);
            let beside = turns - middle;
            let beside = beside - beside.round();
            n += 1.0;
            x += t;
            y += beside;
            xx += t * t;
            xy += t * beside;
        }
        let spread = n * xx - x * x;
        if spread <= 0.0 {
            return self.clone();
        }
        let slope = (n * xy - x * y) / spread;
        let offset = (y - slope * x) / n + middle;
        let due = self.due.iter().map(|due| Due {
            hz: due.hz - slope,
            phase: due.phase + offset,
        });
        Self {
            due: due.collect(),
            ..self.clone()
        }
    }

    /// The mean of all stretches.
    fn period_ns(&self) -> f64 {
        let hz: f64 = self.due.iter().map(|due| due.hz).sum();
        1e9 * self.due.len() as f64 / hz
    }

    /// Whether an event begins where the component's do. Others may, too, by
    /// chance.
    pub fn holds(&self, event: &TraceEvent) -> bool {
        if self.due.is_empty() {
            return false;
        }
        let turns = self.turns(event);
        [turns, turns + 1.0, turns - 1.0]
            .into_iter()
            .any(|turns| (self.from..self.until).contains(&turns))
    }
}

/// How far beyond its ends events of a fold are looked for, in its widths, and
/// how much of a turn is looked at: the rest shows what comes by chance.
const FLANK: f64 = 0.5;
const MOST_TURN: f64 = 0.5;
/// Lengths are distinguished by a factor of the square root of two.
const LENGTHS_PER_DOUBLING: f64 = 2.0;
const LENGTHS: usize = 128;
/// Events in excess of chance are the component's above this many standard deviations.
const OWN: f64 = 3.0;
/// A single event of its length is the component's if chance has fewer than this there.
const ALONE: f64 = 0.01;

/// Events of about the same length at about the same phase: how many there are
/// beyond what chance has, and which of them were taken for it.
#[derive(Clone, Copy, Default)]
struct EventCluster {
    count: f64,
    own_share: f64,
    taken: f64,
}

impl Fold {
    /// Which events are the component's own, in the order of the CPU's.
    ///
    /// Others begin at its phase by chance. How many they are is known from the
    /// rest of the turn, length by length; that number of events of about the same length is
    /// left out, evenly. Beside the phases where its events stand out are those that
    /// came early or late.
    pub fn own(&self, cpu: &CpuTrace) -> Vec<bool> {
        if self.due.is_empty() {
            return vec![false; cpu.events.len()];
        }
        let width = self.until - self.from;
        let flanks = (2.0 * FLANK * width).min((MOST_TURN - width).max(0.0));
        let widths = [width, flanks, (1.0 - width - flanks).max(f64::MIN_POSITIVE)];
        let middle = (self.from + self.until) / 2.0;
        // Within the fold, beside it, elsewhere.
        let place = |event: &TraceEvent| {
            let beside = self.turns(event) - middle;
            let beside = (beside - beside.round()).abs();
            if beside <= width / 2.0 {
                0
            } else if beside <= (width + flanks) / 2.0 {
                1
            } else {
                2
            }
        };
        let length = |event: &TraceEvent| {
            let doublings = (event.length_ns.max(1) as f64).log2();
            ((doublings * LENGTHS_PER_DOUBLING) as usize).min(LENGTHS - 1)
        };
        let mut alike = [[EventCluster::default(); LENGTHS]; 3];
        let places: Vec<(usize, usize)> =
            cpu.events.iter().map(|e| (place(e), length(e))).collect();
        for (place, length) in &places {
            alike[*place][*length].count += 1.0;
        }
        let [within, beside, elsewhere] = &mut alike;
        for (of, width) in [(within, widths[0]), (beside, widths[1])] {
            for (one, others) in of.iter_mut().zip(elsewhere.iter()) {
                let chance = others.count * width / widths[2];
                // Of a rare length there may be none elsewhere, by chance, too.
                let most = (others.count + 1.0) * width / widths[2];
                let excess = one.count - chance;
                if excess > OWN * most.sqrt() && (one.count > 1.0 || most < ALONE) {
                    one.own_share = excess / one.count;
                }
            }
        }
        let mut take = |(place, length): (usize, usize)| {
            let of = &mut alike[place][length];
            of.taken += of.own_share;
            let is_own = of.taken >= 0.5;
            of.taken -= f64::from(u8::from(is_own));
            is_own
        };
        places.into_iter().map(&mut take).collect()
    }
}

/// What the events of a line are like.
pub(super) struct FoldResult {
    pub(super) fold: Fold,
    pub(super) period_ns: f64,
    pub(super) phase_ns: f64,
    pub(super) jitter_ns: f64,
    /// More than a chance background would have there.
    pub(super) events: f64,
    /// What the background has there.
    by_chance: f64,
    pub(super) periods: f64,
}

/// Each time the frequency is corrected by what the events themselves say, and
/// they stand closer together.
const CORRECTIONS: usize = 3;

/// `None` if no events stand out.
pub(super) fn fold(cpu: &CpuTrace, pass: &Pass, refined: &RefinedLine) -> Option<FoldResult> {
    let mut fold = Fold {
        begin_ns: refined.begin_ns,
        coherent_ns: refined.coherent_ns,
        due: refined.due.clone(),
        from: 0.0,
        until: 0.0,
    };
    let mut folded = fold_once(cpu, pass, &mut fold, refined.by_noise)?;
    for _ in 0..CORRECTIONS {
        let mut better = fold.correct(cpu);
        match fold_once(cpu, pass, &mut better, refined.by_noise) {
            // A part of them may stand closer, where the clock drifts.
            Some(again)
                if again.jitter_ns <= folded.jitter_ns && again.events >= KEPT * folded.events =>
            {
                (fold, folded) = (better, again);
            }
            _ => break,
        }
    }
    Some(FoldResult { fold, ..folded })
}

/// Finds where the events of the line are, as fine as they allow.
fn fold_once(cpu: &CpuTrace, pass: &Pass, fold: &mut Fold, by_noise: bool) -> Option<FoldResult> {
    let turns: Vec<f64> = cpu.events.iter().map(|event| fold.turns(event)).collect();
    let mut best: Option<(Fold, FoldResult)> = None;
    for bins in BINS {
        let mut here = fold.clone();
        let Some(folded) = bin(cpu, pass, &mut here, &turns, by_noise, bins) else {
            continue;
        };
        let more = best.as_ref().is_none_or(|(_, finer)| {
            let chance = (folded.by_chance + finer.events).sqrt();
            let least = finer.events * (1.0 + COARSER_SHARE);
            folded.events > least.max(finer.events + COARSER * chance)
        });
        if more {
            best = Some((here, folded));
        }
    }
    let (here, folded) = best?;
    *fold = here;
    Some(folded)
}

/// Finds the events of the line among `bins` bins of a period.
fn bin(
    cpu: &CpuTrace,
    pass: &Pass,
    fold: &mut Fold,
    turns: &[f64],
    by_noise: bool,
    bins: usize,
) -> Option<FoldResult> {
    let bin_of = |turns: f64| (((turns + 0.5) * bins as f64) as usize).min(bins - 1);
    let (mut counts, mut noise) = (vec![0.0f64; bins], vec![0.0f64; bins]);
    for (event, turns) in cpu.events.iter().zip(turns) {
        counts[bin_of(*turns)] += 1.0;
        // As the spectrum saw it.
        noise[bin_of(*turns)] += pass.weight(event, true);
    }
    // Long events may be periodic among many short ones that are not.
    let background = background_of(&counts);
    let quiet = background_of(&noise);
    let total: f64 = noise.iter().sum();
    let stands_out = |i: usize| {
        let (count, noise) = (counts[i % bins], noise[i % bins]);
        count > background + 3.0 * (background + 1.0).sqrt()
            || (by_noise && noise - quiet > 0.02 * total && count > background)
    };
    let peak = (0..bins).max_by(|a, b| {
        let height = |i: usize| {
            let of_events = (counts[i] - background) / cpu.events.len() as f64;
            let of_noise = (noise[i] - quiet) / total.max(1.0);
            // A single event may be longer than all that are periodic.
            if by_noise {
                of_events.max(of_noise)
            } else {
                of_events
            }
        };
        height(*a).total_cmp(&height(*b))
    })?;
    // To both sides as long as events stand out; a single bin may fall short.
    let side = |towards: &dyn Fn(usize) -> usize| {
        let mut last = 0;
        for steps in 1..bins / 2 {
            if stands_out(towards(steps)) {
                last = steps;
            } else if steps > last + 1 {
                break;
            }
        }
        last
    };
    let left = side(&|steps| peak + bins - steps);
    let right = side(&|steps| peak + steps);
    let width = left + right + 1;
    let from = (peak as f64 - left as f64) / bins as f64 - 0.5;
    let until = from + width as f64 / bins as f64;
    let per_turn = background * bins as f64;
    // Few long ones may have many others beside them.
    let (from, until) = if by_noise {
        (from, until)
    } else {
        nearer(turns, from, until, per_turn)
    };
    (fold.from, fold.until) = (from, until);
    let middle = (from + until) / 2.0;
    let inside = turns.iter().filter_map(|turns| {
        let beside = turns - middle;
        let beside = beside - beside.round();
        (beside.abs() <= (until - from) / 2.0).then_some(beside)
    });
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for beside in inside {
        n += 1.0;
        sum += beside;
        squares += beside * beside;
    }
    // The background is even over the width and has its share of all sums.
    let width = until - from;
    let expected = per_turn * width;
    let events = n - expected;
    let period_ns = fold.period_ns();
    let periods = cpu.known_ns() as f64 / period_ns;
    if events < LEAST_EVENTS.max(LEAST_SHARE * periods) {
        return None;
    }
    let even = (until - from).powi(2) / 12.0;
    let mean = sum / events;
    let variance = ((squares - expected * even) / events - mean * mean).max(0.0);
    let phase = fold.due[0].phase + middle + mean;
    Some(FoldResult {
        phase_ns: (phase - phase.floor()) * period_ns,
        jitter_ns: variance.sqrt() * period_ns,
        events,
        by_chance: expected,
        periods,
        period_ns,
        fold: Fold::default(),
    })
}

/// Parts of a stretch in which events stand out.
const PARTS: usize = 24;

/// Looking closer keeps this share of the events that stand out, in all.
const KEPT: f64 = 0.97;

/// Looks closer, as long as events stand closer together than the stretch is
/// wide: clocks are better than a bin. All in turns.
fn nearer(turns: &[f64], mut from: f64, mut until: f64, per_turn: f64) -> (f64, f64) {
    let mut whole: Option<f64> = None;
    for _ in 0..8 {
        let part = (until - from) / PARTS as f64;
        let mut counts = [0.0f64; PARTS];
        for turn in turns {
            // The stretch may reach over the half turn.
            let beside = turn - from - (turn - from).floor();
            if let Some(count) = counts.get_mut((beside / part) as usize) {
                *count += 1.0;
            }
        }
        let chance = per_turn * part;
        let stands_out = |i: usize| counts[i] > chance + 3.0 * (chance + 1.0).sqrt();
        let Some(peak) = (0..PARTS).max_by(|a, b| counts[*a].total_cmp(&counts[*b])) else {
            break;
        };
        let gap = |i: &usize| !stands_out(*i) && !stands_out((*i + 1).min(PARTS - 1));
        let high = (peak..PARTS - 1)
            .find(|i| gap(&(i + 1)))
            .unwrap_or(PARTS - 1);
        let gap = |i: &usize| !stands_out(*i) && !stands_out(i.saturating_sub(1));
        let low = (1..=peak).rev().find(|i| gap(&(i - 1))).unwrap_or(0);
        if !stands_out(peak) || (high - low + 1) * 2 > PARTS {
            break;
        }
        // One part more on each side: tails do not stand out.
        let (low, end) = (low.saturating_sub(1), (high + 2).min(PARTS));
        let excess = |counts: &[f64]| counts.iter().sum::<f64>() - chance * counts.len() as f64;
        // A sharp middle may have wide tails, which are its own.
        let whole = *whole.get_or_insert_with(|| excess(&counts));
        if excess(&counts[low..end]) < KEPT * whole {
            break;
        }
        (from, until) = (from + low as f64 * part, from + end as f64 * part);
    }
    (from, until)
}

/// What a bin has of other events: the median of all bins; 0 of none.
fn background_of(bins: &[f64]) -> f64 {
    median(bins).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::background_of;

    #[test]
    fn the_background_of_an_even_number_of_bins_is_the_mean_of_the_middle_two() {
        assert_eq!(background_of(&[3.0, 0.0, 9.0, 1.0]), 2.0);
        assert_eq!(background_of(&[3.0, 9.0, 1.0]), 3.0);
        assert_eq!(background_of(&[]), 0.0);
    }
}
