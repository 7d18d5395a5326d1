// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command with its options, every format, method, exit code and output
//! file, as text: a test holds it against what was agreed, so that nothing
//! disappears by accident.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The text, for the whole command line `cli`.
#[must_use]
pub fn text(cli: Command) -> String {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    let mut text = String::from("# commands and options\n");
    command(&cli, "sandbag", &mut text);
    text += "\n# formats of load profiles\n";
    for format in sandbag_profile::Format::ALL {
        let uses = [(format.is_read(), "read"), (format.is_written(), "written")];
        let uses: Vec<&str> = uses
            .iter()
            .filter(|(does, _)| *does)
            .map(|(_, use_)| *use_)
            .collect();
        let _ = writeln!(text, "{}: {}", format.name(), uses.join(", "));
    }
    text += "\n# formats of jitter\n";
    for name in sandbag_jitter::import::formats() {
        let _ = writeln!(text, "{name}");
    }
    let _ = writeln!(
        text,
        "\n# methods\nload: {}",
        sandbag_load::method::NAMES.join(", ")
    );
    let _ = writeln!(text, "slow: {}", sandbag_load::method::SLOWING.join(", "));
    let _ = writeln!(text, "\n# exit codes\n{}", sandbag_ui::exit::HELP);
    let _ = writeln!(text, "{}", sandbag_audit::command_line::exit_codes::HELP);
    let _ = writeln!(
        text,
        "{}",
        sandbag_audit::command_line::exit_codes::COMPARE_HELP
    );
    let _ = writeln!(
        text,
        "\n# files of a run\n{}",
        sandbag_run::directory::FILES.join("\n")
    );
    text
}

fn command(of: &Command, name: &str, text: &mut String) {
    let mut options: Vec<String> = of.get_arguments().map(option).collect();
    options.sort();
    let _ = writeln!(text, "{name}: {}", options.join(", "));
    for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        command(sub, &format!("{name} {}", sub.get_name()), text);
    }
}

/// `--method|-m <NAME: pace|quota>`, `<FILE>`.
fn option(of: &Arg) -> String {
    let long = of.get_long_and_visible_aliases().unwrap_or_default();
    let short = of.get_short_and_visible_aliases().unwrap_or_default();
    let mut names: Vec<String> = long.iter().map(|name| format!("--{name}")).collect();
    names.extend(short.iter().map(|name| format!("-{name}")));
    let values: Vec<String> = of
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let takes = of.get_action().takes_values();
    let value = of.get_value_names().unwrap_or_default().join(" ");
    let value = match (takes, values.is_empty()) {
        (false, _) => String::new(),
        (true, true) => format!("<{value}>"),
        (true, false) => format!("<{value}: {}>", values.join("|")),
    };
    let parts = [names.join("|"), value];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
