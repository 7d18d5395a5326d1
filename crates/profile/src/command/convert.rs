// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag convert`: a profile from one format to another.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Format, summarise};
use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;

use crate::command::profile_output::{format_for, put, writable};
use crate::command::reshape::{self, Reshape, describe};
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{Overwrite, refuse_same_file};

/// Turn a load profile of any known format into any other
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The profile: a file of any known format, - for standard input, or what
    /// a Prometheus has of a machine:
    /// 'prometheus+http://HOST:9090/?instance=X&from=...&to=...'
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where to, or - for standard output; SimGrid takes a file per CPU
    /// (day.simgrid becomes day.cpu0.simgrid ...)
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Format to write: see `sandbag show --formats` [default: by the ending
    /// of OUT, .krash, .profile or .simgrid; else native]
    #[arg(long, value_name = "FORMAT", value_parser = writable)]
    to: Option<Format>,

    #[command(flatten)]
    reshape: Reshape,
}

pub fn main(args: &ConvertArgs, messages: &Messages) -> Result<u8> {
    let to = format_for(args.to, &args.output)?;
    refuse_same_file(&args.input, &args.output)?;
    args.overwrite.check(Some(&args.output))?;
    let source = Arc::new(reshape::source(&args.input)?);
    let topology = Topology::read(&Root::default())?;
    let open = || args.reshape.open(&source, &topology);
    // Read IN to its end before OUT is touched: a fault must not destroy OUT.
    let mut first = open()?;
    let format = first.header().format;
    let summary = summarise(&mut *first)?;
    messages.say(&describe(source.name(), format, &summary));
    for warning in &summary.warnings {
        messages.warning(warning);
    }
    // The warnings of reading are printed above.
    put(
        &args.output,
        to,
        open()?,
        args.overwrite.existing(),
        messages,
    )?;
    Ok(exit::KEPT)
}
