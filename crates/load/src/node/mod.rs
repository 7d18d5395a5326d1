// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual nodes (Buchert, Nussbaum & Gustedt, HPCC 2011): sets of CPUs, each with
//! a speed mu in (0, 1], in which unmodified programs run as on a slower machine.
//! Here are their description, their place on a machine, and their socket; what
//! makes them slow are the methods.

pub mod choose;
pub mod environment;
pub mod machine;
pub mod place;
pub mod plan;
pub mod protocol;
pub mod ratios;
pub mod socket;
pub mod spec;
pub mod speed;
pub mod speed_share;
pub mod target;
mod target_group;
pub mod toml;

pub use choose::{Choice, Domains, NoChoice, choose};
pub use machine::NodeMachine;
pub use place::{Claim, PlacedCourse, PlacedNode, place};
pub use ratios::Ratios;
pub use spec::{Cpus, NodeCourse, NodeName, NodeSpec, Origin, SpecError};
pub use speed::{BadSpeed, Speed, Speeds};
pub use target::{Target, TargetName};
pub use target_group::GroupName;
pub use toml::{NodesFile, Vocabulary};
