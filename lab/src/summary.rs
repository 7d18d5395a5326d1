// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From trials to figures: slowdowns of pairs, their median with a 95 %
//! interval, and whether the machine was quiet enough to say anything.

use sandbag_stats::{Verdict, middle};
use sandbag_ui::quantity::percent;
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF as _, DiscreteCDF};

use crate::row::{End, Row};

/// Least share of pairs that count for a decision.
const LEAST_QUIET: f64 = 0.5;
/// Largest interquartile range of the unloaded times, as a share of their median: above,
/// other load was on the machine.
const MOST_SPREAD: f64 = 0.25;
/// Largest interquartile range of the slowdowns, as a share of their median.
const MOST_RATIO_SPREAD: f64 = 0.5;

/// A median and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    pub n: usize,
    pub value: f64,
    /// Lower end of the interval; for fewer than six values, which do not
    /// suffice for 95 %, the least one. One value has no interval.
    pub low: f64,
    pub high: f64,
}

impl Median {
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = middle(&sorted)?;
        let rank = rank(n);
        Some(Self {
            n,
            value,
            low: sorted[rank],
            high: sorted[n - 1 - rank],
        })
    }

    pub fn show(&self, digits: usize) -> String {
        if self.n == 1 {
            return format!("{:.digits$}", self.value);
        }
        format!(
            "{:.digits$} ({:.digits$} .. {:.digits$})",
            self.value, self.low, self.high
        )
    }
}

/// Rank of the order statistics that hold the median with 95 % (the sign
/// test's interval; Conover, Practical Nonparametric Statistics, 3.2).
fn rank(n: usize) -> usize {
    let Ok(signs) = Binomial::new(0.5, n as u64) else {
        return 0;
    };
    let outside = |rank: usize| rank > 0 && signs.cdf(rank as u64) > 0.025;
    (0..=n / 2)
        .take_while(|rank| !outside(*rank))
        .last()
        .unwrap_or(0)
        .min(n.saturating_sub(1) / 2)
}

/// What a program's trials under one condition come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Slowdown against the unloaded run of the same pair.
    pub slowdown: Option<Median>,
    /// Unloaded time, seconds.
    pub unloaded_s: Option<Median>,
    /// Time under the condition, seconds.
    pub loaded_s: Option<Median>,
    /// Mean and standard deviation of the time under the condition, as the
    /// papers have them.
    pub loaded_mean_sd: Option<(f64, f64)>,
    /// Pairs that were left out for their steal or foreign load.
    pub noisy: usize,
    /// The limit within which a pair did not end, seconds.
    pub over_limit_s: Option<f64>,
    /// Pairs that failed, and why the first did.
    pub failed: Option<(usize, String)>,
    /// [`Verdict::Kept`] means that the figures can be used.
    pub verdict: Verdict,
}

impl Summary {
    /// Of these trials of one program under one condition.
    pub fn of(rows: &[&Row]) -> Self {
        let done: Vec<&&Row> = rows.iter().filter(|row| row.end == End::Done).collect();
        let quiet: Vec<&&&Row> = done.iter().filter(|row| row.counts()).collect();
        let of =
            |value: fn(&Row) -> f64| -> Vec<f64> { quiet.iter().map(|row| value(row)).collect() };
        let unloaded = of(|row| row.unloaded_s);
        let loaded = of(|row| row.loaded_s);
        let ratios = slowdowns(rows);
        let over = rows.iter().filter_map(|row| match row.end {
            End::OverLimit { limit_s } => Some(limit_s),
            _ => None,
        });
        let failed: Vec<&str> = rows.iter().filter_map(|row| row.why_failed()).collect();
        let enough = !quiet.is_empty() && quiet.len() as f64 >= LEAST_QUIET * done.len() as f64;
        let within = |values: &[f64], most| spread(values).is_none_or(|spread| spread <= most);
        let steady = within(&unloaded, MOST_SPREAD) && within(&ratios, MOST_RATIO_SPREAD);
        Self {
            slowdown: Median::of(&ratios),
            unloaded_s: Median::of(&unloaded),
            loaded_s: Median::of(&loaded),
            loaded_mean_sd: mean_sd(&loaded),
            noisy: done.len() - quiet.len(),
            over_limit_s: over.reduce(f64::max),
            failed: failed.first().map(|why| (failed.len(), (*why).to_owned())),
            verdict: match (enough && steady, failed.is_empty()) {
                (true, true) => Verdict::Kept,
                (_, false) => Verdict::Missed,
                (false, true) => Verdict::Undecided,
            },
        }
    }

