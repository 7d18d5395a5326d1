// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: the papers' experiments, method against method, on the machine at
//! hand. [`experiment`] says what is measured, [`run`](mod@run) measures it,
//! [`summary`] makes figures of it, [`page`] shows them.

pub mod condition;
pub mod experiment;
pub mod figure;
pub mod index;
pub mod interrupt;
pub mod machine;
pub mod page;
pub mod pair;
pub mod program;
pub mod published;
pub mod row;
pub mod run;
pub mod summary;
pub mod workload;
