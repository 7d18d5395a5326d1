// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the hosts left: `hosts.json`, and a run directory per host. What cannot be read is a
//! host without a result, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use sandbag_run::directory::{ACHIEVED_CSV, FORMAT};
use sandbag_stats::{Tolerance, Verdict};
use sandbag_ui::BadInput;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::output::{NODES_JSON, RUN_JSON};
use serde::Deserialize;

use super::{COLUMNS, Gathered, GatheredHost, Piece};
use crate::command::{Experiment, HOSTS_JSON, of_host};
use crate::exchange::{EarlyEnd, LARGEST_RECORD, read_limited};

/// What began by more before the common start is of an earlier experiment, ns.
const EARLIER_NS: i128 = 1_000_000_000;

/// Of run.json (docs/reference/run-json.md).
#[derive(Debug, Deserialize)]
struct HostRun {
    format: u32,
    verdict: Option<Verdict>,
    #[serde(default, alias = "verdict_because")]
    reason: String,
    #[serde(default)]
    length_s: Option<f64>,
    #[serde(default)]
    began_at: Option<String>,
    #[serde(default)]
    cpus: Vec<HostCpu>,
    #[serde(default)]
    error_1s: Option<HostError>,
    #[serde(default)]
    tolerance: Option<Tolerance>,
    /// Of a run that was not made.
    error: Option<HostFailure>,
}

#[derive(Debug, Deserialize)]
struct HostCpu {
    #[serde(default)]
    asked_pct: Option<f64>,
    #[serde(default)]
    got_pct: Option<f64>,
    #[serde(default)]
    steal_pct: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct HostError {
    mean_abs_points: f64,
    worst_points: f64,
}

#[derive(Debug, Deserialize)]
struct HostFailure {
    message: String,
}

/// Of nodes.json: the nodes that a host made from a file.
#[derive(Debug, Deserialize)]
struct HostNodes {
    verdict: Verdict,
    started_at: String,
    nodes: Vec<HostNode>,
}

#[derive(Debug, Deserialize)]
struct HostNode {
    directory: String,
    verdict: Verdict,
    reason: String,
    length_s: f64,
}

/// Of achieved.csv.
#[derive(Debug, Deserialize)]
struct HostWindow {
    time_s: f64,
    length_s: f64,
    got_pct: f64,
    error_points: f64,
}

/// All hosts of a directory.
pub(super) fn experiment(dir: &Path) -> Result<Gathered> {
    if !dir.is_dir() {
        let text = format!("{} is no directory of runs", dir.display());
        return Err(BadInput(text).into());
    }
    let known = known(dir)?;
    let mut found: BTreeMap<String, GatheredHost> = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry.with_context(|| dir.display().to_string())?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_run = [RUN_JSON, NODES_JSON, ACHIEVED_CSV]
            .iter()
            .any(|name| path.join(name).exists());
        if path.is_dir() && is_run {
            found.insert(
                name.clone(),
                GatheredHost {
                    host: name,
                    ..GatheredHost::default()
                },
            );
        }
    }
    // Directories of others are of an earlier experiment that this one replaced.
    if let Some(known) = &known {
        found.retain(|host, _| known.members.iter().any(|one| one.host == *host));
        if found.is_empty() {
            refuse_files(dir, known)?;
        }
    }
    for member in known.iter().flat_map(|one| &one.members) {
        let host = found
            .entry(member.host.clone())
            .or_insert_with(|| GatheredHost {
                host: member.host.clone(),
                ..GatheredHost::default()
            });
        host.rank = Some(member.rank);
        host.clock = Some(member.clock.clone());
        host.offset = Some(member.offset);
        let ends = known.iter().flat_map(|one| &one.ends);
        host.end = ends
            .clone()
            .find(|(rank, _)| *rank == member.rank)
            .map(|(_, end)| end.clone());
    }
    if found.is_empty() {
        let mut files = fs::read_dir(dir).into_iter().flatten().flatten();
        let is_json = |entry: fs::DirEntry| {
            let path = entry.path();
            path.extension().is_some_and(|ending| ending == "json")
        };
        let hint = if files.any(is_json) {
            "; of audits sandbag audit gather makes a report"
        } else {
            ""
        };
        let text = format!(
            "{}: no run of a host is in it (a directory per host, with {RUN_JSON}){hint}",
            dir.display()
        );
        return Err(BadInput(text).into());
    }
    let start = known.as_ref().and_then(|one| one.start.as_ref());
    let start: Option<jiff::Timestamp> = start.and_then(|at| at.parse().ok());
    let mut begins = BTreeMap::new();
    let mut earlier = BTreeSet::new();
    let mut longest_s: f64 = 0.0;
    for host in found.values_mut() {
        let began_ns = fill(host, &dir.join(&host.host));
        let correction = host.offset.map_or(0, |offset| offset.correction_ns());
        let began_ns = began_ns.map(|ns| ns - i128::from(correction));
        let is_earlier = |start: jiff::Timestamp| {
            began_ns.is_some_and(|ns| ns + EARLIER_NS < start.as_nanosecond())
        };
        // A host that was lost before it had the plan did not remove it.
        if host.end.is_none() && start.is_some_and(is_earlier) {
            *host = GatheredHost {
                host: host.host.clone(),
                rank: host.rank,
                clock: host.clock.take(),
                offset: host.offset,
                reason: "it left no result; one of an earlier experiment is there".to_owned(),
                ..GatheredHost::default()
            };
            earlier.insert(host.host.clone());
            continue;
        }
        longest_s = longest_s.max(host.length_s.unwrap_or(0.0));
        if let Some(ns) = began_ns {
            begins.insert(host.host.clone(), ns);
        }
    }
    let first = begins.values().min().copied().unwrap_or(0);
    for host in found.values_mut() {
        if earlier.contains(&host.host) {
            continue;
        }
        host.start_ms = begins.get(&host.host).map(|ns| (ns - first) as f64 / 1e6);
        let path = dir.join(&host.host);
        // Of a host without a record only the file itself says when.
        let is_old = !begins.contains_key(&host.host)
            && start.is_some_and(|start| {
                let at = written_at(&path.join(ACHIEVED_CSV));
                at.is_some_and(|at| at.as_nanosecond() + EARLIER_NS < start.as_nanosecond())
            });
        if is_old {
            continue;
        }
        host.course = course(&path, longest_s, host.tolerance.window_points);
    }
    let early_end = known.and_then(|one| {
        let last = || last_sign(dir, &one);
        one.early_end.clone().or_else(last)
    });
    Ok(Gathered::of(found.into_values().collect(), early_end))
}

