// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asked against got, as pure arithmetic.
//!
//! A run is cut into *windows*: for each CPU, an interval of the run with the
//! load that was asked for and the CPU time that the burner took. Everything
//! that sandbag claims about a run is computed here from windows and from
//! nothing else, so it can be tested without a kernel and re-computed from
//! `achieved.csv` by anyone.
//!
//! Units: times are nanoseconds (`_ns`), loads are percent of one CPU
//! (`_pct`), errors are percentage points of one CPU (`_points`).

pub mod accuracy;
pub mod chance;
pub mod complex;
pub mod distribution;
pub mod fourier;
pub mod harmonics;
pub mod mean;
pub mod median;
pub mod paired;
pub mod verdict;
pub mod window;

pub use accuracy::{Accuracy, ErrorStats};
pub use chance::{Chance, GENERATOR};
pub use complex::Complex;
pub use distribution::{normal_cdf, normal_quantile, student_half_width};
pub use fourier::Fourier;
pub use harmonics::harmonic_peak;
pub use mean::error_of_mean;
pub use median::{median, middle, quantile, range, ranks, sort};
pub use paired::{PairedRatio, paired_ratio};
pub use verdict::{Tolerance, Verdict, VerdictCounter};
pub use window::Window;