    /// The load that a program perceived, percent: 100 (1 - 1/S), by the
    /// program's times alone (KRASH, section 4.1).
    pub fn perceived_pct(&self) -> Option<Median> {
        let perceived = |slowdown: f64| 100.0 * (1.0 - 1.0 / slowdown);
        self.slowdown.map(|s| Median {
            n: s.n,
            value: perceived(s.value),
            low: perceived(s.low),
            high: perceived(s.high),
        })
    }

    /// For a table: the slowdown, or why there is none.
    pub fn cell(&self) -> String {
        self.shown(self.slowdown, 2)
    }

    /// For a table: a median of these trials, or why there is none. A hang or
    /// a failure is never a number.
    pub fn shown(&self, median: Option<Median>, digits: usize) -> String {
        if let Some(limit_s) = self.over_limit_s {
            return format!("> limit ({limit_s:.0} s)");
        }
        if let Some((count, _)) = &self.failed {
            return format!("failed ({count})");
        }
        match (median, self.verdict) {
            (Some(m), Verdict::Kept) => m.show(digits),
            (Some(m), _) => format!("{}, undecided", m.show(digits)),
            (None, _) => "undecided".to_owned(),
        }
    }

    /// For a summary: a median of these trials with their number.
    pub fn counted(&self, median: Option<Median>, digits: usize) -> String {
        let n = median.map_or(0, |median| median.n);
        format!("{}, n = {n}", self.shown(median, digits))
    }

    /// The slowdown, where it can be used.
    pub fn decided(&self) -> Option<Median> {
        self.slowdown.filter(|_| self.is_decided())
    }

    /// Whether its figures can be compared: pairs that hung were not the fast ones.
    pub fn is_decided(&self) -> bool {
        self.verdict == Verdict::Kept && self.over_limit_s.is_none()
    }

    pub fn n(&self) -> usize {
        self.slowdown.map_or(0, |median| median.n)
    }
}

/// The standard deviation as a part of the mean, with the 95 % interval of normal values.
pub fn relative_sd(values: &[f64]) -> Option<Median> {
    let (mean, sd) = mean_sd(values)?;
    let n = values.len();
    let freedom = n.checked_sub(1)? as f64;
    let chi2 = ChiSquared::new(freedom).ok()?;
    let at = |p: f64| sd / mean * (freedom / chi2.inverse_cdf(p)).sqrt();
    Some(Median {
        n,
        value: sd / mean,
        low: at(0.975),
        high: at(0.025),
    })
}

/// Slowdowns of the pairs that count.
pub fn slowdowns(rows: &[&Row]) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.counts() && row.unloaded_s > 0.0)
        .map(|row| row.loaded_s / row.unloaded_s)
        .collect()
}

/// Speed that a program had in its node: its time without the node over that in it.
pub fn speed_got(rows: &[&Row]) -> Option<Median> {
    let slowed: Vec<f64> = slowdowns(rows)
        .iter()
        .map(|slowdown| 1.0 / slowdown)
        .collect();
    Median::of(&slowed)
}

/// What part of the speed asked that is, for a table; and the number of trials.
pub fn of_asked(found: Option<Median>, asked: f64) -> [String; 2] {
    [
        found.map_or_else(String::new, |m| percent(100.0 * m.value / asked)),
        found.map_or(0, |m| m.n).to_string(),
    ]
}

/// A figure of these trials, of those that count.
pub fn figure(rows: &[&Row], name: &str) -> Option<Median> {
    let values: Vec<f64> = rows
        .iter()
        .filter(|row| row.counts())
        .filter_map(|row| row.figures.get(name).copied())
        .collect();
    Median::of(&values)
}

/// A figure for a table, or why there is none; empty where it was not measured.
pub fn shown_figure(rows: &[&Row], name: &str, digits: usize) -> String {
    let there = rows.iter().any(|row| row.figures.contains_key(name));
    if there || rows.iter().any(|row| row.end != End::Done) {
        Summary::of(rows).shown(figure(rows, name), digits)
    } else {
        String::new()
    }
}

