// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of docs/reference, from the definitions that the program itself
//! uses. A test holds them against the repository, so that no command, option,
//! format, method, column or exit code changes or disappears by accident.

use std::fmt::Write as _;

use clap::{Arg, Command};
use sandbag_load::method;
use sandbag_ui::exit;

/// Name and text of each page, for the whole command line `cli`.
#[must_use]
pub fn pages(cli: Command) -> [(&'static str, String); 6] {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    let mut commands = String::from("# Command line\n");
    command(&cli, "sandbag", &mut commands);
    [
        ("command-line.md", commands),
        ("exit-codes.md", codes(&cli)),
        ("formats.md", formats()),
        ("methods.md", methods()),
        ("metrics.md", metrics()),
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
    // The summary, which has no full stop, and paragraphs of sentences.
    let paragraph = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help: Vec<String> = help.split("\n\n").map(paragraph).collect();
    let help: Vec<&str> = help.iter().map(|text| text.trim_end_matches('.')).collect();
    let help = help.join(". ");
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

fn metrics() -> String {
    let mut text = String::from(
        "# Metrics\n\n`load`, `replay`, `slow` of one node and `compare` have `--metrics [HOST:]PORT`, which serves these for \
         Prometheus at `http://HOST:PORT/metrics` (OpenMetrics 1.0) for as long as the run goes on, \
         and `--metrics-file FILE.prom`, which writes them once a second for the textfile collector \
         of node_exporter (text format 0.0.4) and removes the file at the end. Its first line names \
         the run; a file that a live run writes is refused to another. If both the run and the \
         process that writes it are killed by SIGKILL the file stays. If only that process is \
         killed the run warns within a second, also in `run.json`, and removes the file; it warns \
         of one that was stopped, too. Both are the work of a \
         process of their own, which reads what the burners share; values are at most a second \
         old, and while it cannot read the journals there are none. Of more than 16 connections \
         the oldest one without a request is closed. Shares are parts of one CPU, \
         0 to 1; a load is a share of the time that the hypervisor left. All have the label `run`, \
         the process id of the supervisor. \
         [examples/grafana-dashboard.json](../../examples/grafana-dashboard.json) draws them.\n\n\
         | metric | kind | labels beside `run` | |\n|---|---|---|---|\n",
    );
    for family in &sandbag_load::metrics::FAMILIES {
        let (name, kind, help) = (family.name, family.kind, family.help);
        let suffix = family.suffix();
        let labels: Vec<String> = family.labels.split(' ').map(|l| format!("`{l}`")).collect();
        let labels = labels.join(", ").replace("``", "");
        let _ = writeln!(text, "| `{name}{suffix}` | {kind} | {labels} | {help} |");
    }
    text
}

fn codes(cli: &Command) -> String {
    let mut tables = vec![(exit::HELP.to_owned(), Vec::new())];
    own_codes(cli, "sandbag", &mut tables);
    let mut text = String::from(
        "# Exit codes\n\n`jitter compare` and `audit show` end with 0 whatever they find, unless `--strict` \
         is given; `audit compare` and the `gather` commands end with their verdict always. \
         [`doctor`](doctor.md) ends with 4 if the default method cannot be tried, and with 5 if it \
         does not work. With `--hosts` each process ends with the code of its own host; if another \
         host's failure ended it, with 1, and with CMD 125.\n",
    );
    for (codes, commands) in tables {
        let of = match commands[..] {
            [] => "Every command but those below".to_owned(),
            _ => commands.join(", "),
        };
        let codes = codes.trim_start_matches("Exit codes:\n");
        let codes = codes.replace("\n  ", "\n    ");
        let _ = write!(text, "\n## {of}\n\n  {codes}\n");
    }
    text
}

/// Collects the tables of exit codes with the commands that have them; the first is that
/// of all others.
fn own_codes(of: &Command, name: &str, tables: &mut Vec<(String, Vec<String>)>) {
    let own = of.get_after_long_help().map(ToString::to_string);
    if let Some(own) = own.filter(|text| text.starts_with("Exit codes") && text != exit::HELP) {
        let name = format!("`{name}`");
        match tables.iter_mut().find(|(codes, _)| *codes == own) {
            Some((_, names)) => names.push(name),
            None => tables.push((own, vec![name])),
        }
    }
    for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        own_codes(sub, &format!("{name} {}", sub.get_name()), tables);
    }
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
        let loads = if loads {
            "load, replay, compare, sweep, slow"
        } else {
            "sweep, slow"
        };
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
