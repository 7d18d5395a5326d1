// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Correlation of CPUs: events at the same time, and noise in the same bins.
//!
//! Chance is estimated by shifting one of the two in time by a random amount, around a
//! circle made of the time known on both. Each keeps its own periods, bursts and lengths;
//! only their relation is lost. The range of [`SHIFTS`] such trials covers 99 %.

use serde::Serialize;

use crate::spans::common;
use crate::{CpuTrace, Span};
use sandbag_stats::Chance;

/// Of more CPUs pairs are not looked at.
pub const MOST_CPUS: usize = 32;
/// Events of two CPUs that begin no further apart are at the same time, ns.
pub const WINDOW_NS: u64 = 20_000;
pub const SHIFTS: usize = 199;
/// Steps of [`WINDOW_NS`] on each side within which a lag is looked for.
pub const LAGS: usize = 100;
/// Stretches in which noise is added up, ns.
pub const BINS_NS: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Fewer tell nothing.
const LEAST_BINS: usize = 50;
/// Events and bins that are looked at in all trials of all pairs, about.
const BUDGET: usize = 600_000_000;
/// Known time at most, ns: 146 years.
const MOST_NS: u64 = 1 << 62;
/// Standard deviations (Poisson) above its mean that a lag has to be.
const LAG_STANDS_OUT: f64 = 6.0;

/// A value, and what chance gives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ByChance {
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

