// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands: `convert`, `synth`, `show`; how a profile is read, reshaped and written.

pub mod convert;
pub mod profile_output;
pub mod prometheus;
pub mod reshape;
mod second_source;
pub mod show;
pub mod synth;
