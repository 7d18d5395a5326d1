// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `quota`: weight for headroom, bandwidth control for the level. The burner
//! never sleeps; its group may use L*P per period P. For comparison.
//!
//! The burst is as large as the quota: without it quota that is unused when
//! the pool is refilled is lost. Every write of the limits forgives debt and
//! refills the pool, so they are written on change only.

use sandbag_linux::cgroup::Cap;

use super::{DemandRule, LEAST_PERIOD_NS, Method, MethodOptions};

/// The kernel takes no quota below this, us (`min_cfs_quota_period`).
const LEAST_QUOTA_US: f64 = 1_000.0;
const LONGEST_PERIOD_US: f64 = 1_000_000.0;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    let period_us = match options.period_ns {
        None => 20_000,
        Some(ns) if (LEAST_PERIOD_NS..=1_000_000_000).contains(&ns) => ns / 1000,
        Some(_) => return Err("the period of quota must be between 1 ms and 1 s".to_owned()),
    };
    Ok(Method {
        about: "a spinning task under a hard CPU limit (cpu.max) with burst",
        demand: DemandRule::Cap(period_us),
        most: 0.995,
        grouped: true,
        parameters: vec![("period_ms", format!("{}", period_us as f64 / 1e3))],
        ..Method::named("quota")
    })
}

/// A level so small that its quota would be refused gets a longer period.
pub(super) fn cap(period_us: u64, level: f64) -> Cap {
    let period = (period_us as f64)
        .max(LEAST_QUOTA_US / level)
        .min(LONGEST_PERIOD_US)
        .ceil();
    let quota_us = (level * period).round().max(LEAST_QUOTA_US) as u64;
    Cap {
        quota_us,
        period_us: period as u64,
        burst_us: quota_us,
    }
}
