// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds over time as the load that leaves them.
//!
//! A CPU of speed mu is one that is loaded by `100 * (1 - mu)` percent: what
//! the engine holds is a load profile
//! ([`Steps`](sandbag_profile::Steps)) over the node's CPUs.
//!
//! - [`constant`]: the same speeds without end.
//! - [`slowed`]: a profile whose values are speeds in percent. It is read,
//!   cut, scaled and mapped like any load profile, as speeds, and turned into
//!   loads last.
//! - [`Live`]: speeds that can be changed while they are held.
//!
//! # Changing a speed while it is held
//!
//! A [`Live`] handle is [`set`](Live::set) by whoever answers the node's
//! socket; the supervisor reads the [`LiveSteps`] that belong to it. As plain
//! `Steps` they are right but late: the supervisor reads six pieces ahead
//! (`PIECES_AHEAD`), so a change shows seven pieces later. A change within one
//! period needs three things of the supervisor; they are what it does already
//! when it continues after Ctrl-Z (`stand_still`):
//!
//! 1. At every wake-up it asks [`LiveSteps::changed`], one atomic read. The
//!    wake-up comes from the socket itself: its descriptor is one more in the
//!    supervisor's `ppoll` ([`Server`](crate::socket::Server) has one
//!    descriptor for all its clients).
//! 2. If so, it picks a run time `at`: the next grid point of the method that
//!    is at least a few hundred microseconds away, so that the burners of all
//!    CPUs read their orders before it and change *in the same period*. Then
//!    [`LiveSteps::restart_at`]`(at)`, and in `Feed`: forget the piece read
//!    ahead, `end_ns` and `begun`. What comes out next begins at `at`.
//! 3. For what was published and begins at `at` or later: every slot's
//!    `void_orders()`; pieces of `ahead` and of the meter's `Asked` that begin
//!    at `at` or later are dropped, and the one that contains `at` ends there.
//!    Then `publish` as ever. A burner goes on with its last level until the
//!    first new order's time, so there is no gap between the two.
//!
//! Proposed interface, in `sandbag-burner`, with the second and third method
//! empty for every profile that cannot change:
//!
//! ```text
//! pub trait Plan: Steps {
//!     fn changed(&mut self) -> bool { false }
//!     fn restart_at(&mut self, run_ns: u64) {}
//! }
//! impl Feed { pub fn restart_at(&mut self, run_ns: u64) }   // calls the plan's
//! impl Asked { pub fn cut_at(&mut self, run_ns: u64) }
//! ```
//!
//! With it pieces may be endless ([`OPEN_END_NS`]) and an unchanged node costs
//! no wake-up. Without it, pieces of some 20 ms are the makeshift.

mod live;
mod profile;

use sandbag_profile::{BoxSteps, Cell, Format, Header, Profile, Step};

pub use live::{Live, LiveSteps, OtherCpus};
pub use profile::{AtEnd, slowed};

use crate::ratios::Ratios;

/// Length of what has no end, ns: ten years. Not the largest number, because
/// the supervisor adds the time of the start to it.
pub const OPEN_END_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// The load that leaves these speeds, without end.
#[must_use]
pub fn constant(speeds: &Ratios) -> BoxSteps {
    let profile = Profile {
        header: header(speeds),
        steps: vec![Step {
            start_ns: 0,
            end_ns: OPEN_END_NS,
            cells: cells(speeds),
        }],
        warnings: Vec::new(),
    };
    profile.into_steps()
}

fn header(speeds: &Ratios) -> Header {
    Header::new(speeds.cpus().iter().collect(), Format::Synthetic)
}

fn cells(speeds: &Ratios) -> Vec<Option<Cell>> {
    let loads = speeds.loads_pct().into_iter();
    loads.map(|load| Some(Cell::load(load))).collect()
}

/// Kept here so that the two streams below need no import of their own.
type Read = sandbag_profile::Result<Option<Step>>;

#[cfg(test)]
mod tests {
    use super::*;

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
