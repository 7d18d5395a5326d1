// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far virtual ranks that began together drifted apart by what they met. Pure.

use super::progress::Virtual;
use crate::predict::Places;

impl Virtual {
    /// How far ranks that begin together are apart at the end, because of what
    /// they met: from the first to the last, and the standard deviation, ns.
    #[must_use]
    pub fn drift_ns(&self) -> (f64, f64) {
        let ends = self.ends_ns();
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let last = ends.iter().copied().fold(0.0, f64::max);
        let count = ends.len().max(1) as f64;
        let mean = ends.iter().sum::<f64>() / count;
        let square = ends.iter().map(|end| (end - mean).powi(2)).sum::<f64>();
        ((last - first).max(0.0), (square / count).sqrt())
    }

    /// Where between the first and the last they then are, 0 to 1, ascending; of each
    /// of so many CPUs of the trace that ranks suffer in turn.
    #[must_use]
    pub fn places(&self, columns: usize) -> Places {
        let ends = self.ends_ns();
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let (range_ns, _) = self.drift_ns();
        let columns = columns.max(1);
        let of_column = |column: usize| {
            let own = ends.iter().skip(column).step_by(columns);
            let mut places: Vec<f64> = own.map(|end| (end - first) / range_ns.max(1.0)).collect();
            places.sort_unstable_by(f64::total_cmp);
            places
        };
        (0..columns).map(of_column).collect()
    }

    /// The same of ranks that are set to a common position at every so many phases, of
    /// which there is more than one: where they are in the trace, since then. What the host
    /// does to a rank is another thing in each phase, so they part quickly at first, and not
    /// in proportion to time; what counts is how far they are apart on the mean of these
    /// phases. `None` if there are not so many phases.
    #[must_use]
    pub fn apart_within(&self, every: u32, columns: usize) -> Option<DriftSpread> {
        let every = every as usize;
        let ranks: Vec<&[u32]> = self.phases_of_ranks().collect();
        let times = self.phases as usize / every.max(1);
        if times == 0 || every < 2 || ranks.is_empty() {
            return None;
        }
        let columns = columns.max(1);
        let mut places: Places = vec![Vec::new(); columns];
        let mut sum_ns = 0.0;
        for time in 0..times {
            let mut passed_ns = vec![0u64; ranks.len()];
            for phase in 1..every {
                let before = time * every + phase - 1;
                for (passed, rank) in passed_ns.iter_mut().zip(&ranks) {
                    *passed += u64::from(rank[before]);
                }
                let first = passed_ns.iter().min().copied().unwrap_or(0);
                let range = passed_ns.iter().max().map_or(0, |last| last - first);
                sum_ns += range as f64;
                if phase + 1 == every {
                    for (rank, passed) in passed_ns.iter().enumerate() {
                        let place = (passed - first) as f64 / range.max(1) as f64;
                        places[rank % columns].push(place);
                    }
                }
            }
        }
        for of_column in &mut places {
            of_column.sort_unstable_by(f64::total_cmp);
        }
        Some(DriftSpread {
            // The first phase of each begins together.
            mean_ns: sum_ns / (times * every) as f64,
            phases: every as u32,
            places,
        })
    }

    /// How long each rank took, ns.
    fn ends_ns(&self) -> Vec<f64> {
        self.phases_of_ranks()
            .map(|rank| rank.iter().map(|ns| f64::from(*ns)).sum())
            .collect()
    }
}

/// How far ranks are apart between two synchronisations.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftSpread {
    /// From the first to the last, at the begin of a phase, mean of all, ns.
    pub mean_ns: f64,
    /// From one synchronisation to the next, at least 2.
    pub phases: u32,
    /// Where in that they are at the last phase, as [`Virtual::places`].
    pub places: Places,
}

impl DriftSpread {
    /// How far apart ranks that part in proportion to time, and have the same mean,
    /// are at the end, ns: the first phase of each has none.
    #[must_use]
    pub fn end_ns(&self) -> f64 {
        self.mean_ns * 2.0 * f64::from(self.phases) / f64::from(self.phases - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::three;

    #[test]
    fn places_are_those_of_each_column() {
        // They end after 250, 220 and 400.
        let places = three().places(2);
        assert_eq!(places[1], [0.0]);
        assert!((places[0][0] - 30.0 / 180.0).abs() < 1e-9, "{places:?}");
        assert_eq!((places.len(), places[0][1]), (2, 1.0));
        assert_eq!(three().places(0)[0].len(), 3);
    }

    #[test]
    fn ranks_part_anew_after_each_synchronisation() {
        // The second phase of two begins after 150, 100 and 300 ns.
        let within = three().apart_within(2, 1).unwrap();
        assert_eq!((within.mean_ns, within.end_ns()), (100.0, 400.0));
        assert_eq!(within.places, [[0.0, 0.25, 1.0]]);
        assert_eq!(three().apart_within(1, 1), None);
        assert_eq!(three().apart_within(3, 1), None);
    }
}
