// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run's own clock, and what is asked when on it. Pure.

use std::collections::VecDeque;

use crate::board::BOUNDARY_NS;

/// Translates between run time (0 at the start of the profile, standing still
/// while the run is paused) and the monotonic clock. Run time and the clock
/// always differ by whole boundaries, so that windows end where burners note
/// their clocks. A pause therefore counts as up to a boundary longer than it
/// was, and the window that contains it is longer than others by the rest.
#[derive(Debug, Clone)]
pub struct RunClock {
    /// (run time from which it holds, monotonic time of run time 0).
    zeros: Vec<(u64, u64)>,
    /// (run time at which the run stood still, for how long).
    pauses: Vec<(u64, u64)>,
}

impl RunClock {
    /// Starts at a monotonic time that is a multiple of [`BOUNDARY_NS`].
    pub fn starting_at(zero_ns: u64) -> Self {
        debug_assert_eq!(zero_ns % BOUNDARY_NS, 0);
        Self {
            zeros: vec![(0, zero_ns)],
            pauses: Vec::new(),
        }
    }

    /// Run time at a monotonic time now or later.
    pub fn run_ns(&self, monotonic_ns: u64) -> u64 {
        let (least, zero) = self.zeros.last().copied().unwrap_or_default();
        monotonic_ns.saturating_sub(zero).max(least)
    }

    /// Monotonic time of a run time, also of one before a pause.
    pub fn monotonic_ns(&self, run_ns: u64) -> u64 {
        let zero = self.zeros.iter().rev().find(|(from, _)| *from <= run_ns);
        zero.map_or(0, |(_, zero)| *zero).saturating_add(run_ns)
    }

    /// The run stood still between two monotonic times. Returns the length of
    /// the pause as it counts: whole boundaries.
    pub fn pause(&mut self, from_ns: u64, to_ns: u64) -> u64 {
        let length = (to_ns - from_ns).next_multiple_of(BOUNDARY_NS);
        let run = self.run_ns(from_ns);
        let zero = self.zeros.last().map_or(0, |(_, zero)| *zero) + length;
        self.zeros.push((run, zero));
        self.pauses.push((run, to_ns - from_ns));
        length
    }

    /// Time between two run times on the monotonic clock, without the pauses.
    pub fn length_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        // At its own run time the clock is past a pause already.
        let within = |(run, _): &&(u64, u64)| from_ns < *run && *run <= to_ns;
        let paused: u64 = self.pauses.iter().filter(within).map(|(_, ns)| ns).sum();
        (self.monotonic_ns(to_ns) - self.monotonic_ns(from_ns)).saturating_sub(paused)
    }
}

/// One piece of the profile: from when to when which loads, percent.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPiece {
    pub start_ns: u64,
    pub end_ns: u64,
    pub asked_pct: Vec<f64>,
}

/// Puts a piece in the place of all that these have from its start on.
pub fn set(pieces: &mut VecDeque<LoadPiece>, piece: LoadPiece) {
    pieces.retain(|before| before.start_ns < piece.start_ns);
    if let Some(last) = pieces.back_mut() {
        last.end_ns = last.end_ns.min(piece.start_ns);
    }
    pieces.push_back(piece);
}

/// The pieces that windows may still ask about.
#[derive(Debug, Default)]
pub struct RequestedLoads {
    pieces: VecDeque<LoadPiece>,
}

impl RequestedLoads {
    pub fn push(&mut self, piece: LoadPiece) {
        self.pieces.push_back(piece);
    }

    /// From its start on this piece is asked, and nothing of what was announced.
    pub fn set(&mut self, piece: LoadPiece) {
        set(&mut self.pieces, piece);
    }

    pub fn forget_before(&mut self, run_ns: u64) {
        while self.pieces.front().is_some_and(|p| p.end_ns <= run_ns) {
            self.pieces.pop_front();
        }
    }

