// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of one CPU in a few figures.

use sandbag_stats::quantile;
use serde::{Deserialize, Serialize};

use crate::{CpuTrace, Span};

/// Parts of the events that are shorter than a quantile, percent.
pub const QUANTILES_PCT: [f64; 6] = [10.0, 50.0, 90.0, 99.0, 99.9, 100.0];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    pub cpu: u32,
    /// For how long events were looked for, s.
    pub known_s: f64,
    pub events: u64,
    /// Events in a second of the known time; 0 if there is none.
    pub rate_per_s: f64,
    /// Share of the known time that events took, percent.
    pub noise_pct: f64,
    /// Lengths at [`QUANTILES_PCT`], ns; `None` without events.
    pub quantiles_ns: Option<[u64; QUANTILES_PCT.len()]>,
    /// Mean length, ns.
    pub mean_ns: Option<f64>,
}

/// The figures of one CPU.
pub fn summarise(cpu: &CpuTrace) -> TraceSummary {
    let known_ns = sum(cpu.known.iter().map(Span::length_ns));
    let noise_ns = sum(cpu.lengths_ns());
    let count = cpu.events.len();
    let mut lengths: Vec<u64> = cpu.lengths_ns().collect();
    lengths.sort_unstable();
    let per = |value: f64| {
        if known_ns > 0.0 {
            value / known_ns
        } else {
            0.0
        }
    };
    TraceSummary {
        cpu: cpu.cpu,
        known_s: known_ns / 1e9,
        events: count as u64,
        rate_per_s: per(count as f64 * 1e9),
        noise_pct: per(noise_ns * 100.0),
        quantiles_ns: quantiles(&lengths),
        mean_ns: (count > 0).then(|| noise_ns / count as f64),
    }
}

/// Where many CPUs are taken as one, it may exceed 64 bits.
fn sum(all: impl Iterator<Item = u64>) -> f64 {
    all.map(u128::from).sum::<u128>() as f64
}

/// Of values in ascending order, those at [`QUANTILES_PCT`]; `None` of none.
pub(crate) fn quantiles(sorted: &[u64]) -> Option<[u64; QUANTILES_PCT.len()]> {
    let least = *sorted.first()?;
    Some(QUANTILES_PCT.map(|part| quantile(sorted, part).unwrap_or(least)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceEvent;

    #[test]
    fn the_figures_of_a_hundred_events() {
        let cpu = CpuTrace::new(
            3,
            vec![Span::new(0, 500_000), Span::new(1_000_000, 1_500_000)],
            (1..=100).map(|i| TraceEvent::new(i * 1000, i)).collect(),
        );
        let s = summarise(&cpu);
        assert_eq!((s.cpu, s.events), (3, 100));
        assert!((s.known_s - 1e-3).abs() < 1e-12);
        assert!((s.rate_per_s - 100_000.0).abs() < 1e-6);
        assert!((s.noise_pct - 0.505).abs() < 1e-9);
        assert_eq!(s.quantiles_ns, Some([10, 50, 90, 99, 100, 100]));
        assert_eq!(s.mean_ns, Some(50.5));
    }

    #[test]
    fn many_cpus_with_stamps_of_an_epoch_are_summed() {
        let cpu = CpuTrace::new(
            0,
            vec![Span::new(0, 1 << 62); 8],
            vec![TraceEvent::new(0, 1 << 61); 8],
        );
        let s = summarise(&cpu);
        assert!((s.known_s - 2f64.powi(65) / 1e9).abs() < 1.0);
        assert!((s.noise_pct - 50.0).abs() < 1e-9);
        assert_eq!(s.mean_ns, Some(2f64.powi(61)));
    }

    #[test]
    fn a_quiet_cpu_has_no_lengths() {
        let s = summarise(&CpuTrace::default());
        assert_eq!((s.events, s.quantiles_ns, s.mean_ns), (0, None, None));
        assert_eq!((s.rate_per_s, s.noise_pct), (0.0, 0.0));
    }
}
