// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several CPUs in one line of a table.

use crate::report::run::CpuResult;

/// Means over the CPUs, the worst over all of their windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Together {
    /// Mean of what was asked, percent.
    pub asked_pct: f64,
    /// Mean of what was got, percent.
    pub got_pct: f64,
    /// Mean absolute error of the 1 s windows, points; absent without windows.
    pub mean_abs_points: Option<f64>,
    /// The error of largest magnitude, points, with its sign.
    pub worst_points: Option<f64>,
    /// Mean steal, percent of the wall time.
    pub steal_pct: f64,
    /// Windows in which the load was absent.
    pub holes: u64,
}

impl Together {
    /// Of `cpus`, which must not be empty.
    pub fn of(cpus: &[&CpuResult]) -> Self {
        let mean = |value: fn(&CpuResult) -> f64| {
            cpus.iter().map(|c| value(c)).sum::<f64>() / cpus.len() as f64
        };
        let errors = || cpus.iter().filter_map(|c| c.error_1s);
        let windows: u64 = errors().map(|e| e.windows).sum();
        let sum_abs: f64 = errors().map(|e| e.mean_abs_points * e.windows as f64).sum();
        Self {
            asked_pct: mean(|c| c.asked_pct),
            got_pct: mean(|c| c.got_pct),
            mean_abs_points: (windows > 0).then(|| sum_abs / windows as f64),
            worst_points: errors()
                .map(|e| e.worst_points)
                .max_by(|a, b| a.abs().total_cmp(&b.abs())),
            steal_pct: mean(|c| c.steal_pct),
            holes: cpus.iter().map(|c| c.holes).sum(),
        }
    }
}
