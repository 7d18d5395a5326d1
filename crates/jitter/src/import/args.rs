// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Import options on the command line.

use clap::Args;

use super::{ImportOptions, Unit};

/// What a file of another tool may leave open
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// Unit of the times of a file that does not name it (LogGOPSim)
    #[arg(long, value_enum)]
    unit: Option<Unit>,

    /// CPU of a file that holds one and does not name it [default: the number
    /// at the end of the file's name, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=65_535))]
    cpu: Option<u32>,
}

impl ImportArgs {
    /// Options for events with their causes.
    #[must_use]
    pub fn options(&self) -> ImportOptions {
        ImportOptions {
            unit: self.unit,
            cpu: self.cpu,
            without_causes: false,
        }
    }

    /// Options for events only.
    #[must_use]
    pub fn of_events(&self) -> ImportOptions {
        ImportOptions {
            without_causes: true,
            ..self.options()
        }
    }
}
