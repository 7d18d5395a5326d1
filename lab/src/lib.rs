// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: the papers' experiments, method against method, on the machine at
//! hand.
//!
//! From below: [`workload`] has the programs, [`program`] and [`place`] run them
//! under a [`condition`], [`pair`] makes a [`row`] of two runs, [`journal`] keeps
//! it. An [`experiment`] says which; the papers' are in [`experiments`].
//! [`run`](mod@run) measures one, [`summary`] makes figures of its rows, [`results`]
//! writes them down, [`page`] and [`index`] show them.

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
pub mod workload;
