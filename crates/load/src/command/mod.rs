// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands: `load`, `replay`, `slow`, `record`, `doctor`, `top`, `set`.

pub mod doctor;
pub mod load;
mod own_run;
pub mod record;
pub mod replay;
pub mod run;
pub mod set;
pub mod show;
pub mod slow;
pub mod top;
