// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was taken from a node so far: a rate that changes, integrated.

/// The sum over time of the part of its speed that a node lacked.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlowedTime {
    ns: f64,
    rate: f64,
    since: u64,
}

impl SlowedTime {
    /// From `now` on (monotonic, ns) the node lacks `rate`, 0 to 1.
    pub fn change(&mut self, now: u64, rate: f64) {
        self.ns = self.exact(now);
        self.since = self.since.max(now);
        self.rate = rate;
    }

    #[cfg(test)]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    pub fn exact(&self, at: u64) -> f64 {
        self.ns + self.rate * at.saturating_sub(self.since) as f64
    }

    pub fn until(&self, at: u64) -> u64 {
        self.exact(at) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_over_time() {
        let mut taken = SlowedTime::default();
        assert_eq!(taken.until(1_000), 0);
        taken.change(1_000, 0.5);
        assert_eq!(taken.until(1_100), 50);
        taken.change(1_100, 1.0);
        taken.change(1_200, 0.0);
        assert_eq!(taken.until(9_000), 150);
        // A moment before the last change: never less than before it.
        assert_eq!(taken.until(1_150), 150);
    }
}
