// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run leaves behind: `run.json`, `achieved.csv`, `report.html`, and
//! the tables on the terminal.

pub mod achieved;
mod columns;
pub mod error;
#[cfg(test)]
pub(crate) mod fixture;
pub mod html;
pub mod nodes;
mod parts;
pub mod plot;
pub mod run;
pub mod same_load;
mod series;
pub mod terminal;
mod view;
pub mod write;

pub use achieved::{AchievedRow, AchievedWriter, read_achieved};
pub use columns::column_heads;
pub use error::Error;
pub use nodes::NodeRows;
pub use plot::plot_run;
pub use run::Run;
pub use write::{read_nodes, read_run, write_nodes, write_run};
