// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One CPU over time, as a chart draws it; also several as one.

use serde::Serialize;

/// Asked values that differ by no more are the same, points.
const ALIKE_POINTS: f64 = 0.5;

/// One CPU over time: one value per bucket, `None` where nothing is known,
/// or, for got and error, where all was hole.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Track {
    /// Percent.
    pub asked: Vec<Option<f64>>,
    /// Percent.
    pub got: Vec<Option<f64>>,
    /// The least window, percent; empty where nothing was merged.
    pub got_min: Vec<Option<f64>>,
    /// The greatest window, percent; empty where nothing was merged.
    pub got_max: Vec<Option<f64>>,
    /// The error of largest magnitude, points.
    pub error: Vec<Option<f64>>,
    /// Mean steal, percent of the wall time.
    pub steal: Vec<Option<f64>>,
    /// Greatest steal of a window, percent of the wall time.
    pub steal_max: Vec<Option<f64>>,
    pub holes: Vec<usize>,
}

impl Track {
    /// Whether the same was asked, as far as both know. Windows of a change
    /// differ a little, because those of no two CPUs end at the same moment.
    pub fn asked_like(&self, other: &Self) -> bool {
        let both = self.asked.iter().zip(&other.asked);
        both.filter_map(|(a, b)| Some((*a)? - (*b)?))
            .all(|difference| difference.abs() <= ALIKE_POINTS)
    }

    /// Several CPUs as one: means, in a band from the least to the greatest,
    /// with the error of largest magnitude. Where one CPU has a hole, so have
    /// all.
    pub fn spread(tracks: &[&Self]) -> Self {
        let mut spread = Self::default();
        let known = |of: &dyn Fn(&Self) -> Option<f64>| -> Vec<f64> {
            tracks.iter().filter_map(|t| of(t)).collect()
        };
        let mean = |values: &[f64]| {
            (!values.is_empty())
                .then(|| hundredths(values.iter().sum::<f64>() / values.len() as f64))
        };
        let least = |values: &[f64]| values.iter().copied().min_by(f64::total_cmp);
        let most = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
        for i in 0..tracks.first().map_or(0, |t| t.asked.len()) {
            spread.asked.push(mean(&known(&|t| t.asked[i])));
            spread.got.push(mean(&known(&|t| t.got[i])));
            // The extremes are there only where windows were merged.
            let extreme =
                |all: &[Option<f64>], got: &[Option<f64>]| all.get(i).unwrap_or(&got[i]).to_owned();
            let lows = known(&|t| extreme(&t.got_min, &t.got));
            let highs = known(&|t| extreme(&t.got_max, &t.got));
            spread.got_min.push(least(&lows));
            spread.got_max.push(most(&highs));
            let errors = known(&|t| t.error[i]);
            let worst = errors
                .into_iter()
                .max_by(|a, b| a.abs().total_cmp(&b.abs()));
            spread.error.push(worst);
            spread.steal.push(mean(&known(&|t| t.steal[i])));
            spread.steal_max.push(most(&known(&|t| t.steal_max[i])));
            if tracks.iter().any(|t| t.holes.contains(&i)) {
                spread.holes.push(i);
            }
        }
        spread
    }
}

/// To two decimals: more would only make the page larger.
pub(crate) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 50 % asked; nothing got is a hole.
    fn track(got: &[Option<f64>]) -> Track {
        Track {
            asked: got.iter().map(|_| Some(50.0)).collect(),
            got: got.to_vec(),
            error: got.iter().map(|v| v.map(|v| v - 50.0)).collect(),
            steal: got.iter().map(|_| Some(0.0)).collect(),
            steal_max: got.iter().map(|_| Some(0.0)).collect(),
            holes: (0..got.len()).filter(|i| got[*i].is_none()).collect(),
            ..Track::default()
        }
    }

    #[test]
    fn a_spread_hides_no_cpu() {
        let tracks = [
            track(&[Some(40.0), Some(50.0)]),
            track(&[Some(52.0), Some(51.0)]),
            track(&[Some(52.0), None]),
        ];
        let spread = Track::spread(&tracks.each_ref());
        assert_eq!(spread.got, [Some(48.0), Some(50.5)]);
        assert_eq!(spread.got_min, [Some(40.0), Some(50.0)]);
        assert_eq!(spread.got_max, [Some(52.0), Some(51.0)]);
        assert_eq!(spread.error, [Some(-10.0), Some(1.0)]);
        assert_eq!(spread.holes, [1]);
        assert_eq!(Track::spread(&[]), Track::default());
    }

    #[test]
    fn a_spread_of_thinned_tracks_keeps_their_extremes() {
        let mut thinned = track(&[Some(50.0)]);
        thinned.got_min = vec![Some(20.0)];
        thinned.got_max = vec![Some(90.0)];
        let spread = Track::spread(&[&thinned, &track(&[None])]);
        assert_eq!(
            (spread.got_min[0], spread.got_max[0]),
            (Some(20.0), Some(90.0))
        );
    }
}
