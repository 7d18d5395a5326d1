// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: the papers' experiments, method against method, and the benchmarks,
//! on the machine at hand.
//!
//! An [`experiment`] says its cells and how one is measured; [`run`](mod@run)
//! measures all, round by round, and [`journal`] keeps the rows. The papers' are in
//! [`experiments`], from below: [`workload`] has the programs, [`program`] and
//! [`place`] run them under a [`condition`], [`pair`] makes a [`row`] of two runs,
//! [`summary`] makes figures of the rows, [`results`] writes them down, [`page`]
//! and [`index`] show them. The benchmarks, whose report is a text with tables,
//! are in [`bench`].

pub mod bench;
pub mod command;
pub mod condition;
pub mod decide;
pub mod experiment;
pub mod experiments;
pub mod figure;
pub mod index;
pub mod journal;
pub mod page;
pub mod pair;
pub mod place;
pub mod program;
pub mod published;
pub mod reading;
pub mod results;
pub mod row;
pub mod run;
pub mod setup;
pub mod steal;
pub mod summary;
pub mod trial;
pub mod whole_file;
pub mod workload;
