// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many pairs a slowdown needs. Pure.
//!
//! Pairs are made until the 95 % interval of the median (sign test) is not wider than
//! ±[`HALF_WIDTH`], or a limit is reached. The number that is missing is estimated by the
//! standard deviation s of the slowdowns: with normal scatter the interval of the median is
//! ±1.96 sqrt(pi/2) s / sqrt(n) (Kenney and Keeping, Mathematics of Statistics 1, 14.7).

use crate::row::{End, Row};
use crate::summary::{Median, mean_sd, slowdowns};

/// Wanted half-width of the interval of a slowdown.
pub const HALF_WIDTH: f64 = 0.05;
/// The fewest pairs that have a 95 % interval.
const FEWEST: usize = 6;
/// Largest number that is estimated.
const MOST: usize = 10_000;

/// To what a slowdown is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Half of the 95 % interval, where there are enough pairs for one.
    pub half_width: Option<f64>,
    /// Pairs in all that would be needed, about; `None` of fewer than two.
    pairs: Option<usize>,
}

impl Decision {
    pub fn by(slowdowns: &[f64]) -> Self {
        let interval = Median::of(slowdowns).filter(|median| median.n >= FEWEST);
        Self {
            half_width: interval.map(|median| (median.high - median.low) / 2.0),
            pairs: needed(slowdowns),
        }
    }

    fn is_made(self) -> bool {
        self.half_width.is_some_and(|half| half <= HALF_WIDTH)
    }

    /// For a table: to what the median is known, or what it would take.
    pub fn shown(self) -> String {
        let known = match self.half_width {
            Some(half) if self.is_made() => return format!("± {half:.3}"),
            Some(half) => format!("± {half:.2}, "),
            None => String::new(),
        };
        let takes = match self.pairs {
            None => "more pairs".to_owned(),
            Some(pairs) if pairs >= MOST => format!("more than {MOST} pairs"),
            Some(pairs) => format!("about {pairs} pairs"),
        };
        format!("{known}undecided to {HALF_WIDTH}: {takes} needed")
    }
}

/// Pairs for an interval of ±[`HALF_WIDTH`], by the scatter of these.
fn needed(slowdowns: &[f64]) -> Option<usize> {
    if slowdowns.len() < 2 {
        return None;
    }
    let (_, sd) = mean_sd(slowdowns)?;
    let root = 1.96 * std::f64::consts::FRAC_PI_2.sqrt() * sd / HALF_WIDTH;
    // More than there are, because these were not enough.
    let least = FEWEST.max(slowdowns.len() + 1);
    Some((root.powi(2).ceil() as usize).clamp(least, MOST.max(least)))
}

/// Whether a cell needs no more pairs: its slowdown is known well enough, or
/// more of its pairs failed or hung than did not.
pub fn enough(rows: &[&Row]) -> bool {
    let done = rows.iter().filter(|row| row.end == End::Done).count();
    2 * done < rows.len() || Decision::by(&slowdowns(rows)).is_made()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;
    use statrs::distribution::{ContinuousCDF as _, Normal};

    /// As many values as even quantiles of a normal scatter.
    fn scatter(n: usize, sd: f64) -> Vec<f64> {
        let normal = Normal::new(2.0, sd).unwrap();
        (0..n)
            .map(|i| normal.inverse_cdf((i as f64 + 0.5) / n as f64))
            .collect()
    }

    #[test]
    fn two_pairs_decide_nothing_and_say_what_would() {
        let few = Decision::by(&[1.95, 2.05]);
        assert_eq!(few.half_width, None);
        assert_eq!(few.shown(), "undecided to 0.05: about 13 pairs needed");
        assert_eq!(
            Decision::by(&[2.0]).shown(),
            "undecided to 0.05: more pairs needed"
        );
        assert_eq!(Decision::by(&[]).pairs, None);
        let wild = Decision::by(&[1.0, 12.0, 3.0, 9.0, 2.0, 7.0, 30.0]);
        assert!(wild.shown().ends_with("more than 10000 pairs needed"));
    }

    #[test]
    fn six_equal_pairs_do() {
        assert_eq!(Decision::by(&[2.0; 6]).shown(), "± 0.000");
        assert!(!Decision::by(&[2.0; 5]).is_made());
    }

    #[test]
    fn a_cell_that_fails_again_and_again_is_given_up() {
        let mut rows = vec![row(0, 1.0, 2.0), row(1, 1.0, 9.0), row(2, 1.0, 4.0)];
        let refer = |rows: &[Row]| enough(&rows.iter().collect::<Vec<_>>());
        assert!(!refer(&rows));
        rows[0].end = End::OverLimit { limit_s: 1.0 };
        assert!(!refer(&rows));
        rows[1].end = End::Failed { why: String::new() };
        assert!(refer(&rows));
    }

    /// What is estimated from few suffices, and is not far too many.
    #[test]
    fn the_estimate_is_what_it_takes() {
        for sd in [0.15, 0.2, 0.35, 0.5, 0.7, 1.0] {
            let few = Decision::by(&scatter(30, sd));
            assert!(!few.is_made(), "{sd}");
            let pairs = few.pairs.unwrap();
            let half = Decision::by(&scatter(pairs, sd)).half_width.unwrap();
            assert!(
                (0.6..=1.25).contains(&(half / HALF_WIDTH)),
                "{pairs}: {half}"
            );
        }
    }
}
