// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One experiment on many hosts.
//!
//! A launcher (Slurm, MPI, an SSH tool) starts one `sandbag ... --hosts` on each host, and
//! nothing else connects them: they meet in a directory that all of them see. Data flows one
//! way: `command` reads the words, `exchange` is the files of the directory, `clocks` says how
//! far two clocks are apart, `meeting` agrees on a start, `course` runs sandbag on this host and
//! ends it when another host fails, `gather` makes one report of what all left.

pub mod clocks;
pub mod command;
mod course;
pub mod exchange;
pub mod gather;
mod meeting;
