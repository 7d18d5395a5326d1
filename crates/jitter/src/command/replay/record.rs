// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay leaves: run.json, and achieved.csv of one beside a program.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::JitterTrace;
use crate::inside::outcome::{Refusals, Slot};
use crate::inside::overhead::Overhead;
use crate::replay::RankOutcome;
use crate::replay::hold::{HoldEnd, HoldOutcome};
use crate::replay::outcome::{EventCounts, Injection, Quantiles};
use crate::replay::process::{CpuOutcome, Health, InjectorNoise};
use sandbag_input::Existing;
use sandbag_run::directory::{ACHIEVED_CSV, FORMAT, RunDir};
use sandbag_run::machine::MachineFacts;
use sandbag_run::program::{arguments, words};
use sandbag_stats::Verdict;
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, RUN_JSON};
use sandbag_ui::text::visible;
use serde::{Deserialize, Serialize};

use super::{ReplayArgs, Safeguard};

/// The names of [`MethodRecord`], by which run.json differs from that of a load.
const KINDS: [&str; 2] = ["jitter-replay", "jitter-replay-inside"];

/// run.json of a replay.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplayRecord {
    #[serde(flatten)]
    pub about: ReplayFacts,
    #[serde(flatten)]
    pub own: MethodRecord,
}

/// What all replays have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayFacts {
    format: u32,
    sandbag: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    arguments: Vec<String>,
    machine: MachineFacts,
    trace: TraceFacts,
    seed: u64,
    share: f64,
    sync: String,
    safeguards: SafeguardsUsed,
    end: String,
    wall_s: f64,
    paused_s: f64,
    without_jitter_s: f64,
    command: Option<CommandOutcome>,
    pub verdict: Option<Verdict>,
    pub verdict_because: Option<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct TraceFacts {
    file: String,
    recorder: String,
    cpus: Vec<u32>,
    known_s: f64,
    events: usize,
}

/// Safeguards of the paper that were on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SafeguardsUsed {
    overhead: bool,
    interval: bool,
    share: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct CommandOutcome {
    arguments: Vec<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
}

