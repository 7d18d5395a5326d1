// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether two traces are of the same jitter, and how sure that is.
//!
//! Events come in bursts and machines drift, so single events are no
//! independent draws. Each trace is cut into blocks of equal length in time
//! (all CPUs together), and blocks are drawn, with replacement (block
//! bootstrap, Künsch 1989):
//!
//! - pairs of samples of the *same* trace, one as long as it and one as long
//!   as the other trace, say how far two traces of the same jitter lie apart.
//!   What 99 in 100 such pairs do not exceed is the *limit*; of the two traces
//!   the greater.
//! - pairs of a sample of each give the interval of each figure (95 %, less
//!   the bias that sampling twice has).
//!
//! Three figures are judged: the Jensen-Shannon divergence of the lengths, the
//! ratio of the rates, and that of the shares of noise. One *differs* if its
//! whole interval is beyond its limit; it is the *same* if it is within, and
//! the limit is one that says something ([`RESOLUTION`]); else it is
//! *undecided*. The traces differ if one figure does, and are the same if all
//! three are.

use serde::Serialize;

use super::blocks::{
    BlockSums, Cut, GRID, LEAST_BLOCK_NS, MOST_BLOCKS, Qs, TimeBlock, blocks, sample, whole,
};
use super::density::bandwidth;
use super::distance::divergences;
use super::summary::QUANTILES_PCT;
use crate::JitterTrace;
use sandbag_stats::Chance;

/// Samples that are drawn for each purpose.
pub const SAMPLES: usize = 400;
/// Fewer blocks than these do not tell how a trace varies.
pub const LEAST_BLOCKS: usize = 10;
/// Fewer events have no distribution that could be compared.
pub const LEAST_EVENTS: usize = 100;
/// Share of pairs of the same trace that exceed the limit.
pub const BEYOND_LIMIT: f64 = 0.01;
/// What an interval leaves out, on both sides together.
const BEYOND_INTERVAL: f64 = 0.05;
/// Where traces differ from themselves by more than this, being within the
/// limit says nothing: bits of the divergence, and logarithms of ratios (10 %
/// of the rate, 25 % of the noise).
pub const RESOLUTION: [f64; 3] = [0.05, 0.095_310_179_804_324_87, 0.223_143_551_314_209_76];

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LikenessVerdict {
    /// No further apart than parts of the same trace.
    Same,
    /// Further.
    Differs,
    /// It cannot be said.
    Undecided,
}

/// A figure with its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// A figure that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measure {
    /// Of B against A: a divergence, or the natural logarithm of a ratio.
    pub difference: Interval,
    /// What 99 in 100 pairs of the same trace do not exceed.
    pub limit: f64,
    /// A limit above this says nothing.
    pub resolution: f64,
    pub verdict: LikenessVerdict,
}

/// A quantile of the lengths of both traces, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    pub part_pct: f64,
    pub a: Interval,
    pub b: Interval,
}

/// Two traces held against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Likeness {
    /// Blocks of A and of B.
    pub blocks: [usize; 2],
    /// Their lengths, s.
    pub block_s: [f64; 2],
    /// Of B from A, bits.
    pub kl_bits: Interval,
    /// Of A from B.
    pub kl_back_bits: Interval,
    /// Jensen-Shannon divergence, bits: judged.
    pub js: Measure,
    /// Kolmogorov-Smirnov distance, to 0.6 % of a length.
    pub ks: Interval,
    /// Wasserstein distance, decades.
    pub wasserstein_decades: Interval,
    /// Natural logarithm of the ratio of the rates: judged.
    pub rate: Measure,
    /// Natural logarithm of the ratio of the shares of noise: judged.
    pub noise: Measure,
    /// Lengths at the quantiles that are usually shown, without the longest.
    pub quantiles: Vec<Quantiles>,
    pub verdict: LikenessVerdict,
    pub reason: String,
}

