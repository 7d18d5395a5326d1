// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit show`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::output::FormArgs;
use super::read_audit;
use super::values::FailOn;
use crate::exit;
use crate::messages::Messages;

/// Show an audit again, or write it in another form
///
/// Measures nothing. With -v every CPU has a row and every verdict its reason.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// What `sandbag audit run -o FILE` wrote; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    form: FormArgs,

    /// Exit with 3 if CPUs are unequal, with 4 if that is undecided
    #[arg(long)]
    strict: bool,

    /// With --strict, what makes CPUs unequal
    #[arg(long, value_enum, value_name = "WHAT", default_value = "any")]
    fail_on: FailOn,
}

/// Runs the command.
pub(super) fn main(args: &ShowArgs, messages: &Messages) -> Result<u8> {
    let audit = read_audit(&args.file)?;
    args.form.open(None)?.write(&audit, messages)?;
    Ok(match args.strict {
        true => exit::of_audit(&audit, args.fail_on.contention()),
        false => exit::KEPT,
    })
}
