// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The spectra of a CPU, by Fourier transforms of binned events.
//!
//! A long trace is cut into segments whose powers are averaged: a transform
//! of all of it would be large, and few clocks keep their phase for an hour.
//! Longer periods than fit into a segment are looked for in a second pass
//! with wide bins.

use sandbag_stats::{Complex, Fourier, middle};

use super::{Band, LEAST_PERIODS, gamma};
use crate::{CpuTrace, Span, TraceEvent};

/// Bins of the first pass are at most this wide.
const BIN_NS: u64 = 50_000;
/// Bins of a transform at most, a power of two.
const MOST_BINS: usize = 1 << 20;
/// Bins of the second pass.
const WIDE_BINS: usize = 1 << 18;
/// Most segments that are transformed; of more, some at even distances.
const MOST_SEGMENTS: u64 = 16;
/// The shortest period, in bins: above a quarter of the sampling rate what is
/// binned loses power, and gains what belongs to higher frequencies.
const BINS_PER_PERIOD: usize = 4;
/// Less than that has no spectrum.
const LEAST_NS: u64 = 10_000_000;
/// Nor has more, 100 days, which no recording has.
const MOST_NS: u64 = 8_640_000_000_000_000;
/// Further away the window alone leaks nothing.
const NEAR: usize = 64;
/// Bands of a figure, for each pass.
const BANDS: usize = 400;

/// How a trace is cut for transforms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) begin_ns: u64,
    pub(super) segment_ns: f64,
    pub(super) segments: u64,
    pub(super) bins: usize,
    /// First frequency that is looked at, in steps of `1 / segment`.
    pub(super) first: usize,
    /// After the last.
    pub(super) end: usize,
    /// In the noise a longer event weighs as much as one of this length, ns.
    pub(super) most_ns: f64,
}

impl Pass {
    /// What an event weighs, by its length or by itself.
    pub(super) fn weight(&self, event: &TraceEvent, by_noise: bool) -> f64 {
        if by_noise {
            (event.length_ns as f64).min(self.most_ns)
        } else {
            1.0
        }
    }

    pub(super) fn frequencies(&self) -> usize {
        self.end - self.first
    }

    /// Distance of two frequencies, Hz.
    pub(super) fn step_hz(&self) -> f64 {
        1e9 / self.segment_ns
    }

    pub(super) fn shortest_ns(&self) -> f64 {
        self.segment_ns / (self.end - 1) as f64
    }

    pub(super) fn longest_ns(&self) -> f64 {
        self.segment_ns / self.first as f64
    }

    /// The segments that are transformed: all, or some that lie evenly.
    fn sample_times(&self) -> impl Iterator<Item = u64> + use<> {
        let (all, some) = (self.segments, self.segments.min(MOST_SEGMENTS));
        (0..some).map(move |i| i * all / some)
    }
}

/// Number of events in a segment that count with less than their length, but no more than
/// this part of all. Of an hour's noise a few events of 60 ms are more
/// than a million others; the sum of a few waves has peaks wherever they meet.
const LONGER: u64 = 16;
const LONGER_PART: usize = 8;

/// The length of which that is true.
fn most_ns(cpu: &CpuTrace, segments: u64) -> f64 {
    let mut lengths: Vec<u64> = cpu.lengths_ns().collect();
    let longer = usize::try_from(LONGER * segments).unwrap_or(usize::MAX);
    let longer = longer.min(lengths.len() / LONGER_PART);
    match longer {
        0 => f64::INFINITY,
        _ => {
            let by_length = |a: &u64, b: &u64| b.cmp(a);
            let (_, most, _) = lengths.select_nth_unstable_by(longer - 1, by_length);
            *most as f64
        }
    }
}

