// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From powers to components. Events that come at sharp times have as much
//! power at each multiple of their frequency as at the frequency itself, and
//! may stand out at none of them, but in the sum of many (harmonic summing,
//! Taylor and Huguenin 1969, who looked for pulsars). The component that
//! stands out most is taken, what belongs to it is removed from the spectra,
//! and the next one is looked for.

use std::ops::Range;

use super::power::{Power, PowerHalf};
use super::refine::{RefinedLine, refine};
use super::{Component, FoundIn, fold, gamma};
use crate::CpuTrace;

/// Numbers of multiples that are summed; powers of two.
pub(super) const SUMS: [usize; 4] = [1, 4, 16, 64];
/// Of fewer events than this for each multiple no sum is made: any two of a few
/// have a distance, and so a period.
const EVENTS_PER_MULTIPLE: f64 = 32.0;
/// Least mean of a sum, relative to the floor, which is an estimate too.
const LEAST_MEAN: f64 = 1.5;
/// Candidates that are looked at.
const MOST_TRIES: usize = 48;
/// A line beside a stronger one must exceed the leakage of that one by this factor.
const OVER_LEAK: f64 = 4.0;
/// Lines nearer than this share of their frequency are one: clocks drift.
const SAME: f64 = 0.001;
/// Multiples of a frequency that are removed with it at least, and at most.
const REMOVED: (usize, usize) = (64, 4096);
/// Of more, the last of these are above the floor by this, in the mean: three
/// standard deviations.
const FADED: f64 = 0.5;
/// Times the sampling rate up to which multiples show up below it.
const ALIASES: f64 = 4.0;
/// Of lower frequencies, in steps, they would be everywhere; they are weak.
const LEAST_ALIASED: f64 = 200.0;
/// Most power of a multiple, relative to the strongest of the first ones: with more it would
/// be a component of its own.
const OVER_FIRST: f64 = 4.0;
/// Numbers of multiples by which a frequency is refined.
const CLIMB: [usize; 4] = [4, 16, 64, 256];
/// On each side, a quarter of a step of the last multiple apart.
const TRIALS: u32 = 16;
/// A trial frequency is better if its mean is higher by this many standard deviations of
/// noise: the best of all trials is 3 to 4 higher by chance.
const CLEARER: f64 = 6.0;
/// On the exact times a line has at least this share of its power in bins.
const CONFIRMED: f64 = 0.5;
/// Mean of the greatest of three powers that are 1 in the mean.
const GREATEST_OF_3: f64 = 1.83;
/// Lines that have less than this share of what others have beyond the floor
/// are none of them.
const FAINT: f64 = 0.15;

/// Of which multiple of its frequency a component stands out most is chance: any
/// up to some hundreds. Factor by factor that leads back to the first.
fn primes() -> impl Iterator<Item = usize> {
    const LARGEST: usize = 257;
    let is_prime = |n: &usize| {
        (2..*n)
            .take_while(|d| d * d <= *n)
            .all(|d| !n.is_multiple_of(d))
    };
    (2..=LARGEST).filter(is_prime)
}

/// A spectrum without what was explained, relative to its floor.
struct Rest<'a> {
    one: &'a PowerHalf,
    by_noise: bool,
    values: Vec<f64>,
    /// Amplitudes that explained lines leak.
    leaked: Vec<f64>,
    /// Least mean of a sum of multiples, in the order of [`SUMS`].
    needed: [f64; SUMS.len()],
}

/// What stands out most.
struct Candidate {
    by_noise: bool,
    /// Multiples that were summed.
    multiples: usize,
    /// In steps of the pass.
    frequency: f64,
    /// Logarithm of the probability of that.
    ln_p: f64,
}

impl<'a> Rest<'a> {
    fn new(one: &'a PowerHalf, by_noise: bool, end: usize, each: f64) -> Self {
        let relative = one.power.iter().zip(&one.floor);
        Self {
            one,
            by_noise,
            values: relative.take(end).map(|(p, floor)| p / floor).collect(),
            leaked: vec![0.0; end],
            needed: SUMS.map(|multiples| {
                let shape = one.segments.saturating_mul(multiples as u32);
                gamma::threshold(shape, each).max(LEAST_MEAN)
            }),
        }
    }

