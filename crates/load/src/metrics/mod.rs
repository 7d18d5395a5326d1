// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of this machine as metrics for Prometheus: served over HTTP, or written to a
//! file for the textfile collector of node_exporter.
//!
//! An exporter is a process of its own that reads what a run's burners share. The run does
//! nothing for it, and ends without it.

mod exporter;
mod server;
mod text;

pub use exporter::{EXPORTER_VERB, Exporter, MetricsArgs, run};
pub use text::FAMILIES;
