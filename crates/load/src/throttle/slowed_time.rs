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

    /// The node lacked nothing between `from` and `now` after all. That was noted already, so as
    /// much time from `now` on is left out.
    pub fn retract(&mut self, from: u64, now: u64) {
        let rate = self.rate;
        self.change(now, 0.0);
        self.change(now + now.saturating_sub(from), rate);
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

    #[test]
    fn what_is_retracted_is_made_up_for_by_the_time_that_follows() {
        let mut taken = SlowedTime::default();
        taken.change(0, 0.5);
        taken.retract(40, 100);
        assert_eq!(taken.until(100), 50);
        // Nothing of the time that was to make up for it, either.
        taken.retract(100, 120);
        assert_eq!(taken.until(160), 50);
        assert_eq!(taken.until(200), 70);
        taken.change(200, 0.0);
        assert_eq!(taken.until(300), 70);
    }
}
