// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cap`: the node's group may use the sum of its speeds per period (cpu.max,
//! v1 cpu.cfs_quota_us), without burst. It is what containers do; an aggregate
//! budget is not a slower CPU.

use super::{Method, MethodOptions};
use crate::throttle::{LEAST_QUOTA_US, Throttling};

const PERIOD_NS: u64 = 100_000_000;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    // A period that no boundary cuts: what was taken is known at its end.
    let period_us = options.period_on_grid("cap", PERIOD_NS)? / 1000;
    Ok(Method {
        about: "a limit on the CPU time of the node's group, as containers have it",
        parameters: vec![
            ("period_ms", format!("{}", period_us as f64 / 1e3)),
            ("burst", "0".to_owned()),
        ],
        ..Method::of_node("cap", Throttling::Cap { period_us })
    })
}

/// The highest level whose quota the kernel takes.
pub(super) fn most(period_us: u64, cpus: usize) -> f64 {
    let whole_us = period_us as f64 * cpus.max(1) as f64;
    1.0 - LEAST_QUOTA_US / whole_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_linux::Root;

    #[test]
    fn a_level_whose_quota_is_too_small_is_not_served() {
        let cases = [(2, 1, 0.5), (2, 4, 0.875), (1, 1, 0.0), (100, 1, 0.99)];
        for (period_ms, cpus, highest) in cases {
            let options = MethodOptions {
                period_ns: Some(period_ms * 1_000_000),
                ..MethodOptions::default()
            };
            let mut cap = method(&options).unwrap();
            cap.fit_to(&Root::default(), &(0..cpus).collect()).unwrap();
            assert_eq!(cap.serves(1.0), highest, "{period_ms} ms on {cpus}");
        }
    }
}