/// Holds `b` against the reference `a`; `None` if one of them has no events.
pub fn likeness(a: &JitterTrace, b: &JitterTrace) -> Option<Likeness> {
    let (lengths_a, lengths_b) = (a.lengths_ns(), b.lengths_ns());
    if lengths_a.is_empty() || lengths_b.is_empty() {
        return None;
    }
    let bandwidth = bandwidth(&lengths_a, GRID());
    let (mut blocks_a, block_s_a) = blocks(a, bandwidth);
    let (mut blocks_b, block_s_b) = blocks(b, bandwidth);
    if blocks_a.is_empty() || blocks_b.is_empty() {
        return None;
    }
    let cut = Cut::of(blocks_a.iter().chain(&blocks_b));
    let both = blocks_a.iter_mut().chain(&mut blocks_b);
    both.for_each(|block| cut.cut(block));
    let (whole_a, whole_b) = (whole(&blocks_a, cut), whole(&blocks_b, cut));
    let measured = SamplePair::of(&whole_a, &whole_b)?;
    let mut chance = Chance::new(1, "likeness");
    let mut between = Vec::new();
    let mut quantiles = Vec::new();
    for _ in 0..SAMPLES {
        let x = sample(&blocks_a, blocks_a.len(), true, cut, &mut chance);
        let y = sample(&blocks_b, blocks_b.len(), true, cut, &mut chance);
        if let Some(figures) = SamplePair::of(&x, &y) {
            between.push(figures);
            quantiles.push((x.quantiles_ns(), y.quantiles_ns()));
        }
    }
    let limits_a = limits(&blocks_a, whole_b.known_ns, cut, &mut chance);
    let limits_b = limits(&blocks_b, whole_a.known_ns, cut, &mut chance);
    let limit = |i: usize| limits_a[i].max(limits_b[i]);
    let interval = |of: fn(&SamplePair) -> f64| {
        let all: Vec<f64> = between.iter().map(of).collect();
        Interval::of(of(&measured), all, true)
    };
    let distance = |of: fn(&SamplePair) -> f64| Interval {
        low: interval(of).low.max(0.0),
        ..interval(of)
    };
    let mut measures = [
        Measure::judge(distance(|f| f.js), limit(0), RESOLUTION[0]),
        Measure::judge(interval(|f| f.ln_rate), limit(1), RESOLUTION[1]),
        Measure::judge(interval(|f| f.ln_noise), limit(2), RESOLUTION[2]),
    ];
    let few = too_few(&[(&blocks_a, &lengths_a), (&blocks_b, &lengths_b)]);
    if few.is_some() {
        measures
            .iter_mut()
            .for_each(|one| one.verdict = LikenessVerdict::Undecided);
    }
    let (verdict, reason) = match few {
        Some(reason) => (LikenessVerdict::Undecided, reason),
        None => overall(&measures),
    };
    let of_quantile = |i: usize| {
        let of = |whole: &BlockSums, of: fn(&(Qs, Qs)) -> &Qs| {
            let all = quantiles.iter().map(|both| of(both)[i]).collect();
            Interval::of(whole.quantiles_ns()[i], all, false)
        };
        Quantiles {
            part_pct: QUANTILES_PCT[i],
            a: of(&whole_a, |both| &both.0),
            b: of(&whole_b, |both| &both.1),
        }
    };
    let [js, rate, noise] = measures;
    Some(Likeness {
        blocks: [blocks_a.len(), blocks_b.len()],
        block_s: [block_s_a, block_s_b],
        kl_bits: distance(|f| f.kl),
        kl_back_bits: distance(|f| f.kl_back),
        js,
        ks: distance(|f| f.ks),
        wasserstein_decades: distance(|f| f.wasserstein),
        rate,
        noise,
        // Of the longest event there is but one.
        quantiles: (0..QUANTILES_PCT.len() - 1).map(of_quantile).collect(),
        verdict,
        reason,
    })
}

/// Why nothing can be said, if there is too little.
fn too_few(sides: &[(&Vec<TimeBlock>, &Vec<u64>); 2]) -> Option<String> {
    for ((blocks, lengths), name) in sides.iter().zip(["A", "B"]) {
        if blocks.len() < LEAST_BLOCKS {
            let least_s = LEAST_BLOCKS as f64 * LEAST_BLOCK_NS as f64 / 1e9;
            return Some(format!(
                "{name} is too short to tell how much it differs from itself: {least_s:.0} s is \
                 the least"
            ));
        }
        if lengths.len() < LEAST_EVENTS {
            return Some(format!(
                "{name} has only {} events; {LEAST_EVENTS} are the least",
                lengths.len()
            ));
        }
    }
    None
}

const NAMES: [&str; 3] = ["the lengths", "the rates", "the shares of noise"];