/// Hosts that measured left a file each, which other commands read.
fn refuse_files(dir: &Path, known: &Experiment) -> Result<()> {
    let shown = dir.display();
    for (ending, command) in [
        (".json", Some("sandbag audit gather")),
        (".sbj", Some("sandbag jitter gather")),
        (".csv", None),
    ] {
        let files = known.members.iter();
        let mut files = files.map(|one| of_host(dir, &one.host, ending));
        if let Some(file) = files.find(|file| file.is_file()) {
            let file = file.display();
            let remedy = command.map_or_else(
                || format!("sandbag show {file}"),
                |command| format!("{command} {shown}"),
            );
            let text = format!(
                "{shown}: the hosts left no runs, but a file each, such as {file}; use `{remedy}`"
            );
            return Err(BadInput(text).into());
        }
    }
    Ok(())
}

fn known(dir: &Path) -> Result<Option<Experiment>> {
    let path = dir.join(HOSTS_JSON);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_limited(&path, LARGEST_RECORD).with_context(|| path.display().to_string())?;
    let experiment: Experiment = serde_json::from_slice(&bytes)
        .map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    if experiment.format > crate::command::FORMAT {
        let text = format!("{}: a newer sandbag wrote it", path.display());
        return Err(BadInput(text).into());
    }
    Ok(Some(experiment))
}

/// Rank 0 wrote no end: its last sign of life.
fn last_sign(dir: &Path, experiment: &Experiment) -> Option<EarlyEnd> {
    let first = experiment.members.first()?;
    if !experiment.ends.is_empty() {
        return None;
    }
    let at = written_at(&dir.join("meeting/leader.json"))?;
    Some(EarlyEnd {
        rank: first.rank,
        host: first.host.clone(),
        at: at.to_string(),
        why: "nothing was heard of it since (killed, lost, or it still runs)".to_owned(),
    })
}