/// Distance of the quartiles as a share of the median.
fn spread(values: &[f64]) -> Option<f64> {
    let median = Median::of(values)?.value;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Between two order statistics in proportion (Hyndman and Fan's type 7).
    let at = |share: f64| {
        let place = (sorted.len() - 1) as f64 * share;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        sorted[below] + (sorted[above] - sorted[below]) * place.fract()
    };
    (median > 0.0).then(|| (at(0.75) - at(0.25)) / median)
}

/// Mean and standard deviation of a sample; of one value the latter is 0.
pub fn mean_sd(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (n - 1.0).max(1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_standard_deviation_has_the_interval_of_chi_square() {
        let values: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let found = relative_sd(&values).unwrap();
        // Tables: for ten values .688 and 1.826 times the deviation.
        let [low, high] = [found.low, found.high].map(|end| end / found.value);
        assert!((low - 0.688).abs() < 5e-4 && (high - 1.826).abs() < 5e-4);
        assert!((found.value - 3.0277 / 104.5).abs() < 1e-6);
        assert_eq!(relative_sd(&[1.0]), None);
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Tables of the binomial distribution: for n = 6 the extremes hold the
        // median with 96.9 %, for n = 30 the 10th and the 21st with 95.7 %,
        // for n = 40 the 14th and the 27th with 96.2 %.
        for (n, expected) in [(1, 0), (3, 0), (5, 0), (6, 0), (9, 1), (30, 9), (40, 13)] {
            assert_eq!(rank(n), expected, "{n}");
        }
        let values: Vec<f64> = (1..=30).map(f64::from).collect();
        let median = Median::of(&values).unwrap();
        assert_eq!((median.value, median.low, median.high), (15.5, 10.0, 21.0));
        assert_eq!(Median::of(&[]), None);
    }

    fn summary(rows: &[Row]) -> Summary {
        Summary::of(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_slowdown_is_that_of_pairs() {
        // The machine became twice as slow in between: no pair is affected.
        let summary = summary(&[row(0, 1.0, 2.0), row(1, 1.1, 2.2), row(2, 1.2, 2.4)]);
        let slowdown = summary.slowdown.unwrap();
        assert!((slowdown.value - 2.0).abs() < 1e-12 && slowdown.n == 3);
        assert!((summary.perceived_pct().unwrap().value - 50.0).abs() < 1e-9);
        assert_eq!(summary.verdict, Verdict::Kept);
        assert_eq!(summary.cell(), "2.00 (2.00 .. 2.00)");
    }

    #[test]
    fn a_noisy_machine_decides_nothing() {
        let mut rows = [row(0, 1.0, 2.0), row(1, 1.0, 9.0), row(2, 1.0, 2.2)];
        rows[1].steal_pct = 20.0;
        let two = summary(&rows);
        assert_eq!((two.n(), two.noisy, two.verdict), (2, 1, Verdict::Kept));
        rows[2].foreign_pct = 2.5;
        let one = summary(&rows);
        assert_eq!((one.n(), one.noisy), (1, 2));
        assert_eq!(one.cell(), "2.00, undecided", "one value has no interval");
        let drifting = [row(0, 1.0, 2.0), row(1, 2.0, 4.0), row(2, 3.0, 6.0)];
        let scattered = [row(0, 1.0, 0.2), row(1, 1.0, 2.0), row(2, 1.0, 11.0)];
        for rows in [&rows[1..], &drifting, &scattered] {
            assert_eq!(summary(rows).verdict, Verdict::Undecided);
        }
        assert_eq!(summary(&rows[1..]).n(), 0);
    }

    #[test]
    fn a_program_that_hangs_or_fails_has_no_slowdown() {
        let mut rows = [row(0, 1.0, 0.0), row(1, 1.0, 2.0)];
        rows[0].end = End::OverLimit { limit_s: 60.0 };
        assert_eq!(summary(&rows).cell(), "> limit (60 s)");
        rows[0].end = End::Failed {
            why: "wrong sums".to_owned(),
        };
        let summary = summary(&rows);
        assert_eq!(summary.verdict, Verdict::Missed);
        assert_eq!(summary.failed, Some((1, "wrong sums".to_owned())));
    }

    #[test]
    fn a_figure_of_a_noisy_machine_is_undecided() {
        let mut rows = [row(0, 0.0, 4.0), row(1, 0.0, 4.0)];
        for (row, value) in rows.iter_mut().zip([1.0, 3.0]) {
            row.figures.insert("p99_us".to_owned(), value);
        }
        let show = |rows: &[Row]| shown_figure(&rows.iter().collect::<Vec<_>>(), "p99_us", 0);
        assert_eq!(show(&rows), "2 (1 .. 3)");
        rows[0].steal_pct = 10.0;
        assert_eq!(show(&rows), "3");
        rows[1].steal_pct = 10.0;
        assert_eq!(show(&rows), "undecided");
        rows[1].end = End::OverLimit { limit_s: 9.0 };
        assert_eq!(show(&rows), "> limit (9 s)");
        assert_eq!(shown_figure(&[], "p99_us", 0), "");
    }
}
