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
//!
//! Of a trace with few events only the rate is judged, by their number
//! ([`counted_rate`](super::counted_rate)).

use serde::Serialize;

use super::blocks::{
    BlockSums, Cut, GRID, LEAST_BLOCK_NS, MOST_BLOCKS, Qs, TimeBlock, blocks, sample, whole,
};
use super::counted_rate::{counts_reason, judge_counts};
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

/// A figure with its interval of 95 %, unless it says otherwise.
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

/// What compares the lengths of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthFigures {
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
    /// Natural logarithm of the ratio of the shares of noise: judged.
    pub noise: Measure,
}

/// Two traces held against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Likeness {
    /// Blocks of A and of B.
    pub blocks: [usize; 2],
    /// Their lengths, s.
    pub block_s: [f64; 2],
    /// `None` if one of them has no events.
    #[serde(flatten)]
    pub lengths: Option<LengthFigures>,
    /// Natural logarithm of the ratio of the rates: judged.
    pub rate: Measure,
    /// Whether the rate is judged by the numbers of events, with an interval of 99 %: one of
    /// them has fewer than [`LEAST_EVENTS`].
    pub counted: bool,
    /// Lengths at the quantiles that are usually shown, without the longest; none if one of
    /// them has no events.
    pub quantiles: Vec<Quantiles>,
    pub verdict: LikenessVerdict,
    pub reason: String,
}

/// Holds `b` against the reference `a`; `None` if of one of them nothing is known.
pub fn likeness(a: &JitterTrace, b: &JitterTrace) -> Option<Likeness> {
    // Of the reference, unless it has no events.
    let bandwidth = [a, b]
        .map(JitterTrace::lengths_ns)
        .iter()
        .find(|lengths| !lengths.is_empty())
        .map_or(GRID().step(), |lengths| bandwidth(lengths, GRID()));
    let (mut blocks_a, block_s_a) = blocks(a, bandwidth);
    let (mut blocks_b, block_s_b) = blocks(b, bandwidth);
    if blocks_a.is_empty() || blocks_b.is_empty() {
        return None;
    }
    let cut = Cut::of(blocks_a.iter().chain(&blocks_b));
    let both = blocks_a.iter_mut().chain(&mut blocks_b);
    both.for_each(|block| cut.cut(block));
    let wholes = [whole(&blocks_a, cut), whole(&blocks_b, cut)];
    // A trace of more CPUs is not longer for that.
    let times_ns = [a, b].map(JitterTrace::known_ns_of_a_cpu);
    let events = [wholes[0].events, wholes[1].events];
    let both = [&blocks_a[..], &blocks_b[..]];
    let counted = events[0].min(events[1]) < LEAST_EVENTS as f64;
    let mut sampled = Sampled::of(both, &wholes, times_ns, cut);
    let mut rate = match &sampled {
        Some(sampled) if !counted => sampled.rate,
        _ => judge_counts(&blocks_a, &blocks_b),
    };
    let unfit = unfit(both, events, times_ns);
    let undecided = LikenessVerdict::Undecided;
    if unfit.is_some() {
        rate.verdict = undecided;
    }
    if let Some(Sampled { lengths, .. }) = &mut sampled
        && (unfit.is_some() || counted)
    {
        (lengths.js.verdict, lengths.noise.verdict) = (undecided, undecided);
    }
    let (verdict, reason) = match (unfit, &sampled) {
        (Some(reason), _) => (undecided, reason),
        (None, Some(Sampled { lengths, .. })) if !counted => {
            overall(&[lengths.js, rate, lengths.noise])
        }
        _ => (rate.verdict, counts_reason(rate.verdict, events)),
    };
    let (lengths, quantiles) = sampled.map(|one| (one.lengths, one.quantiles)).unzip();
    Some(Likeness {
        blocks: [blocks_a.len(), blocks_b.len()],
        block_s: [block_s_a, block_s_b],
        lengths,
        rate,
        counted,
        quantiles: quantiles.unwrap_or_default(),
        verdict,
        reason,
    })
}

/// What samples of both traces say.
struct Sampled {
    lengths: LengthFigures,
    rate: Measure,
    quantiles: Vec<Quantiles>,
}