/// Fills in what the nodes of a host say, where it has such.
fn fill_nodes(host: &mut GatheredHost, dir: &Path) -> Option<i128> {
    let bytes = read_limited(&dir.join(NODES_JSON), LARGEST_RECORD).ok()?;
    let record: HostNodes = serde_json::from_slice(&bytes).ok()?;
    let reasons = record
        .nodes
        .iter()
        .map(|node| format!("{}: {}: {}", node.directory, node.verdict, node.reason));
    host.reason = reasons.collect::<Vec<_>>().join("; ");
    host.verdict = Some(record.verdict);
    host.length_s = record
        .nodes
        .iter()
        .map(|node| node.length_s)
        .reduce(f64::max);
    let began: jiff::Timestamp = record.started_at.parse().ok()?;
    Some(began.as_nanosecond())
}

/// Fills in what its run says; returns when that began, ns since 1970.
fn fill(host: &mut GatheredHost, dir: &Path) -> Option<i128> {
    let path = dir.join(RUN_JSON);
    if !path.exists() && dir.join(NODES_JSON).exists() {
        return fill_nodes(host, dir);
    }
    let read = read_limited(&path, LARGEST_RECORD).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("it left no {RUN_JSON}"),
        _ => format!("{RUN_JSON}: {error}"),
    });
    let parsed = read.and_then(|bytes| {
        serde_json::from_slice::<HostRun>(&bytes).map_err(|error| format!("{RUN_JSON}: {error}"))
    });
    let run = match parsed {
        Ok(run) if run.format <= FORMAT => run,
        Ok(_) => {
            host.reason = format!("a newer sandbag wrote its {RUN_JSON}");
            return None;
        }
        Err(why) => {
            let failure = host.end.as_ref().and_then(|end| end.failure.clone());
            host.reason = failure.map_or(why.clone(), |failure| format!("{failure}; {why}"));
            return None;
        }
    };
    host.verdict = run.verdict;
    host.reason = run.error.map_or(run.reason, |error| error.message);
    host.cpus = run.cpus.len();
    host.length_s = run.length_s;
    let mean = |value: fn(&HostCpu) -> Option<f64>| {
        let known: Vec<f64> = run.cpus.iter().filter_map(value).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    host.asked_pct = mean(|cpu| cpu.asked_pct);
    host.got_pct = mean(|cpu| cpu.got_pct);
    host.steal_pct = mean(|cpu| cpu.steal_pct);
    host.error_points = run.error_1s.as_ref().map(|error| error.mean_abs_points);
    host.worst_points = run.error_1s.as_ref().map(|error| error.worst_points);
    host.tolerance = run.tolerance.unwrap_or_default();
    let began: jiff::Timestamp = run.began_at?.parse().ok()?;
    Some(began.as_nanosecond())
}

fn written_at(path: &Path) -> Option<jiff::Timestamp> {
    let written = fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    jiff::Timestamp::try_from(written).ok()
}

/// What was got over `length_s`, in equal pieces; those without a window are unknown.
fn course(dir: &Path, length_s: f64, tolerance_points: f64) -> Vec<Option<Piece>> {
    let path = dir.join(ACHIEVED_CSV);
    let is_file = fs::metadata(&path).is_ok_and(|meta| meta.is_file());
    let Some(file) = File::open(&path).ok().filter(|_| is_file && length_s > 0.0) else {
        return Vec::new();
    };
    let mut sums = vec![(0.0, 0.0, false); COLUMNS];
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    // A torn last row ends it, as does one that is none of ours.
    for row in reader.deserialize::<HostWindow>().map_while(|row| row.ok()) {
        let place = |s: f64| s / length_s * COLUMNS as f64;
        let (from, to) = (place(row.time_s), place(row.time_s + row.length_s));
        let first = (from.max(0.0) as usize).min(COLUMNS);
        let last = ((to - 1e-6).max(0.0) as usize + 1).clamp(first, COLUMNS);
        for sum in &mut sums[first..last] {
            sum.0 += row.got_pct * row.length_s;
            sum.1 += row.length_s;
            // As the verdict counts it: of a short last window by its length.
            let part = if row.time_s > 0.0 {
                row.length_s.min(1.0)
            } else {
                1.0
            };
            sum.2 |= row.error_points.abs() * part > tolerance_points;
        }
    }
    let piece = |(got, weight, is_off): (f64, f64, bool)| {
        (weight > 0.0 && got.is_finite()).then(|| Piece {
            got_pct: got / weight,
            is_off,
        })
    };
    sums.into_iter().map(piece).collect()
}
