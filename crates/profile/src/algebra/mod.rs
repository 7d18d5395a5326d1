// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations on profiles. Each takes a stream and returns a stream, so a day
//! of samples passes through any chain of them in constant memory.
//!
//! What an operation had to give up (loads clipped at 100, unknown loads
//! filled) is counted and reported by [`crate::Steps::warnings`] at the end.

mod clip;
mod combine;
mod cpus;
mod gaps;
mod repeat;
mod resample;
mod simple;

pub use combine::{add, append, delay};
pub use cpus::{MapRule, map_cpus, select_cpus};
pub use gaps::{Gaps, fill_gaps, fill_gaps_of_part};
pub use repeat::repeat;
pub(crate) use resample::Resample;
pub use resample::resample;
pub use simple::{cut, scale_load, scale_time, steal_as_load};
