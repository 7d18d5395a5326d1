// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cap`: the node's group may use the sum of its speeds per period (cpu.max,
//! v1 cpu.cfs_quota_us), without burst. It is what containers do; an aggregate
//! budget is not a slower CPU.

use super::{Method, MethodOptions};
use crate::throttle::Throttling;

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
