// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark (De, Kothari and Mann 2008): each rank computes for a
//! quantum, then waits for all others, again and again.
//!
//! Each phase of a rank has a duration of the work (qt) and of the wait (bt); their sum (qbt)
//! of the slowest rank is the time of the phase. The slowdown is the mean of that with jitter
//! over the mean without.
//!
//! Ranks either meet at a [`RankBarrier`]: processes with shared memory ([`ranks`]), or any
//! others with such a barrier ([`Rank`]). Or they are *virtual* ([`progress`]): they only
//! compute, one after another on the available CPUs, each with its own portion of the trace,
//! and the slowest of a phase is found afterwards. So thousands of ranks need time, not
//! machines.

mod barrier;
mod clock;
mod clocks;
mod draw;
mod drift;
mod figures;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
mod meets;
mod progress;
mod rank;
mod ranks;
mod saturation;
mod settings;
mod shared;
mod spread;
mod times;
mod work;

pub use barrier::RankBarrier;
pub use clock::AnyClock;
pub use clocks::{Messages, Offset};
pub use drift::CommonStart;
pub use figures::{PerRank, Slowdown};
pub use host::{OnHost, WithHost};
pub use progress::{Virtual, planned_time, virtual_ranks};
pub use rank::{Length, PhaseTimes, Rank};
pub use ranks::measure;
pub use saturation::{NoiseLoad, leaves_room};
pub use settings::Settings;
pub use spread::{RankSpread, rank_spread};
pub use times::{BenchTimes, LONGEST_NS, Segment, SegmentTimes};
pub use work::calibrate;
