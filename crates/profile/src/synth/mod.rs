// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load profiles from models: shapes, chance, and jobs of a parallel machine.
//!
//! Everything is a stream of [`Step`](crate::Step)s, and the same on
//! every machine for the same seed: chance comes from one generator,
//! that of drand48(3), and logarithms and the like from `libm`, not from the C
//! library, whose last bits depend on the processor.
//!
//! Units: times are nanoseconds (`_ns`) or seconds (`_s`), loads percent of one
//! CPU (`_pct`).

mod autoregressive;
mod background;
mod chance;
mod daily;
pub mod fit;
pub mod lublin;
mod piecewise;
mod sampling;
mod shapes;
mod two_state;

pub use autoregressive::{Autoregressive, autoregressive};
pub use background::{Background, DailyRate, RunTimes, background};
pub use daily::{Daily, Day, daily};
pub use piecewise::piecewise;
pub use shapes::{Ramp, Sine, Square, ramp, sine, square};
pub use two_state::{OnOff, on_off};