/// The passes over a CPU's trace from `begin` to `end`.
pub(super) fn passes(cpu: &CpuTrace, begin_ns: u64, end_ns: u64) -> Vec<Pass> {
    let length = end_ns.saturating_sub(begin_ns);
    if !(LEAST_NS..=MOST_NS).contains(&length) {
        return Vec::new();
    }
    let longest = BIN_NS * MOST_BINS as u64;
    let segments = length.div_ceil(longest);
    let segment_ns = length as f64 / segments as f64;
    let bins = ((segment_ns / BIN_NS as f64).ceil() as usize).next_power_of_two();
    let mut passes = vec![Pass {
        begin_ns,
        segment_ns,
        segments,
        bins: bins.min(MOST_BINS),
        first: LEAST_PERIODS,
        end: bins.min(MOST_BINS) / BINS_PER_PERIOD,
        most_ns: most_ns(cpu, segments),
    }];
    if segments > 1 {
        // Up to the frequency at which the first pass begins.
        let end = LEAST_PERIODS * segments as usize;
        passes.push(Pass {
            begin_ns,
            segment_ns: length as f64,
            segments: 1,
            bins: WIDE_BINS,
            first: LEAST_PERIODS,
            end: end.min(WIDE_BINS / BINS_PER_PERIOD),
            most_ns: most_ns(cpu, 1),
        });
    }
    passes
}

/// Mean powers over the segments of a pass, by frequency from 0.
pub(super) struct Power {
    pub(super) pass: Pass,
    pub(super) starts: PowerHalf,
    pub(super) noise: PowerHalf,
    /// How much a line leaks into a frequency so far away, relative to its
    /// own power: the window, and unknown time.
    leak: Option<Vec<f64>>,
}

/// One of the two.
pub(super) struct PowerHalf {
    /// Relative to events at random times.
    pub(super) power: Vec<f64>,
    /// What is there without lines: 1 or more.
    pub(super) floor: Vec<f64>,
    /// Least height of a peak, relative to the floor.
    pub(super) needed: f64,
    /// Number of equal segments that would exceed a height at least as often.
    pub(super) segments: u32,
    /// Number of equal events of a segment with the same weight.
    pub(super) events: f64,
}

impl PowerHalf {
    fn new(sums: Vec<f64>, weights: &[Weights], pass: &Pass, each: f64) -> Self {
        let all: f64 = weights.iter().map(|w| w.squares).sum();
        let squares: f64 = weights.iter().map(|w| w.squares.powi(2)).sum();
        let fourths: f64 = weights.iter().map(|w| w.fourths).sum();
        let most = weights.iter().map(|w| w.squares).fold(0.0, f64::max);
        // Segments count by the squares of their weights. For the middle, so
        // many equal ones would average as well; for the tail, one long event
        // may make its segment outweigh all others, and no mean of segments of
        // which the heaviest has this share exceeds a height more often than
        // that of this number of equal ones (Bock, Diaconis, Huffer and Perlman 1987).
        let equal = |count: f64| if count >= 1.0 { count as u32 } else { 1 };
        let (average, segments) = (equal(all * all / squares), equal(all / most));
        let scale = if all > 0.0 { 1.0 / all } else { 0.0 };
        let power: Vec<f64> = sums.into_iter().map(|sum| sum * scale).collect();
        Self {
            floor: floor(&power, pass, gamma::median(average)),
            needed: gamma::threshold(segments, each),
            segments,
            events: if fourths > 0.0 {
                squares / fourths
            } else {
                0.0
            },
            power,
        }
    }
}

/// Sums of powers of the weights of events.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    squares: f64,
    fourths: f64,
}

impl Weights {
    fn add(&mut self, weight: f64) {
        self.squares += weight.powi(2);
        self.fourths += weight.powi(4);
    }
}