fn overall(measures: &[Measure; 3]) -> (LikenessVerdict, String) {
    let of = |verdict: LikenessVerdict| -> Vec<&str> {
        let these = measures.iter().zip(NAMES);
        let these = these.filter(|(one, _)| one.verdict == verdict);
        these.map(|(_, name)| name).collect()
    };
    let (differ, open) = (of(LikenessVerdict::Differs), of(LikenessVerdict::Undecided));
    if !differ.is_empty() {
        let text = format!(
            "{} differ by more than parts of the same trace do",
            differ.join(" and ")
        );
        return (LikenessVerdict::Differs, text);
    }
    if open.is_empty() {
        let text = "they are no further apart than parts of the same trace are";
        return (LikenessVerdict::Same, text.to_owned());
    }
    let coarse = |one: &Measure| one.limit > one.resolution;
    let why = if measures.iter().any(coarse) {
        "the traces differ too much from themselves"
    } else {
        "the interval reaches over the limit"
    };
    let text = format!(
        "{} cannot be told apart or alike: {why}",
        open.join(" and ")
    );
    (LikenessVerdict::Undecided, text)
}

impl Interval {
    /// From the figures of samples; without what they are too large in the
    /// mean, if they are of two samples.
    fn of(value: f64, mut samples: Vec<f64>, unbiased: bool) -> Self {
        if samples.is_empty() {
            return Self {
                value,
                low: f64::NEG_INFINITY,
                high: f64::INFINITY,
            };
        }
        let bias = if unbiased {
            samples.iter().sum::<f64>() / samples.len() as f64 - value
        } else {
            0.0
        };
        Self {
            value,
            low: part(&mut samples, BEYOND_INTERVAL / 2.0) - bias,
            high: part(&mut samples, 1.0 - BEYOND_INTERVAL / 2.0) - bias,
        }
    }

    /// The least distance from 0 that it holds.
    fn least(&self) -> f64 {
        self.low.max(-self.high).max(0.0)
    }
}

impl Measure {
    fn judge(difference: Interval, limit: f64, resolution: f64) -> Self {
        let verdict = if difference.least() > limit {
            LikenessVerdict::Differs
        } else if difference.value.abs() <= limit && limit <= resolution {
            LikenessVerdict::Same
        } else {
            LikenessVerdict::Undecided
        };
        Self {
            difference,
            limit,
            resolution,
            verdict,
        }
    }
}

/// Two samples against each other.
struct SamplePair {
    kl: f64,
    kl_back: f64,
    js: f64,
    ks: f64,
    wasserstein: f64,
    ln_rate: f64,
    ln_noise: f64,
}

impl SamplePair {
    /// `None` if one has no events.
    fn of(a: &BlockSums, b: &BlockSums) -> Option<Self> {
        if a.events == 0.0 || b.events == 0.0 {
            return None;
        }
        let (kl, kl_back, js) = divergences(&a.density(), &b.density(), GRID());
        let fine = GRID().step() / super::density::FINE as f64;
        let (mut below_a, mut below_b) = (0.0, 0.0);
        let (mut ks, mut wasserstein) = (0.0f64, 0.0);
        for (x, y) in a.histogram.iter().zip(&b.histogram) {
            below_a += *x as f64 / a.events;
            below_b += *y as f64 / b.events;
            let apart = (below_a - below_b).abs();
            ks = ks.max(apart);
            wasserstein += apart * fine;
        }
        let ln_ratio = |x: f64, y: f64| (y / b.known_ns).ln() - (x / a.known_ns).ln();
        Some(Self {
            kl,
            kl_back,
            js,
            ks,
            wasserstein,
            ln_rate: ln_ratio(a.events, b.events),
            ln_noise: ln_ratio(a.noise_ns, b.noise_ns),
        })
    }
}

/// More blocks than this stand for a trace that is so much longer.
const MOST_DRAWN: usize = 4 * MOST_BLOCKS;

