// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much competition a CPU is taken to have, from the room its burners had.
//! Pure.

use crate::method::wanted_share;

/// Looks (one a second) with room to spare before the weight is lowered.
const CALM: u32 = 5;

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
}
