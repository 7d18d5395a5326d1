// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit compare`.

use std::path::{Path, PathBuf};

use crate::compare::{CompareOptions, compare};
use crate::report::{page, terminal};
use clap::{Args, ValueEnum};
use sandbag_ui::failure::Result;

use super::exit_codes;
use super::output::FORMAT_MOVED;
use super::{look, read_audit, values};
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};

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

    /// Compare what the two have in common though they are not alike
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
    #[arg(long, value_enum, value_name = "FORMAT", hide = true)]
    format: Option<CompareFormat>,

    #[command(flatten)]
    json: JsonArgs,

    /// A page with charts, both audits in each; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompareFormat {
    /// Tables and verdict
    Text,
    /// All of it
    Json,
    /// A page with charts
    Html,
}

pub(super) fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check(args.html.as_deref())?;
    args.json.check(args.overwrite)?;
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    if is_stdin(&args.a) && is_stdin(&args.b) {
        return Err(BadInput("both audits are standard input; name a file".to_owned()).into());
    }
    let (a, b) = (read_audit(&args.a)?, read_audit(&args.b)?);
    let options = CompareOptions {
        confidence: args.confidence.unwrap_or(a.design.confidence),
        tolerance_pct: args.tolerance.unwrap_or(a.design.tolerance_pct),
        anyway: args.anyway,
    };
    let found = compare(&a, &b, &options).map_err(|error| BadInput(error.to_string()))?;
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    let page = || page::comparison(&found, &a, &b, [&names[0], &names[1]]);
    if args.format.is_some() {
        messages.warning(FORMAT_MOVED);
    }
    let on_stdout = [
        args.format,
        args.json
            .path()
            .filter(|path| is_stdin(path))
            .map(|_| CompareFormat::Json),
        args.html
            .as_deref()
            .filter(|path| is_stdin(path))
            .map(|_| CompareFormat::Html),
    ];
    let mut forms: Vec<CompareFormat> = on_stdout.into_iter().flatten().collect();
    forms.dedup();
    if forms.len() > 1 {
        let text = "standard output takes one form: give the others a file";
        return Err(BadInput(text.to_owned()).into());
    }
    let format = forms.first().copied().unwrap_or(CompareFormat::Text);
    match format {
        CompareFormat::Text => output::print(terminal::comparison(&found, &look(messages)))?,
        CompareFormat::Json => output::print(serde_json::to_string_pretty(&found)? + "\n")?,
        CompareFormat::Html => output::put_data(page())?,
    }
    if let Some(path) = args.json.path().filter(|path| !is_stdin(path)) {
        output::put_json(path, &found, args.overwrite.existing())?;
        messages.say(&format!("wrote {}", path.display()));
    }
    if let Some(path) = args.html.as_deref().filter(|path| !is_stdin(path)) {
        output::put(path, page(), args.overwrite.existing())?;
        messages.say(&format!("wrote {}", path.display()));
    }
    Ok(exit_codes::of_equality(found.verdict))
}