    /// Time-weighted mean of the asked load of a CPU (by index), percent;
    /// past the end of the profile 0 is asked.
    pub fn mean_pct(&self, cpu: usize, from_ns: u64, to_ns: u64) -> f64 {
        let sum: f64 = self
            .pieces
            .iter()
            .map(|piece| {
                let overlap = to_ns
                    .min(piece.end_ns)
                    .saturating_sub(from_ns.max(piece.start_ns));
                piece.asked_pct.get(cpu).copied().unwrap_or(0.0) * overlap as f64
            })
            .sum();
        if to_ns > from_ns {
            sum / (to_ns - from_ns) as f64
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const B: u64 = BOUNDARY_NS;

    #[test]
    fn a_time_that_is_never_reached_lies_in_the_future() {
        assert_eq!(
            RunClock::starting_at(10 * B).monotonic_ns(u64::MAX),
            u64::MAX
        );
    }

    #[test]
    fn a_pause_shifts_what_comes_after() {
        let mut clock = RunClock::starting_at(10 * B);
        assert_eq!(clock.run_ns(25 * B), 15 * B);
        assert_eq!(clock.pause(25 * B + 7, 27 * B), 2 * B);
        assert_eq!(clock.monotonic_ns(15 * B), 25 * B);
        assert_eq!(clock.monotonic_ns(16 * B), 28 * B);
        assert_eq!(clock.run_ns(28 * B), 16 * B);
    }

    #[test]
    fn a_window_is_longer_by_what_a_pause_counts_too_much() {
        let mut clock = RunClock::starting_at(0);
        clock.pause(5 * B + 10, 6 * B);
        // A second one before run time has gone on.
        clock.pause(6 * B + 5, 6 * B + 9);
        assert_eq!(clock.run_ns(6 * B + 9), 5 * B + 10);
        assert_eq!(clock.length_ns(4 * B, 5 * B), B);
        assert_eq!(clock.length_ns(5 * B, 6 * B), B + 10 + B - 4);
        assert_eq!(clock.length_ns(6 * B, 7 * B), B);
        // At the end of a window.
        clock.pause(clock.monotonic_ns(8 * B), clock.monotonic_ns(10 * B));
        assert_eq!(clock.length_ns(7 * B, 8 * B), B);
        assert_eq!(clock.length_ns(8 * B, 9 * B), B);
    }

    fn requested(pieces: &[(u64, u64, f64)]) -> RequestedLoads {
        let pieces = pieces.iter().map(|(start_ns, end_ns, pct)| LoadPiece {
            start_ns: *start_ns,
            end_ns: *end_ns,
            asked_pct: vec![*pct],
        });
        RequestedLoads {
            pieces: pieces.collect(),
        }
    }

    #[test]
    fn the_mean_is_weighted_by_time() {
        let mut asked = requested(&[(0, 30, 10.0), (30, 100, 60.0)]);
        assert!((asked.mean_pct(0, 0, 100) - 45.0).abs() < 1e-12);
        assert!((asked.mean_pct(0, 90, 110) - 30.0).abs() < 1e-12);
        asked.forget_before(30);
        assert!((asked.mean_pct(0, 30, 40) - 60.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_changed_is_asked_until_then_only() {
        let mut asked = requested(&[(0, 30, 10.0), (30, 100, 60.0), (100, 200, 5.0)]);
        asked.set(LoadPiece {
            start_ns: 50,
            end_ns: u64::MAX,
            asked_pct: vec![20.0],
        });
        assert!((asked.mean_pct(0, 40, 60) - 40.0).abs() < 1e-12);
        assert!((asked.mean_pct(0, 100, 200) - 20.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn run_time_never_goes_back(pauses in prop::collection::vec((1u64..50, 1u64..50), 0..8)) {
            let mut clock = RunClock::starting_at(0);
            let mut at = 0;
            let mut last = 0;
            for (wait, length) in pauses {
                at += wait * B / 7;
                prop_assert!(clock.run_ns(at) >= last);
                last = clock.run_ns(at);
                let counted = clock.pause(at, at + length * B / 3);
                at += counted;
                prop_assert_eq!(clock.run_ns(at), last);
                prop_assert_eq!(clock.monotonic_ns(last) , at);
            }
        }
    }
}
