// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user reads on the terminal when a run is over.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use sandbag_measure::ErrorStats;

use crate::run::{CommandResult, CpuResult, Run, worst_first};
use crate::text::{signed, visible};

/// Nothing printed is wider.
const COLUMNS: usize = 80;
/// With more CPUs than this only the worst are listed.
pub(crate) const MOST_ROWS: usize = 16;
/// How many are listed then.
pub(crate) const WORST_ROWS: usize = 5;

/// The table asked against got, the verdict, what the command was granted,
/// what we cost, and the warnings, in this order; at most 80 columns wide,
/// without colours, ending in a newline.
#[must_use]
pub fn summary_table(run: &Run) -> String {
    let mut out = String::new();
    if !run.cpus.is_empty() {
        out.push_str(&table(&run.cpus));
        out.push('\n');
    }
    let mut say = |text: &str| {
        out.push_str(&wrapped(text));
        out.push('\n');
    };
    say(&format!("{}: {}", run.verdict, run.reason));
    if let Some(command) = &run.command {
        say(&command_line(command));
    }
    let cost = &run.supervisor;
    say(&format!(
        "sandbag itself: {:.3} s of CPU time, {:.3} % of one core per loaded CPU, \
         {} wake-ups, {:.1} MiB",
        cost.cpu_s,
        cost.pct_per_cpu,
        cost.wakeups,
        cost.resident_kib as f64 / 1024.0
    ));
    for warning in &run.warnings {
        say(&format!("warning: {warning}"));
    }
    out
}

fn table(cpus: &[CpuResult]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header([
            "cpu",
            "asked %",
            "got %",
            "mean abs",
            "worst 1 s",
            "steal %",
            "",
        ]);
    if cpus.len() <= MOST_ROWS {
        for cpu in cpus {
            table.add_row(row(cpu.cpu.to_string(), &[cpu]));
        }
    } else {
        let worst_first = worst_first(cpus);
        let (worst, rest) = worst_first.split_at(WORST_ROWS);
        for cpu in worst {
            table.add_row(row(cpu.cpu.to_string(), &[cpu]));
        }
        table.add_row(row(format!("{} others", rest.len()), rest));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // The last column pads its lines with blanks.
    table
        .lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect()
}

/// One line for one CPU or for many: means over the CPUs, worst over all.
fn row(name: String, cpus: &[&CpuResult]) -> [String; 7] {
    let mean = |value: &dyn Fn(&CpuResult) -> f64| {
        cpus.iter().map(|c| value(c)).sum::<f64>() / cpus.len() as f64
    };
    let errors: Vec<ErrorStats> = cpus.iter().filter_map(|c| c.error_1s).collect();
    let windows: u64 = errors.iter().map(|e| e.windows).sum();
    let mean_abs = errors
        .iter()
        .map(|e| e.mean_abs_points * e.windows as f64)
        .sum::<f64>()
        / windows as f64;
    let worst = errors
        .iter()
        .map(|e| e.worst_points)
        .max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let holes: u64 = cpus.iter().map(|c| c.holes).sum();
    [
        name,
        format!("{:.2}", mean(&|c| c.asked_pct)),
        format!("{:.2}", mean(&|c| c.got_pct)),
        worst.map_or_else(|| "-".to_owned(), |_| format!("{mean_abs:.2}")),
        worst.map_or_else(|| "-".to_owned(), |w| signed(w, 2)),
        format!("{:.1}", mean(&|c| c.steal_pct)),
        match holes {
            0 => String::new(),
            1 => "1 hole".to_owned(),
            n => format!("{n} holes"),
        },
    ]
}

fn command_line(command: &CommandResult) -> String {
    let mut text = format!(
        "command: wall {:.2} s, user {:.2} s, system {:.2} s",
        command.wall_s, command.user_s, command.system_s
    );
    if let (Some(available), Some(efficiency)) = (command.available_s, command.efficiency) {
        text += &format!(
            "; used {:.1} % of the {available:.2} s available to it",
            efficiency * 100.0
        );
    }
    text
}

/// Wraps at [`COLUMNS`] with a hanging indent.
fn wrapped(text: &str) -> String {
    let options = textwrap::Options::new(COLUMNS)
        .subsequent_indent("  ")
        // Options and wake-ups stay in one piece.
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(&visible(text), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn every_cpu_has_a_line_and_the_verdict_follows() {
        let run = fixture::quiet().run;
        let text = summary_table(&run);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("asked %") && lines[0].contains("worst 1 s"));
        assert!(lines[1].trim_start().starts_with("0 ") && lines[1].contains("50.10"));
        assert!(lines[2].trim_start().starts_with("1 "));
        assert!(lines[4].starts_with("kept: "), "{text}");
        assert!(text.contains("sandbag itself: 0.063 s"));
    }

    #[test]
    fn nothing_is_wider_than_80_columns() {
        for f in [
            fixture::quiet(),
            fixture::large(),
            fixture::missed(),
            fixture::holes_and_steal(),
            fixture::empty(),
        ] {
            let text = summary_table(&f.run);
            assert!(widest(&text) <= COLUMNS, "{text}");
            assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
        }
    }

    #[test]
    fn of_many_cpus_the_worst_five_are_named_and_the_rest_counted() {
        let text = summary_table(&fixture::large().run);
        let first = text.lines().nth(1).unwrap();
        assert!(first.trim_start().starts_with("37 "), "{text}");
        assert!(text.contains("59 others"), "{text}");
    }

    #[test]
    fn a_cpu_with_holes_says_so() {
        let text = summary_table(&fixture::holes_and_steal().run);
        assert!(text.contains("8 holes"), "{text}");
        assert!(text.contains("missed: the load was absent in 8 windows"));
    }

    #[test]
    fn warnings_come_last_and_cannot_drive_the_terminal() {
        let mut run = fixture::quiet().run;
        run.warnings = vec!["host \u{1b}[31mred\u{7}".to_owned()];
        let text = summary_table(&run);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
        let last = text.lines().last().unwrap();
        assert_eq!(last, r"warning: host \u{1b}[31mred\u{7}");
    }

    #[test]
    fn a_run_without_windows_has_no_table() {
        let text = summary_table(&fixture::empty().run);
        assert!(text.starts_with("missed: the run ended before"), "{text}");
        assert!(!text.contains("NaN"));
    }
}