impl ByChance {
    fn of(trials: &[f64]) -> Self {
        Self {
            mean: trials.iter().sum::<f64>() / trials.len().max(1) as f64,
            least: trials.iter().copied().fold(f64::INFINITY, f64::min),
            most: trials.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Whether a value is more than chance gives (1), less (-1), or neither.
    pub fn judge(&self, value: f64) -> i8 {
        i8::from(value > self.most) - i8::from(value < self.least)
    }
}

/// Noise in stretches of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NoiseCorrelation {
    /// How long a stretch is, ns.
    pub bin_ns: u64,
    /// How many were known on both.
    pub bins: usize,
    pub r: f64,
    pub chance: ByChance,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Correlation {
    /// Kernel number of the first.
    pub a: u32,
    pub b: u32,
    /// For how long both were looked at, s; where that is more than could be
    /// tried, the first part of it.
    pub common_s: f64,
    /// Events of the first in that time.
    pub events_a: usize,
    pub events_b: usize,
    /// Percent of the events of the CPU that has fewer, that begin within
    /// [`WINDOW_NS`] of one of the other.
    pub together_pct: f64,
    pub chance_pct: ByChance,
    /// The second's events come so much later (earlier, below 0), where that
    /// stands out among lags, ns.
    pub lag_ns: Option<i64>,
    /// Pairs of events at each lag, relative to their mean; from `-LAGS` to
    /// `LAGS`, in steps of [`WINDOW_NS`].
    #[serde(skip)]
    pub lags: Vec<f64>,
    /// Noise in stretches of `BINS_NS`, where there are enough.
    pub noise: Vec<NoiseCorrelation>,
}

impl Correlation {
    /// Of the noise in stretches of 10 ms, or the longest that there are.
    pub(crate) fn foremost_noise(&self) -> Option<&NoiseCorrelation> {
        let ten_ms = self.noise.iter().find(|noise| noise.bin_ns == 10_000_000);
        ten_ms.or(self.noise.last())
    }
}

/// All pairs of CPUs that were looked at together and have events; nothing
/// above [`MOST_CPUS`].
pub fn correlations(cpus: &[CpuTrace]) -> Vec<Correlation> {
    if cpus.len() > MOST_CPUS {
        return Vec::new();
    }
    let pairs = cpus.len() * cpus.len().saturating_sub(1) / 2;
    let most = BUDGET / SHIFTS / pairs.max(1);
    let mut all = Vec::new();
    for (i, a) in cpus.iter().enumerate() {
        all.extend(cpus[i + 1..].iter().filter_map(|b| of(a, b, most)));
    }
    all
}

/// `most`: limit of the events of both together and of the bins.
fn of(a: &CpuTrace, b: &CpuTrace, most: usize) -> Option<Correlation> {
    let common = common(&a.known, &b.known);
    let (mut starts_a, mut starts_b) = (on_circle(a, &common), on_circle(b, &common));
    let mut circle_ns: u64 = common.iter().map(Span::length_ns).sum();
    let count = starts_a.len() + starts_b.len();
    if count > most {
        circle_ns = (circle_ns as f64 * (most as f64 / count as f64)) as u64;
        for starts in [&mut starts_a, &mut starts_b] {
            starts.truncate(starts.partition_point(|at| *at < circle_ns));
        }
    }
    let has_room = (100 * WINDOW_NS..=MOST_NS).contains(&circle_ns);
    if starts_a.is_empty() || starts_b.is_empty() || !has_room {
        return None;
    }
    let (few, many) = if starts_a.len() <= starts_b.len() {
        (&starts_a, &starts_b)
    } else {
        (&starts_b, &starts_a)
    };
    let pct = |count: usize| count as f64 / few.len() as f64 * 100.0;
    let mut chance = Chance::new(1, &format!("CPUs {} and {}", a.cpu, b.cpu));
    let trials: Vec<f64> = (0..SHIFTS)
        .map(|_| {
            let by = circle_ns / 100 + chance.below(circle_ns - circle_ns / 50);
            pct(coincidences(few, many, by, circle_ns))
        })
        .collect();
    let (lags, lag_ns) = lags(&starts_a, &starts_b);
    Some(Correlation {
        a: a.cpu,
        b: b.cpu,
        common_s: circle_ns as f64 / 1e9,
        events_a: starts_a.len(),
        events_b: starts_b.len(),
        together_pct: pct(coincidences(few, many, 0, circle_ns)),
        chance_pct: ByChance::of(&trials),
        lag_ns,
        lags,
        noise: BINS_NS
            .iter()
            .filter_map(|bin_ns| noise(a, b, &common, *bin_ns, most, &mut chance))
            .collect(),
    })
}

/// Starts of events, as time of these stretches that has passed.
fn on_circle(cpu: &CpuTrace, common: &[Span]) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut passed = 0;
    for span in common {
        let first = cpu
            .events
            .partition_point(|event| event.start_ns < span.from_ns);
        let inside = cpu.events[first..]
            .iter()
            .take_while(|event| event.start_ns < span.until_ns);
        starts.extend(inside.map(|event| passed + event.start_ns - span.from_ns));
        passed += span.length_ns();
    }
    starts
}

/// How many of `few` have one of `many` beside them, when those are moved on
/// `by` around the circle.
fn coincidences(few: &[u64], many: &[u64], by: u64, circle_ns: u64) -> usize {
    // Those that are moved beyond the end come first.
    let by = by % circle_ns;
    let split = many.partition_point(|at| *at < circle_ns - by);
    let moved = many[split..]
        .iter()
        .map(|at| at + by - circle_ns)
        .chain(many[..split].iter().map(|at| at + by));
    let mut moved = moved.peekable();
    let mut last: Option<u64> = None;
    let mut count = 0;
    for at in few {
        while let Some(next) = moved.next_if(|next| next <= at) {
            last = Some(next);
        }
        let before = last.is_some_and(|last| at - last <= WINDOW_NS);
        let after = moved.peek().is_some_and(|next| next - at <= WINDOW_NS);
        count += usize::from(before || after);
    }
    count
}

/// How often an event of `b` comes so much after one of `a`, relative to the
/// mean, and the lag that stands out.
fn lags(a: &[u64], b: &[u64]) -> (Vec<f64>, Option<i64>) {
    let reach = (LAGS as u64 * WINDOW_NS) + WINDOW_NS / 2;
    let mut counts = vec![0u64; 2 * LAGS + 1];
    let mut first = 0;
    for at in a {
        while b.get(first).is_some_and(|other| other + reach < *at) {
            first += 1;
        }
        for other in b[first..].iter().take_while(|other| **other < at + reach) {
            let later = (other + reach - at) / WINDOW_NS;
            counts[(later as usize).min(2 * LAGS)] += 1;
        }
    }
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let relative = |count: &u64| {
        if mean > 0.0 {
            *count as f64 / mean
        } else {
            0.0
        }
    };
    let lags: Vec<f64> = counts.iter().map(relative).collect();
    let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
    let stands_out = |count: u64| count as f64 > mean + LAG_STANDS_OUT * (mean + 1.0).sqrt();
    let lag = most.filter(|(_, count)| stands_out(**count));
    let lag = lag.map(|(i, _)| (i as i64 - LAGS as i64) * WINDOW_NS as i64);
    (lags, lag)
}

/// Noise in the bins that are known on both.
fn noise(
    a: &CpuTrace,
    b: &CpuTrace,
    common: &[Span],
    bin_ns: u64,
    most: usize,
    chance: &mut Chance,
) -> Option<NoiseCorrelation> {
    let bins: Vec<u64> = common
        .iter()
        .flat_map(|span| span.from_ns.div_ceil(bin_ns)..span.until_ns / bin_ns)
        .take(most)
        .collect();
    if bins.len() < LEAST_BINS {
        return None;
    }
    let centred = |cpu: &CpuTrace| -> Option<Vec<f64>> {
        let mut values = in_bins(cpu, &bins, bin_ns);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|value| *value -= mean);
        let sum: f64 = values.iter().map(|value| value * value).sum();
        let scale = sum.sqrt();
        values.iter_mut().for_each(|value| *value /= scale);
        (scale > 0.0).then_some(values)
    };
    let (x, y) = (centred(a)?, centred(b)?);
    let r = |by: usize| -> f64 {
        let moved = y[by..].iter().chain(&y[..by]);
        x.iter().zip(moved).map(|(x, y)| x * y).sum()
    };
    let trials: Vec<f64> = (0..SHIFTS)
        .map(|_| r(1 + chance.below(bins.len() as u64 - 1) as usize))
        .collect();
    Some(NoiseCorrelation {
        bin_ns,
        bins: bins.len(),
        r: r(0).clamp(-1.0, 1.0),
        chance: ByChance::of(&trials),
    })
}