    /// The best frequency for a sum of `multiples` multiples.
    fn best(&self, multiples: usize, first: usize) -> Option<(f64, f64)> {
        let (at, most) = sandbag_stats::harmonic_peak(&self.values, multiples, first);
        (at > 0).then(|| (at as f64 / multiples as f64, most / multiples as f64))
    }

    /// Mean over the first multiples of a frequency.
    fn mean(&self, frequency: f64, multiples: usize) -> f64 {
        let all = (1..=multiples).map(|k| self.near(frequency * k as f64));
        all.sum::<f64>() / multiples as f64
    }

    fn candidate(&self, power: &Power) -> Option<Candidate> {
        let all = SUMS
            .iter()
            .zip(self.needed)
            .filter_map(|(multiples, needed)| {
                let (frequency, mean) = self.best(*multiples, power.pass.first)?;
                let shape = self.one.segments.saturating_mul(*multiples as u32);
                let enough = self.one.events >= EVENTS_PER_MULTIPLE * *multiples as f64;
                (mean >= needed && (enough || *multiples == 1)).then(|| Candidate {
                    by_noise: self.by_noise,
                    multiples: *multiples,
                    frequency,
                    ln_p: gamma::ln_beyond(shape, mean * f64::from(shape)),
                })
            });
        all.min_by(|a, b| a.ln_p.total_cmp(&b.ln_p))
    }

    /// The value at the nearest step.
    fn near(&self, at: f64) -> f64 {
        self.values.get(at.round() as usize).copied().unwrap_or(0.0)
    }

    /// The places up to `side` from one.
    fn places(&self, at: usize, side: usize) -> Range<usize> {
        let end = self.values.len();
        at.saturating_sub(side).min(end)..(at + side + 1).min(end)
    }

    /// Lowers places up to 2 from a frequency to the mean of chance.
    fn level(&mut self, at: usize) {
        let places = self.places(at, 2);
        self.values[places]
            .iter_mut()
            .for_each(|value| *value = value.min(1.0));
    }

    /// The greatest at the nearest three steps.
    fn around(&self, at: f64) -> f64 {
        let around = &self.values[self.places(at.round() as usize, 1)];
        around.iter().copied().fold(0.0, f64::max)
    }

    /// Mean beyond the floor over the multiples from 1 to 64 of which `is` is
    /// true; `None` if there are none.
    fn beyond(&self, frequency: f64, is: impl Fn(usize) -> bool) -> Option<f64> {
        let end = self.values.len() as f64;
        let multiples = (1..=REMOVED.0)
            .take_while(|k| frequency * *k as f64 + 1.0 < end)
            .filter(|k| is(*k));
        let (mut count, mut sum) = (0, 0.0);
        for k in multiples {
            count += 1;
            sum += self.around(frequency * k as f64) - GREATEST_OF_3;
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    /// The greatest among the same multiples.
    fn most(&self, frequency: f64, is: impl Fn(usize) -> bool) -> f64 {
        let multiples = (1..=REMOVED.0).filter(|k| is(*k));
        let all = multiples.map(|k| self.around(frequency * k as f64));
        all.fold(0.0, f64::max)
    }

    /// A frequency of which others are multiples may have been taken for
    /// theirs, or one of theirs for it.
    fn fundamental(&self, mut frequency: f64, least: f64) -> f64 {
        const FACTORS: [usize; 4] = [2, 3, 5, 7];
        'lower: loop {
            let own = self.beyond(frequency, |_| true).unwrap_or(0.0);
            for factor in primes() {
                let lower = frequency / factor as f64;
                let between = self.beyond(lower, |k| k % factor != 0).unwrap_or(0.0);
                // Of many: three standard deviations of their mean and more.
                // By chance every second event may come a little late: that
                // shows where the line itself has faded, and faintly.
                let stands_out = between > 1.0
                    && between > 2.0 * FAINT * own
                    && self.most(lower, |k| k % factor != 0)
                        > FAINT * self.most(frequency, |_| true);
                if lower >= least && stands_out {
                    frequency = lower;
                    continue 'lower;
                }
            }
            break;
        }
        'higher: loop {
            for factor in FACTORS {
                let among = self.beyond(frequency, |k| k % factor == 0);
                let others = self.beyond(frequency, |k| k % factor != 0);
                if let (Some(among), Some(others)) = (among, others)
                    && among > 0.0
                    && others < FAINT * among
                {
                    frequency *= factor as f64;
                    continue 'higher;
                }
            }
            return frequency;
        }
    }

