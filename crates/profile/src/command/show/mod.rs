// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `sandbag show` says of a profile.

mod plot;
mod stats;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::table::{plain, right};
use sandbag_ui::text::visible;
use sandbag_ui::units;

use super::reshape::{Reshape, describe};
use crate::statistics::statistics;
use crate::{
    CpuSummary, Format, InputSource, ProfileHeader, ProfileSummary, summarise, usual_step,
};

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

/// The formats of profiles as a table.
pub fn formats() -> String {
    let mut table = plain(["name", "", "", "what it is"]);
    for format in Format::ALL {
        let read = if format.is_read() { "read" } else { "" };
        let written = if format.is_written() { "written" } else { "" };
        table.add_row([format.name(), read, written, format.about()]);
    }
    format!("{table}\n")
}

/// A profile: its figures, its load over time and, where asked for, its statistics.
pub fn text(source: Arc<InputSource>, args: &ShowArgs, messages: &Messages) -> Result<String> {
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
    text += &plot::text(open()?, summary.end_ns)?;
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
    let mut titles = vec!["cpu", "mean %", "least %", "most %"];
    if header.has_steal {
        titles.push("steal %");
    }
    titles.push("unknown s");
    let mut table = plain(titles);
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
    right(table)
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