impl Power {
    pub(super) fn of(cpu: &CpuTrace, pass: &Pass, each: f64) -> Self {
        let fourier = Fourier::new(pass.bins);
        let half = pass.bins / 2;
        let (mut starts, mut noise) = (vec![0.0; half], vec![0.0; half]);
        let (mut starts_weights, mut noise_weights) = (Vec::new(), Vec::new());
        let mut leak: Option<Vec<f64>> = None;
        for segment in pass.sample_times() {
            let begin = pass.begin_ns as f64 + segment as f64 * pass.segment_ns;
            let (mut bins, known, weights) = bin(cpu, pass, begin);
            let [starts_weight, noise_weight] = weights;
            if starts_weight.squares == 0.0 {
                continue;
            }
            fourier.transform(&mut bins);
            for at in 1..half {
                // Two real series in one complex transform.
                let (z, mirror) = (bins[at], bins[pass.bins - at].conj());
                starts[at] += ((z + mirror) * 0.5).norm_sqr();
                noise[at] += ((z - mirror) * 0.5).norm_sqr();
            }
            starts_weights.push(starts_weight);
            noise_weights.push(noise_weight);
            if let Some(mut known) = known {
                fourier.transform(&mut known);
                let leak = leak.get_or_insert_with(|| vec![0.0; half]);
                let own = known[0].norm_sqr().max(f64::MIN_POSITIVE);
                for (sum, value) in leak.iter_mut().zip(&known) {
                    // The worst of the segments.
                    *sum = sum.max(value.norm_sqr() / own);
                }
            }
        }
        Self {
            pass: *pass,
            starts: PowerHalf::new(starts, &starts_weights, pass, each),
            noise: PowerHalf::new(noise, &noise_weights, pass, each),
            leak,
        }
    }

    /// Where a line leaks to that has so much power: distances in steps, and
    /// amplitudes relative to its own.
    pub(super) fn reach(&self) -> Vec<(usize, f64)> {
        let of = |one: &PowerHalf| one.power.iter().copied().fold(1.0, f64::max);
        let most = of(&self.starts).max(of(&self.noise));
        // Below that of chance it does not matter.
        let least = 0.5 / most.sqrt();
        let end = self.pass.end;
        let near = (2..NEAR.min(end)).filter(|_| self.leak.is_none());
        let all = (2..end).filter(|_| self.leak.is_some());
        let with_amplitude = near
            .chain(all)
            .map(|distance| (distance, self.leaks(distance)));
        with_amplitude
            .filter(|(_, share)| *share >= least)
            .collect()
    }

    /// Amplitude, relative to its own, that a line shows `distance` steps
    /// away, at most.
    fn leaks(&self, distance: usize) -> f64 {
        // A line lies between two frequencies: half a step nearer.
        let x = distance as f64 - 0.5;
        let window = (std::f64::consts::PI * x * (x * x - 1.0)).recip();
        let gaps = self.leak.as_ref().map_or(0.0, |leak| {
            let around = &leak[distance - 1..(distance + 2).min(leak.len()).max(distance)];
            around.iter().copied().fold(0.0, f64::max).sqrt()
        });
        window.max(gaps).min(1.0)
    }

    /// For a figure; narrow as they are, bands of a logarithmic axis.
    pub(super) fn bands(&self) -> Vec<Band> {
        let pass = &self.pass;
        let ratio = (pass.end as f64 / pass.first as f64).powf(1.0 / BANDS as f64);
        let mut bands = Vec::new();
        let mut from = pass.first;
        while from < pass.end {
            let until = ((from as f64 * ratio).ceil() as usize).clamp(from + 1, pass.end);
            let most = |of: &[f64]| of[from..until].iter().copied().fold(0.0, f64::max);
            let middle = (from + until - 1) / 2;
            bands.push(Band {
                frequency_hz: (from + until - 1) as f64 / 2.0 * pass.step_hz(),
                starts: most(&self.starts.power),
                noise: most(&self.noise.power),
                needed: self.starts.floor[middle] * self.starts.needed,
            });
            from = until;
        }
        bands
    }
}

