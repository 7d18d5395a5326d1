// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantiles of latencies, by the names that rows have.

use std::collections::BTreeMap;

use sandbag_stats::quantile;

/// Quantiles in percent, each with its name.
pub const QUANTILES: [(&str, f64); 4] = [
    ("p50_us", 50.0),
    ("p90_us", 90.0),
    ("p99_us", 99.0),
    ("p999_us", 99.9),
];

/// Quantiles of latencies in ns, as figures in us; empty without latencies.
pub fn figures(mut latencies_ns: Vec<u64>) -> BTreeMap<String, f64> {
    latencies_ns.sort_unstable();
    let of = |(name, pct): (&str, f64)| {
        let ns = quantile(&latencies_ns, pct)?;
        Some((name.to_owned(), ns as f64 / 1e3))
    };
    QUANTILES.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let found = figures((1..=1000).rev().map(|n| n * 1000).collect());
        let values: Vec<f64> = QUANTILES.iter().map(|(name, _)| found[*name]).collect();
        assert_eq!(values, [500.0, 900.0, 990.0, 999.0]);
        assert!(figures(Vec::new()).is_empty());
    }
}
