// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much weight the burners of a CPU need: against how much competition,
//! and none of it while the CPU has time to spare. Pure.

use crate::method::wanted_share;

/// Looks (one a second) with room to spare before the weight is lowered.
const CALM: u32 = 5;
/// Share of the time which the load leaves that is idle where there is time for all.
const SPARE: f64 = 0.1;
/// The same for the first look: a program that starts waits for its files.
const SPARE_AT_FIRST: f64 = 0.2;
/// The least idle share of a CPU that counts: a load of 100 % leaves nothing, and at 95 %
/// programs that want all that is left are idle for a part of it, too.
const LEAST_SPARE: f64 = 0.02;
/// How long burners that fell behind are not light: in full weight they have made up for it
/// by then, as far as the program allows. At the least, at the most, and of the time that
/// the load leaves, ns.
const LEAST_REST_NS: u64 = 20_000_000;
const MOST_REST_NS: u64 = 64_000_000_000;
const LEFT_IN_REST_NS: f64 = 8e6;

/// The next estimate of the competition. Doubles when the room is half of what
/// it should be; halves after [`CALM`] looks with far more than needed.
pub fn competition(now: f64, level: f64, share: f64, calm: &mut u32) -> f64 {
    if share < (1.0 + level) / 2.0 {
        *calm = 0;
        return now * 2.0;
    }
    // The share that half the weight would leave.
    let half = share / (2.0 - share);
    if now > 1.0 && half > wanted_share(level) {
        *calm += 1;
        if *calm >= CALM {
            *calm = 0;
            return now / 2.0;
        }
    } else {
        *calm = 0;
    }
    now
}

/// Whether the burners of a CPU are *light*: of so little weight that every task that
/// wakes is served before them, as it is beside a competitor that had its share already.
/// That holds the level only while the CPU has time for both.
#[derive(Debug)]
pub struct Lightness {
    allowed: bool,
    looked: bool,
    /// Whether the last look found time to spare.
    spare: bool,
    light: bool,
    /// When that last changed, and how long it is not light after it was.
    changed_ns: u64,
    rest_ns: u64,
}

impl Lightness {
    /// Not light until there is time to spare, or never.
    pub fn new(allowed: bool) -> Self {
        Self {
            allowed,
            looked: false,
            spare: false,
            light: false,
            changed_ns: 0,
            rest_ns: 0,
        }
    }

    pub fn is_light(&self) -> bool {
        self.light
    }

    /// At every look, with the share of the CPU that was idle since the last.
    pub fn look(&mut self, idle: Option<f64>, level: f64, now: u64) {
        let first = !std::mem::replace(&mut self.looked, true);
        let enough = if first { SPARE_AT_FIRST } else { SPARE };
        let enough = (enough * (1.0 - level)).max(LEAST_SPARE);
        self.spare = idle.is_some_and(|idle| idle >= enough);
        self.resume(now);
    }

    /// When it will be light again, if nothing changes.
    pub fn resumes_ns(&self) -> Option<u64> {
        (self.allowed && self.spare && !self.light).then_some(self.changed_ns + self.rest_ns)
    }

    /// Light again once it has rested. Returns whether that changes anything.
    pub fn resume(&mut self, now: u64) -> bool {
        let resumes = self.resumes_ns().is_some_and(|at| now >= at);
        if resumes {
            (self.light, self.changed_ns) = (true, now);
        }
        resumes
    }

    /// A burner fell behind: full weight from here on. One disturbance is soon made up for;
    /// a program that comes again before it was light for as long as it rested is given
    /// twice that rest. Returns whether that changes anything.
    pub fn end(&mut self, level: f64, now: u64) -> bool {
        if !std::mem::replace(&mut self.light, false) {
            return false;
        }
        let least = (LEFT_IN_REST_NS / (1.0 - level)).max(LEAST_REST_NS as f64) as u64;
        let next = if now - self.changed_ns < self.rest_ns {
            self.rest_ns * 2
        } else {
            self.rest_ns / 2
        };
        self.rest_ns = next.max(least).min(MOST_REST_NS);
        self.changed_ns = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_grows_fast_and_shrinks_slowly() {
        let mut calm = 0;
        assert!((competition(2.0, 0.5, 0.7, &mut calm) - 4.0).abs() < 1e-12);
        assert!((competition(2.0, 0.5, 0.8, &mut calm) - 2.0).abs() < 1e-12);
        let mut now = 8.0;
        for look in 1..=4 * CALM {
            now = competition(now, 0.5, 0.999, &mut calm);
            assert!(look % CALM == 0 || calm > 0 || now <= 1.0);
        }
        assert!((now - 1.0).abs() < 1e-12);
    }

    #[test]
    fn light_while_there_is_time_to_spare_and_later_after_each_debt() {
        const MS: u64 = 1_000_000;
        let mut lightness = Lightness::new(true);
        for idle in [Some(0.09), None, Some(0.04)] {
            lightness.look(idle, 0.5, 0);
            assert!(!lightness.is_light() && !lightness.end(0.5, 0));
        }
        let mut now = 0;
        lightness.look(Some(0.2), 0.5, now);
        for rest in [20, 40, 80, 160].map(|ms| ms * MS) {
            // No idle time is no reason to change: only a debt is.
            lightness.look(Some(0.0), 0.5, now);
            assert!(lightness.is_light() && lightness.end(0.5, now + MS));
            lightness.look(Some(0.0), 0.5, now + MS);
            assert_eq!(lightness.resumes_ns(), None);
            lightness.look(Some(0.2), 0.5, now + MS);
            now += MS + rest;
            assert_eq!(lightness.resumes_ns(), Some(now));
            assert!(!lightness.resume(now - 1) && lightness.resume(now));
        }
        // What was right for long is not doubted for one disturbance.
        now += 160 * MS;
        assert!(lightness.end(0.5, now));
        assert_eq!(lightness.resumes_ns(), Some(now + 80 * MS));
        // Little is left to make up for a debt in.
        let mut most = Lightness::new(true);
        most.look(Some(0.02), 0.98, 0);
        assert!(most.end(0.98, 0) && !most.resume(399 * MS) && most.resume(401 * MS));
        let mut full = Lightness::new(true);
        (0..9).for_each(|_| full.look(Some(0.0), 1.0, 0));
        assert!(!full.is_light());
        let mut never = Lightness::new(false);
        never.look(Some(0.9), 0.1, 0);
        assert!(!never.is_light());
    }
}