/// How far samples of the same trace lie apart, as long as it and as long as
/// the other: divergence, and logarithms of ratios of rate and noise.
fn limits(blocks: &[TimeBlock], other_known_ns: f64, cut: Cut, chance: &mut Chance) -> [f64; 3] {
    let known_ns: f64 = blocks.iter().map(|block| block.known_ns).sum();
    let other = (other_known_ns / known_ns * blocks.len() as f64).round();
    let other = (other as usize).clamp(1, MOST_DRAWN);
    let mut all: [Vec<f64>; 3] = Default::default();
    for _ in 0..SAMPLES {
        let x = sample(blocks, blocks.len(), false, cut, chance);
        let y = sample(blocks, other, false, cut, chance);
        if let Some(figures) = SamplePair::of(&x, &y) {
            all[0].push(figures.js);
            all[1].push(figures.ln_rate.abs());
            all[2].push(figures.ln_noise.abs());
        }
    }
    all.map(|mut one| {
        if one.is_empty() {
            f64::INFINITY
        } else {
            part(&mut one, 1.0 - BEYOND_LIMIT)
        }
    })
}

/// The value that this share is not above; there is one at least.
fn part(values: &mut [f64], share: f64) -> f64 {
    let last = values.len() - 1;
    let place = ((values.len() as f64 * share).ceil() as usize).clamp(1, last + 1) - 1;
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, SECOND, periodic, poisson};
    use crate::synth::Lengths;

    fn trace(per_s: f64, median_ns: f64, seconds: u64, seed: u64) -> JitterTrace {
        let tick = periodic(4e6, 1_000.0, Lengths::Fixed(8_000.0));
        let others = poisson(per_s, Lengths::lognormal(median_ns, 0.7));
        fixture::trace(2, seconds * SECOND, seed, vec![others, tick])
    }

    #[test]
    fn recordings_of_the_same_are_the_same() {
        let of = |seed| {
            likeness(
                &trace(500.0, 2e3, 10, seed),
                &trace(500.0, 2e3, 10, seed + 50),
            )
        };
        // One in 100 would exceed each of three limits.
        let same = (0..3).filter(|seed| of(*seed).unwrap().verdict == LikenessVerdict::Same);
        assert!(same.count() >= 2);
    }

    #[test]
    fn what_differs_is_told() {
        let a = trace(500.0, 2e3, 10, 1);
        let found = |b: &JitterTrace| likeness(&a, b).unwrap();
        let rate = found(&trace(700.0, 2e3, 10, 2));
        assert_eq!(rate.rate.verdict, LikenessVerdict::Differs, "{rate:#?}");
        let (asked, got) = ((950.0f64 / 750.0).ln(), rate.rate.difference);
        assert!(got.low < asked && asked < got.high, "{got:?}");
        let lengths = found(&trace(500.0, 3e3, 10, 3));
        assert_eq!(lengths.js.verdict, LikenessVerdict::Differs, "{lengths:#?}");
        assert_eq!(lengths.verdict, LikenessVerdict::Differs);
        assert!(lengths.reason.contains("the lengths"));
        let median = lengths.quantiles[1];
        assert!(median.a.low <= median.a.value && median.a.value <= median.a.high);
        assert!(median.b.value > median.a.high, "{median:?}");
    }

    #[test]
    fn too_little_is_undecided() {
        let long = trace(500.0, 2e3, 10, 1);
        let short = likeness(&long, &trace(500.0, 2e3, 1, 2)).unwrap();
        // A second has ten blocks.
        assert_eq!(short.blocks, [50, 10]);
        let mut rest = trace(500.0, 2e3, 1, 2);
        for cpu in &mut rest.cpus {
            cpu.known[0].until_ns = 900_000_000;
            cpu.events.retain(|event| event.end_ns() < 900_000_000);
        }
        let shorter = likeness(&long, &rest).unwrap();
        assert_eq!(shorter.verdict, LikenessVerdict::Undecided);
        assert!(shorter.reason.contains("too short"), "{}", shorter.reason);
        rest.cpus.iter_mut().for_each(|cpu| cpu.events.clear());
        assert_eq!(likeness(&long, &rest), None);
    }

    #[test]
    fn a_trace_is_at_no_distance_from_itself() {
        let a = trace(500.0, 2e3, 3, 1);
        let d = likeness(&a, &a).unwrap();
        assert_eq!(d.verdict, LikenessVerdict::Same, "{d:#?}");
        assert!(d.js.difference.value < 1e-12 && d.ks.value == 0.0);
        assert_eq!(
            (d.rate.difference.value, d.noise.difference.value),
            (0.0, 0.0)
        );
    }
}
