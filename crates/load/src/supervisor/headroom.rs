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
/// Lightness that did not last for so long was wrong, ns.
const AT_ONCE_NS: u64 = 100_000_000;
/// Most looks with time to spare that are waited for after it was wrong.
const MOST_WAITED: u32 = 64;
/// How long burners that fell behind are not light: in full weight they have made up for it
/// by then, as far as the program allows. At least, and of the time that the load leaves, ns.
const LEAST_REST_NS: f64 = 20e6;
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

/// Whether a level leaves as much time as must be idle.
fn leaves_time(level: f64) -> bool {
    1.0 - level >= LEAST_SPARE
}

/// Whether the burners of a CPU are *light*: of so little weight that every task that
/// wakes is served before them, as it is beside a competitor that had its share already.
/// That holds the level only while the CPU has time for both.
#[derive(Debug)]
pub struct Lightness {
    allowed: bool,
    looked: bool,
    light: bool,
    since_ns: u64,
    /// Looks in a row with time to spare, and how many are needed.
    spare: u32,
    needed: u32,
    resumes_ns: Option<u64>,
}

impl Lightness {
    /// Not light until there is time to spare, or never.
    pub fn new(allowed: bool) -> Self {
        Self {
            allowed,
            looked: false,
            light: false,
            since_ns: 0,
            spare: 0,
            needed: 1,
            resumes_ns: None,
        }
    }

    pub fn is_light(&self) -> bool {
        self.light
    }

    /// Before a level begins: full weight where it leaves nothing to be light in. Returns
    /// whether that changes anything.
    pub fn prepare(&mut self, level: f64) -> bool {
        if leaves_time(level) {
            return false;
        }
        (self.spare, self.resumes_ns) = (0, None);
        std::mem::replace(&mut self.light, false)
    }

    /// At every look, with the share of the CPU that was idle since the last.
    pub fn look(&mut self, idle: Option<f64>, level: f64, now: u64) {
        let first = !std::mem::replace(&mut self.looked, true);
        let enough = if first { SPARE_AT_FIRST } else { SPARE };
        let enough = (enough * (1.0 - level)).max(LEAST_SPARE);
        if !leaves_time(level) || idle.is_none_or(|idle| idle < enough) {
            (self.spare, self.resumes_ns) = (0, None);
            return;
        }
        self.spare += 1;
        if self.allowed && !self.light && self.spare >= self.needed {
            self.resumes_ns.get_or_insert(now);
            self.resume(now);
        }
    }

    /// When it will be light again after a rest.
    pub fn resumes_ns(&self) -> Option<u64> {
        self.resumes_ns
    }

    /// Light again once it has rested. Returns whether that changes anything.
    pub fn resume(&mut self, now: u64) -> bool {
        let resumes = self.resumes_ns.is_some_and(|at| now >= at);
        if resumes {
            (self.light, self.since_ns, self.resumes_ns) = (true, now, None);
        }
        resumes
    }

    /// A burner fell behind: full weight from here on. One disturbance is soon made up for,
    /// and then it is light again. Returns whether that changes anything.
    pub fn end(&mut self, level: f64, now: u64) -> bool {
        if self.light && now - self.since_ns >= AT_ONCE_NS {
            self.light = false;
            self.needed = (self.needed / 2).max(1);
            let rest_ns = LEAST_REST_NS.max(LEFT_IN_REST_NS / (1.0 - level));
            self.resumes_ns = Some(now.saturating_add(rest_ns as u64));
            return true;
        }
        self.give_up()
    }

    /// It was wrong: a burner fell behind at once, or did not run at all. Light again only
    /// after twice as long a calm. Returns whether that changes anything.
    pub fn give_up(&mut self) -> bool {
        if self.light {
            self.needed = (self.needed * 2).min(MOST_WAITED);
        }
        (self.spare, self.resumes_ns) = (0, None);
        std::mem::replace(&mut self.light, false)
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
    fn light_while_there_is_time_to_spare_and_later_after_it_was_wrong() {
        let mut lightness = Lightness::new(true);
        for idle in [Some(0.09), None, Some(0.04)] {
            lightness.look(idle, 0.5, 0);
            assert!(!lightness.is_light() && !lightness.end(0.5, 0));
        }
        for needed in [1, 2, 4, 8, 16, 32, 64, 64] {
            for _ in 0..needed {
                assert!(!lightness.is_light());
                lightness.look(Some(0.2), 0.5, 0);
            }
            // No idle time is no reason to change: only a debt is.
            lightness.look(Some(0.0), 0.5, 0);
            assert!(lightness.is_light() && lightness.end(0.5, AT_ONCE_NS - 1));
            assert_eq!(lightness.resumes_ns(), None);
        }
        let mut full = Lightness::new(true);
        (0..9).for_each(|_| full.look(Some(0.0), 1.0, 0));
        assert!(!full.is_light());
        let mut never = Lightness::new(false);
        never.look(Some(0.9), 0.1, 0);
        assert!(!never.is_light());
    }

    #[test]
    fn a_level_that_leaves_nothing_has_full_weight_from_its_beginning() {
        let mut lightness = Lightness::new(true);
        lightness.look(Some(0.4), 0.5, 0);
        assert!(!lightness.prepare(0.95) && lightness.is_light());
        assert!(lightness.prepare(0.995) && !lightness.is_light());
        // Also while the level before it goes on.
        lightness.look(Some(0.4), 0.995, 0);
        assert!(!lightness.is_light() && !lightness.prepare(0.995));
        lightness.look(Some(0.4), 0.5, 0);
        assert!(lightness.is_light());
    }

    #[test]
    fn a_disturbance_ends_it_for_a_moment() {
        const MS: u64 = 1_000_000;
        for (level, rest) in [(0.5, 20), (0.9, 80)] {
            let mut lightness = Lightness::new(true);
            lightness.look(Some(0.2), level, 0);
            let mut now = 0;
            for _ in 0..3 {
                now += 101 * MS;
                assert!(lightness.end(level, now));
                lightness.look(Some(0.2), level, now);
                now += rest * MS;
                assert!(!lightness.resume(now - 2) && lightness.resume(now + 1));
            }
            // The time that there was is gone.
            assert!(lightness.end(level, now + 101 * MS));
            lightness.look(Some(0.0), level, now + 102 * MS);
            assert!(!lightness.resume(now + 900 * MS) && lightness.resumes_ns().is_none());
            // It did not run at all.
            lightness.look(Some(0.2), level, now);
            assert!(lightness.give_up() && lightness.resumes_ns().is_none());
        }
    }
}
