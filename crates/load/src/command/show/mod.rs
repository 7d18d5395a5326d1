// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag show`: a profile or a run, for the eye.

mod stats;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::report::write::read_nodes;
use crate::report::{plot_profile, plot_run, read_run, terminal};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_profile::statistics::statistics;
use sandbag_profile::{
    CpuSummary, Format, InputSource, ProfileHeader, ProfileSummary, summarise, usual_step,
};
use sandbag_run::directory::ACHIEVED_CSV;
use sandbag_ui::failure::Result;
use sandbag_ui::output::{NODES_JSON, RUN_JSON};
use sandbag_ui::text::visible;

use sandbag_profile::command::reshape::{Reshape, describe};
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::units;

/// Show a load profile, or what a run got
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A profile of any known format (- for standard input), OS jitter (as
    /// `sandbag jitter show` reads it), an audit, or a run: its directory or its
    /// run.json; or what a Prometheus
    /// has of a machine: 'prometheus+http://HOST:9090/?instance=X&from=...&to=...'
    #[arg(value_name = "FILE", required_unless_present = "formats")]
    file: Option<PathBuf>,

    /// List the formats of profiles
    #[arg(long, exclusive = true)]
    formats: bool,

    /// Also what the profile is like in pieces of one length: spread,
    /// distribution, autocorrelation, correlation between CPUs
    #[arg(long)]
    stats: bool,

    /// The length of those pieces [default: the length that most steps of FILE have,
    /// else their mean length]
    #[arg(long, value_name = "TIME", requires = "stats", value_parser = units::step)]
    stats_step: Option<Duration>,

    #[command(flatten)]
    reshape: Reshape,
}

impl ShowArgs {
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub fn names_a_format(&self) -> bool {
        self.reshape.from.is_some()
    }
}

pub fn formats() -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["name", "", "", "what it is"]);
    for format in Format::ALL {
        let read = if format.is_read() { "read" } else { "" };
        let written = if format.is_written() { "written" } else { "" };
        table.add_row([format.name(), read, written, format.about()]);
    }
    format!("{table}\n")
}

/// A directory, or JSON that names us.
pub fn is_run(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    // Looking into a pipe would take its beginning away.
    if !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    read.is_ok() && text.trim_start().starts_with('{') && text.contains("\"sandbag\"")
}

pub fn run(path: &Path, messages: &Messages) -> Result<String> {
    let dir = if path.is_dir() {
        path
    } else {
        path.parent().unwrap_or(Path::new(""))
    };
    if path.is_dir() && path.join(NODES_JSON).exists() {
        let nodes = read_nodes(path).map_err(|error| BadInput(error.to_string()))?;
        return Ok(terminal::nodes_table(&nodes));
    }
    if path.is_dir() && !path.join(RUN_JSON).exists() {
        return Err(BadInput(format!(
            "{} holds no {RUN_JSON}: give a profile, or the directory of a run",
            path.display()
        ))
        .into());
    }
    let run = read_run(path).map_err(|error| BadInput(error.to_string()))?;
    let mut text = format!(
        "{} by {}, {}, on {} ({})\n\n",
        visible(&run.profile),
        visible(&run.method.name),
        visible(&run.started_at),
        visible(&run.machine.host),
        visible(&run.machine.kernel)
    );
    text += &terminal::summary_table(&run);
    match plot_run(&run, &dir.join(ACHIEVED_CSV)) {
        Ok(plot) => {
            text.push('\n');
            text += &plot;
        }
        // The record alone still says what was got.
        Err(error) => messages.warning(&format!("no plot: {error}")),
    }
    Ok(text)
}

pub fn profile(source: Arc<InputSource>, args: &ShowArgs, messages: &Messages) -> Result<String> {
    let topology = Topology::read(&Root::default())?;
    let open = || args.reshape.open(&source, &topology);
    let mut first = open()?;
    let header = first.header().clone();
    let summary = summarise(&mut *first)?;
    let mut text = describe(source.name(), header.format, &summary);
    text.push('\n');
    if let Some(origin) = origin(&header) {
        let _ = writeln!(text, "recorded {origin}");
    }
    let _ = writeln!(text, "\n{}", table(&header, &summary));
    text += &plot_profile(open()?, summary.end_ns)?;
    if args.stats {
        let step_ns = match args.stats_step {
            Some(step) => units::nanos(step),
            None => usual_step(open()?)?.ns,
        };
        text += &stats::text(&statistics(open()?, step_ns)?);
    }
    for warning in &summary.warnings {
        messages.warning(warning);
    }
    Ok(text)
}

fn origin(header: &ProfileHeader) -> Option<String> {
    let host = header
        .host
        .as_ref()
        .map(|host| format!("on {}", visible(host)));
    let begin = header.begins_at.map(|begin| format!("from {begin}"));
    let parts: Vec<String> = host.into_iter().chain(begin).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn table(header: &ProfileHeader, summary: &ProfileSummary) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut titles = vec!["cpu", "mean %", "least %", "most %"];
    if header.has_steal {
        titles.push("steal %");
    }
    titles.push("unknown s");
    table.set_header(titles);
    for cpu in &summary.cpus {
        let CpuSummary {
            mean_load_pct,
            min_load_pct,
            max_load_pct,
            mean_steal_pct,
            ..
        } = *cpu;
        let mut row = vec![cpu.cpu.to_string()];
        row.extend([mean_load_pct, min_load_pct, max_load_pct].map(number));
        if header.has_steal {
            row.push(number(mean_steal_pct));
        }
        row.push(format!("{:.1}", cpu.unknown_ns as f64 / 1e9));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
