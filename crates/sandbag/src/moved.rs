// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that are elsewhere now.

use std::ffi::OsString;

use clap::Args;
use sandbag_ui::BadInput;
use sandbag_ui::Result;

/// The papers' experiments are the program sandbag-lab
#[derive(Debug, Args)]
pub struct LabArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// `sandbag lab`.
pub fn lab(args: &LabArgs) -> Result<u8> {
    let arguments: Vec<_> = args
        .arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    Err(BadInput(format!(
        "the papers' experiments are a program of their own now: `make lab` builds and runs it; \
         then type: sandbag-lab {}",
        arguments.join(" ")
    ))
    .into())
}
