// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit show`.

use std::path::PathBuf;

use clap::Args;
use sandbag_ui::failure::Result;

use super::exit_codes;
use super::output::FormArgs;
use super::read_audit;
use super::values::FailOn;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

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

    /// What makes CPUs unequal [default: as the audit had it]
    #[arg(long, value_enum, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

pub(super) fn main(args: &ShowArgs, messages: &Messages) -> Result<u8> {
    let mut audit = read_audit(&args.file)?;
    if let Some(fail_on) = args.fail_on {
        crate::verdict::again(&mut audit, fail_on.contention());
    }
    args.form.open(messages)?.write_audit(&audit, messages)?;
    Ok(if args.strict {
        exit_codes::of_audit(&audit)
    } else {
        exit::KEPT
    })
}
