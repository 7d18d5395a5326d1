// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The audit: are all CPUs of this machine equal? Which one charges a program
//! more than the others, by how much, how sure, and why (Cardo, "Measuring
//! Performance Degradation by CPU").
//!
//! The way of a figure: [`plan`] says which CPU runs what in which order,
//! a test ([`mod@work`], `command`, `noise`) runs there and says its times,
//! [`evidence`] of the same CPU and time is put beside it ([`model::Sample`]);
//! all samples of a test become one effect per CPU and quantity ([`effects`],
//! on [`ranks`]), a [`verdict`], and with the machine's configuration a list of
//! [`suspects`]. An [`model::Audit`] holds it all: it is what is written, read
//! again, compared and drawn.

pub mod accounting;
mod command;
pub mod command_line;
pub mod compare;
mod competing;
mod design;
pub mod effects;
mod error;
mod evidence;
mod facts;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod gather;
mod memory_room;
pub mod model;
mod noise;
mod options;
pub mod plan;
mod ranks;
pub mod report;
mod run;
mod suspects;
mod tasks;
pub mod verdict;
pub mod work;
mod worker;

pub use error::{Error, Result};
pub use memory_room::room as memory_room;
pub use options::{AuditOptions, AuditProgress, TestRequest};
pub use run::run;
pub use work::{WORK_VERB, work};