impl Sampled {
    /// Of the blocks, sums and times of A and B; `None` if one of them has no events.
    fn of(
        [a, b]: [&[TimeBlock]; 2],
        wholes: &[BlockSums; 2],
        times_ns: [f64; 2],
        cut: Cut,
    ) -> Option<Self> {
        let [whole_a, whole_b] = wholes;
        let measured = SamplePair::of(whole_a, whole_b)?;
        let mut chance = Chance::new(1, "likeness");
        let mut between = Vec::new();
        let mut quantiles = Vec::new();
        for _ in 0..SAMPLES {
            let x = sample(a, a.len(), true, cut, &mut chance);
            let y = sample(b, b.len(), true, cut, &mut chance);
            if let Some(figures) = SamplePair::of(&x, &y) {
                between.push(figures);
                quantiles.push((x.quantiles_ns(), y.quantiles_ns()));
            }
        }
        let [time_a_ns, time_b_ns] = times_ns;
        let limits_a = limits(a, time_b_ns / time_a_ns, cut, &mut chance);
        let limits_b = limits(b, time_a_ns / time_b_ns, cut, &mut chance);
        let limit = |i: usize| limits_a[i].max(limits_b[i]);
        let interval = |of: fn(&SamplePair) -> f64| {
            let all: Vec<f64> = between.iter().map(of).collect();
            Interval::of(of(&measured), all, true)
        };
        let distance = |of: fn(&SamplePair) -> f64| Interval {
            low: interval(of).low.max(0.0),
            ..interval(of)
        };
        let of_quantile = |i: usize| {
            let of = |whole: &BlockSums, of: fn(&(Qs, Qs)) -> &Qs| {
                let all = quantiles.iter().map(|both| of(both)[i]).collect();
                Interval::of(whole.quantiles_ns()[i], all, false)
            };
            Quantiles {
                part_pct: QUANTILES_PCT[i],
                a: of(whole_a, |both| &both.0),
                b: of(whole_b, |both| &both.1),
            }
        };
        Some(Self {
            lengths: LengthFigures {
                kl_bits: distance(|f| f.kl),
                kl_back_bits: distance(|f| f.kl_back),
                js: Measure::judge(distance(|f| f.js), limit(0), RESOLUTION[0]),
                ks: distance(|f| f.ks),
                wasserstein_decades: distance(|f| f.wasserstein),
                noise: Measure::judge(interval(|f| f.ln_noise), limit(2), RESOLUTION[2]),
            },
            rate: Measure::judge(interval(|f| f.ln_rate), limit(1), RESOLUTION[1]),
            // Of the longest event there is but one.
            quantiles: (0..QUANTILES_PCT.len() - 1).map(of_quantile).collect(),
        })
    }
}

