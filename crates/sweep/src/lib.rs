// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag sweep`: how a program responds to conditions; `sandbag compare`: two programs
//! under one.
//!
//! Each run is a run of `sandbag load`, `replay` or `slow` in a process of its own, in an
//! order of chance within blocks: the speed of a shared machine drifts, so that answers are
//! ratios within blocks. Data flows one way: `condition` and `metric` say what is asked,
//! `design` which run is next, `run` makes it, `finished` is what came of it, `session` makes
//! all of them, `record` keeps it, `answer` and `threshold` judge, `report` shows.

pub mod answer;
pub mod command;
pub mod compare;
pub mod condition;
pub mod design;
mod figures;
pub mod finished;
pub mod metric;
pub mod record;
pub mod report;
pub mod run;
mod session;
pub mod threshold;
