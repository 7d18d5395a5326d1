// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user reads on the terminal when a run is over.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::report::columns::{CPU_COLUMNS, CpuColumn};
use crate::report::nodes::NodeRows;
use crate::report::parts;
use crate::report::run::{CommandResult, CpuResult, NodeUse, Run, worst_first};
use crate::report::view::View;
use sandbag_ui::text::{signed, times, visible};

/// Nothing printed is wider.
const COLUMNS: usize = 80;
/// With more CPUs than this only the worst are listed.
pub(crate) const MOST_ROWS: usize = 16;
pub(crate) const WORST_ROWS: usize = 5;

/// The verdict, the table asked against got, what the command was granted,
/// what we cost, and the warnings, in this order; at most 80 columns wide,
/// without colours, ending in a newline. Of a virtual node the table shows
/// speeds, and what its programs did follows the table.
pub fn summary_table(run: &Run) -> String {
    let view = View::of(run);
    let run = &*view.run;
    let mut out = wrap(&format!("{}: {}", run.verdict, run.reason)) + "\n";
    out.push('\n');
    if let Some(heading) = view.heading() {
        out.push_str(&wrap(&heading));
        out.push('\n');
    }
    if !run.cpus.is_empty() {
        out.push_str(&table(&run.cpus));
        out.push('\n');
    }
    let rows = parts::rows(run);
    if !rows.is_empty() {
        out.push_str(&parts_table(rows));
        out.push('\n');
    }
    let mut say = |text: &str| {
        out.push_str(&wrap(text));
        out.push('\n');
    };
    if let Some(node) = &run.node {
        say(&node_line(node));
    }
    if let Some(command) = &run.command {
        say(&command_line(command));
    }
    if let Some(watched) = &run.watched {
        say(&format!("beside the load: {}", watched.text()));
    }
    let cost = &run.supervisor;
    say(&format!(
        "sandbag itself: {:.3} s of CPU time, {:.3} % of one core per {} CPU, \
         {} wake-ups, {:.1} MiB",
        cost.cpu_s,
        cost.pct_per_cpu,
        view.words.held,
        cost.wakeups,
        cost.resident_kib as f64 / 1024.0
    ));
    for warning in &run.warnings {
        say(&format!("warning: {warning}"));
    }
    out
}

