// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load profiles: per CPU a piecewise-constant load with an explicit end.
//!
//! A profile is read as a stream of [`Step`]s ([`Steps`]); operations
//! ([`algebra`]) turn streams into streams, exporters ([`export()`]) write
//! them. 64 CPUs over a day of seconds pass through in the memory that one
//! sample takes. Nothing here needs privileges or looks at a clock.
//!
//! Units: times are nanoseconds (`_ns`) since the beginning of the profile,
//! loads are percent of one CPU (`_pct`). Load is the busy share of the
//! *delivered* time, wall minus steal; steal is kept beside it.

pub mod algebra;
pub mod command;
mod constant;
mod error;
mod export;
mod format;
mod import;
mod model;
pub mod native;
mod number;
mod profile;
mod read_options;
mod reader;
mod schedule;
mod source;
mod spread;
mod statistics;
mod stream;
mod summary;
pub mod synth;
#[cfg(test)]
mod testing;
mod usual_step;

pub use algebra::{Gaps, MapRule};
pub use constant::{constant, constants};
pub use error::{Error, Fault, Result};
pub use export::{ExportReport, export, export_simgrid};
pub use format::Format;
pub use model::{Begin, BoxSteps, ProfileCell, ProfileHeader, Step, Steps};
pub use number::NS_PER_S;
pub use profile::Profile;
pub use read_options::ReadOptions;
pub use sandbag_input::Place;
pub use schedule::{Job, schedule};
pub use source::InputSource;
pub use spread::{Spread, SpreadRule};
pub use summary::{CpuSummary, ProfileSummary, summarise};
pub use usual_step::{StepLength, usual_step};
