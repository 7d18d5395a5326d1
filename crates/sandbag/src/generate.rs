// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag generate`: man pages, shell completions and reference, for packagers,
//! `make install` and docs/; made from the same definitions as `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use sandbag_ui::failure::{Context as _, Result};

use crate::reference;
use sandbag_ui::exit;
use sandbag_ui::output::{self, Overwrite};

/// Write man pages, shell completions or the reference
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: Artifact,
}

#[derive(Debug, Subcommand)]
enum Artifact {
    /// Write sandbag.1 and a page per command into DIR
    Man {
        /// The directory, made if need be
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Write the pages of docs/reference into DIR
    Reference {
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

/// Runs the command for the whole command line `cli`.
pub fn main(args: &GenerateArgs, mut cli: Command) -> Result<u8> {
    match &args.what {
        Artifact::Man { dir } => man(cli, dir)?,
        Artifact::Reference { dir } => reference(cli, dir)?,
        Artifact::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut cli, "sandbag", &mut text);
            output::put_data(text)?;
        }
    }
    Ok(exit::KEPT)
}

fn reference(cli: Command, dir: &Path) -> Result<()> {
    output::make_dir(dir).with_context(|| dir.display().to_string())?;
    for (name, text) in reference::pages(cli) {
        put(&dir.join(name), text)?;
    }
    Ok(())
}

/// Writes a page in the place of an earlier one.
fn put(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    output::put(path, text, Overwrite { force: true }.existing())
}

fn man(cli: Command, dir: &Path) -> Result<()> {
    output::make_dir(dir).with_context(|| dir.display().to_string())?;
    let mut cli = cli.disable_help_subcommand(true);
    // Gives every command its full name and the global options.
    cli.build();
    pages(&cli, exit::HELP, dir)
}

/// The page of a command and those of its own commands; `codes` are the exit
/// codes of one that names none.
fn pages(command: &Command, codes: &str, dir: &Path) -> Result<()> {
    let own = command.get_after_long_help().map(ToString::to_string);
    let own = own.filter(|text| text.starts_with("Exit codes"));
    let codes = own.as_deref().unwrap_or(codes);
    let page = Man::new(command.clone()).manual("sandbag");
    let path = dir.join(page.get_filename());
    put(&path, render(&page, command, codes)?)?;
    let seen = |command: &&Command| !command.is_hide_set();
    for command in command.get_subcommands().filter(seen) {
        pages(command, codes, dir)?;
    }
    Ok(())
}

/// As [`Man::render`], with the exit codes under the heading at which people
/// look for them.
fn render(page: &Man, command: &Command, codes: &str) -> io::Result<Vec<u8>> {
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
    for line in codes.lines().skip(1) {
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
    use clap::Arg;

    use super::*;
    use crate::args::Cli;

    /// A command and those below it.
    fn all(command: &Command) -> Vec<&Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    fn option<'c>(of: &'c Command, id: &str) -> Option<&'c Arg> {
        let mut shown = of.get_arguments().filter(|arg| !arg.is_hide_set());
        shown.find(|arg| arg.get_id() == id)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn help_of_hosts_names_the_option_that_the_command_has() {
        let cli = Cli::definition();
        let mut count = 0;
        for command in all(&cli) {
            let Some(hosts) = option(command, "hosts") else {
                continue;
            };
            count += 1;
            let help = hosts.get_help().unwrap().to_string();
            for id in ["out", "output"] {
                let is_named = help.contains(&format!("--{id} DIR"));
                assert_eq!(is_named, option(command, id).is_some(), "{command}: {help}");
            }
        }
        assert_eq!(count, 7);
    }

    #[test]
    fn exit_codes_of_a_command_with_strict_say_what_it_does() {
        let dir = tempfile::tempdir().unwrap();
        man(Cli::definition(), dir.path()).unwrap();
        let mut cli = Cli::definition();
        cli.build();
        let strict = all(&cli).into_iter();
        let strict = strict.filter(|command| option(command, "strict").is_some());
        let names: Vec<String> = strict
            .map(|command| Man::new(command.clone()).get_filename())
            .collect();
        assert!(names.len() >= 6, "{names:?}");
        for name in names {
            let page = std::fs::read_to_string(dir.path().join(&name)).unwrap();
            let (_, codes) = page.split_once("\"EXIT STATUS\"").unwrap();
            assert!(codes.contains("strict"), "{name}: {codes}");
        }
    }
}
