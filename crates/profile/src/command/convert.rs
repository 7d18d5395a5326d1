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
    let others = args.reshape.append.iter().chain(&args.reshape.add);
    for input in others.chain([&args.input]) {
        refuse_same_file(input, &args.output)?;
    }
    args.overwrite.check(Some(&args.output))?;
    let source = Arc::new(reshape::source(&args.input)?);
    let topology = Topology::read(&Root::default())?;
    let open = || args.reshape.open(&source, &topology);
    // Read all inputs to their end before OUT is touched: a fault must not destroy OUT.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_not_the_output() {
        use clap::FromArgMatches as _;
        let dir = tempfile::tempdir().unwrap();
        let [day, night] = ["day.csv", "night.csv"].map(|name| dir.path().join(name));
        let text = "time,cpu0\n0,50\n10,end\n";
        for file in [&day, &night] {
            std::fs::write(file, text).unwrap();
        }
        let (day, night) = (day.to_str().unwrap(), night.to_str().unwrap());
        for words in [
            vec![night],
            vec![day, "--append", night],
            vec![day, "--add", day, "--add", night],
        ] {
            let command = ConvertArgs::augment_args(clap::Command::new("x").no_binary_name(true));
            let words = [words, vec!["--force", "-o", night]].concat();
            let matches = command.try_get_matches_from(words).unwrap();
            let args = ConvertArgs::from_arg_matches(&matches).unwrap();
            let error = main(&args, &Messages::new(true, 0)).unwrap_err();
            assert!(error.to_string().contains("both IN and OUT"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(night).unwrap(), text);
    }
}
