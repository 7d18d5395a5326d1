// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the delays of the rounds to the two tables: times and ratios. Pure.

use sandbag_stats::{PairedRatio, paired_ratio};
use sandbag_stats::{median, range};
use serde::{Deserialize, Serialize};

use super::competitor::Competitor;
use super::sleeper::Wakeups;

/// Quantiles of the delay, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Half of the delays are at most this.
    pub p50_us: f64,
    /// 90 % are.
    pub p90_us: f64,
    /// 99 % are.
    pub p99_us: f64,
}

impl Delays {
    /// `None` without a wake-up.
    pub fn of(mut delays_ns: Vec<u64>) -> Option<Self> {
        delays_ns.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * delays_ns.len() as f64).ceil() as usize;
            delays_ns.get(rank.max(1) - 1).map(|ns| *ns as f64 / 1000.0)
        };
        Some(Self {
            p50_us: quantile(0.5)?,
            p90_us: quantile(0.9)?,
            p99_us: quantile(0.99)?,
        })
    }

    /// p50, p90, p99.
    pub fn all(&self) -> [f64; 3] {
        [self.p50_us, self.p90_us, self.p99_us]
    }
}

/// What one round gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Beside nothing.
    pub idle: Delays,
    /// Beside a spinner.
    pub spinner: Delays,
    /// Half of the wake-ups beside nothing and half beside a spinner.
    pub mixture: Delays,
    /// Beside the burner at 50 %.
    pub pace: Delays,
    /// Of these, when the burner was active; `None` if it never was.
    pub pace_active: Option<Delays>,
    /// Of these, when it slept.
    pub pace_asleep: Option<Delays>,
    /// Share of the wake-ups at which it was active, percent.
    pub active_pct: f64,
    /// Beside two spinners.
    pub spinners: Delays,
    /// Beside a spinner in the sleeper's own group and one in another.
    pub grouped: Delays,
    /// Beside the burner and a spinner in the sleeper's own group.
    pub pace_and_spinner: Delays,
}

impl Round {
    /// From the wake-ups beside each; `None` if one is missing or empty.
    pub fn of(all: &[(Competitor, Wakeups)]) -> Option<Self> {
        let woken = |wanted| all.iter().find(|(b, _)| *b == wanted).map(|(_, w)| w);
        let delays = |wanted| Delays::of(woken(wanted)?.delays_ns.clone());
        let pace = woken(Competitor::Pace)?;
        let active = pace.by_burner(true);
        Some(Self {
            idle: delays(Competitor::Idle)?,
            spinner: delays(Competitor::Spinner)?,
            mixture: Delays::of(mixture(
                &woken(Competitor::Idle)?.delays_ns,
                &woken(Competitor::Spinner)?.delays_ns,
            ))?,
            pace: delays(Competitor::Pace)?,
            active_pct: 100.0 * active.len() as f64 / pace.delays_ns.len() as f64,
            pace_active: Delays::of(active),
            pace_asleep: Delays::of(pace.by_burner(false)),
            spinners: delays(Competitor::Spinners)?,
            grouped: delays(Competitor::SpinnersGrouped)?,
            pace_and_spinner: delays(Competitor::PaceAndSpinner)?,
        })
    }
}

/// As many of each.
fn mixture(a: &[u64], b: &[u64]) -> Vec<u64> {
    let n = a.len().min(b.len());
    a[..n].iter().chain(&b[..n]).copied().collect()
}

type Pick = fn(&Round) -> Option<Delays>;

/// Median delays over the rounds, microseconds: p50, p90, p99.
pub fn times(rounds: &[Round]) -> Vec<(&'static str, [Option<f64>; 3])> {
    let rows: [(&str, Pick); 9] = [
        ("nothing (idle CPU)", |r| Some(r.idle)),
        ("a spinner", |r| Some(r.spinner)),
        ("mixture: half idle, half spinner", |r| Some(r.mixture)),
        ("pace 50 %", |r| Some(r.pace)),
        ("pace 50 %, while the burner was active", |r| r.pace_active),
        ("pace 50 %, while it slept", |r| r.pace_asleep),
        ("two spinners", |r| Some(r.spinners)),
        ("a spinner in our group and one outside", |r| {
            Some(r.grouped)
        }),
        ("a spinner in our group and pace 50 %", |r| {
            Some(r.pace_and_spinner)
        }),
    ];
    rows.map(|(name, pick)| {
        let of = |at: usize| {
            let all: Vec<f64> = rounds
                .iter()
                .filter_map(pick)
                .map(|d| d.all()[at])
                .collect();
            median(&all)
        };
        (name, [of(0), of(1), of(2)])
    })
    .to_vec()
}

/// A ratio with its spread over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Geometric mean, and its 95 % interval.
    pub mean: PairedRatio,
    /// Of the rounds, the least and the greatest.
    pub range: (f64, f64),
}

