// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a replay leaves: run.json, and achieved.csv of one beside a program.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::JitterTrace;
use crate::inside::outcome::{Injections, Refusals, Slot};
use crate::inside::overhead::Overhead;
use crate::replay::histogram::Histogram;
use crate::replay::outcome::{EventCounts, Quantiles};
use crate::replay::process::InjectorNoise;
use crate::replay::process::beside::{HoldEnd, HoldOutcome};
use crate::replay::process::outcome::{CpuOutcome, Health};
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

/// What tells it from a run of a load: the names of [`MethodRecord`].
const KINDS: [&str; 2] = ["jitter-replay", "jitter-replay-inside"];

/// run.json of a replay.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplayRecord {
    #[serde(flatten)]
    pub about: ReplayFacts,
    #[serde(flatten)]
    pub own: MethodRecord,
}

/// What every replay has.
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

/// Of the paper, whether they were on.
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

/// What only one way of replaying has.
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
#[derive(Debug, Serialize, Deserialize)]
pub struct CpuRecord {
    pub cpu: u32,
    #[serde(default)]
    pub trace_cpu: u32,
    #[serde(default)]
    pub offset_s: f64,
    #[serde(default)]
    pub length_s: f64,
    #[serde(default)]
    pub ran_s: f64,
    pub measured: InjectorNoise,
    pub counts: EventCounts,
    #[serde(default)]
    pub left_out_by_limit: LeftOutRecord,
    pub start_error: Option<Quantiles>,
    pub start_error_undisturbed: Option<Quantiles>,
    pub length_error: Option<Quantiles>,
    #[serde(default)]
    pub injected_asked_s: f64,
    #[serde(default)]
    pub injected_got_s: f64,
    #[serde(default)]
    pub health: Health,
    #[serde(default)]
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
#[derive(Debug, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    pub rank: Option<u32>,
    #[serde(default)]
    pub portion: u32,
    #[serde(default)]
    pub signal: u32,
    #[serde(default)]
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
pub struct SufferedRecord {
    pub injected: u64,
    pub merged: u64,
    pub behind: u64,
    pub cut: u64,
    pub short: u64,
    pub passed: u64,
    #[serde(default)]
    pub invalid: u64,
    pub waits: u64,
    #[serde(default)]
    pub phases: u64,
    #[serde(default)]
    pub injected_asked_s: f64,
    #[serde(default)]
    pub injected_got_s: f64,
    pub start_error: Sizes,
    pub length_error: Sizes,
}

/// Sizes of errors, to 12 %.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sizes {
    #[serde(default)]
    pub count: u64,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub most_ns: Option<u64>,
}

impl From<&Injections> for SufferedRecord {
    fn from(of: &Injections) -> Self {
        let sizes = |histogram: &Histogram<3>| Sizes {
            count: histogram.count(),
            p50_ns: histogram.quantile(50.0),
            p90_ns: histogram.quantile(90.0),
            p99_ns: histogram.quantile(99.0),
            most_ns: histogram.quantile(100.0),
        };
        Self {
            injected: of.injected,
            merged: of.merged,
            behind: of.behind,
            cut: of.cut,
            short: of.short,
            passed: of.passed,
            invalid: of.invalid,
            waits: of.waits,
            phases: of.phases,
            injected_asked_s: seconds(of.asked_ns),
            injected_got_s: seconds(of.taken_ns),
            start_error: sizes(&of.start),
            length_error: sizes(&of.length),
        }
    }
}

impl ReplayRecord {
    /// What was replayed how, when and where.
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

    /// Without what is known only at the end.
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
                known_s: seconds(trace.cpus.iter().map(|cpu| cpu.known_ns()).sum()),
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
    /// The verdict and its figures; nothing in records of before.
    pub fn verdict_line(&self) -> String {
        self.verdict.map_or_else(String::new, |verdict| {
            let because = self.verdict_because.as_deref().unwrap_or("?");
            format!("\nverdict: {verdict}: {}\n", visible(because))
        })
    }
}

impl MethodRecord {
    /// The way's own name of its method.
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

/// Puts a record where it was asked for. Whether what was asked for by name
/// could be written.
pub fn leave(
    args: &ReplayArgs,
    record: &ReplayRecord,
    dir: Option<&RunDir>,
    achieved: Option<&[CpuOutcome]>,
    messages: &Messages,
) -> bool {
    if let Some(dir) = dir {
        let path = dir.path().join(RUN_JSON);
        let written = output::put_json(&path, record, Existing::Replace)
            .and_then(|()| Ok(achieved.map_or(Ok(()), |all| write_achieved(dir.path(), all))?));
        dir.give();
        match written {
            Ok(()) => messages.say(&format!("Record: {}", path.display())),
            Err(error) => messages.warning(&error.line()),
        }
    }
    let Some(path) = args.json.path() else {
        return true;
    };
    let written = output::put_json(path, record, args.overwrite.existing());
    if let Err(error) = &written {
        messages.warning(&error.line());
    }
    written.is_ok()
}

/// Writes achieved.csv; of a portion that repeats it has the first time through.
fn write_achieved(dir: &Path, outcome: &[CpuOutcome]) -> io::Result<()> {
    let file = sandbag_run::directory::create(&dir.join(ACHIEVED_CSV));
    let mut csv = BufWriter::new(file.map_err(io::Error::other)?);
    writeln!(
        csv,
        "cpu,due_ns,length_ns,start_error_ns,length_error_ns,cause"
    )?;
    for one in outcome {
        for event in one.outcome.kept() {
            writeln!(
                csv,
                "{},{},{},{},{},{}",
                one.cpu,
                event.due_ns,
                event.length_ns,
                event.start_error_ns,
                event.length_error_ns,
                format!("{:?}", event.cause).to_lowercase()
            )?;
        }
    }
    csv.flush()
}

/// What a run directory, or its run.json, has of a replay; `None` if
/// it is of something else.
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