/// Why nothing can be said of traces of these numbers of events and times, if so.
fn unfit(blocks: [&[TimeBlock]; 2], events: [f64; 2], times_ns: [f64; 2]) -> Option<String> {
    for (blocks, name) in blocks.iter().zip(["A", "B"]) {
        if blocks.len() < LEAST_BLOCKS {
            let least_s = LEAST_BLOCKS as f64 * LEAST_BLOCK_NS as f64 / 1e9;
            return Some(format!(
                "{name} is too short to tell how much it differs from itself: {least_s:.0} s is \
                 the least"
            ));
        }
    }
    for (long, short, names) in [(0, 1, ["A", "B"]), (1, 0, ["B", "A"])] {
        let times = blocks[long].len();
        let block_ns = times_ns[long] / times as f64;
        // Of few events each block is a burst, however long it is.
        if events[long] >= LEAST_EVENTS as f64 && times_ns[short] < block_ns {
            let [long, short] = names;
            return Some(format!(
                "{long} is more than {times} times as long as {short}, too long to tell how much \
                 parts as long as {short} differ: compare with a part of {long} (--from, --until)"
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
    pub(super) fn least(&self) -> f64 {
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
/// the other, which is `times` as long: divergence, and logarithms of ratios of rate and noise.
fn limits(blocks: &[TimeBlock], times: f64, cut: Cut, chance: &mut Chance) -> [f64; 3] {
    let other = (times * blocks.len() as f64).round();
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
    use rstest::rstest;

    use super::*;
    use crate::Selection;
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
        let js = lengths.lengths.as_ref().unwrap().js;
        assert_eq!(js.verdict, LikenessVerdict::Differs, "{lengths:#?}");
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
        let quiet = likeness(&long, &rest).unwrap();
        assert_eq!(quiet.verdict, LikenessVerdict::Undecided);
        assert_eq!(quiet.reason, shorter.reason);
        rest.cpus.iter_mut().for_each(|cpu| cpu.known.clear());
        assert_eq!(likeness(&long, &rest), None);
    }

    /// The loop of each CPU takes a while to begin.
    #[test]
    fn a_recording_of_a_second_is_long_enough() {
        let mut second = trace(500.0, 2e3, 1, 2);
        for cpu in &mut second.cpus {
            cpu.known[0].from_ns = 60_000;
            cpu.events.retain(|event| event.start_ns >= 60_000);
        }
        let of_itself = likeness(&second, &second).unwrap();
        assert_eq!(of_itself.blocks, [10, 10]);
        assert!(!of_itself.reason.contains("too short"), "{of_itself:?}");
    }

    /// `count` events of about `drawn` at random times of 10 s.
    fn some_of(count: usize, drawn: f64, seed: u64) -> JitterTrace {
        let noise = poisson(drawn / 10.0, Lengths::lognormal(2e3, 0.7));
        let mut trace = fixture::trace(1, 10 * SECOND, seed, vec![noise]);
        let all = &mut trace.cpus[0].events;
        *all = (0..count).map(|i| all[i * all.len() / count]).collect();
        trace
    }

    #[rstest]
    #[case(0, 0, LikenessVerdict::Same, "neither")]
    #[case(0, 50_000, LikenessVerdict::Differs, "A has 0 events, and B 50000")]
    #[case(50_000, 0, LikenessVerdict::Differs, "A has 50000 events, and B 0")]
    #[case(5, 50_000, LikenessVerdict::Differs, "A has 5 events, and B 50000")]
    #[case(3, 5, LikenessVerdict::Undecided, "A has only 3 events")]
    #[case(1000, 90, LikenessVerdict::Differs, "A has 1000 events, and B 90")]
    #[case(99, 105, LikenessVerdict::Undecided, "A has only 99 events")]
    fn of_few_events_the_rates_are_judged(
        #[case] a: usize,
        #[case] b: usize,
        #[case] verdict: LikenessVerdict,
        #[case] reason: &str,
    ) {
        let found = likeness(&some_of(a, 60_000.0, 1), &some_of(b, 60_000.0, 2)).unwrap();
        assert_eq!(found.verdict, verdict, "{found:#?}");
        assert!(found.reason.contains(reason), "{}", found.reason);
        assert!(found.counted && found.rate.verdict == verdict);
        // Without events there are no lengths.
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json.get("js").is_some(), a.min(b) > 0, "{json}");
    }

    #[test]
    fn a_part_that_is_shorter_than_a_block_is_not_judged() {
        // A burst of a second in each 10 s.
        let mut long = some_of(100_000, 120_000.0, 1);
        long.cpus[0].known[0].until_ns = 100 * SECOND;
        for event in &mut long.cpus[0].events {
            event.start_ns += event.start_ns / SECOND * 9 * SECOND;
        }
        let part = Selection {
            until_ns: Some(SECOND * 11 / 10),
            ..Selection::default()
        };
        let part = part.of(long.clone()).unwrap();
        let found = likeness(&long, &part).unwrap();
        assert_eq!(found.verdict, LikenessVerdict::Undecided, "{found:#?}");
        let expected = "A is more than 50 times as long as B";
        assert!(found.reason.contains(expected), "{}", found.reason);
        let reversed = likeness(&part, &long).unwrap().reason;
        assert!(reversed.starts_with("B is more than 50 times as long as A"));
    }

    /// Equally long, however many CPUs each has.
    #[test]
    fn numbers_of_cpus_may_differ() {
        let of = |cpus, per_s, seed| {
            let noise = poisson(per_s, Lengths::lognormal(2e3, 0.7));
            fixture::trace(cpus, 10 * SECOND, seed, vec![noise])
        };
        let one = of(1, 500.0, 1);
        for (per_s, verdict) in [
            (500.0, LikenessVerdict::Same),
            (700.0, LikenessVerdict::Differs),
        ] {
            let found = likeness(&of(64, per_s, 2), &one).unwrap();
            assert_eq!(found.verdict, verdict, "{}", found.reason);
        }
    }

    #[test]
    fn a_trace_is_at_no_distance_from_itself() {
        let a = trace(500.0, 2e3, 3, 1);
        let d = likeness(&a, &a).unwrap();
        assert_eq!(d.verdict, LikenessVerdict::Same, "{d:#?}");
        let lengths = d.lengths.unwrap();
        assert!(lengths.js.difference.value < 1e-12 && lengths.ks.value == 0.0);
        assert_eq!(
            (d.rate.difference.value, lengths.noise.difference.value),
            (0.0, 0.0)
        );
    }
}
