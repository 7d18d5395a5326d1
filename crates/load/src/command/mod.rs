// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file per command: its arguments and what it does.

pub mod audit;
pub mod compare;
pub mod convert;
pub mod doctor;
pub mod generate;
pub mod jitter;
pub mod lab;
pub mod load;
pub mod record;
pub mod replay;
pub mod runs;
pub mod scale;
pub mod show;
pub mod slow;
pub mod synth;