    /// All multiples of a component together know its frequency better than one
    /// of them does, of which it is known to a part of a step.
    fn sharper(&self, mut frequency: f64) -> f64 {
        for multiples in CLIMB {
            if frequency * multiples as f64 >= self.values.len() as f64 {
                break;
            }
            let count = multiples as f64;
            let mut most = self.mean(frequency, multiples) + CLEARER / count.sqrt();
            let around = frequency;
            for trial in 1..=TRIALS {
                let beside = f64::from(trial) / 4.0 / count;
                for tried in [around - beside, around + beside] {
                    let mean = self.mean(tried, multiples);
                    if mean > most {
                        (frequency, most) = (tried, mean);
                    }
                }
            }
        }
        frequency
    }

    /// Whatever it was, what stood out does so no more.
    fn forget(&mut self, candidate: &Candidate) {
        for k in 1..=candidate.multiples {
            self.level((candidate.frequency * k as f64).round() as usize);
        }
    }

    /// Removes a frequency and its multiples; says how many of those are peaks
    /// by themselves.
    fn remove(&mut self, frequency: f64, power: &Power) -> u32 {
        let (end, peak) = (self.values.len(), self.needed[0]);
        let first = (1..=SUMS[2]).map(|k| self.around(frequency * k as f64));
        let limit = OVER_FIRST * first.fold(1.0, f64::max);
        let (mut harmonics, mut quiet) = (0, 0);
        let mut removed = Vec::new();
        // Multiples may stand out together of which none does by itself.
        let still_there = |k: usize| {
            let last = (k - REMOVED.0..k).map(|k| self.around(frequency * k as f64));
            last.sum::<f64>() / REMOVED.0 as f64 > GREATEST_OF_3 + FADED
        };
        for k in 1..=REMOVED.1 {
            let at = frequency * k as f64;
            let height = self.around(at);
            quiet = if height >= peak { 0 } else { quiet + 1 };
            let faded = k > REMOVED.0 && quiet > REMOVED.0 && !still_there(k);
            if at + 1.0 >= end as f64 || faded {
                break;
            }
            if height > limit {
                continue;
            }
            harmonics += u32::from(k > 1 && height >= peak);
            removed.push((at.round() as usize, height));
        }
        // Multiples beyond the bins show up below them.
        let bins = power.pass.bins as f64;
        let aliased = (end as f64 / frequency) as usize..(ALIASES * bins / frequency) as usize;
        for k in aliased.filter(|_| frequency >= LEAST_ALIASED) {
            let beyond = (frequency * k as f64) % bins;
            self.level(beyond.min(bins - beyond).round() as usize);
        }
        let reach = power.reach();
        for (at, height) in &removed {
            let side = ((SAME * *at as f64).min(frequency / 8.0) as usize).max(2);
            let places = self.places(*at, side);
            self.values[places].fill(1.0);
            let amplitude = (height * self.one.floor[*at]).sqrt();
            for (distance, share) in &reach {
                for place in [at.checked_sub(*distance), at.checked_add(*distance)] {
                    if let Some(leaked) = place.and_then(|place| self.leaked.get_mut(place)) {
                        *leaked += amplitude * share;
                    }
                }
            }
        }
        for (i, (value, leaked)) in self.values.iter_mut().zip(&self.leaked).enumerate() {
            if *value * self.one.floor[i] <= OVER_LEAK * leaked * leaked {
                *value = 1.0;
            }
        }
        harmonics
    }
}