/// What one method of replay has.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum MethodRecord {
    #[serde(rename = "jitter-replay")]
    Beside(BesideRecord),
    #[serde(rename = "jitter-replay-inside")]
    Inside(Box<InsideRecord>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct BesideRecord {
    pub method: BesideMethod,
    #[serde(default)]
    pub scale_factor: f64,
    pub cpus: Vec<CpuRecord>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BesideMethod {
    pub asked: String,
    pub used: String,
    pub priority: Option<u8>,
    pub why: Option<String>,
}

/// One CPU of a replay beside a program.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuRecord {
    pub cpu: u32,
    pub trace_cpu: u32,
    pub offset_s: f64,
    pub length_s: f64,
    pub ran_s: f64,
    pub measured: InjectorNoise,
    pub counts: EventCounts,
    pub left_out_by_limit: LeftOutRecord,
    pub start_error: Option<Quantiles>,
    pub start_error_undisturbed: Option<Quantiles>,
    pub length_error: Option<Quantiles>,
    pub injected_asked_s: f64,
    pub injected_got_s: f64,
    pub health: Health,
    pub stood_s: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LeftOutRecord {
    pub events: u64,
    pub shortened: u64,
    pub s: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct InsideRecord {
    pub method: InsideMethod,
    /// `None` where the program asks.
    pub measured: Option<Overhead>,
    pub all: SufferedRecord,
    pub processes: Vec<ProcessRecord>,
    pub processes_summed_up: SummedUp,
    /// Those that never began, by reason.
    #[serde(default)]
    pub without: Refusals,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InsideMethod {
    pub used: String,
    pub per_thread: bool,
    pub forks: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SummedUp {
    pub count: u32,
    pub suffered: SufferedRecord,
}

/// A process, or a thread, that suffered.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRecord {
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    pub rank: Option<u32>,
    pub portion: u32,
    pub signal: u32,
    pub ended: String,
    pub suffered: SufferedRecord,
}

impl From<&Slot> for ProcessRecord {
    fn from(slot: &Slot) -> Self {
        Self {
            name: slot.name.clone(),
            pid: slot.pid,
            tid: slot.tid,
            rank: slot.rank,
            portion: slot.portion,
            signal: slot.signal,
            ended: slot.ended.name().to_owned(),
            suffered: (&slot.suffered).into(),
        }
    }
}

/// What a process, or all of them, suffered.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SufferedRecord {
    pub injected: u64,
    pub merged: u64,
    pub behind: u64,
    pub cut: u64,
    pub away: u64,
    pub short: u64,
    pub passed: u64,
    pub invalid: u64,
    pub waits: u64,
    pub phases: u64,
    pub injected_asked_s: f64,
    pub injected_got_s: f64,
    pub start_error: Sizes,
    pub length_error: Sizes,
}

/// Sizes of errors, to 12 %.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sizes {
    pub count: u64,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub most_ns: Option<u64>,
}

impl From<Option<Quantiles>> for Sizes {
    fn from(of: Option<Quantiles>) -> Self {
        let at = |ns: fn(Quantiles) -> i64| of.map(|of| ns(of).unsigned_abs());
        Self {
            count: of.map_or(0, |of| of.count),
            p50_ns: at(|of| of.p50_ns),
            p90_ns: at(|of| of.p90_ns),
            p99_ns: at(|of| of.p99_ns),
            most_ns: at(|of| of.most_ns),
        }
    }
}

impl From<&RankOutcome> for SufferedRecord {
    fn from(of: &RankOutcome) -> Self {
        let counts = of.counts;
        Self {
            injected: counts.injected + counts.merged,
            merged: counts.merged,
            behind: counts.behind,
            cut: counts.cut,
            away: counts.away,
            short: counts.below_floor,
            passed: counts.missed,
            invalid: counts.invalid,
            waits: counts.waits,
            phases: counts.phases,
            injected_asked_s: seconds(of.asked_ns),
            injected_got_s: seconds(of.suffered_ns),
            start_error: of.all_start_errors().into(),
            length_error: of.length_errors().into(),
        }
    }
}

impl ReplayRecord {
    /// Trace, method, time and machine.
    pub fn heading(&self) -> String {
        let about = &self.about;
        format!(
            "{} replayed by {}, {}, on {} ({})",
            visible(&about.trace.file),
            visible(self.own.method()),
            visible(&about.started_at),
            visible(&about.machine.host),
            visible(&about.machine.kernel),
        )
    }

    /// Without start, verdict and warnings.
    pub fn new(
        args: &ReplayArgs,
        trace: &JitterTrace,
        held: HoldOutcome,
        machine: MachineFacts,
        own: MethodRecord,
    ) -> Self {
        let plan = &args.plan;
        let guards_share = args.guards(Safeguard::Share);
        let wall_s = seconds(held.wall_ns);
        let command = match held.end {
            HoldEnd::Command(how) => Some(CommandOutcome {
                arguments: words(&args.command),
                exit_code: how.exit_code,
                signal: how.signal,
                wall_s,
                user_s: how.user_s,
                system_s: how.system_s,
            }),
            _ => None,
        };
        let about = ReplayFacts {
            format: FORMAT,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: arguments(),
            machine,
            trace: TraceFacts {
                file: args.trace.display().to_string(),
                recorder: trace.header.recorder.clone(),
                cpus: trace.header.cpus.clone(),
                known_s: trace.known_ns() as f64 / 1e9,
                events: trace.cpus.iter().map(|cpu| cpu.events.len()).sum(),
            },
            seed: plan.seed,
            share: if guards_share { plan.share } else { 1.0 },
            sync: plan.sync.to_string(),
            safeguards: SafeguardsUsed {
                overhead: args.guards(Safeguard::Overhead),
                interval: args.guards(Safeguard::Interval),
                share: guards_share,
            },
            end: held.end.name().to_owned(),
            wall_s,
            paused_s: seconds(held.paused_ns),
            without_jitter_s: seconds(held.without_ns),
            command,
            ..ReplayFacts::default()
        };
        Self { about, own }
    }
}

impl ReplayFacts {
    /// The verdict and its figures; empty in records of earlier versions.
    pub fn verdict_line(&self) -> String {
        self.verdict.map_or_else(String::new, |verdict| {
            let because = self.verdict_because.as_deref().unwrap_or("?");
            format!("{verdict}: {}\n\n", visible(because))
        })
    }
}

impl MethodRecord {
    /// Name of the method.
    fn method(&self) -> &str {
        match self {
            Self::Beside(one) => &one.method.used,
            Self::Inside(one) => &one.method.used,
        }
    }
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes the record to the run directory and to the file of `--json`. Whether the
/// latter could be written.
pub fn leave(
    args: &ReplayArgs,
    record: &ReplayRecord,
    dir: Option<&RunDir>,
    achieved: &[CpuOutcome],
    messages: &Messages,
) -> bool {
    let mut whole = true;
    if let Some(dir) = dir {
        let path = dir.path().join(RUN_JSON);
        let written =
            output::put_json(&path, record, Existing::Replace).and_then(|()| match achieved {
                [] => Ok(()),
                cpus => Ok(write_achieved(dir.path(), cpus)?),
            });
        dir.give();
        match written {
            Ok(()) => messages.say(&format!("Record: {}", path.display())),
            Err(error) => whole = dir.excuses(&error.line(), messages),
        }
    }
    let Some(path) = args.json.path() else {
        return whole;
    };
    let written = output::put_json(path, record, args.overwrite.existing());
    if let Err(error) = &written {
        Messages::error(&error.line());
    }
    whole && written.is_ok()
}

/// Writes achieved.csv: the first repetition of each portion.
fn write_achieved(dir: &Path, outcome: &[CpuOutcome]) -> io::Result<()> {
    let file = sandbag_run::directory::create(&dir.join(ACHIEVED_CSV));
    let mut csv = BufWriter::new(file.map_err(io::Error::other)?);
    writeln!(
        csv,
        "cpu,due_ns,length_ns,start_error_ns,length_error_ns,cause"
    )?;
    let events = outcome.iter().flat_map(|one| {
        let kept = one.outcome.kept.iter();
        kept.map(move |event| (one.cpu, event))
    });
    for (cpu, event) in events {
        let Injection {
            due_ns,
            length_ns,
            start_error_ns,
            length_error_ns,
            cause,
        } = event;
        let cause = format!("{cause:?}").to_lowercase();
        writeln!(
            csv,
            "{cpu},{due_ns},{length_ns},{start_error_ns},{length_error_ns},{cause}"
        )?;
    }
    csv.flush()
}

/// The record in a run directory, or run.json; `None` if it is not of a replay.
pub fn read(path: &Path) -> Option<sandbag_ui::Result<ReplayRecord>> {
    let file = if path.is_dir() {
        path.join(RUN_JSON)
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    if !KINDS.contains(&value["kind"].as_str()?) {
        return None;
    }
    let record = serde_json::from_value(value);
    Some(record.map_err(|error| BadInput(format!("{}: {error}", file.display())).into()))
}
