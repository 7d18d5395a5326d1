// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the wake-up latencies of the rounds to the two tables: times and ratios. Pure.
//!
//! A row has p50, p90 and p99 in us of each condition, as `NAME_p50` and so on.

use sandbag_stats::{PairedRatio, median, paired_ratio, quantile, range};

use super::sleeper::Wakeups;
use super::{GROUPED, IDLE, PACE, PACE_AND_SPINNER, SPINNER, SPINNERS};
use crate::row::Row;

/// Of a load that does nothing but be there half of the time: as many wake-ups beside
/// nothing as beside a spinner.
const MIXTURE: &str = "mixture";
/// Of the wake-ups beside the burner, those at which it was active, and others.
const ACTIVE: &str = "pace_active";
const ASLEEP: &str = "pace_asleep";

const QUANTILES: [&str; 3] = ["p50", "p90", "p99"];

/// Adds the quantiles of some latencies, if there are any.
fn put(row: &mut Row, name: &str, mut delays_ns: Vec<u64>) {
    delays_ns.sort_unstable();
    for (of, pct) in QUANTILES.into_iter().zip([50.0, 90.0, 99.0]) {
        let us = quantile(&delays_ns, pct).map(|ns| ns as f64 / 1e3);
        row.put(format!("{name}_{of}"), us);
    }
}

/// Adds one round, the wake-ups under each condition; `None` if one is missing or empty.
pub fn put_round(row: &mut Row, all: &[(&str, Wakeups)]) -> Option<()> {
    let woken = |wanted| {
        let found = all.iter().find(|(name, _)| *name == wanted);
        found
            .map(|(_, woken)| woken)
            .filter(|w| !w.delays_ns.is_empty())
    };
    for name in super::ALL {
        put(row, name, woken(name)?.delays_ns.clone());
    }
    let (idle, spinner) = (&woken(IDLE)?.delays_ns, &woken(SPINNER)?.delays_ns);
    let n = idle.len().min(spinner.len());
    put(row, MIXTURE, [&idle[..n], &spinner[..n]].concat());
    let pace = woken(PACE)?;
    let active = pace.by_burner(true);
    row.put(
        "active_pct",
        100.0 * active.len() as f64 / pace.delays_ns.len() as f64,
    );
    put(row, ACTIVE, active);
    put(row, ASLEEP, pace.by_burner(false));
    Some(())
}

/// Median latencies over the rounds, us: p50, p90, p99.
pub fn times(rounds: &[&Row]) -> Vec<(&'static str, [Option<f64>; 3])> {
    [
        ("nothing (idle CPU)", IDLE),
        ("a spinner", SPINNER),
        ("mixture: half idle, half spinner", MIXTURE),
        ("pace 50 %", PACE),
        ("pace 50 %, while the burner was active", ACTIVE),
        ("pace 50 %, while it slept", ASLEEP),
        ("two spinners", SPINNERS),
        ("a spinner in our group and one outside", GROUPED),
        ("a spinner in our group and pace 50 %", PACE_AND_SPINNER),
    ]
    .map(|(what, name)| {
        let of = |quantile| {
            let figure = format!("{name}_{quantile}");
            let all: Vec<f64> = rounds.iter().filter_map(|row| row.get(&figure)).collect();
            median(&all)
        };
        (what, QUANTILES.map(of))
    })
    .to_vec()
}

/// Geometric mean of the rounds' ratios with its 95 % interval; least and greatest.
pub type Ratio = (PairedRatio, (f64, f64));

/// Ratios round by round: p50, p90, p99.
pub fn ratios(rounds: &[&Row]) -> Vec<(&'static str, [Option<Ratio>; 3])> {
    let never_idle = "never idle: a spinner in our group and pace / and one outside";
    let busy_group = "a busy task in our group: grouped / two spinners";
    [
        ("pace / a spinner (the target: 1.5)", PACE, SPINNER),
        (
            "of that the idle CPU's: mixture / a spinner",
            MIXTURE,
            SPINNER,
        ),
        ("of that the burner's: pace / mixture", PACE, MIXTURE),
        ("burner active: pace / a spinner", ACTIVE, SPINNER),
        ("burner asleep: pace / idle CPU", ASLEEP, IDLE),
        (never_idle, PACE_AND_SPINNER, GROUPED),
        (busy_group, GROUPED, SPINNERS),
        ("an idle CPU / a spinner", IDLE, SPINNER),
    ]
    .map(|(what, a, b)| {
        (
            what,
            QUANTILES.map(|quantile| ratio(rounds, [a, b], quantile)),
        )
    })
    .to_vec()
}

fn ratio(rounds: &[&Row], names: [&str; 2], quantile: &str) -> Option<Ratio> {
    let [a, b] = names.map(|name| format!("{name}_{quantile}"));
    let pairs = rounds.iter();
    let pairs = pairs.filter_map(|row| Some((row.get(&a)?, row.get(&b)?)));
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let each: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    Some((paired_ratio(&a, &b)?, range(&each)?))
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
    fn round(drift: u64) -> Row {
        let times = |us: &[u64]| us.iter().map(|us| us * drift).collect::<Vec<_>>();
        let pace = woken(&times(&[5, 21, 21, 5]), &[true, false, false, true]);
        let mut row = Row::default();
        put_round(
            &mut row,
            &[
                (IDLE, woken(&times(&[20, 20]), &[])),
                (SPINNER, woken(&times(&[4, 4]), &[])),
                (PACE, pace),
                (SPINNERS, woken(&times(&[6]), &[])),
                (GROUPED, woken(&times(&[6]), &[])),
                (PACE_AND_SPINNER, woken(&times(&[9]), &[])),
            ],
        )
        .unwrap();
        row
    }

    #[test]
    fn a_round_is_split_by_the_state_of_the_burner() {
        let row = round(1);
        for (name, expected) in [
            ("pace_active_p50", 5.0),
            ("pace_asleep_p50", 21.0),
            ("active_pct", 50.0),
            // Half of the mixture is idle: its 90 % are those of the idle CPU.
            ("mixture_p50", 4.0),
            ("mixture_p90", 20.0),
            ("mixture_p99", 20.0),
        ] {
            assert_eq!(row.get(name), Some(expected), "{name}");
        }
        let one = [(IDLE, woken(&[1], &[]))];
        assert_eq!(put_round(&mut Row::default(), &one), None);
    }

    #[test]
    fn a_slow_minute_does_not_change_the_ratios() {
        let rounds = [round(1), round(4), round(2)];
        let rounds: Vec<&Row> = rounds.iter().collect();
        let found = ratios(&rounds);
        let of = |name: &str| found.iter().find(|(n, _)| n.contains(name)).unwrap().1;
        let (p50, (least, greatest)) = of("burner active")[0].unwrap();
        assert!((p50.ratio - 1.25).abs() < 1e-9, "{p50:?}");
        assert!((greatest - least).abs() < 1e-9);
        assert!((of("never idle")[2].unwrap().0.ratio - 1.5).abs() < 1e-9);
        assert_eq!(times(&rounds)[0].1, [Some(40.0); 3]);
    }

    #[test]
    fn a_burner_that_never_slept_has_no_second_half() {
        let mut row = round(1);
        row.figures.remove("pace_asleep_p50");
        let found = ratios(&[&row]);
        let asleep = found.iter().find(|(n, _)| n.contains("asleep")).unwrap();
        assert_eq!(asleep.1[0], None);
    }
}