/// Ratios round by round: p50, p90, p99.
pub fn ratios(rounds: &[Round]) -> Vec<(&'static str, [Option<Ratio>; 3])> {
    let rows: [(&str, Pick, Pick); 8] = [
        (
            "pace / a spinner (the target: 1.5)",
            |r| Some(r.pace),
            |r| Some(r.spinner),
        ),
        (
            "of that the idle CPU's: mixture / a spinner",
            |r| Some(r.mixture),
            |r| Some(r.spinner),
        ),
        (
            "of that the burner's: pace / mixture",
            |r| Some(r.pace),
            |r| Some(r.mixture),
        ),
        (
            "burner active: pace / a spinner",
            |r| r.pace_active,
            |r| Some(r.spinner),
        ),
        (
            "burner asleep: pace / idle CPU",
            |r| r.pace_asleep,
            |r| Some(r.idle),
        ),
        (
            "never idle: a spinner in our group and pace / and one outside",
            |r| Some(r.pace_and_spinner),
            |r| Some(r.grouped),
        ),
        (
            "a busy task in our group: grouped / two spinners",
            |r| Some(r.grouped),
            |r| Some(r.spinners),
        ),
        (
            "an idle CPU / a spinner",
            |r| Some(r.idle),
            |r| Some(r.spinner),
        ),
    ];
    rows.map(|(name, a, b)| {
        let of = |at: usize| ratio(rounds, |r| Some((a(r)?.all()[at], b(r)?.all()[at])));
        (name, [of(0), of(1), of(2)])
    })
    .to_vec()
}

fn ratio(rounds: &[Round], pair: impl Fn(&Round) -> Option<(f64, f64)>) -> Option<Ratio> {
    let (a, b): (Vec<f64>, Vec<f64>) = rounds.iter().filter_map(pair).unzip();
    let each: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    Some(Ratio {
        mean: paired_ratio(&a, &b)?,
        range: range(&each)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(delays_us: &[u64], active: &[bool]) -> Wakeups {
        Wakeups {
            delays_ns: delays_us.iter().map(|us| us * 1000).collect(),
            active: active.to_vec(),
        }
    }

    /// A round in which everything takes `drift` times as long.
    fn round(drift: u64) -> Round {
        let times = |us: &[u64]| us.iter().map(|us| us * drift).collect::<Vec<_>>();
        Round::of(&[
            (Competitor::Idle, woken(&times(&[20, 20]), &[])),
            (Competitor::Spinner, woken(&times(&[4, 4]), &[])),
            (
                Competitor::Pace,
                woken(&times(&[5, 21, 21, 5]), &[true, false, false, true]),
            ),
            (Competitor::Spinners, woken(&times(&[6]), &[])),
            (Competitor::SpinnersGrouped, woken(&times(&[6]), &[])),
            (Competitor::PaceAndSpinner, woken(&times(&[9]), &[])),
        ])
        .unwrap()
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let d = Delays::of((1..=100).map(|us| us * 1000).rev().collect()).unwrap();
        assert_eq!(d.all(), [50.0, 90.0, 99.0]);
        assert_eq!(Delays::of(vec![7000]).unwrap().p99_us, 7.0);
        assert_eq!(Delays::of(Vec::new()), None);
    }

    #[test]
    fn a_round_is_told_apart_by_the_burners_state() {
        let r = round(1);
        assert_eq!(r.pace_active.unwrap().p50_us, 5.0);
        assert_eq!(r.pace_asleep.unwrap().p50_us, 21.0);
        assert!((r.active_pct - 50.0).abs() < 1e-9);
        // Half of the mixture is idle: its 90 % are those of the idle CPU.
        assert_eq!(r.mixture.all(), [4.0, 20.0, 20.0]);
    }

    #[test]
    fn a_round_without_one_of_them_is_none() {
        assert_eq!(Round::of(&[(Competitor::Idle, woken(&[1], &[]))]), None);
    }

    #[test]
    fn a_slow_minute_does_not_change_the_ratios() {
        let rounds = [round(1), round(4), round(2)];
        let found = ratios(&rounds);
        let of = |name: &str| found.iter().find(|(n, _)| n.contains(name)).unwrap().1;
        let p50 = of("burner active")[0].unwrap();
        assert!((p50.mean.ratio - 1.25).abs() < 1e-9, "{p50:?}");
        assert!((p50.range.1 - p50.range.0).abs() < 1e-9);
        assert!((of("never idle")[2].unwrap().mean.ratio - 1.5).abs() < 1e-9);
        let times = times(&rounds);
        assert_eq!(times[0].1, [Some(40.0); 3]);
    }

    #[test]
    fn a_burner_that_never_slept_has_no_second_half() {
        let mut r = round(1);
        r.pace_asleep = None;
        let found = ratios(&[r]);
        let asleep = found.iter().find(|(n, _)| n.contains("asleep")).unwrap();
        assert_eq!(asleep.1[0], None);
    }
}
