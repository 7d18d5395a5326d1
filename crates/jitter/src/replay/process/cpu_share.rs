// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long an injected event took its CPU from whoever was there. Pure.

use super::InjectorNoise;

/// When an injector had the CPU, and from when on it counted, ns of one clock.
#[derive(Debug, Clone, Copy)]
pub struct CpuShare {
    /// It read the clock.
    pub start_ns: u64,
    /// It was done.
    pub end_ns: u64,
    /// What it was held to begins here: when the event was due, or a lead before
    /// the start.
    pub from_ns: u64,
}

impl CpuShare {
    /// As who is interrupted sees it, the measured costs included. `taken_off`:
    /// they were taken off the length.
    #[must_use]
    pub fn suffered_ns(self, measured: InjectorNoise, taken_off: bool) -> u64 {
        let lead_ns = measured.lead_ns;
        let from_ns = if taken_off {
            self.from_ns
        } else {
            self.start_ns.saturating_sub(lead_ns)
        };
        let until_ns = self.end_ns + measured.overhead_ns.saturating_sub(lead_ns);
        until_ns.saturating_sub(from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_there_and_back_is_part_of_it() {
        let measured = InjectorNoise {
            overhead_ns: 22,
            lead_ns: 15,
            ..InjectorNoise::default()
        };
        let took = CpuShare {
            start_ns: 1_015,
            end_ns: 1_093,
            from_ns: 1_000,
        };
        assert_eq!(took.suffered_ns(measured, true), 100);
        assert_eq!(took.suffered_ns(measured, false), 100);
    }
}
