// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag generate`: man pages and shell completions, for packagers and
//! `make install`; made from the same definitions as `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::Cli;
use crate::{exit, output};

/// Write man pages or shell completions
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write sandbag.1 and a page per command into DIR
    Man {
        /// The directory, made if need be
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

/// Runs the command.
pub fn main(args: &GenerateArgs) -> Result<u8> {
    match &args.what {
        What::Man { dir } => man(dir)?,
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "sandbag", &mut text);
            output::put(Path::new("-"), text)?;
        }
    }
    Ok(exit::KEPT)
}

fn man(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut cli = Cli::command().disable_help_subcommand(true);
    // Gives every command its full name and the global options.
    cli.build();
    let seen = |command: &&Command| !command.is_hide_set();
    for command in std::iter::once(&cli).chain(cli.get_subcommands().filter(seen)) {
        let page = Man::new(command.clone()).manual("sandbag");
        let path = dir.join(page.get_filename());
        fs::write(&path, render(&page, command)?).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// As [`Man::render`], with the exit codes under the heading at which people
/// look for them.
fn render(page: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    let codes = command.get_after_long_help().map(ToString::to_string);
    let codes = codes.filter(|text| text.starts_with("Exit codes"));
    for line in codes.as_deref().unwrap_or(exit::HELP).lines().skip(1) {
        // Two blanks begin a paragraph and continue it: a new one begins
        // where the table says whom it is for.
        let line = line.trim();
        if line.starts_with("With") {
            roff.control("PP", []);
        }
        roff.text([roman(line)]);
    }
    roff.to_writer(&mut text)?;
    if command.get_version().is_some() {
        page.render_version_section(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        for command in Cli::command().get_subcommands() {
            let path = dir.path().join(format!("sandbag-{}.1", command.get_name()));
            assert_eq!(path.exists(), !command.is_hide_set(), "{}", path.display());
        }
    }
}