/// Events of a segment in bins, starts as the real and noise as the imaginary
/// part, windowed (Hann), without what their mean rates give; the window
/// within the known time, unless all of it is known; and the sums of squared
/// weights.
fn bin(
    cpu: &CpuTrace,
    pass: &Pass,
    begin_ns: f64,
) -> (Vec<Complex>, Option<Vec<Complex>>, [Weights; 2]) {
    let width = pass.segment_ns / pass.bins as f64;
    let window = |bin: usize| {
        let x = (bin as f64 + 0.5) / pass.bins as f64;
        0.5 - 0.5 * (std::f64::consts::TAU * x).cos()
    };
    let end_ns = begin_ns + pass.segment_ns;
    let known = known(&cpu.known, begin_ns, width, pass.bins);
    let mut bins = vec![Complex::default(); pass.bins];
    let first = cpu
        .events
        .partition_point(|event| (event.start_ns as f64) < begin_ns);
    let mut weights = [Weights::default(); 2];
    let mut sum = Complex::default();
    for event in &cpu.events[first..] {
        let start = event.start_ns as f64;
        if start >= end_ns {
            break;
        }
        let bin = (((start - begin_ns) / width) as usize).min(pass.bins - 1);
        let w = window(bin);
        let value = Complex::new(w, w * pass.weight(event, true));
        bins[bin] += value;
        sum += value;
        weights[0].add(value.re);
        weights[1].add(value.im);
    }
    let mut masked: Vec<f64> = (0..pass.bins).map(window).collect();
    if let Some(known) = &known {
        for (mask, known) in masked.iter_mut().zip(known) {
            *mask *= *known;
        }
    }
    let all: f64 = masked.iter().sum();
    if all > 0.0 {
        let rate = sum * all.recip();
        for (bin, mask) in bins.iter_mut().zip(&masked) {
            *bin -= rate * *mask;
        }
    }
    let masked = known.map(|_| {
        masked
            .into_iter()
            .map(|mask| Complex::new(mask, 0.0))
            .collect()
    });
    (bins, masked, weights)
}

/// The known share of each bin; `None` if all is.
fn known(spans: &[Span], begin_ns: f64, width: f64, bins: usize) -> Option<Vec<f64>> {
    let end_ns = begin_ns + width * bins as f64;
    let covers = |span: &Span| {
        // The ends of a trace are whole numbers, those of segments are not.
        span.from_ns as f64 <= begin_ns + 1.0 && span.until_ns as f64 >= end_ns - 1.0
    };
    if spans.iter().any(covers) {
        return None;
    }
    let mut known = vec![0.0; bins];
    for span in spans {
        let from = ((span.from_ns as f64 - begin_ns) / width).clamp(0.0, bins as f64);
        let until = ((span.until_ns as f64 - begin_ns) / width).clamp(0.0, bins as f64);
        let (first, last) = (from as usize, (until as usize).min(bins - 1));
        if until <= from {
            continue;
        }
        if first == last {
            known[first] += until - from;
            continue;
        }
        known[first] += (first + 1) as f64 - from;
        known[first + 1..last].fill(1.0);
        known[last] += until - last as f64;
    }
    Some(known)
}

/// Neighbours on each side whose median is the floor, at least and at most.
const NEIGHBOURS: (usize, usize) = (16, 250);

/// What is there without lines: the running median as a mean, or 1 if that is
/// more. Regular events have less than events at random times between their
/// lines; that is no reason to find more.
fn floor(power: &[f64], pass: &Pass, median_of_mean_1: f64) -> Vec<f64> {
    let mut floor = vec![1.0; power.len()];
    let end = pass.end.min(power.len());
    let mut around = Vec::new();
    let mut at = pass.first;
    while at < end {
        let side = (at / 2).clamp(NEIGHBOURS.0, NEIGHBOURS.1);
        let step = (side / 4).max(1);
        around.clear();
        around.extend_from_slice(&power[at.saturating_sub(side).max(1)..(at + side).min(end)]);
        sandbag_stats::sort(&mut around);
        let level = (middle(&around).unwrap_or(0.0) / median_of_mean_1).max(1.0);
        let until = (at + step).min(end);
        floor[at..until].fill(level);
        at = until;
    }
    floor
}