/// What events took of each of these bins, which ascend.
fn in_bins(cpu: &CpuTrace, bins: &[u64], bin_ns: u64) -> Vec<f64> {
    let mut values = vec![0.0; bins.len()];
    let mut at = 0;
    for event in &cpu.events {
        while bins
            .get(at)
            .is_some_and(|bin| (bin + 1) * bin_ns <= event.start_ns)
        {
            at += 1;
        }
        // Over as many as it lasts.
        for (value, bin) in values[at..].iter_mut().zip(&bins[at..]) {
            let (from, until) = (bin * bin_ns, (bin + 1) * bin_ns);
            if from >= event.end_ns() {
                break;
            }
            let taken = event.end_ns().min(until) - event.start_ns.max(from);
            *value += taken as f64;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, SECOND};
    use crate::synth::{Component, Lengths};
    use crate::{JitterTrace, TraceEvent};

    fn poisson(per_s: f64, common: bool) -> Component {
        let part = fixture::poisson(per_s, Lengths::lognormal(5_000.0, 1.0));
        Component { common, ..part }
    }

    fn trace(components: Vec<Component>, cpus: u32, seed: u64) -> JitterTrace {
        fixture::trace(cpus, 10 * SECOND, seed, components)
    }

    #[test]
    fn what_cpus_have_in_common_is_found() {
        let trace = trace(vec![poisson(200.0, true), poisson(300.0, false)], 2, 1);
        let all = correlations(&trace.cpus);
        let one = &all[0];
        // 200 of 500, and some by chance.
        assert!((38.0..45.0).contains(&one.together_pct), "{one:?}");
        assert_eq!(one.chance_pct.judge(one.together_pct), 1);
        // 500 others a second, 40 us around each.
        assert!((one.chance_pct.mean - 2.0).abs() < 0.5, "{one:?}");
        assert_eq!(one.lag_ns, Some(0));
        let at_10_ms = one.noise.iter().find(|noise| noise.bin_ns == 10_000_000);
        let at_10_ms = at_10_ms.unwrap();
        assert!((0.2..0.6).contains(&at_10_ms.r), "{at_10_ms:?}");
        assert_eq!(at_10_ms.chance.judge(at_10_ms.r), 1);
    }

    #[test]
    fn a_lag_is_found() {
        let mut trace = trace(vec![poisson(200.0, true)], 2, 2);
        for event in &mut trace.cpus[1].events {
            event.start_ns += 300_000;
        }
        trace.cpus[1].known[0].until_ns += 300_000;
        let all = correlations(&trace.cpus);
        assert_eq!(all[0].lag_ns, Some(300_000));
        assert_eq!(all[0].chance_pct.judge(all[0].together_pct), 0);
    }

    #[test]
    fn independent_cpus_are_within_chance() {
        // Of 60 pairs with five figures each some are beyond 99 in 100.
        let mut beyond = 0;
        for seed in 0..6 {
            let trace = trace(vec![poisson(400.0, false)], 5, 10 + seed);
            for one in correlations(&trace.cpus) {
                beyond += usize::from(one.chance_pct.judge(one.together_pct) != 0);
                beyond += one
                    .noise
                    .iter()
                    .filter(|noise| noise.chance.judge(noise.r) != 0)
                    .count();
                assert_eq!(one.lag_ns, None);
            }
        }
        assert!(beyond <= 10, "{beyond}");
    }

    #[test]
    fn only_what_both_know_counts() {
        let span = Span::new;
        let event = |start_ns| TraceEvent::new(start_ns, 10);
        assert_eq!(
            common(&[span(0, 10), span(20, 30)], &[span(5, 22), span(25, 40)]),
            [span(5, 10), span(20, 22), span(25, 30)]
        );
        let cpu = |known: Vec<Span>, events: Vec<TraceEvent>| CpuTrace::new(0, known, events);
        let one = cpu(
            vec![span(0, 100)],
            vec![event(3), event(7), event(21), event(26)],
        );
        let starts = on_circle(&one, &[span(5, 10), span(20, 22), span(25, 30)]);
        assert_eq!(starts, [2, 6, 8]);
        let quiet = cpu(vec![span(0, 100_000_000)], vec![]);
        assert_eq!(correlations(&[one, quiet]), []);
        let bins = in_bins(
            &cpu(vec![span(0, 100)], vec![event(8), event(95)]),
            &[0, 1, 9],
            10,
        );
        assert_eq!(bins, [2.0, 8.0, 5.0]);
    }
}