/// The components of a pass; `each`: the probability of a false alarm at each
/// frequency.
pub(super) fn components(cpu: &CpuTrace, power: &Power, each: f64) -> Vec<Component> {
    let end = power.pass.end;
    let mut starts = Rest::new(&power.starts, false, end, each);
    let mut noise = Rest::new(&power.noise, true, end, each);
    let mut found = Vec::new();
    for _ in 0..MOST_TRIES {
        let candidates = [starts.candidate(power), noise.candidate(power)];
        let best = candidates.into_iter().flatten();
        let Some(best) = best.min_by(|a, b| a.ln_p.total_cmp(&b.ln_p)) else {
            break;
        };
        let rest = if best.by_noise { &noise } else { &starts };
        let (refined, confirmed) = exactly(cpu, power, rest, &best);
        let step = power.pass.step_hz();
        let frequency = rest.fundamental(refined.hz / step, power.pass.first as f64);
        let frequency = rest.sharper(frequency);
        let in_one = |rest: &Rest<'_>| {
            SUMS.iter().zip(rest.needed).any(|(multiples, needed)| {
                let fits = frequency * (*multiples as f64) < end as f64;
                fits && rest.mean(frequency, *multiples) >= needed
            })
        };
        let (in_starts, in_noise) = (in_one(&starts), in_one(&noise));
        let height = |rest: &Rest<'_>| {
            let all = (1..=SUMS[2]).map(|k| rest.around(frequency * k as f64));
            all.fold(0.0, f64::max)
        };
        let height = height(&starts).max(height(&noise));
        let harmonics = starts.remove(frequency, power);
        let harmonics = harmonics.max(noise.remove(frequency, power));
        let from = if best.by_noise {
            &mut noise
        } else {
            &mut starts
        };
        from.forget(&best);
        if !confirmed {
            continue;
        }
        let refined = refined.at(cpu, &power.pass, frequency * step);
        let Some(fold) = fold::fold(cpu, &power.pass, &refined) else {
            continue;
        };
        let own = cpu.events.iter().zip(fold.fold.own(cpu));
        let own_ns: u64 = own.filter(|(_, own)| *own).map(|(e, _)| e.length_ns).sum();
        found.push(Component {
            period_ns: fold.period_ns,
            // The fold counts from the first reading of this CPU.
            phase_ns: (fold.phase_ns + power.pass.begin_ns as f64).rem_euclid(fold.period_ns),
            jitter_ns: fold.jitter_ns,
            events: fold.events.round() as u64,
            // Of several events in a period all count, of periods each once.
            share_of_periods: (fold.events / fold.periods.max(1.0)).min(1.0),
            noise_pct: own_ns as f64 / cpu.noise_ns().max(1) as f64 * 100.0,
            power: height,
            harmonics,
            coherent_ns: refined.coherent_ns,
            found_in: match (in_starts, in_noise) {
                (true, true) => FoundIn::Both,
                (false, true) => FoundIn::Noise,
                (true, false) => FoundIn::Starts,
                (false, false) if best.by_noise => FoundIn::Noise,
                (false, false) => FoundIn::Starts,
            },
            fold: fold.fold,
        });
    }
    found
}

/// The candidate on the exact times, by that of its multiples that tells most:
/// the higher, the better it is known; and whether they have the power that
/// the bins showed, which what lies beyond their resolution has not.
fn exactly(
    cpu: &CpuTrace,
    power: &Power,
    rest: &Rest<'_>,
    candidate: &Candidate,
) -> (RefinedLine, bool) {
    let at = |k: usize| rest.around(candidate.frequency * k as f64);
    let most = (1..=candidate.multiples).map(at).fold(0.0, f64::max);
    let tells = |k: &usize| at(*k) >= 0.5 * most;
    let k = (1..=candidate.multiples).rev().find(tells).unwrap_or(1);
    let middle = (candidate.frequency * k as f64).round() as usize;
    // The frequency is known to half a step of the last multiple.
    let around = [middle.saturating_sub(1).max(1), middle, middle + 1];
    let peak = around
        .into_iter()
        .max_by(|a, b| rest.near(*a as f64).total_cmp(&rest.near(*b as f64)));
    let peak = peak.unwrap_or(middle);
    let refined = refine(cpu, &power.pass, peak, rest.by_noise);
    let shown = rest.near(peak as f64) * rest.one.floor[peak];
    let confirmed = refined.power >= CONFIRMED * shown;
    (refined.divide(k), confirmed)
}
