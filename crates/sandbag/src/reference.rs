// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of docs/reference, from the definitions that the program itself
//! uses. A test holds them against the repository, so that no command, option,
//! format, method, column or exit code changes or disappears by accident.

use std::fmt::Write as _;

use clap::{Arg, Command};
use sandbag_audit::command_line::exit_codes;
use sandbag_load::method;
use sandbag_ui::exit;

/// Name and text of each page, for the whole command line `cli`.
#[must_use]
pub fn pages(cli: Command) -> [(&'static str, String); 5] {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    let mut commands = String::from("# Command line\n");
    command(&cli, "sandbag", &mut commands);
    [
        ("command-line.md", commands),
        ("exit-codes.md", codes()),
        ("formats.md", formats()),
        ("methods.md", methods()),
        ("run.md", run()),
    ]
}

fn command(of: &Command, name: &str, text: &mut String) {
    let about = of.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = of.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace('\n', "\n    ");
    let _ = write!(text, "\n## `{name}`\n\n{about}.\n\n    {usage}\n\n");
    let is_root = !name.contains(' ');
    let own = |arg: &&Arg| {
        let is_common = arg.is_global_set() || arg.get_id() == "help";
        !arg.is_hide_set() && (is_root || !is_common)
    };
    for arg in of.get_arguments().filter(own) {
        *text += &argument(arg);
    }
    for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        command(sub, &format!("{name} {}", sub.get_name()), text);
    }
}

/// A line of the list: `--method <NAME>`, what it does, its default and values.
fn argument(of: &Arg) -> String {
    let help = of.get_long_help().or(of.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = of.get_short().map(|short| format!("`-{short}`, "));
    let mut text = format!("- {}`{of}`: {help}", short.unwrap_or_default());
    let values = of.get_possible_values().into_iter();
    let values: Vec<_> = values.filter(|value| !value.is_hide_set()).collect();
    let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    if of.get_action().takes_values() {
        if !values.is_empty() {
            let _ = write!(text, "; one of `{}`", values.join("`, `"));
        }
        for default in of.get_default_values() {
            let _ = write!(text, "; default `{}`", default.display());
        }
    }
    text + "\n"
}

fn codes() -> String {
    let mut text = String::from("# Exit codes\n");
    for (of, codes) in [
        ("Every command but those below", exit::HELP),
        ("`sandbag audit run`, `show`", exit_codes::HELP),
        ("`sandbag audit compare`", exit_codes::COMPARE_HELP),
    ] {
        let codes = codes.trim_start_matches("Exit codes:\n");
        let codes = codes.replace("\n  ", "\n    ");
        let _ = write!(text, "\n## {of}\n\n  {codes}\n");
    }
    text
}

fn formats() -> String {
    let mut text = String::from(
        "# Formats\n\nThe names that `--from` and `--to` take; \
         [file formats](file-formats.md) describes them.\n\n\
         ## Load profiles\n\n| format | read | written |\n|---|---|---|\n",
    );
    let yes = |is: bool| if is { "yes" } else { "" };
    for format in sandbag_profile::Format::ALL {
        let (read, written) = (yes(format.is_read()), yes(format.is_written()));
        let _ = writeln!(text, "| {} | {read} | {written} |", format.name());
    }
    text += "\n## Jitter traces\n\n";
    for name in sandbag_jitter::import::formats() {
        let _ = writeln!(text, "- {name}");
    }
    text
}

fn methods() -> String {
    let mut text = String::from(
        "# Methods\n\n[Methods](../explanation/methods.md) says what each rests on \
         and what it was measured to do.\n\n| method | `--method` of | |\n|---|---|---|\n",
    );
    for name in method::SLOWING {
        let loads = method::NAMES.contains(&name);
        let loads = if loads { "load, replay, slow" } else { "slow" };
        let about = method::by_name(name).map_or("", |method| method.about);
        let _ = writeln!(text, "| `{name}` | {loads} | {about} |");
    }
    text
}

fn run() -> String {
    let mut text = String::from("# Run directory\n\n");
    for file in sandbag_run::directory::FILES {
        let _ = writeln!(text, "- `{file}`");
    }
    text += "\n## Columns of the report\n\n| column | unit |\n|---|---|\n";
    for (head, unit) in sandbag_load::report::column_heads() {
        let _ = writeln!(text, "| {head} | {unit} |");
    }
    text
}
