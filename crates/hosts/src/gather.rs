// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag gather`: one report of what the hosts of an experiment left.

mod heat;
mod page;
mod read;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_stats::{Tolerance, Verdict};
use sandbag_ui::exit;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::report::ReportArgs;
use serde::Serialize;

use crate::clocks::{ClockState, Offset};
use crate::exchange::{EarlyEnd, MemberEnd};

const HELP: &str = "\
Exit codes:
  0 all hosts kept their condition; 1 a host has no result, or sandbag failed;
  2 wrong usage or bad input; 3 a host missed it; 4 a host is undecided.";

/// Make one report of the hosts of an experiment
///
/// Reads the directory that `--hosts` left, or any directory with a run directory per host.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct GatherArgs {
    /// The directory of the experiment: one run directory per host
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    #[command(flatten)]
    report: ReportArgs,
}

/// Version of the record.
const FORMAT: u32 = 1;
/// Points of time in which the course of a host is shown.
const COLUMNS: usize = 240;

/// All hosts, those that need a look first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gathered {
    pub format: u32,
    pub sandbag: String,
    /// The worst of all.
    pub verdict: Verdict,
    pub reason: String,
    /// Between the first and the last start, corrected by what is known of the clocks, ms.
    pub start_skew_ms: Option<f64>,
    /// Largest error of that by the clocks' comparison.
    pub start_skew_within_ms: Option<f64>,
    pub early_end: Option<EarlyEnd>,
    /// Of the longest run, s.
    pub length_s: f64,
    pub hosts: Vec<GatheredHost>,
}

/// One host and what it got.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GatheredHost {
    pub host: String,
    pub rank: Option<u32>,
    /// `None`: there is no result.
    pub verdict: Option<Verdict>,
    /// The reason of the verdict, or why there is none.
    pub reason: String,
    pub cpus: usize,
    /// Means over CPUs and time.
    pub asked_pct: Option<f64>,
    pub got_pct: Option<f64>,
    /// Over windows of 1 s.
    pub error_points: Option<f64>,
    pub worst_points: Option<f64>,
    pub steal_pct: Option<f64>,
    pub length_s: Option<f64>,
    /// Start after that of the first host, corrected by the clock's offset, ms.
    pub start_ms: Option<f64>,
    pub clock: Option<ClockState>,
    pub offset: Option<Offset>,
    pub end: Option<MemberEnd>,
    #[serde(skip)]
    pub tolerance: Tolerance,
    /// What was got over time, percent, and whether an error was beyond the tolerance.
    #[serde(skip)]
    pub course: Vec<Option<Piece>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    pub got_pct: f64,
    pub is_off: bool,
}

impl Gathered {
    /// Worst host first; ties as the ranks are.
    fn of(mut hosts: Vec<GatheredHost>, early_end: Option<EarlyEnd>) -> Self {
        let order = |one: &GatheredHost| match one.verdict {
            None => 0,
            Some(Verdict::Missed) => 1,
            Some(Verdict::Undecided) => 2,
            Some(Verdict::Kept) => 3,
        };
        let error = |one: &GatheredHost| one.error_points.unwrap_or(0.0);
        hosts.sort_by(|a, b| {
            let by_error = error(b).total_cmp(&error(a));
            (order(a).cmp(&order(b)))
                .then(by_error)
                .then(a.rank.cmp(&b.rank))
        });
        let count =
            |wanted: Option<Verdict>| hosts.iter().filter(|one| one.verdict == wanted).count();
        let named = |wanted: Option<Verdict>| {
            let names = hosts
                .iter()
                .filter(|one| one.verdict == wanted)
                .map(|one| one.host.as_str());
            let first: Vec<&str> = names.clone().take(NAMED).collect();
            let more = if names.count() > NAMED { ", ..." } else { "" };
            format!("{}{more}", first.join(", "))
        };
        let all = hosts.len();
        let said = |verdict, one: &str, many: &str| match count(verdict) {
            0 => None,
            1 => Some(format!("1 of {all} hosts {one} ({})", named(verdict))),
            n => Some(format!("{n} of {all} hosts {many} ({})", named(verdict))),
        };
        // What was held was held to the early end only.
        let early = early_end.as_ref().filter(|early| !early.is_asked());
        let unasked = usize::from(early.is_some());
        let early = early.map(|early| format!("{} ended it early", early.host));
        let parts = [
            said(None, "has no result", "have no result"),
            said(
                Some(Verdict::Missed),
                "missed the condition",
                "missed the condition",
            ),
            said(Some(Verdict::Undecided), "is undecided", "are undecided"),
            early,
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let missed = count(None) + count(Some(Verdict::Missed)) + unasked;
        let verdict = match (missed, count(Some(Verdict::Undecided))) {
            (0, 0) => Verdict::Kept,
            (0, _) => Verdict::Undecided,
            _ => Verdict::Missed,
        };
        let starts = hosts.iter().filter_map(|one| one.start_ms);
        // Each clock is compared with rank 0's, so two of them may be off by both errors; one
        // that was not corrected may be off by what was found, too.
        let mut within: Vec<f64> = hosts
            .iter()
            .filter_map(|one| one.offset)
            .map(|offset| {
                let left_ms = if offset.is_certain() {
                    0.0
                } else {
                    offset.ms.abs()
                };
                offset.within_ms + left_ms
            })
            .collect();
        within.sort_by(|a, b| b.total_cmp(a));
        let asked = early_end.as_ref().filter(|early| early.is_asked());
        let asked = asked.map(|early| format!("; a signal on {} ended it", early.host));
        Self {
            format: FORMAT,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            verdict,
            reason: if parts.is_empty() {
                format!(
                    "all {all} hosts kept the condition{}",
                    asked.unwrap_or_default()
                )
            } else {
                parts.join("; ")
            },
            start_skew_ms: starts.reduce(f64::max),
            start_skew_within_ms: (!within.is_empty()).then(|| within.iter().take(2).sum()),
            early_end,
            length_s: hosts
                .iter()
                .filter_map(|one| one.length_s)
                .fold(0.0, f64::max),
            hosts,
        }
    }

    fn exit_code(&self) -> u8 {
        if self.hosts.iter().any(|one| one.verdict.is_none()) {
            return exit::FAILED;
        }
        exit::of_verdict(self.verdict)
    }
}

/// Names of hosts in a sentence.
const NAMED: usize = 5;

/// Whether a directory is one of an experiment on many hosts.
pub fn is_experiment(dir: &Path) -> bool {
    dir.join(crate::command::HOSTS_JSON).is_file()
}

/// The table, for `sandbag show`.
///
/// # Errors
/// There are no results.
pub fn show(dir: &Path) -> Result<String> {
    Ok(table::terminal(&read::experiment(dir)?))
}

/// # Errors
/// There are no results, or the report cannot be written.
pub fn main(args: &GatherArgs, messages: &Messages) -> Result<u8> {
    args.report.check()?;
    let gathered = read::experiment(&args.dir)?;
    args.report.put(
        &gathered,
        || table::terminal(&gathered),
        || page::page(&gathered),
        || table::csv(&gathered),
        messages,
    )?;
    Ok(gathered.exit_code())
}

#[cfg(test)]
mod tests;
