// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much weight the burners of a CPU need: against how much competition,
//! and none of it while the CPU has time to spare. Pure.

use crate::method::wanted_share;

/// Looks (one a second) with room to spare before the weight is lowered.
const CALM: u32 = 5;
/// Share of the time which the load leaves that is idle where there is time for all.
const SPARE: f64 = 0.1;
/// The same for the first look: a program that starts waits for its files.
const SPARE_AT_FIRST: f64 = 0.4;
/// The least idle share of a CPU that counts: a load of 100 % leaves nothing, and at 95 %
/// programs that want all that is left are idle for a part of it, too.
const LEAST_SPARE: f64 = 0.02;
/// Most looks with time to spare that are waited for before the burners are light.
const MOST_WAITED: u32 = 64;

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
    light: bool,
    looked: bool,
    /// Looks in a row with time to spare, and how many are needed.
    spare: u32,
    needed: u32,
}

impl Lightness {
    /// Not light until there is time to spare, or never.
    pub fn new(allowed: bool) -> Self {
        Self {
            allowed,
            light: false,
            looked: false,
            spare: 0,
            needed: 1,
        }
    }

    pub fn is_light(&self) -> bool {
        self.light
    }

    /// At every look, with the share of the CPU that was idle since the last.
    pub fn look(&mut self, idle: Option<f64>, level: f64) {
        let first = !std::mem::replace(&mut self.looked, true);
        let enough = if first { SPARE_AT_FIRST } else { SPARE };
        self.spare = match idle {
            Some(idle) if idle >= (enough * (1.0 - level)).max(LEAST_SPARE) => self.spare + 1,
            _ => 0,
        };
        self.light |= self.allowed && self.spare >= self.needed;
    }

    /// A burner fell behind: full weight from here on, and light again only after twice
    /// as long a calm, so that a program whose need changes is not met by a debt each
    /// time. Returns whether that changes anything.
    pub fn end(&mut self) -> bool {
        if self.light {
            // What was right for long is not doubted for one disturbance.
            self.needed = if self.spare > MOST_WAITED {
                2
            } else {
                (self.needed * 2).min(MOST_WAITED)
            };
        }
        self.spare = 0;
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
    fn light_while_there_is_time_to_spare_and_later_after_each_debt() {
        let mut lightness = Lightness::new(true);
        lightness.look(Some(0.19), 0.5);
        lightness.look(None, 0.5);
        lightness.look(Some(0.04), 0.5);
        assert!(!lightness.is_light() && !lightness.end());
        for needed in [1, 2, 4, 8, 16, 32, 64, 64] {
            for _ in 0..needed {
                assert!(!lightness.is_light());
                lightness.look(Some(0.2), 0.5);
            }
            // No idle time is no reason to change: only a debt is.
            lightness.look(Some(0.0), 0.5);
            assert!(lightness.is_light() && lightness.end());
        }
        (0..2 * MOST_WAITED).for_each(|_| lightness.look(Some(0.2), 0.5));
        assert!(lightness.end());
        (0..2).for_each(|_| lightness.look(Some(0.2), 0.5));
        assert!(lightness.is_light());
        let mut full = Lightness::new(true);
        (0..9).for_each(|_| full.look(Some(0.0), 1.0));
        assert!(!full.is_light());
        let mut never = Lightness::new(false);
        never.look(Some(0.9), 0.1);
        assert!(!never.is_light());
    }
}
