// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `quota`: weight for headroom, bandwidth control for the level.
//!
//! The burner never sleeps; its group may use L*P per period P. What it needs
//! of the burner is nothing, so it would also hold a foreign program to a
//! load. For comparison: enforcement happens at the tick, and the phase of
//! the periods cannot be chosen since about Linux 6.4.
//!
//! The burst is as large as the quota. Without it quota that was unused when
//! the pool is refilled is lost: 95 % asked gave 91.8 %, with it 95.0.
//! Every write of the limits forgives debt and refills the pool (rewriting
//! 50 % each 100 ms gives 52.7 %): they are written on change only.

use sandbag_linux::cgroup::Cap;

use super::{Demand, LEAST_PERIOD_NS, Method, MethodOptions, headroom_weight};
use crate::burn::Duty;

#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Period where the level allows it, us.
    pub period_us: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { period_us: 20_000 }
    }
}

/// The kernel takes no quota below this, us (`min_cfs_quota_period`).
const LEAST_QUOTA_US: f64 = 1_000.0;
/// The kernel takes no period above this, us.
const LONGEST_PERIOD_US: f64 = 1_000_000.0;
const MOST: f64 = 0.995;

impl Quota {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        match options.period_ns {
            None => Ok(Self::default()),
            Some(ns) if (LEAST_PERIOD_NS..=1_000_000_000).contains(&ns) => Ok(Self {
                period_us: ns / 1000,
            }),
            Some(_) => Err("the period of quota must be between 1 ms and 1 s".to_owned()),
        }
    }

    fn cap(self, level: f64) -> Cap {
        // A level so small that its quota would be refused gets a longer
        // period instead.
        let period = (self.period_us as f64)
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
}

impl Method for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn about(&self) -> &'static str {
        "a spinning task under a hard CPU limit (cpu.max) with burst"
    }

    fn duty(&self) -> Duty {
        Duty::Spin
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn demand(&self, level: f64, competition: f64) -> Demand {
        Demand {
            weight: headroom_weight(level, competition),
            cap: (level > 0.0).then(|| self.cap(level)),
        }
    }

    fn wants_headroom(&self) -> bool {
        // A spinning burner cannot tell a small share from a cap, so it does
        // not ask; the weight is chosen once, generously.
        false
    }

    fn grouped(&self) -> bool {
        true
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("period_ms", format!("{}", self.period_us as f64 / 1e3))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_such_that_the_kernel_takes_them() {
        for level in [0.001, 0.005, 0.05, 0.5, 0.95, 0.995] {
            let cap = Quota::default().cap(level);
            assert!(
                cap.quota_us >= 1000 && cap.burst_us <= cap.quota_us,
                "{level}"
            );
            assert!((1000..=1_000_000).contains(&cap.period_us), "{level}");
            let got = cap.quota_us as f64 / cap.period_us as f64;
            assert!((got - level).abs() < 1e-4, "{level}: {got}");
        }
    }
}