fn parts_table(rows: Vec<[String; 5]>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(parts::HEAD)
        .add_rows(rows);
    for column in table.column_iter_mut() {
        if (1..4).contains(&column.index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

/// Nodes that ran together, a line for each speed.
pub fn nodes_table(nodes: &NodeRows) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(COLUMNS as u16)
        .set_header([
            "node", "cpus", "method", "asked %", "got %", "mean abs", "worst", "used s", "verdict",
        ]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for result in &nodes.nodes {
        let first = [
            visible(&result.node.name),
            visible(&result.method),
            number(result.node.used_s),
            result.verdict.to_string(),
        ];
        let lines = result.speeds.iter().map(Some);
        // A node without windows has a line all the same.
        let lines = lines.chain(result.speeds.is_empty().then_some(None));
        for (i, speed) in lines.enumerate() {
            let [name, method, used, verdict] = match i {
                0 => first.clone(),
                _ => Default::default(),
            };
            let cpus = speed.map_or_else(String::new, |s| s.cpus.clone());
            let worst = speed.and_then(|s| s.worst_points);
            table.add_row([
                name,
                cpus,
                method,
                number(speed.and_then(|s| s.asked_speed_pct)),
                number(speed.and_then(|s| s.got_speed_pct)),
                number(speed.and_then(|s| s.mean_abs_points)),
                worst.map_or_else(|| "-".to_owned(), |w| signed(w, 2)),
                used,
                verdict,
            ]);
        }
    }
    for column in table.column_iter_mut() {
        if (3..8).contains(&column.index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

fn shown_columns() -> impl Iterator<Item = (&'static CpuColumn, &'static str)> {
    CPU_COLUMNS.iter().filter_map(|c| Some((c, c.terminal?)))
}

fn table(cpus: &[CpuResult]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(
            ["cpu"]
                .into_iter()
                .chain(shown_columns().map(|(_, head)| head)),
        );
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
    lines(&table)
}

/// The last column pads its lines with blanks.
fn lines(table: &Table) -> String {
    table
        .lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect()
}

fn row(name: String, cpus: &[&CpuResult]) -> Vec<String> {
    let cells = shown_columns().map(|(column, _)| column.terminal_text(cpus));
    std::iter::once(name).chain(cells).collect()
}

fn node_line(node: &NodeUse) -> String {
    let mut parts = vec![match node.entered {
        1 => "1 program entered".to_owned(),
        n => format!("{n} programs entered"),
    }];
    if let Some(used) = node.used_s {
        parts.push(format!("used {used:.2} s"));
    }
    if let Some(waited) = node.waited_s {
        parts.push(format!("waited {waited:.2} s for a CPU"));
    }
    if let Some(throttled) = node.throttle_warning() {
        parts.push(format!("throttled {throttled}"));
    }
    if node.speed_changes > 0 {
        parts.push(format!("speed set anew {}", times(node.speed_changes)));
    }
    format!("in the node: {}", parts.join(", "))
}

fn command_line(command: &CommandResult) -> String {
    let mut text = format!(
        "command: wall {:.2} s, user {:.2} s, system {:.2} s",
        command.wall_s, command.user_s, command.system_s
    );
    if let (Some(used), Some(available), Some(efficiency)) =
        (command.used_s, command.available_s, command.efficiency)
    {
        text += &format!(
            " in all; under the load {used:.2} s, {:.1} % of the {available:.2} s available to it",
            efficiency * 100.0
        );
    }
    text
}

fn wrap(text: &str) -> String {
    let options = textwrap::Options::new(COLUMNS)
        .subsequent_indent("  ")
        // Options and wake-ups stay in one piece.
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(&visible(text), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::run::WatchedUse;

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
    }

    /// A kept run, two that missed, one of 64 CPUs, of which the worst five are named, one
    /// without windows, and a node in speeds.
    #[test]
    fn runs_are_summed_up_in_80_columns() {
        let node = fixture::node();
        let mut throttled = node.run.clone();
        throttled.node.as_mut().unwrap().throttled_times = Some(0);
        let mut watched = fixture::quiet().run;
        watched.watched = Some(WatchedUse {
            who: "unit nginx.service".to_owned(),
            used_s: Some(12.0),
            available_s: Some(48.0),
        });
        let mut unknown = node.run.clone();
        unknown.node = Some(NodeUse::default());
        let runs = [
            ("quiet", fixture::quiet().run),
            ("missed", fixture::missing_load().run),
            ("holes and steal", fixture::holes_and_steal().run),
            ("large", fixture::large().run),
            ("empty", fixture::empty().run),
            ("node", node.run),
            ("beside a unit", watched),
            ("throttled node", throttled),
            ("node beside a load and jitter", fixture::combined().run),
            ("node of which nothing is known", unknown),
        ];
        let texts = runs.map(|(name, run)| format!("== {name}\n{}", summary_table(&run)));
        let text = texts.join("\n");
        assert!(widest(&text) <= COLUMNS, "{text}");
        assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn nodes_that_ran_together_have_a_line_for_each_speed() {
        let mut runs: Vec<Run> = fixture::nodes().into_iter().map(|f| f.run).collect();
        let text = nodes_table(&NodeRows::of(&runs));
        insta::assert_snapshot!(text);
        runs[0].cpus.clear();
        runs[1].node.as_mut().unwrap().name = "a-name-of-forty-characters-as-one-may-be".to_owned();
        let text = nodes_table(&NodeRows::of(&runs));
        assert!(widest(&text) <= COLUMNS, "{text}");
        assert!(nodes_table(&NodeRows::of(&[])).lines().count() == 1);
    }

    #[test]
    fn warnings_come_last_and_cannot_drive_the_terminal() {
        let mut run = fixture::quiet().run;
        run.warnings = vec!["host \u{1b}[31mred\u{7}".to_owned()];
        let text = summary_table(&run);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
        let last = text.lines().last().unwrap();
        assert_eq!(last, r"warning: host \u001b[31mred\u0007");
    }
}
