// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every command shows: text made fit to print, tables, quantities with
//! their units, the frame of pages.

pub mod address;
pub mod bars;
pub mod chart;
pub mod exit;
pub mod failure;
pub mod help;
pub mod messages;
pub mod output;
pub mod page;
pub mod passed;
pub mod progress;
pub mod quantity;
pub mod report;
pub mod table;
pub mod text;
pub mod units;

pub use failure::{BadInput, Context, ExitStatus, Failure, NotPossible, Result};
