// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds over time as the load that leaves them: a CPU of speed mu is one that
//! is loaded by `100 * (1 - mu)` percent. A profile of speeds is read, cut, scaled
//! and mapped like any load profile and turned into loads last. A speed that is
//! set while it is held goes to the supervisor over the node's socket.

mod profile;

use sandbag_profile::{BoxSteps, constants};

pub use profile::{AtEnd, slow_steps};

use crate::node::ratios::Ratios;

/// Length of what has no end, ns: ten years. Not the largest number, because
/// the supervisor adds the time of the start to it.
pub const OPEN_END_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;

pub fn constant(speeds: &Ratios) -> BoxSteps {
    let cpus = speeds.iter().map(|(cpu, _)| cpu);
    let loads: Vec<(u32, f64)> = cpus.zip(speeds.loads_pct()).collect();
    constants(&loads, OPEN_END_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_profile::Profile;

    #[test]
    fn a_constant_speed_is_a_load_without_end() {
        let speeds = Ratios::new(vec![(2, 0.25), (5, 1.0)]);
        let profile = Profile::collect(constant(&speeds)).unwrap();
        assert_eq!(profile.header.cpus, [2, 5]);
        assert_eq!(profile.end_ns(), OPEN_END_NS);
        let loads: Vec<f64> = profile.steps[0]
            .cells
            .iter()
            .map(|cell| cell.unwrap().load_pct)
            .collect();
        assert_eq!(loads, [75.0, 0.0]);
        // The engine adds the clock at its start.
        assert!(OPEN_END_NS.checked_mul(10).is_some());
    }
}
