// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use sandbag_ui::BadInput;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite};

use super::exit_codes;
use super::output::{AuditFormat, Places};
use super::{look, read_audit, values};
use crate::compare::{CompareOptions, compare};
use crate::report::{page, terminal};

/// Compare two audits of a machine: quiet and loaded, before and after
///
/// Each CPU is compared with itself, in each test and quantity, run by run of the
/// same length. Audits of different machines, tests, lengths or settings are
/// refused, with the differences named, unless --anyway is given.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The first, as `sandbag audit run -o FILE` wrote it
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The second: changes are those from A to B
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Compare what two different audits have in common
    #[arg(long)]
    anyway: bool,

    /// How sure a verdict is to be, for all comparisons together [default: that of
    /// A]
    #[arg(long, value_name = "PERCENT", value_parser = values::confidence)]
    confidence: Option<f64>,

    /// Changes up to this do not count [default: that of A]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    tolerance: Option<f64>,

    /// What standard output gets.
    #[arg(long, value_parser = form, value_name = "FORMAT", hide = true)]
    format: Option<AuditFormat>,

    #[command(flatten)]
    json: JsonArgs,

    /// A page with charts, both audits in each; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// A form that a comparison has.
fn form(text: &str) -> std::result::Result<AuditFormat, String> {
    match AuditFormat::from_str(text, false) {
        Ok(form @ (AuditFormat::Text | AuditFormat::Json | AuditFormat::Html)) => Ok(form),
        _ => Err("expected text, json or html".to_owned()),
    }
}

pub(super) fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    if [&args.a, &args.b]
        .iter()
        .all(|path| path.as_os_str() == "-")
    {
        return Err(BadInput("both audits are standard input; name a file".to_owned()).into());
    }
    let (a, b) = (read_audit(&args.a)?, read_audit(&args.b)?);
    let options = CompareOptions {
        confidence: args.confidence.unwrap_or(a.design.confidence),
        tolerance_pct: args.tolerance.unwrap_or(a.design.tolerance_pct),
        anyway: args.anyway,
    };
    let found = compare(&a, &b, &options).map_err(|error| BadInput(error.to_string()))?;
    let named = [
        (AuditFormat::Json, args.json.path()),
        (AuditFormat::Html, args.html.as_deref()),
    ];
    let places = Places::open(&named, args.format, args.overwrite, messages)?;
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    places.write(messages, |format| {
        Ok(match format {
            AuditFormat::Json => serde_json::to_string_pretty(&found)? + "\n",
            AuditFormat::Html => page::comparison(&found, &a, &b, [&names[0], &names[1]]),
            _ => terminal::comparison(&found, &look(messages)),
        })
    })?;
    Ok(exit_codes::of_equality(found.verdict))
}
