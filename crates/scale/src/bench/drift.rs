// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spread of virtual ranks that began together. Pure.

use super::progress::Virtual;
use super::spread::{deviation, width};
use crate::predict::Places;

/// Spread of ranks after a common start.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonStart {
    /// Distance from the first rank to the last at the end, ns.
    pub end_ns: f64,
    /// Phases since the common start.
    pub phases: u64,
    /// Positions of the ranks within that distance at the last phase, 0 to 1, ascending, for
    /// each CPU of the trace; empty where they are not known.
    pub places: Places,
}

impl Virtual {
    /// Spread of the ranks at the end of the run: distance from the first to the last, and
    /// standard deviation, ns.
    pub fn drift_ns(&self) -> (f64, f64) {
        let mut ends_ns = vec![0.0; self.times.ranks as usize];
        for phase in self.phases_ns() {
            for (end_ns, ns) in ends_ns.iter_mut().zip(phase) {
                *end_ns += f64::from(*ns);
            }
        }
        (width(&ends_ns), deviation(&ends_ns))
    }

    /// Spread of ranks that are set to a common position every `every` phases, in a trace of
    /// `columns` CPUs. The host delays a rank differently in each phase, so the ranks spread
    /// fast at first and not in proportion to time: `end_ns` is that of a spread which grows
    /// in proportion to time and has the same mean over the phases. `None` if `every` is less
    /// than 2, or more than the number of phases.
    pub fn common_start(&self, every: u32, columns: usize) -> Option<CommonStart> {
        let (every, ranks) = (every as usize, self.times.ranks as usize);
        let times = self.phases as usize / every.max(1);
        if times == 0 || every < 2 {
            return None;
        }
        let mut places: Places = vec![Vec::new(); columns.max(1)];
        let mut passed_ns = vec![0.0; ranks];
        let mut sum_ns = 0.0;
        for (number, phase) in self.phases_ns().take(times * every).enumerate() {
            // The first phase of each row begins together.
            match number % every {
                0 => passed_ns.fill(0.0),
                _ => sum_ns += width(&passed_ns),
            }
            if (number + 1) % every == 0 {
                let first = passed_ns.iter().copied().fold(f64::INFINITY, f64::min);
                let range = width(&passed_ns).max(1.0);
                for (rank, passed) in passed_ns.iter().enumerate() {
                    places[rank % columns.max(1)].push((passed - first) / range);
                }
            }
            for (passed, ns) in passed_ns.iter_mut().zip(phase) {
                *passed += f64::from(*ns);
            }
        }
        for column in &mut places {
            sandbag_stats::sort(column);
        }
        let mean_ns = sum_ns / (times * every) as f64;
        Some(CommonStart {
            end_ns: mean_ns * 2.0 * every as f64 / (every - 1) as f64,
            phases: every as u64,
            places,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::three;

    #[test]
    fn the_spread_at_the_end_is_that_of_the_sums() {
        let (width_ns, deviation_ns) = three().drift_ns();
        assert_eq!(width_ns, 180.0);
        assert!((deviation_ns - 78.7).abs() < 0.1);
    }

    #[test]
    fn ranks_spread_again_after_each_synchronisation() {
        // The second phase begins after 150, 100 and 300 ns.
        let found = three().common_start(2, 1).unwrap();
        assert_eq!((found.end_ns, found.phases), (400.0, 2));
        assert_eq!(found.places, [[0.0, 0.25, 1.0]]);
        let by_column = three().common_start(2, 2).unwrap();
        assert_eq!(by_column.places, [vec![0.25, 1.0], vec![0.0]]);
        assert_eq!(three().common_start(1, 1), None);
        assert_eq!(three().common_start(3, 1), None);
    }
}
